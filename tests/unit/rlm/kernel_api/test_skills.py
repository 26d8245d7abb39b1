"""Imports of Python-backed skills: from the copy, before anything else, from sources alone."""

from __future__ import annotations

import json
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

import harnessctl.rlm.kernel_api.skills

SOURCE = Path(harnessctl.rlm.kernel_api.skills.__file__)
LOAD = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("skills", {str(SOURCE)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.find_skills("modules.json")
"""


def run(folder: Path, code: str, load: str = LOAD) -> str:
    """What a fresh interpreter in ``folder`` prints."""
    done = subprocess.run(
        [sys.executable, "-c", load + code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "copy/src/release_audit"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .rules import RULE\n")
    (package / "rules.py").write_text("RULE = 'pinned'\n")
    (tmp_path / "copy/src/other.py").write_text("x = 1\n")
    (tmp_path / "modules.json").write_text(json.dumps({"release_audit": str(tmp_path / "copy/src")}))
    return tmp_path


def test_it_is_found_before_a_module_of_the_repository(folder: Path) -> None:
    (folder / "release_audit.py").write_text("RULE = 'the repository'\n")
    assert run(folder, "import release_audit; print(release_audit.RULE)") == "pinned"
    assert run(folder, "import release_audit; print(release_audit.RULE)", load="") == "the repository"


def test_other_modules_beside_it_are_not_found(folder: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(folder, "import other")


def test_compiled_files_are_neither_written_nor_read(folder: Path) -> None:
    package = folder / "copy/src/release_audit"
    run(folder, "import release_audit.rules")
    assert not (package / "__pycache__").exists()
    source = (package / "rules.py").read_text()
    (package / "rules.py").write_text("RULE = 'changed'\n")
    py_compile.compile(
        str(package / "rules.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    (package / "rules.py").write_text(source)
    assert run(folder, "import release_audit; print(release_audit.RULE)") == "pinned"
    plain = "import sys; sys.path.insert(0, 'copy/src')\n"
    assert run(folder, plain + "import release_audit; print(release_audit.RULE)", load="") == "changed"


def test_no_skill_stands_in_for_the_standard_library(folder: Path) -> None:
    (folder / "copy/src/json").mkdir()
    (folder / "copy/src/json/__init__.py").write_text("hijacked = True\n")
    (folder / "modules.json").write_text(json.dumps({"json": str(folder / "copy/src")}))
    assert run(folder, "import json; print(hasattr(json, 'hijacked'))") == "False"


def test_a_module_with_run_can_be_called(folder: Path) -> None:
    source = folder / "copy/src/release_audit/__init__.py"
    source.write_text("def run(n, *, more=0):\n    return n + more\n")
    assert run(folder, "import release_audit; print(release_audit(1, more=2), release_audit.run(5))") == "3 5"


def test_without_skills_nothing_changes(folder: Path) -> None:
    (folder / "modules.json").unlink()
    assert run(folder, "import sys; print(any('Skill' in repr(f) for f in sys.meta_path))") == "False"
