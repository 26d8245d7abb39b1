"""Looks for a planted key in everything that code in a kernel can reach. Standard library only."""

import os
import re
import stat
from pathlib import Path

HALVES = os.environ["PROBE_HALVES"].split()
#: Seconds since 1970: a file that nobody has written since then holds no key that was made later.
SINCE = float(os.environ["PROBE_SINCE"])
MOST_BYTES = 64 * 1024 * 1024


def needle() -> bytes:
    """The key, put together here so that it stands nowhere whole: not in this cell, not in the log."""
    return "".join(HALVES).encode()


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def in_memory(pid: int, key: bytes) -> bool:
    """Reads the writable memory of another process, as a debugger does."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if match is None:
                continue
            start, end = int(match[1], 16), int(match[2], 16)
            try:
                memory.seek(start)
                if key in memory.read(min(end - start, MOST_BYTES)):
                    return True
            except (OSError, ValueError, OverflowError):
                continue
    return False


def found() -> list[str]:
    """Where the key was found, as texts without it."""
    key, places = needle(), []
    if key.decode() in os.environ.values():
        places.append("environment")
    for pid in processes():
        for name in ("environ", "cmdline"):
            try:
                if key in Path(f"/proc/{pid}/{name}").read_bytes():
                    places.append(f"{name} of {pid}")
            except OSError:
                pass
        try:
            if in_memory(pid, key):
                places.append(f"memory of {pid}")
        except OSError:
            pass
    for root in (os.environ.get("XDG_STATE_HOME"), os.environ.get("XDG_CONFIG_HOME"), "/tmp"):
        for folder, _, names in os.walk(root or "/nonexistent"):
            for name in names:
                path = Path(folder, name)
                try:
                    state = path.stat()
                    changed = stat.S_ISREG(state.st_mode) and state.st_ctime >= SINCE
                    if changed and state.st_size < MOST_BYTES and key in path.read_bytes():
                        places.append(f"file {path}")
                except OSError:
                    continue
    return places


print("FOUND", found())
