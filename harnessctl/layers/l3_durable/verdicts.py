"""Verdicts kept by blob id: what makes checking 10,000 entries cost what one costs. Speed only.

A line counts only with the right HMAC under a key that lies beside the file (0600), and only for
the schema version and the very rules that wrote it; a lost, torn or forged line is as if it were
not there, and the blob is judged anew. What else an entry says (owner, origin, text) is never kept:
whoever needs it reads the blob.

One line: 64 hex digits of HMAC-SHA-256, a space, canonical JSON
``{"oid", "kind", "rules", "problems": [...], "depends_on": [...], "line"}``.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harnessctl.domain.canonical import canonical_json, sha256_hex
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.snapshot import SCHEMA_VERSION
from harnessctl.layers.l3_durable import frontmatter, yaml_text
from harnessctl.layers.l3_durable.rules import load_rules, verdict
from harnessctl.layers.l3_durable.rules.verdict import Verdict

#: Bytes after which the file is begun anew; 10,000 verdicts take 2 MB.
MAX_FILE = 64 * 1024 * 1024
_KEY_BYTES = 32
_MAC_HEX = 64


@cache
def rules_digest() -> str:
    """Digest over schema version, YAML version and the source of everything a verdict depends on."""
    sources = [Path(module.__file__ or "").read_bytes() for module in _DECIDING]
    return sha256_hex(canonical_json([SCHEMA_VERSION, yaml.__version__, [sha256_hex(s) for s in sources]]))


_DECIDING = (yaml_text, frontmatter, load_rules, verdict)


class VerdictCache:
    """Verdicts in a file of the state directory, or, with no path, for the life of this object.

    :param path: the file, made when it is first saved; None keeps nothing on disk.
    :param key: the HMAC key; see :func:`read_key`.
    """

    def __init__(self, path: Path | None, key: bytes) -> None:
        self._path, self._key = path, key
        self._kept: dict[tuple[str, str], Verdict] = {}
        self._new: list[bytes] = []
        if path is not None:
            with contextlib.suppress(OSError):
                self._load(path.read_bytes())

    def get(self, oid: str, kind: str) -> Verdict | None:
        """The verdict kept for a blob as a file of ``kind``, None when there is none to be trusted."""
        return self._kept.get((oid, kind))

    def put(self, oid: str, kind: str, verdict: Verdict) -> None:
        """Keep a verdict; it reaches the disk with :meth:`save`."""
        self._kept[oid, kind] = verdict
        if self._path is not None:
            self._new.append(self._line(oid, kind, verdict))

    def save(self) -> None:
        """Append what is new. A failure costs time at the next call, nothing else."""
        if self._path is None or not self._new:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            if self._path.exists() and self._path.stat().st_size > MAX_FILE:
                flags |= os.O_TRUNC
            handle = os.open(self._path, flags, 0o600)
            try:
                # A torn last line of another process must not swallow our first one.
                os.write(handle, b"\n" + b"".join(self._new))
            finally:
                os.close(handle)
        self._new.clear()

    def _line(self, oid: str, kind: str, verdict: Verdict) -> bytes:
        body = canonical_json(
            {
                "oid": oid,
                "kind": kind,
                "rules": rules_digest(),
                "problems": [problem.to_json() for problem in verdict.problems],
                "depends_on": list(verdict.depends_on),
                "line": verdict.depends_line,
            }
        )
        return self._mac(body) + b" " + body + b"\n"

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256").hex().encode("ascii")

    def _load(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            mac, body = line[:_MAC_HEX], line[_MAC_HEX + 1 :]
            if body and hmac.compare_digest(mac, self._mac(body)):
                self._take(json.loads(body))

    def _take(self, row: Mapping[str, Any]) -> None:
        if row["rules"] == rules_digest():
            problems = tuple(_problem(problem) for problem in row["problems"])
            kept = Verdict(problems, tuple(row["depends_on"]), int(row["line"]))
            self._kept[row["oid"], row["kind"]] = kept


def _problem(data: Mapping[str, Any]) -> Finding:
    return Finding(**{**data, "severity": Severity(data["severity"])})


def read_key(path: Path) -> bytes:
    """The key at ``path``, made (0600) when it is not there or not as we left it.

    A key that others can read or that has another length is replaced, which empties the cache. Where
    nothing can be written, a key for this process alone.
    """
    try:
        status = path.stat()
        data = path.read_bytes()
        if len(data) == _KEY_BYTES and status.st_mode & 0o077 == 0 and status.st_uid == os.getuid():
            return data
        path.unlink()
    except OSError:
        pass
    return _new_key(path)


def _new_key(path: Path) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, key)
        finally:
            os.close(handle)
        try:
            os.link(temporary, path)  # whoever was first wins, so that all agree on one key
        except FileExistsError:
            key = path.read_bytes()
        finally:
            temporary.unlink()
    except OSError:
        return key
    return key


def open_cache(state_dir: Path) -> VerdictCache:
    """The cache of one repository's state directory."""
    return VerdictCache(state_dir / "verdicts", read_key(state_dir / "verdicts.key"))
