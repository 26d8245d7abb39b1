"""What a person adds, read from where they name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.landing.adding import read_files

SKILL = EntryId.parse("skills/s")


def deny(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, denied: Path) -> None:
    """As the rights of ``denied`` would; root, who may read everything, runs this too."""
    real = getattr(owner, name)

    def asked(path: Any, *args: Any, **keys: Any) -> Any:
        if Path(path) == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **keys)

    monkeypatch.setattr(owner, name, asked)


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    (tmp_path / "scripts/go.sh").write_text("echo go\n")
    return tmp_path


def test_an_unreadable_file_of_a_skill_is_named(skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, Path, "read_bytes", skill / "scripts/go.sh")
    with pytest.raises(NotFoundError) as caught:
        read_files(SKILL, skill)
    assert caught.value.id == "no_file"
    assert f"{skill}/scripts/go.sh: Permission denied" in caught.value.message


def test_an_unreadable_folder_of_a_skill_is_not_left_out(
    skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(monkeypatch, os, "scandir", skill / "scripts")
    with pytest.raises(NotFoundError) as caught:
        read_files(SKILL, skill)
    assert f"{skill}/scripts: Permission denied" in caught.value.message


@pytest.mark.parametrize("name", ["nowhere.md", "x" * 300])
def test_a_file_that_cannot_be_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        read_files(EntryId.parse("memory/a"), tmp_path / name)
    assert caught.value.id == "no_file"
    assert name in caught.value.message
    assert caught.value.hint
