"""The local model's process, seen from the run that started it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.plain_files import opened
from harnessctl.models.local_server import Order

#: Seconds to load; measured 5 on two cores with a warm disk, and a cold disk reads 1.1 GB.
START_S = 300.0
#: What the process needs of the environment. Keys are left out: anybody's code on this machine that runs
#: as the same user can read a process's environment.
_KEPT = {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV"}
_KEPT_PREFIXES = ("PYTHON", "LD_", "DYLD_", "GGML_", "LLAMA_", "CUDA_", "OMP_", "GOMP_")
#: Threads that wait do not spin. Measured on two cores with four busy processes beside: 14.8 tokens a
#: second instead of 1.8.
_PATIENT = {"OMP_WAIT_POLICY": "passive"}


def bare_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """``variables`` without what the process has no use for; the user's own tuning stays."""
    return _PATIENT | {n: v for n, v in variables.items() if n in _KEPT or n.startswith(_KEPT_PREFIXES)}


class LocalProcess:
    """The process of :mod:`harnessctl.models.local_server`, started and ended from here."""

    def __init__(self, process: asyncio.subprocess.Process, address: str = "") -> None:
        self._process = process
        self.address = address

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    @classmethod
    async def start(
        cls, order: Order, log: Path, variables: Mapping[str, str], tick: Callable[[int], None]
    ) -> LocalProcess:
        """Load the weights and wait until they answer; ``tick`` is told the seconds waited so far.

        :raises HarnessError: the process ended, or was not ready in time; names its log.
        """
        with open_log(log) as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                # -P: a repository's own modules must not stand in for the library's.
                *("-P", "-m", "harnessctl.models.local_server"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=bare_environment(variables),
                start_new_session=True,  # Ctrl-C is for the cell, not for the model
            )
        server = cls(process)
        try:
            server.address = await server._ask(order, log, tick)
        except BaseException:
            await server.close()
            raise
        return server

    async def _ask(self, order: Order, log: Path, tick: Callable[[int], None]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order.to_line())
        line = asyncio.ensure_future(self._process.stdout.readline())
        began = time.monotonic()
        try:
            while not (await asyncio.wait({line}, timeout=1.0))[0]:
                waited = round(time.monotonic() - began)
                tick(waited)
                if waited > START_S:
                    raise _not_started(f"not ready after {waited} seconds", log)
        finally:
            line.cancel()
        answer: dict[str, str] = json.loads(line.result() or b"{}")
        if "address" not in answer:
            raise _not_started(answer.get("error", "its process ended"), log)
        return answer["address"]

    async def close(self) -> None:
        """End the process: by closing its input, then by force."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def open_log(path: Path) -> BinaryIO:
    """The log, for appending; begun anew when it has grown past 1 MB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    grown = path.exists() and path.stat().st_size > 1_000_000
    how = os.O_TRUNC if grown else os.O_APPEND
    return open(opened(path, os.O_WRONLY | os.O_CREAT | how), "ab")


def _not_started(reason: str, log: Path) -> HarnessError:
    hint = f"its log: {log}"
    if "libgomp" in reason:
        # The Linux wheels need it and do not bring it.
        hint = (
            "install the OpenMP runtime: package libgomp1 on Debian and Ubuntu, libgomp on Fedora and Alpine"
        )
    return HarnessError(f"the local model did not start: {reason}", id="local_start", hint=hint)
