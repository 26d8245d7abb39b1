"""Canonical bytes and digests: the same content gives the same digest in every kind of repository.

Canonical JSON here is: keys sorted, no white space, non-ASCII escaped (so that a lone surrogate
that a kernel printed still has a form), no NaN. Digests are SHA-256 over content, never git object
ids, so that they hold in SHA-1 and SHA-256 repositories alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def canonical_json(value: Any) -> bytes:
    """``value`` as canonical JSON.

    :raises ValueError: NaN or infinity, which JSON does not have.
    :raises TypeError: something JSON cannot hold.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def sha256_hex(data: bytes) -> str:
    """SHA-256 of ``data``, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def files_digest(files: Iterable[tuple[str, int, str]]) -> str:
    """``sha256:`` + digest over (path, mode, SHA-256 of the content), sorted by path.

    Used for one entry and, over all entries, as the *entries digest*. ``path`` is relative to
    ``.harness/``, ``mode`` is git's (``0o100644``). The hashed bytes are the canonical JSON of a
    list of ``[path, "100644", "<hex>"]``, so that any language can recompute it.
    """
    rows = [[path, f"{mode:06o}", digest] for path, mode, digest in sorted(files)]
    return "sha256:" + sha256_hex(canonical_json(rows))
