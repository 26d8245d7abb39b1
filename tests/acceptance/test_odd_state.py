"""Something else where the installed command expects a file: words and an exit code, and it never waits."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.acceptance.conftest import COMMAND, Run, Script, outside_pytest
from tests.conftest import Git
from tests.fakes.killing import until
from tests.fakes.odd_files import ODD

pytestmark = pytest.mark.timeout(120)

ANSWER = '{"content": "Done."}'


@pytest.fixture
def folder(harnessctl: Run, repo: Git, script: Script, home: Path) -> Path:
    """Of the one session."""
    harnessctl("init", cwd=repo.root)
    harnessctl("run", "--model", script({"content": "Done."}), "answer", cwd=repo.root, code=None)
    (log,) = (home / "state").glob("harnessctl/*/sessions/*/log.jsonl")
    return log.parent


@pytest.mark.parametrize("odd", ODD)
def test_a_log_s_place(harnessctl: Run, repo: Git, folder: Path, odd: str, script: Script) -> None:
    (folder / "log.jsonl").unlink()
    ODD[odd](folder / "log.jsonl")
    for verb in ("show", "resume", "export"):
        done = harnessctl("sessions", verb, cwd=repo.root, code=1, timeout=20)
        assert str(folder / "log.jsonl") in done.err, verb
        assert odd != "sparse" or "10000000000000 bytes" in done.err, verb
    assert folder.name in harnessctl("sessions", "list", cwd=repo.root, timeout=20).out
    found = harnessctl("doctor", "--json", cwd=repo.root, code=1, timeout=20).json()
    assert "damaged_log" in [one["id"] for one in found]
    harnessctl("status", cwd=repo.root, timeout=20)
    answers = script({"content": "Done."})
    harnessctl("run", "--model", answers, "answer", cwd=repo.root, code=None, timeout=60)
    harnessctl("sessions", "prune", "--keep", "1", "--yes", cwd=repo.root, timeout=20)
    assert not folder.exists()


@pytest.mark.parametrize("odd", ODD)
def test_what_lies_beside_the_log(harnessctl: Run, repo: Git, folder: Path, odd: str, script: Script) -> None:
    """Also where the session was killed before it could tidy up."""
    for name in ("result.json", "proposals.json", "recall.sqlite", "recall.sqlite-journal"):
        (folder / name).unlink(missing_ok=True)
        ODD[odd](folder / name)
    shutil.rmtree(folder / "kernel", ignore_errors=True)
    (folder / "kernel").mkdir()
    for name in ("kernel.json", "kernel.log", "modules.json", "entries.json"):
        ODD[odd](folder / "kernel" / name)
    harnessctl("sessions", "list", cwd=repo.root, timeout=20)
    harnessctl("doctor", cwd=repo.root, code=None, timeout=20)
    code = {"code": "history.search('answer')\n1"}
    answers = script(code, {"content": "Done."})
    resumed = ["sessions", "resume", "--model", answers, "--task", "once more"]
    assert harnessctl(*resumed, cwd=repo.root, code=None, timeout=60).code in (0, 1)


def test_a_pipe_for_a_folder_keeps_no_run_from_its_end(
    harnessctl: Run, repo: Git, script: Script, home: Path
) -> None:
    """Of the copies of skills, and of the kernel's sockets; neither is opened to be removed."""
    (home / "tmp").mkdir(exist_ok=True)
    code = (
        "import glob, os, shutil\n"
        f"session = os.path.dirname(glob.glob('{home}/state/harnessctl/*/sessions/*/log.jsonl')[0])\n"
        "shutil.rmtree(session + '/skills', ignore_errors=True); os.mkfifo(session + '/skills')\n"
        "sockets = __import__('json').load(open(session + '/kernel/kernel.json'))['folder']\n"
        "os.rename(sockets, sockets + '-moved'); os.mkfifo(sockets)\n"
        "final('Done.')"
    )
    harnessctl("run", "x", "--model", script({"content": "-", "code": code}), cwd=repo.root, timeout=60)
    (log,) = (home / "state").glob("harnessctl/*/sessions/*/log.jsonl")
    assert not (log.parent / "skills").exists()


@pytest.mark.parametrize("odd", ["pipe", "device", "sparse"])
def test_settings(harnessctl: Run, repo: Git, home: Path, odd: str) -> None:
    (home / "config/harnessctl").mkdir(parents=True)
    ODD[odd](home / "config/harnessctl/config.toml")
    refused = harnessctl("run", "x", cwd=repo.root, code=2, timeout=20)
    assert "config.toml" in refused.err


@pytest.mark.parametrize("name", ["<(echo '{line}')", "/dev/stdin < f", "/dev/stdin <<< '{line}'"])
def test_a_script_that_the_shell_hands_over(harnessctl: Run, repo: Git, name: str) -> None:
    harnessctl("init", cwd=repo.root)
    (repo.root / "f").write_text(ANSWER)
    line = f"{COMMAND} run x --json --model scripted:{name.replace('{line}', ANSWER)}"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=repo.root,
        env=outside_pytest(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b'"answer": "Done."' in done.stdout, done


def test_a_device_is_no_script(harnessctl: Run, repo: Git, tmp_path: Path) -> None:
    refused = harnessctl("run", "x", "--model", "scripted:/dev/zero", cwd=repo.root, code=2, timeout=20)
    assert "/dev/zero: it is a device, no plain file" in refused.err
    os.mkfifo(tmp_path / "pipe")
    refused = harnessctl(
        "run", "x", "--model", f"scripted:{tmp_path}/pipe", cwd=repo.root, code=2, timeout=40
    )
    assert "pipe" in refused.err


def test_a_kernel_s_registration_is_found_where_it_stands(
    harnessctl: Run, repo: Git, script: Script, home: Path, tmp_path: Path
) -> None:
    (home / "tmp").mkdir()
    harnessctl("init", cwd=repo.root)
    code = f"import os, time\nopen({str(tmp_path / 'begun')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    line = [COMMAND, "run", "--model", script({"content": "x", "code": code}, {"content": "Done."}), "x"]
    begun = tmp_path / "begun"
    with subprocess.Popen(line, cwd=repo.root, env=outside_pytest(), stderr=subprocess.DEVNULL) as host:
        try:
            until(lambda: begun.exists() and begun.read_text().isdigit(), 60)
            kernel = int(begun.read_text())
            (log,) = (home / "state").glob("harnessctl/*/sessions/*/log.jsonl")
        finally:
            host.kill()
    until(lambda: not psutil.pid_exists(kernel), 20)
    found = {one["id"]: one["what"] for one in harnessctl("doctor", "--json", cwd=repo.root, code=1).json()}
    assert log.parent.name in found["dead_kernel"], found
    harnessctl("doctor", "--fix", cwd=repo.root)
    harnessctl("doctor", cwd=repo.root)
