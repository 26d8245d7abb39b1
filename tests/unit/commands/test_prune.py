"""Which sessions go, which stay and why, and that nothing goes unasked."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.bootstrap.adapters import LinkedTrees
from harnessctl.commands.prune import Pruned, prune, seconds_in
from harnessctl.config import read_environment
from harnessctl.domain.errors import UsageError
from harnessctl.domain.event import EventType
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.recorder import Recorder

DAY = 86_400.0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Four sessions, the first the oldest, last written 4, 3, 2 and 1 days ago."""
    for age, name in zip((4, 3, 2, 1), "ABCD", strict=True):
        recorder = Recorder.create(tmp_path / "sessions" / name, SystemClock())
        recorder.append(EventType.HEADER, {"session": name})
        recorder.close()
        then = time.time() - age * DAY - 60
        os.utime(tmp_path / "sessions" / name / "log.jsonl", (then, then))
    return tmp_path


def child(state: Path, name: str, parent: str) -> None:
    """A session that ``parent`` started, last written just now."""
    recorder = Recorder.create(state / "sessions" / name, SystemClock())
    recorder.append(EventType.HEADER, {"session": name, "parent": parent})
    recorder.close()


def test_children_stay_and_go_with_their_root(state: Path) -> None:
    child(state, "W", "A")
    child(state, "X", "W")
    child(state, "Y", "B")
    child(state, "Z", "nobody any more")
    gone: list[str] = []
    pruned = ask(state, older_than_s=2.5 * DAY, cited={"Y": "cited"}, forget=gone.append)
    assert names(state) == "BCDYZ"
    assert [c.id for c in pruned.going] == ["A"]
    assert [(c.id, c.why) for c in pruned.staying] == [("B", "cited")]
    assert gone == ["X", "W", "A"]


def names(state: Path) -> str:
    return "".join(sorted(p.name for p in (state / "sessions").iterdir()))


def ask(state: Path, **more: object) -> Pruned:
    options: dict[str, object] = {
        "older_than_s": None,
        "keep": None,
        "cited": {},
        "remove": True,
        "sweep": lambda *_: None,
        "forget": lambda _: None,
        "trees": LinkedTrees(read_environment()),
    }
    return prune(state, **{**options, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"older_than_s": 3 * DAY}, "CD"),
        ({"keep": 1}, "D"),
        ({"keep": 0}, ""),
        ({"keep": 9}, "ABCD"),
        ({"older_than_s": 2 * DAY, "keep": 3}, "BCD"),
    ],
)
def test_what_goes(state: Path, options: dict[str, object], left: str) -> None:
    ask(state, **options)
    assert names(state) == left


def test_without_removal_nothing_changes(state: Path) -> None:
    found = ask(state, keep=1, remove=False)
    assert [c.id for c in found.going] == ["A", "B", "C"]
    assert all(c.bytes for c in found.going)
    assert names(state) == "ABCD"


def test_something_must_say_what_is_old(state: Path) -> None:
    with pytest.raises(UsageError):
        ask(state)
    assert names(state) == "ABCD"


def test_what_is_cited_or_runs_stays(state: Path) -> None:
    running = Recorder.open(state / "sessions" / "B", SystemClock())
    found = ask(state, keep=1, cited={"A": "cited by X"})
    running.close()
    assert {c.id: c.why for c in found.staying} == {"A": "cited by X", "B": "it runs"}
    assert names(state) == "ABD"


def test_each_that_went_is_forgotten(state: Path) -> None:
    gone: list[str] = []
    ask(state, keep=2, forget=gone.append)
    assert gone == ["A", "B"]


def test_a_removal_that_was_cut_off_is_finished(state: Path) -> None:
    (state / "sessions" / "A").rename(state / "sessions" / ".going-A")
    ask(state, keep=9)
    assert names(state) == "BCD"


def test_read_only_copies_do_not_keep_what_a_crash_left(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain removal leaves them to all but root: they are made writable before it."""
    left = state / "sessions" / ".going-A"
    (state / "sessions" / "A").rename(left)
    skill = left / "skills" / "make"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("x")
    skill.chmod(0o555)
    removed, modes = shutil.rmtree, []

    def rmtree(path: Path, **more: bool) -> None:
        modes.append((Path(path).name, skill.stat().st_mode & 0o777 if skill.exists() else None))
        removed(path, **more)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    ask(state, keep=9)
    assert modes == [("skills", 0o700), (".going-A", None)]
    assert names(state) == "BCD"


def test_a_file_that_goes_while_it_is_counted_ends_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleeting = state / "sessions" / "A" / "kernel.json"
    fleeting.write_text("{}")
    running = Recorder.open(state / "sessions" / "A", SystemClock())

    def gone_first(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def looked(path: Path, **more: bool) -> os.stat_result:
            if str(path) == str(fleeting):
                fleeting.unlink(missing_ok=True)
            return look(path, **more)

        return looked

    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, gone_first(getattr(os, name)))
    assert [c.why for c in ask(state, keep=3).staying] == ["it runs"]
    running.close()


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("12h", 43_200), ("2W", 14 * DAY), ("5m", 300)]
)
def test_ages(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "-1d", "1.5d", "30", "1y"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(UsageError):
        seconds_in(text)


def test_kept_states_go_with_the_last_session_that_needs_them(tmp_path: Path) -> None:
    swept: list[tuple[set[str], bool]] = []
    running = None
    for name in "ABC":
        running = Recorder.create(tmp_path / "sessions" / name, SystemClock())
        running.append(EventType.HEADER, {"session": name, "tree": f"sha256:{name}"})
        if name != "C":
            running.close()
    assert running is not None
    ask(tmp_path, keep=2, sweep=lambda trees, runs: swept.append((set(trees), runs)))
    assert swept == [({"sha256:B", "sha256:C"}, True)]
    running.close()
    ask(tmp_path, keep=1, remove=False, sweep=lambda *_: swept.append((set(), True)))
    ask(tmp_path, keep=1, sweep=lambda trees, runs: swept.append((set(trees), runs)))
    assert swept[1:] == [({"sha256:C"}, False)]


def test_a_work_tree_made_for_a_session_is_named_and_stays(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    for name, header in (
        ("A", {"linked": {"from": "x", "commit": "c"}, "root": str(made)}),
        ("B", {"root": str(made)}),
    ):
        recorder = Recorder.create(tmp_path / "sessions" / name, SystemClock())
        recorder.append(EventType.HEADER, {"session": name, **header})
        recorder.close()
    assert [c.work_tree for c in ask(tmp_path, keep=0).going] == [str(made), None]
    assert made.is_dir()
