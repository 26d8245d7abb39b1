"""Which files a gate judges by, and whether they changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harnessctl.config import GateSpec
from harnessctl.domain import contents
from harnessctl.rlm.gate_inputs import USUAL_INPUTS, capture, changed, inputs_of, matches, named_in


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("make test", ("make", "test")),
        ("sh ./scripts/check.sh -x", ("sh", "scripts/check.sh")),
        ("pytest --config=ci/pytest.ini tests/test_a.py", ("pytest", "ci/pytest.ini", "tests/test_a.py")),
        ("cd sub && (python -m x; ./y.sh)", ("cd", "sub", "python", "x", "y.sh")),
        ("cat ../outside /etc/passwd ~/x $HOME/y *.py", ("cat",)),
        ("sh check.sh&&echo hi>out.txt;cat <in.txt", ("sh", "check.sh", "echo", "hi", "cat", "in.txt")),
        ("echo 'not closed check.sh", ("echo", "'not", "closed", "check.sh")),
    ],
)
def test_files_named_in_a_command(command: str, named: tuple[str, ...]) -> None:
    assert set(named) <= set(named_in(command))
    assert "out.txt" not in named_in(command)
    assert not any(part.startswith(("/", "..", "~", "$", "-")) for part in named_in(command))


def test_declared_inputs_replace_the_usual_ones() -> None:
    assert inputs_of(GateSpec("a", "make test", inputs=("tests/**",))) == ("tests/**",)
    assert set(USUAL_INPUTS) < set(inputs_of(GateSpec("a", "sh check.sh")))
    assert "check.sh" in inputs_of(GateSpec("a", "sh check.sh"))
    assert "check.sh" in inputs_of(GateSpec("a", "sh check.sh"), {"check.sh": "digest"})
    assert "made.txt" not in inputs_of(GateSpec("a", "test -f made.txt"), {"Makefile": "digest"})


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("tests", {"tests/a.py", "tests/deep/b.py"}),
        ("tests/", {"tests/a.py", "tests/deep/b.py"}),
        ("tests/**", {"tests/a.py", "tests/deep/b.py"}),
        ("tests/*.py", {"tests/a.py"}),
        ("**/*.py", {"app.py", "tests/a.py", "tests/deep/b.py"}),
        ("*.py", {"app.py"}),
        ("./app.p?", {"app.py"}),
        ("te[s]ts/**/b.py", {"tests/deep/b.py"}),
        ("nothing/**", set()),
        ("absent.txt", set()),
    ],
)
def test_globs(tmp_path: Path, glob: str, found: set[str]) -> None:
    for name in ("app.py", "tests/a.py", "tests/deep/b.py", ".git/hooks/x.py", "docs/x.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert set(capture(tmp_path, [glob], folders=True)) == found
    assert all(matches(path, [glob]) for path in found)
    assert not matches("docs/x.md", [glob])


def test_a_word_that_names_a_folder_is_no_input_of_a_command(tmp_path: Path) -> None:
    """``pytest tests`` must not forbid to add a test; a gate that wants that declares it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text("")
    assert capture(tmp_path, ["tests"], folders=False) == {}


def test_what_counts_as_a_change(tmp_path: Path) -> None:
    for name in ("same", "edited", "gone", "mode"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("same")
    globs = ["same", "edited", "gone", "mode", "link", "new"]
    before = capture(tmp_path, globs, folders=False)
    (tmp_path / "edited").write_text("other!")
    os.utime(tmp_path / "same", (1, 1))
    (tmp_path / "gone").unlink()
    (tmp_path / "new").write_text("")
    (tmp_path / "mode").chmod(0o755)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("edited")
    after = capture(tmp_path, globs, folders=False)
    assert changed(before, after) == ("edited", "gone", "link", "mode", "new")


@pytest.mark.timeout(60)
def test_an_input_of_any_size_is_compared_in_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "Makefile"
    path.write_text("test:\n")
    states = [capture(tmp_path, ["Makefile"], folders=True)]
    os.truncate(path, 500 * 2**30)
    states.append(capture(tmp_path, ["Makefile"], folders=True))
    assert capture(tmp_path, ["Makefile"], folders=True) == states[-1]
    time.sleep(0.02)  # more than a tick of the clock that stamps files
    with path.open("r+b") as file:
        file.seek(250 * 2**30)
        file.write(b"x")
    states.append(capture(tmp_path, ["Makefile"], folders=True))
    assert changed(states[0], states[1]) == changed(states[1], states[2]) == ("Makefile",)


def test_of_many_inputs_no_more_is_read_than_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_IN_ALL", 5 * contents.PIECE)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 3 * contents.PIECE)
    before = capture(tmp_path, ["*"], folders=True)
    for name in ("a", "b"):
        os.utime(tmp_path / name, (0, 0))
    assert changed(before, capture(tmp_path, ["*"], folders=True)) == ("b",)
