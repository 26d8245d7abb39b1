"""Replies that could not be used, kept for the user: ``<state>/refine/<id>.json``, secrets masked."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.ids import new_ulid
from harnessctl.refine.reply import Problem


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A reply and what was wrong with it; both already masked."""

    reply: str
    problems: tuple[Problem, ...]


def keep_replies(folder: Path, session: str, model: str, attempts: Sequence[FailedAttempt]) -> Path:
    """Write ``attempts`` into a new file of ``folder`` (0600, made with its parents); its path.

    :raises OSError: not writable.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{new_ulid()}.json"
    data = {
        "session": session,
        "model": model,
        "attempts": [
            {"reply": a.reply, "problems": [{"path": p.path, "message": p.message} for p in a.problems]}
            for a in attempts
        ],
    }
    text = json.dumps(data, indent=2, ensure_ascii=True) + "\n"
    partial = path.with_suffix(".partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    partial.rename(path)
    return path
