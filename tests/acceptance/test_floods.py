"""Floods of output through the real client, a loopback server and a real kernel: the run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Logs
from tests.conftest import Git
from tests.fakes.openai_server import FakeOpenAI, Say

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

#: Megabytes that the process with the session in it may take at its highest.
MOST_MB = 300
CELLS = (
    "!yes | head -c 1000000000",
    "print('x' * 100_000_000)",
    "import sys\nfor i in range(10_000):\n    sys.stdout.write(f'\\r{i:5d} of all')\n    sys.stdout.flush()",
    "import os\nos.write(1, bytes(range(256)) * 40)\n!head -c 20000 /dev/urandom",
    "print('lone \\ud800 surrogate', chr(0xdc80)); '\\ud800'",
    "print('still here', 6 * 7)",
)


def peak_mb(pid: int) -> float:
    """Highest resident size so far of a process, megabytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_run_goes_on_and_the_host_stays_small(repo: Git, logs: Logs) -> None:
    answers = [Say("go on", code=code) for code in CELLS]
    with FakeOpenAI([*answers, Say("Done.")]) as server:
        host = subprocess.Popen(
            [COMMAND, "run", "--json", "--model", "openai/gpt-4o", "flood"],
            cwd=repo.root,
            env={**os.environ, **server.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        peak, reads = 0.0, 0
        while host.poll() is None:
            try:
                peak, reads = max(peak, peak_mb(host.pid)), reads + 1
            except (OSError, StopIteration):  # it ends
                break
            time.sleep(0.05)
        out, err = host.communicate(timeout=120)
    assert host.returncode == 0, err[-2000:]
    result = json.loads(out)
    assert (result["status"], result["cells"]) == ("success", len(CELLS))
    # The server has parsed every request as JSON in UTF-8; what a strict reader would not take is not there.
    assert len(server.requests) == len(CELLS) + 1
    for seen in server.requests:
        json.dumps(seen.body, ensure_ascii=False).encode("utf-8")
    results = [e["data"] for e in logs.newest() if e["type"] == "result"]
    assert [r["status"] for r in results] == ["ok"] * len(CELLS)
    texts = [r["text"] for r in results]
    assert max(map(len, texts)) < 20_000
    assert "9999 of all" in texts[2]
    assert "5000 of all" not in texts[2]
    assert "\\ud800" in texts[4]
    assert "still here 42" in texts[5]
    outputs = [e["data"] for e in logs.newest() if e["type"] == "output"]
    assert outputs[0]["bytes"] >= 1_000_000_000 * 0.99
    assert outputs[1]["bytes"] >= 100_000_000
    folder = next(logs.state.glob("harnessctl/*/sessions/*"))
    kept = [p.stat().st_size for p in (folder / "blobs").iterdir()]
    assert max(kept) < 65 * 1024 * 1024
    print(f"peak {peak:.0f} MB")
    # The mark only grows; it was read all along, the last time after the floods had come.
    assert reads > len(CELLS)
    assert 20 < peak < MOST_MB
