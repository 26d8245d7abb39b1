"""Patches are read whole, byte for byte, or refused."""

from __future__ import annotations

import pytest

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.git.patch import patch_files
from harnessctl.review.diff import read_patch


def test_diff_01_two_added_files_without_git_lines_are_two_added_files() -> None:
    patch = b"--- /dev/null\n+++ b/1.txt\n@@ -0,0 +1 @@\n+a\n--- /dev/null\n+++ b/2.txt\n@@ -0,0 +1 @@\n+b\n"
    files = read_patch(patch)
    assert [(f.path, f.status, f.added) for f in files] == [("1.txt", "A", 1), ("2.txt", "A", 1)]


def test_diff_02_a_lone_cr_is_content_of_its_line() -> None:
    files = read_patch(b"--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n x\n+x\ry\n")
    assert [line.text for line in files[0].hunks[0]] == ["x", "x\ry"]


@pytest.mark.parametrize("text", ["x\u2028y", "x\x0cy", "x\x85y", "x\x1cy", "x\r"])
def test_only_lf_ends_a_line(text: str) -> None:
    made = patch_files({}, {"f.md": (0o100644, f"{text}\nz\n".encode())})
    files = read_patch(made[0].data)
    assert [line.text for line in files[0].hunks[0]] == [text, "z"]


def test_removed_lines_that_look_like_headers_stay_lines() -> None:
    before = b"-- a/x\n++ b/x\nkeep\n"
    made = patch_files({"f": (0o100644, before)}, {"f": (0o100644, b"keep\n-- /dev/null\n")})
    files = read_patch(made[0].data)
    assert len(files) == 1
    assert (files[0].added, files[0].removed) == (1, 2)


def test_several_files_with_modes_deletions_and_no_final_newline() -> None:
    before = {"a": (0o100644, b"1\n2\n"), "b": (0o100644, b"x"), "s": (0o100644, b"run\n")}
    after = {"a": (0o100644, b"1\n"), "c": (0o100755, b"new"), "s": (0o100755, b"run\n")}
    files = read_patch(b"".join(f.data for f in patch_files(before, after)))
    assert [(f.path, f.status) for f in files] == [("a", "M"), ("b", "D"), ("c", "A"), ("s", "M")]


def test_a_hunk_shorter_than_it_says_is_refused() -> None:
    with pytest.raises(HarnessError) as caught:
        read_patch(b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n")
    assert caught.value.id == "bad_patch"
