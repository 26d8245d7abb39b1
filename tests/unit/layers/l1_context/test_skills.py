"""Entries as cells get them, and which skills can be imported."""

from __future__ import annotations

import pytest

from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.ids import EntryId
from harnessctl.layers.l1_context.skills import entry_for_cells, inner_path, python_module

PACKAGE = ("SKILL.md", "pyproject.toml", "src/release_audit/__init__.py")


def entry(name: str, *paths: str, data: bytes = b"text") -> Entry:
    found = EntryId.parse(name)
    folder = found.path.removesuffix("SKILL.md") if name.startswith("skills/") else "memory/"
    files = tuple(EntryFile(folder + path, 0o100644, data) for path in sorted(paths))
    return Entry(found, files, {"name": found.name, "description": "d"}, data.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("name", "paths", "module"),
    [
        ("skills/release-audit", PACKAGE, "release_audit"),
        ("skills/release-audit", PACKAGE[:2], ""),
        ("skills/release-audit", (PACKAGE[0], PACKAGE[2]), ""),
        ("skills/other", PACKAGE, ""),
        ("skills/1st", ("SKILL.md", "pyproject.toml", "src/1st/__init__.py"), ""),
        ("skills/a.b", ("SKILL.md", "pyproject.toml", "src/a.b/__init__.py"), ""),
        ("memory/release-audit", ("release-audit.md", "pyproject.toml"), ""),
    ],
)
def test_what_makes_a_skill_importable(name: str, paths: tuple[str, ...], module: str) -> None:
    assert python_module(entry(name, *paths)) == module


def test_files_by_their_path_inside_the_main_one_first() -> None:
    found = entry_for_cells(entry("skills/x", "SKILL.md", "LICENSE", "scripts/run.sh"))
    assert list(found["files"]) == ["SKILL.md", "LICENSE", "scripts/run.sh"]
    memory = entry("memory/a", "a.md")
    assert inner_path(memory, memory.files[0]) == "a.md"


def test_what_is_no_text_has_none_and_flags_are_told() -> None:
    assert entry_for_cells(entry("memory/a", "a.md", data=b"\x89PNG\0"))["files"] == {"a.md": None}
    hidden = entry_for_cells(entry("memory/a", "a.md", data="a\u202eb".encode()))
    assert hidden["flags"] == ["1 hidden character"]
