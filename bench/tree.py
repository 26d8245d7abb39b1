"""Eight children started from one cell: how soon each asks the model, and has run its first cell.

    python bench/tree.py [--rounds 5] [--json]

The installed command with a loopback server for a model. Time counts from the moment the server has the
root's request, which it answers at once with the cell that starts the children: so the root's own kernel
and the way of the reply are in it. Baselines in the same rounds: ``python -c pass``, and the start of a
stock kernel up to the reply of its first cell. Medians; ratios within one run hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jupyter_client.manager import start_new_async_kernel  # noqa: E402

from tests.fakes.openai_server import FakeOpenAI, Say, Seen  # noqa: E402

CHILDREN = 8
COMMAND = Path(sys.executable).parent / "harnessctl"
START = f"hs = [rlm('look', name=f'c{{n}}') for n in range({CHILDREN})]\nprint([await h for h in hs])"


class Clocked:
    """Plays the model and notes when it was asked what.

    :ivar asked: seconds from the root's first request to each child's first.
    :ivar ran: the same to each child's second: its first cell has run.
    """

    def __init__(self) -> None:
        self.began = 0.0
        self.asked: list[float] = []
        self.ran: list[float] = []

    def __call__(self, seen: Seen) -> Say:
        now = time.perf_counter()
        child = re.search(r"You are c\d", str(seen.messages[0]["content"]))
        first = len(seen.messages) <= 2
        if child is None:
            self.began = self.began or now
            return Say(code=START) if first else Say("done")
        (self.asked if first else self.ran).append(now - self.began)
        return Say(code="print(6 * 7)") if first else Say("42")


def one_run(folder: Path) -> Clocked:
    """One run of the command in a repository of its own."""
    model = Clocked()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESSCTL_", "XDG_"))}
    env |= {"HOME": str(folder), "OPENAI_API_KEY": "sk-bench"}
    work = folder / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=work, env=env, check=True)
    with FakeOpenAI(model) as server:
        command = [COMMAND, "run", "--json", "--model", "openai/gpt-4o", "start children"]
        env["HARNESSCTL_API_BASE"] = server.base_url
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0 or len(model.ran) != CHILDREN:
        sys.exit(f"exit {done.returncode}, {len(model.ran)} children ran a cell\n{done.stdout}{done.stderr}")
    return model


async def stock_kernel() -> float:
    """Seconds from a stock kernel's start to the reply of its first cell."""
    began = time.perf_counter()
    manager, client = await start_new_async_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
    await client.execute_interactive("6 * 7", output_hook=lambda _: None)
    took = time.perf_counter() - began
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    return took


def plain_python() -> float:
    """Seconds that ``python -c pass`` takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    asked, ran, kernel, plain = [], [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            model = one_run(Path(name))
        asked.append(max(model.asked))
        ran.append(max(model.ran))
        kernel.append(asyncio.run(stock_kernel()))
        plain.append(plain_python())
    base, stock = statistics.median(plain), statistics.median(kernel)
    found = {
        "python_s": base,
        "stock_kernel_s": stock,
        "eight_first_requests": statistics.median(asked) / base,
        "eight_first_cells": statistics.median(ran) / stock,
    }
    if options.json:
        print(json.dumps(found))
        return
    print(f"python -c pass {base * 1000:.0f} ms; a stock kernel's first cell {stock * 1000:.0f} ms")
    to = f"{CHILDREN} children, to the last one's first"
    print(f"{to} request: {found['eight_first_requests']:.1f}x python -c pass")
    print(f"{to} cell: {found['eight_first_cells']:.2f}x a stock kernel's")


if __name__ == "__main__":
    main()
