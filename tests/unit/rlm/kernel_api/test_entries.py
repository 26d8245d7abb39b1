"""``harness`` as cells have it, without a kernel: what it lists, shows, finds and asks the host for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harnessctl.rlm.kernel_api.entries import Harness
from harnessctl.rlm.kernel_api.host import HostError


class ListHost:
    """A host that answers from a table and keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, do: str, **what: Any) -> Any:
        self.asked.append((do, what))
        if do not in self.answers:
            raise HostError(f"there is nothing called {do!r}", "bad_request")
        return self.answers[do]


def entry(
    name: str, text: str, *, module: str = "", flags: tuple[str, ...] = (), **files: Any
) -> dict[str, Any]:
    main = "SKILL.md" if name.startswith("skills/") else f"{name.partition('/')[2]}.md"
    named = {path.replace("__", "/"): value for path, value in files.items()}
    return {
        "id": name,
        "description": f"about {name}",
        "files": {main: text, **named},
        "module": module,
        "flags": list(flags),
    }


ENTRIES = (
    entry("memory/build", "Run make."),
    entry("skills/audit", "Audit it.", module="audit", **{"scripts__run.sh": "echo", "assets__x.png": None}),
    entry("subagents/reviewer", "Review it.", flags=("untrusted",)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "entries.json"
    file.write_text(json.dumps(ENTRIES))
    return file


def harness(path: Path, **answers: Any) -> Harness:
    return Harness(str(path), ListHost(**answers))  # type: ignore[arg-type]


def test_all_or_one_kind_is_listed(path: Path) -> None:
    assert len(harness(path).list()) == 3
    assert harness(path).list("skills") == harness(path).list("skill") == ["skills/audit: about skills/audit"]


def test_the_best_match_comes_first(path: Path) -> None:
    assert harness(path).search("AUDIT it")[0] == "skills/audit: about skills/audit"
    assert harness(path).search("nothing") == []


@pytest.mark.parametrize("text", ["[{]", "[1]", "{}x", '[{"name": 1}]', "7", None])
def test_what_a_cell_made_of_the_file_is_said(path: Path, text: str | None) -> None:
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(HostError, match="a cell has changed this file"):
        harness(path).list()


@pytest.mark.parametrize("name", ["memory/build", " memory/build "])
def test_one_file_is_shown_as_it_is(path: Path, name: str) -> None:
    assert harness(path).show(name) == "Run make."


def test_a_skill_shows_its_text_and_the_names_of_the_rest(path: Path) -> None:
    shown = harness(path).show("skill/audit")
    assert shown.startswith("Audit it.\n[other files: scripts/run.sh, assets/x.png;")
    assert "import audit" in shown
    assert "echo" not in shown
    assert harness(path).show("skills/audit", "scripts/run.sh") == "echo"
    assert "no text; open it below harness.path" in harness(path).show("skills/audit", "assets/x.png")


def test_a_flag_is_said_first(path: Path) -> None:
    shown = harness(path).show("subagents/reviewer")
    assert shown == '[untrusted]\nReview it.\n[a child works as it: rlm("task", agent="reviewer")]'


@pytest.mark.parametrize(
    ("args", "words"), [(("memory/x",), "no entry"), (("skills/audit", "x"), "no file 'x'")]
)
def test_what_is_not_there_is_said(path: Path, args: tuple[str, ...], words: str) -> None:
    with pytest.raises(KeyError, match=words):
        harness(path).show(*args)


def test_what_the_session_proposes_stands_in_place_of_what_is_pinned(path: Path) -> None:
    proposed = [
        {**entry("memory/build", "Run ninja."), "proposed": "update"},
        {**entry("memory/new", "New."), "proposed": "create"},
        {
            "id": "subagents/reviewer",
            "description": "",
            "files": {},
            "module": "",
            "flags": [],
            "proposed": "delete",
        },
    ]
    found = harness(path, **{"harness.proposed": proposed})
    assert found.show("memory/build") == ("[proposed by this session, not accepted yet: update]\nRun ninja.")
    assert "memory/new (proposed: create): about memory/new" in found.list()
    assert found.search("ninja") == ["memory/build (proposed: update): about memory/build"]
    assert found.show("subagents/reviewer") == "subagents/reviewer is proposed to be deleted"
    assert repr(found).startswith("<harness: 4 entries")


def test_without_entries_and_without_a_door_there_is_nothing(path: Path) -> None:
    path.write_text("[]")
    assert harness(path).list() == []


def test_a_proposal_goes_to_the_host_whole(path: Path) -> None:
    host = ListHost(**{"harness.propose": "Proposed."})
    said = Harness(str(path), host).propose("memory/x", content="c", why="w", evidence=["q", 4])  # type: ignore[arg-type]
    assert said == "Proposed."
    (do, what) = host.asked[0]
    assert (do, what["id"], what["evidence"], what["action"]) == (
        "harness.propose",
        "memory/x",
        ["q", 4],
        None,
    )
