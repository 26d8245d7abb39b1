"""Which Python a kernel runs on."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from harnessctl.domain.errors import RefusedError, UsageError
from harnessctl.layers.l2_execution.python import choose_python, has_ipykernel


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without ipykernel."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


@pytest.fixture
def root(tmp_path: Path, bare: Path) -> Path:
    return tmp_path


def project_venv(root: Path, name: str = ".venv") -> Path:
    """A virtual environment of the project that sees our packages."""
    folder = root / name
    venv.create(folder, with_pip=False, symlinks=True, system_site_packages=False)
    site = next((folder / "lib").glob("python*/site-packages"))
    ours = [p for p in sys.path if p.endswith("site-packages")]
    (site / "ours.pth").write_text("\n".join(ours) + "\n")
    return folder


def test_our_own_when_nothing_else_is_there(root: Path) -> None:
    choice = choose_python(root)
    assert (choice.path, choice.why, choice.virtual) == (sys.executable, "harnessctl's own", False)


def test_the_projects_own_environment_when_it_can(root: Path) -> None:
    folder = project_venv(root)
    choice = choose_python(root)
    assert (choice.path, choice.why) == (str(folder / "bin" / "python"), "the project's .venv")
    assert choice.virtual


def test_not_without_ipykernel(root: Path) -> None:
    venv.create(root / ".venv", with_pip=False, symlinks=True)
    assert choose_python(root).why == "harnessctl's own"
    assert not has_ipykernel(str(root / ".venv/bin/python"))


def test_not_when_the_clone_brought_it(root: Path) -> None:
    project_venv(root)
    choice = choose_python(root, tracked=lambda path: path == ".venv/bin/python")
    assert choice.why == "harnessctl's own"


def test_the_flag_is_first(root: Path) -> None:
    project_venv(root)
    choice = choose_python(root, flag=sys.executable, configured="/nowhere/python")
    assert (choice.path, choice.why) == (sys.executable, "--python")


def test_a_folder_means_its_python(root: Path) -> None:
    folder = project_venv(root, "env")
    assert choose_python(root, flag=str(folder)).path == str(folder / "bin" / "python")
    assert choose_python(root, configured="env/bin/python").path == str(folder / "bin" / "python")


def test_a_relative_flag_counts_from_the_current_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project_venv(root, "below/env")
    monkeypatch.chdir(root / "below")
    assert choose_python(root, flag="./env").path == str(folder / "bin" / "python")
    assert choose_python(root, flag="env/bin/python").path == str(folder / "bin" / "python")
    monkeypatch.chdir(folder / "bin")
    assert choose_python(root, flag="./python").path == str(folder / "bin" / "python")
    for name in ("./python3000", "~nobody-here/env"):
        with pytest.raises(UsageError) as caught:
            choose_python(root, flag=name)
        assert f"there is no {folder / 'bin' / name}" in caught.value.message


def test_a_named_one_that_cannot_is_an_error(root: Path, bare: Path) -> None:
    for name in (str(bare / "bin/python"), "python3000", "/bin/ls"):
        with pytest.raises(UsageError) as caught:
            choose_python(root, flag=name)
        assert caught.value.id == "bad_python"
        assert "ipykernel" in caught.value.hint


def test_harness_toml_cannot_name_a_program_of_the_clone(root: Path) -> None:
    project_venv(root, "env")
    with pytest.raises(RefusedError) as caught:
        choose_python(root, configured="env/bin/python", from_repository=True)
    assert caught.value.id == "untrusted_python"
    for name in ("env", f"{root}/../{root.name}/env", f"{root.parent}/other/env/bin/python"):
        (root.parent / "other").unlink(missing_ok=True)
        (root.parent / "other").symlink_to(root)
        with pytest.raises(RefusedError):
            choose_python(root, configured=name, from_repository=True)
    assert choose_python(root, configured="env/bin/python", from_repository=True, trusted=True).virtual
    assert choose_python(root, configured=sys.executable, from_repository=True).path == sys.executable
