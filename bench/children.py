"""What a child session's kernel costs when it is forked, in parts of what a stock kernel costs.

    python bench/children.py [--rounds 7] [--json]

Times of a machine change from minute to minute; ratios within one run hold. So forked and stock kernels
take turns, both through the same kernel manager over Unix sockets, and each client connects as soon as the
sockets are there. Time counts from the request for the kernel to the reply of its first cell; processor
time is what the kernel's process has used up to then, and holds on a busy machine too. Memory is read from
the system when every kernel has run one cell and nothing goes on: *private* is what would be freed if the
kernel ended, *PSS* adds its share of what it has in common with others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import AsyncKernelManager

from harnessctl.config import KERNEL_MARK
from harnessctl.layers.l2_execution.forks import ForkServer
from harnessctl.layers.l2_execution.provisioner import fork_manager

TOGETHER = 8
IDLE = 16
STOCK_IDLE = 4
OPTIONS = [
    "--HistoryManager.enabled=False",
    "--InteractiveShell.colors=NoColor",
    "--IPKernelApp.log_level=40",
]
MIB = 1024 * 1024

#: Makes a manager whose files stand in a folder.
Make = Callable[[Path], Any]


@dataclass
class Running:
    """A kernel after its first cell.

    :ivar seconds: from the request to the reply.
    :ivar cpu: processor time of its process then, in seconds; the system counts hundredths.
    """

    manager: Any
    client: Any
    seconds: float
    cpu: float


async def first_cell(make: Make, base: Path, env: dict[str, str]) -> Running:
    """Start a kernel and run its first cell."""
    folder = Path(tempfile.mkdtemp(dir=base))
    manager = make(folder)
    null = subprocess.DEVNULL
    began = time.perf_counter()
    await manager.start_kernel(env=env, cwd=folder, stdout=null, stderr=null)
    while not (folder / "k-1").exists():  # noqa: ASYNC110 - a stock kernel tells nobody
        await asyncio.sleep(0.002)
    client = manager.client()
    client.start_channels(stdin=False, hb=False)
    asked = client.execute("6 * 7")
    while (reply := await client.get_shell_msg())["parent_header"]["msg_id"] != asked:
        pass
    seconds = time.perf_counter() - began
    used = psutil.Process(manager.provisioner.pid).cpu_times()
    assert reply["content"]["status"] == "ok", reply
    return Running(manager, client, seconds, used.user + used.system)


async def end(running: list[Running]) -> None:
    """Kill kernels."""
    for one in running:
        one.client.stop_channels()
        await one.manager.shutdown_kernel(now=True)


async def alone(make: Make, base: Path, env: dict[str, str]) -> Running:
    """One kernel's first cell; the kernel has ended."""
    one = await first_cell(make, base, env)
    await end([one])
    return one


async def together(make: Make, base: Path, env: dict[str, str]) -> float:
    """Seconds until the last of eight kernels, asked for at once, has answered."""
    began = time.perf_counter()
    running = await asyncio.gather(*(first_cell(make, base, env) for _ in range(TOGETHER)))
    seconds = time.perf_counter() - began
    await end(running)
    return seconds


def memory(pid: int) -> tuple[float, float]:
    """Private memory and PSS of a process in MiB."""
    full = psutil.Process(pid).memory_full_info()
    return full.uss / MIB, full.pss / MIB


async def idle(make: Make, base: Path, env: dict[str, str], count: int) -> tuple[float, float]:
    """Mean private memory and PSS of ``count`` idle kernels, MiB."""
    running = await asyncio.gather(*(first_cell(make, base, env) for _ in range(count)))
    await asyncio.sleep(1.5)
    found = [memory(one.manager.provisioner.pid) for one in running]
    await end(running)
    return statistics.mean(p for p, _ in found), statistics.mean(s for _, s in found)


async def measure(base: Path, rounds: int) -> dict[str, float]:
    """All numbers: seconds and MiB."""
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "IPYTHONDIR": str(base / "ipython")}
    began = time.perf_counter()
    with ForkServer(sys.executable, {**env, KERNEL_MARK: "bench"}, options=OPTIONS) as server:

        def forked(folder: Path) -> Any:
            return fork_manager(server, **files(folder))

        def stock(folder: Path) -> Any:
            manager = AsyncKernelManager(**files(folder))
            manager.kernel_spec.argv.extend(OPTIONS)
            return manager

        await alone(forked, base, env)
        found = {"server_ready_s": time.perf_counter() - began}
        await alone(stock, base, env)
        single: dict[str, list[Running]] = {"stock": [], "fork": []}
        for _ in range(rounds):
            single["stock"].append(await alone(stock, base, env))
            single["fork"].append(await alone(forked, base, env))
        for name, ones in single.items():
            found[f"{name}_first_cell_s"] = statistics.median(one.seconds for one in ones)
            found[f"{name}_cpu_s"] = statistics.mean(one.cpu for one in ones)
        eight: dict[str, list[float]] = {"stock": [], "fork": []}
        for _ in range(max(1, rounds // 3)):
            eight["stock"].append(await together(stock, base, env))
            eight["fork"].append(await together(forked, base, env))
        found |= {f"{name}_eight_s": statistics.median(values) for name, values in eight.items()}
        found["stock_private_mib"], found["stock_pss_mib"] = await idle(stock, base, env, STOCK_IDLE)
        found["fork_private_mib"], found["fork_pss_mib"] = await idle(forked, base, env, IDLE)
        (forking,) = psutil.Process(server.pid).children()
        found["server_pss_mib"] = memory(server.pid)[1] + memory(forking.pid)[1]
    return found


def files(folder: Path) -> dict[str, Any]:
    """Where a kernel's connection file and sockets stand."""
    return {"transport": "ipc", "ip": str(folder / "k"), "connection_file": str(folder / "c.json")}


def report(found: dict[str, float]) -> None:
    """Print a table."""

    def row(what: str, stock: float, fork: float, unit: str) -> None:
        print(f"{what:<44}{stock:>9.1f}{fork:>9.1f} {unit:<5}{fork / stock:>7.3f}")

    print(f"{'':<44}{'stock':>9}{'forked':>9}{'':6}{'ratio':>7}")
    row("first cell", found["stock_first_cell_s"] * 1000, found["fork_first_cell_s"] * 1000, "ms")
    row("its processor time", found["stock_cpu_s"] * 1000, found["fork_cpu_s"] * 1000, "ms")
    row(
        f"first cells of {TOGETHER} at once",
        found["stock_eight_s"] * 1000,
        found["fork_eight_s"] * 1000,
        "ms",
    )
    name = f"memory, idle ({STOCK_IDLE} stock, {IDLE} forked)"
    row(f"{name}: private", found["stock_private_mib"], found["fork_private_mib"], "MiB")
    row(f"{name}: PSS", found["stock_pss_mib"], found["fork_pss_mib"], "MiB")
    print(
        f"the server, once: {found['server_ready_s'] * 1000:.0f} ms to its first kernel's first cell,",
        end=" ",
    )
    print(f"{found['server_pss_mib']:.0f} MiB when its kernels have ended")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = asyncio.run(measure(Path(folder), options.rounds))
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        report(found)


if __name__ == "__main__":
    main()
