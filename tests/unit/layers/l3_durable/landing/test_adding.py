"""What a person adds, read from where they name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.landing.adding import read_files
from harnessctl.layers.l3_durable.rules.load_rules import MAX_MAIN_FILE

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
    deny(monkeypatch, Path, "open", skill / "scripts/go.sh")
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


def test_a_linked_folder_of_a_skill_is_refused_as_a_linked_file_is(skill: Path, tmp_path: Path) -> None:
    (skill / "more").symlink_to(skill / "scripts", target_is_directory=True)
    with pytest.raises(UsageError) as caught:
        read_files(SKILL, skill)
    assert caught.value.id == "bad_source"
    assert f"{skill}/more is a symbolic link" in caught.value.message
    (skill / "more").unlink()
    assert [f.path for f in read_files(SKILL, skill)] == ["skills/s/SKILL.md", "skills/s/scripts/go.sh"]


def test_what_is_too_large_for_an_entry_is_not_read_to_its_end(tmp_path: Path, skill: Path) -> None:
    big = tmp_path / "big.md"
    with big.open("wb") as file:
        file.truncate(50 * 1024**3)  # sparse: reading it all would fill the memory
    with pytest.raises(HarnessError) as caught:
        read_files(EntryId.parse("memory/a"), big)
    assert (caught.value.id, "HRN111" in caught.value.message) == ("invalid_entry", True)
    assert ".harness/memory/a.md" in caught.value.message
    big.rename(skill / "scripts/big.bin")
    with pytest.raises(HarnessError) as caught:
        read_files(SKILL, skill)
    assert ".harness/skills/s/scripts/big.bin: HRN111" in caught.value.message


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_may_have_just_what_is_allowed(tmp_path: Path, more: int) -> None:
    (tmp_path / "a.md").write_bytes(b"x" * (MAX_MAIN_FILE + more))
    if more:
        with pytest.raises(HarnessError):
            read_files(EntryId.parse("memory/a"), tmp_path / "a.md")
    else:
        assert len(read_files(EntryId.parse("memory/a"), tmp_path / "a.md")[0].data) == MAX_MAIN_FILE


def test_a_name_with_a_line_break_forges_no_line(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        read_files(EntryId.parse("memory/a"), tmp_path / "a\nerror: forged")
    assert "a\\nerror: forged" in caught.value.message
