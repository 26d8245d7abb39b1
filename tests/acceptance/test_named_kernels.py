"""``--kernel NAME``: kernels that the user has installed for Jupyter."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git

LOOK = "import os, sys\nprint('from', os.environ.get('FROM_SPEC'), sys.flags.utf8_mode)"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Two installed kernels: ``mine`` runs Python, ``other`` does not."""
    for name, language in (("mine", "python"), ("other", "R")):
        folder = tmp_path / "jupyter" / "kernels" / name
        folder.mkdir(parents=True)
        argv = [sys.executable, "-X", "utf8=1", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": name, "language": language, "env": {"FROM_SPEC": "the spec"}}
        (folder / "kernel.json").write_text(json.dumps(spec))
    return {"JUPYTER_DATA_DIR": str(tmp_path / "jupyter")}


@pytest.mark.kernel
def test_its_command_and_its_variables_are_used_also_after_a_resume(
    harnessctl: Run, script: Script, repo: Git, logs: Logs, env: dict[str, str]
) -> None:
    model = script({"code": LOOK}, {"content": "One."}, {"code": LOOK}, {"content": "Two."})
    run = harnessctl("run", "--kernel", "mine", "--model", model, "look", cwd=repo.root, env=env)
    assert "the Jupyter kernel mine" in run.err
    harnessctl("sessions", "resume", "--task", "again", cwd=repo.root, env=env)
    texts = [e["data"]["text"] for e in logs.newest() if e["type"] == "result"]
    assert ["from the spec 1" in text for text in texts] == [True, True]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--kernel", "nothing"), "mine"),
        (("--kernel", "other"), "runs R"),
        (("--kernel", "mine", "--python", sys.executable), "--python and --kernel"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(
    harnessctl: Run,
    script: Script,
    repo: Git,
    logs: Logs,
    env: dict[str, str],
    flags: tuple[str, ...],
    words: str,
) -> None:
    done = harnessctl("run", *flags, "--model", script({"content": "x"}), "x", cwd=repo.root, env=env, code=2)
    assert words in done.err
    assert not list(logs.state.glob("harnessctl/*/sessions/*"))
