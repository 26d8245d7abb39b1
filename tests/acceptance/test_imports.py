"""Import order holds, and the runtime's way to durable state is shut by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).parent / "lint-imports"
    # Without bytecode and cache, so that the copy is read and not the checkout.
    return subprocess.run([command, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "harnessctl", tmp_path / "harnessctl", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_all_contracts_hold(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("rlm/loop.py", "import harnessctl.layers.l3_durable.store", "Proposal door"),
        ("models/port.py", "import harnessctl.layers.l3_durable.store", "Proposal door"),
        ("domain/entry.py", "import harnessctl.config", "Tiers"),
        ("refine/prompt.py", "import harnessctl.review.patch", "Tiers"),
        ("commands/init.py", "import rich", "typer and rich"),
        ("layers/l3_durable/store.py", "import pygit2", "pygit2"),
        ("layers/l3_durable/files/tree.py", "import harnessctl.layers.l3_durable.pins.live", "Folders"),
        ("layers/l1_context/view.py", "import harnessctl.layers.l2_execution.kernel", "State layers"),
    ],
)
def test_a_planted_import_breaks_its_contract(copy: Path, module: str, planted: str, contract: str) -> None:
    target = copy / "harnessctl" / module
    assert target.exists()
    target.write_text(target.read_text() + f"\n{planted}\n")
    done = lint_imports(copy)
    assert done.returncode != 0
    assert contract in done.stdout.split("Broken contracts")[-1]


def test_init_files_stay_empty() -> None:
    assert [p for p in (ROOT / "harnessctl").rglob("__init__.py") if p.read_text().strip()] == []
