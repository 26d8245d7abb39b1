from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harnessctl.layers.l3_durable.checking.checker import Checker
from harnessctl.layers.l3_durable.files.work_files import read_folder
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.rules.load import check_load

GOOD = "---\ndescription: d\n---\n"


def test_the_work_tree_reads_as_git_would_store_it(repo: Any) -> None:
    repo.write(".harness/memory/x.md", GOOD)
    repo.write(".harness/skills/a/SKILL.md", GOOD)
    repo.write(".harness/skills/a/scripts/run.sh", "#!/bin/sh\n").chmod(0o755)
    repo.write(".harness/skills/a/assets/é b.bin", bytes(range(256)))
    (repo.root / ".harness/memory/link.md").symlink_to("x.md")
    commit = repo.commit("harness")
    theirs = Checker(Repository.open(repo.root)).items(commit)
    ours = read_folder(repo.root / ".harness")
    assert [(i.path, i.mode) for i in ours] == [(i.path, i.mode) for i in theirs]
    plain = {i.path: i.oid for i in theirs if i.mode != 0o120000}
    assert {i.path: i.oid for i in ours if i.mode != 0o120000} == plain
    assert [i.read() for i in ours] == [i.read() for i in theirs]


@pytest.mark.timeout(10)
def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / ".harness/memory"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "x.md")
    report = check_load(read_folder(tmp_path / ".harness"))
    assert [f.rule for f in report.findings] == ["HRN108"]


def test_a_huge_file_is_not_read_twice_over(tmp_path: Path) -> None:
    folder = tmp_path / ".harness/memory"
    folder.mkdir(parents=True)
    with (folder / "x.md").open("wb") as file:
        file.truncate(5 * 1024**3)
    report = check_load(read_folder(tmp_path / ".harness"))
    assert [f.rule for f in report.findings] == ["HRN111"]


def test_names_that_are_not_utf8_come_through(tmp_path: Path) -> None:
    folder = tmp_path / ".harness/memory"
    folder.mkdir(parents=True)
    try:
        (folder / os.fsdecode(b"caf\xe9.md")).write_text(GOOD)
    except OSError:
        pytest.skip("this file system stores only UTF-8 names")
    report = check_load(read_folder(tmp_path / ".harness"))
    assert [f.rule for f in report.findings] == ["HRN107"]


def test_no_folder_is_an_empty_harness(tmp_path: Path) -> None:
    assert read_folder(tmp_path / ".harness") == ()
