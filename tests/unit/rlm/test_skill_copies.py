"""Copies of pinned skills: made read-only, compared, put back, removed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import EntryId
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.skill_copies import SkillCopies, remove_copies
from tests.fakes.runtime import SeenWatcher

FILES = {
    "SKILL.md": "text",
    "pyproject.toml": "[project]",
    "src/release_audit/__init__.py": "x = 1",
    "scripts/run.sh": "#!/bin/sh\n",
}


def skill(name: str, files: dict[str, str]) -> Entry:
    items = tuple(
        EntryFile(f"skills/{name}/{path}", 0o100755 if path.endswith(".sh") else 0o100644, text.encode())
        for path, text in files.items()
    )
    return Entry(EntryId.parse(f"skills/{name}"), items, {"name": name, "description": "d"}, "")


class Stage:
    def __init__(self, folder: Path, *skills: Entry) -> None:
        recorder = Recorder.create(folder, SystemClock())
        (folder / "kernel").mkdir()
        self.journal = Journal(recorder, View("S", "tool"), SeenWatcher())
        entries = {str(s.id): s for s in skills}
        self.changed: list[Mapping[str, Any]] = []
        self.copies = SkillCopies(entries, folder, self.journal, self.changed)
        self.folder = folder

    def said(self) -> list[str]:
        return [str(e.data["text"]) for e in self.journal.events if e.data.get("what") == "skill_copy"]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    plain = skill("plain", {"SKILL.md": "text"})
    return Stage(tmp_path / "session", skill("release-audit", FILES), plain)


def place(stage: Stage) -> Path:
    return stage.folder / "skills/release-audit"


def test_python_backed_ones_are_there_when_a_kernel_starts_read_only(stage: Stage) -> None:
    stage.copies.ready()
    assert [p.name for p in stage.copies.folder.iterdir()] == ["release-audit"]
    found = {p.relative_to(place(stage)).as_posix(): p for p in place(stage).rglob("*") if p.is_file()}
    assert {path: file.read_text() for path, file in found.items()} == FILES
    assert stat.S_IMODE(found["scripts/run.sh"].stat().st_mode) == 0o555
    assert stat.S_IMODE(found["SKILL.md"].stat().st_mode) == 0o444
    assert stat.S_IMODE((place(stage) / "src").stat().st_mode) == 0o555
    modules = json.loads((stage.folder / "kernel/modules.json").read_text())
    assert modules == {"release_audit": str(place(stage) / "src")}


async def test_others_are_made_when_asked_for(stage: Stage) -> None:
    ask = stage.copies.handlers()["harness.path"]
    path = await ask({"id": "skill/plain"})
    assert (Path(path) / "SKILL.md").read_text() == "text"
    for wrong, words in (
        ("memory/x", "one file"),
        ("skills/none", "no pinned skill"),
        ("x", "not an entry id"),
    ):
        with pytest.raises(HarnessError, match=words):
            await ask({"id": wrong})


def writable(path: Path) -> Path:
    for folder, _, files in os.walk(path):
        os.chmod(folder, 0o755)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o644)
    return path


@pytest.mark.parametrize(
    ("change", "files"),
    [
        (
            lambda p: (p / "src/release_audit/__init__.py").write_text("x = 2"),
            ["src/release_audit/__init__.py"],
        ),
        (lambda p: (p / "scripts/run.sh").unlink(), ["scripts/run.sh"]),
        (lambda p: (p / "src/new.py").write_text(""), ["src/new.py"]),
        (lambda p: (p / "out").symlink_to("/etc"), ["out"]),
        (lambda p: (p / "SKILL.md").write_text("tex!"), ["SKILL.md"]),
        (lambda p: ((p / "SKILL.md").unlink(), os.mkfifo(p / "SKILL.md")), ["SKILL.md"]),
        (lambda p: ((p / "SKILL.md").unlink(), (p / "SKILL.md").mkdir()), ["SKILL.md"]),
    ],
)
def test_a_changed_copy_is_said_and_put_back(stage: Stage, change: object, files: list[str]) -> None:
    stage.copies.ready()
    change(writable(place(stage)))  # type: ignore[operator]
    stage.copies.ready()
    assert stage.changed == [{"session": "session", "entry": "skills/release-audit", "files": files}]
    (said,) = stage.said()
    assert files[0] in said
    assert (place(stage) / "src/release_audit/__init__.py").read_text() == "x = 1"
    stage.copies.ready()
    assert len(stage.changed) == 1


def test_a_copy_that_became_a_link_is_replaced(stage: Stage, tmp_path: Path) -> None:
    stage.copies.ready()
    victim = tmp_path / "victim"
    writable(place(stage)).rename(tmp_path / "moved")
    victim.mkdir()
    (victim / "keep").write_text("kept")
    place(stage).symlink_to(victim)
    stage.copies.ready()
    assert not place(stage).is_symlink()
    assert (victim / "keep").read_text() == "kept"
    assert stage.changed


def test_what_python_leaves_beside_modules_is_no_change(stage: Stage) -> None:
    stage.copies.ready()
    cache = writable(place(stage)) / "src/release_audit/__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_bytes(b"x")
    stage.copies.ready()
    assert stage.changed == []
    assert not cache.exists()


def test_at_the_end_they_are_compared_and_removed(stage: Stage) -> None:
    stage.copies.ready()
    (writable(place(stage)) / "SKILL.md").write_text("changed")
    stage.copies.close()
    assert stage.changed == [{"session": "session", "entry": "skills/release-audit", "files": ["SKILL.md"]}]
    assert not stage.copies.folder.exists()


def test_what_a_cut_off_session_left_can_be_removed(stage: Stage) -> None:
    stage.copies.ready()
    remove_copies(stage.folder)
    assert not stage.copies.folder.exists()


def test_without_skills_there_is_nothing_to_import(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "session")
    stage.copies.ready()
    assert json.loads((stage.folder / "kernel/modules.json").read_text()) == {}
    stage.copies.close()
