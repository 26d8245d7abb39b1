"""Commands that cells run, where no kernel is needed to see them."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from harnessctl.rlm.kernel_api.shell import run_command


class Interrupted(subprocess.Popen[bytes]):
    """The interrupt comes while the process is being started: it runs, and the caller does not have it."""

    pid = 0

    def __init__(self, *what: Any, **more: Any) -> None:
        super().__init__(*what, **more)
        Interrupted.pid = self.pid
        os.kill(os.getpid(), signal.SIGINT)


def test_a_command_whose_start_is_interrupted_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(["/bin/sh", "-c", "trap '' INT; exec sleep 300"])
    with pytest.raises(ProcessLookupError):
        os.kill(Interrupted.pid, 0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
