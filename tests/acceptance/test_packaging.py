"""The wheel in a clean environment: light, able to start a harness, clear about what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import Git

ROOT = Path(__file__).parents[2]
# Read before the hermetic home hides it: how this machine reaches its package index.
INDEX = {
    name: value for name, value in os.environ.items() if name.startswith("PIP_") or "PROXY" in name.upper()
}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that holds the wheel and its core dependencies alone."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = {**INDEX, "PATH": os.environ["PATH"], "HOME": str(folder)}

    def pip(*args: str | Path, python: Path | str = sys.executable) -> None:
        done = subprocess.run(
            [python, "-m", "pip", *map(str, args)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    pip("wheel", "-q", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("harnessctl-*.whl")
    venv.create(folder / "env", with_pip=True)
    pip("install", "-q", wheel, python=folder / "env/bin/python")
    return folder / "env/bin"


@pytest.mark.slow
def test_the_wheel_can_init(clean: Path, repo: Git) -> None:
    done = subprocess.run(
        [clean / "harnessctl", "init"], cwd=repo.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert repo("rev-parse", "--verify", "refs/heads/harness")
    listed = subprocess.run(
        [clean / "harnessctl", "list"], cwd=repo.root, capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, listed.stderr


@pytest.mark.slow
def test_the_core_is_light_and_names_the_missing_extra(clean: Path, repo: Git) -> None:
    names = subprocess.run(
        [clean / "python", "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout.lower()
    assert not [name for name in ("litellm", "jupyter", "ipykernel", "openai", "xllamacpp") if name in names]
    done = subprocess.run(
        [clean / "harnessctl", "run", "--model", "openai/x", "task"],
        cwd=repo.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install '.[run]'" in done.stderr
