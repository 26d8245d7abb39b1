"""A sandbox for kernel and gates, made with bubblewrap: what code may change and what it can see.

| | inside |
|---|---|
| work tree | writable; its ``.git`` is read-only |
| everything else on disk | read-only; ``/tmp`` and ``/run`` are empty and its own |
| harnessctl's state and configuration | not there |
| files with credentials in the home folder | not there (:data:`PRIVATE`) |
| processes | its own alone: ``/proc`` shows none of the machine's |
| network | as chosen |
| rights | no capabilities, also for root |
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.errors import UsageError

PROGRAM = "bwrap"
INSTALL = "install bubblewrap: apt-get install bubblewrap, dnf install bubblewrap, or pacman -S bubblewrap"
#: Below the home folder: where programs keep credentials.
PRIVATE = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".pgpass",
    ".password-store",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/git/credentials",
    ".config/pip",
    ".local/share/keyrings",
    ".bash_history",
    ".zsh_history",
    ".python_history",
)
#: Emptied in the sandbox: sockets of services that would act for whoever asks, and others' files.
EMPTIED = ("/run", "/tmp", "/var/tmp")  # noqa: S108 - paths inside, not files of ours
#: bubblewrap itself must outlive the Ctrl-C that is meant for a cell.
_UNMOVED = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")


@dataclass(frozen=True)
class Sandbox:
    """What one run's sandbox is made of.

    :ivar root: work tree.
    :ivar git_dirs: git directories, the shared one of a linked work tree included.
    :ivar hidden: folders that must not be seen.
    :ivar shown: read-only folders that must be seen although they may lie below a hidden or emptied one
        (an interpreter below ``/tmp``).
    :ivar network: whether the machine's network is there.
    """

    root: Path
    home: Path
    git_dirs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    network: bool = True

    def wrap(
        self, command: Sequence[str], writable: Sequence[Path] = (), readable: Sequence[Path] = ()
    ) -> list[str]:
        """``command`` in the sandbox.

        :param writable: further folders that it may write.
        :param readable: further files and folders that it may read.
        """
        return [*_UNMOVED, PROGRAM, *self._options(writable, readable), "--", *command]

    def check(self) -> None:
        """Make sure that it can be made here.

        :raises UsageError: ``no_sandbox``, naming what is missing.
        """
        if sys.platform != "linux":
            raise UsageError("--sandbox needs Linux", id="no_sandbox", hint="run without it, or on Linux")
        if shutil.which(PROGRAM) is None:
            raise UsageError(
                f"--sandbox needs bubblewrap, and there is no {PROGRAM} on PATH",
                id="no_sandbox",
                hint=INSTALL,
            )
        done = subprocess.run([*self.wrap(["/bin/true"])], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UsageError(
                f"bubblewrap cannot make a sandbox here: {done.stderr.strip() or done.returncode}",
                id="no_sandbox",
                hint="a container may forbid new namespaces; allow them, or run without --sandbox",
            )

    def _options(self, writable: Sequence[Path], readable: Sequence[Path]) -> Iterator[str]:
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        for name in EMPTIED:
            if Path(name).is_dir() and not Path(name).is_symlink():
                yield from ("--tmpfs", name)
        resolver = Path("/etc/resolv.conf").resolve()
        if self.network and resolver.is_relative_to("/run") and resolver.exists():
            yield from ("--ro-bind", str(resolver), str(resolver))
        yield from ("--bind", str(self.root), str(self.root))
        for path in (*self.git_dirs, self.root / ".git"):
            yield from ("--ro-bind-try", str(path), str(path))
        for path in self.hidden:
            if path.is_dir():
                yield from ("--tmpfs", str(path))
        for name in PRIVATE:
            yield from _blank(self.home / name)
        for path in (*filter(self._covered, self.shown), *readable):
            yield from ("--ro-bind-try", str(path), str(path))
        for path in writable:
            yield from ("--bind", str(path), str(path))
        yield from ("--chdir", str(self.root), "--cap-drop", "ALL", "--die-with-parent")
        yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        if not self.network:
            yield "--unshare-net"
        # The kernel watches its parent by this; the number means another process inside.
        yield from ("--unsetenv", "JPY_PARENT_PID", "--setenv", "TMPDIR", "/tmp")  # noqa: S108
        yield from ("--unsetenv", "XDG_RUNTIME_DIR", "--unsetenv", "SSH_AUTH_SOCK")
        yield from ("--unsetenv", "DBUS_SESSION_BUS_ADDRESS", "--setenv", "GIT_OPTIONAL_LOCKS", "0")

    def _covered(self, path: Path) -> bool:
        """Whether a folder outside the work tree would not be seen."""
        covers = (*map(Path, EMPTIED), *self.hidden)
        return any(map(path.is_relative_to, covers)) and not path.is_relative_to(self.root)


def _blank(path: Path) -> Iterator[str]:
    """Make a file or a folder read as empty, where there is one."""
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    elif path.exists():
        yield from ("--ro-bind", "/dev/null", str(path))
