"""What was refused before is not proposed again without new evidence.

An edit repeats an earlier update when it would leave the same entry with the same content. Where
the earlier update still waits for review, proposing it twice helps nobody; where it was rejected
or taken back, only evidence from a session that it did not cite may bring it up again.
"""

from __future__ import annotations

from collections.abc import Iterable

from harnessctl.domain.canonical import files_digest
from harnessctl.domain.update import EntryEdit, UpdateState
from harnessctl.refine.ports import KnownUpdate

_WAITS = frozenset({UpdateState.OPEN, UpdateState.CONFLICT})
_REFUSED = frozenset({UpdateState.REJECTED, UpdateState.TAKEN_BACK})


def repeated(edit: EntryEdit, session: str, past: Iterable[KnownUpdate]) -> str:
    """Why ``edit``, with evidence from ``session``, is a repetition; "" when it is none."""
    after = files_digest((f.path, f.mode, f.sha256) for f in edit.files) if edit.files else None
    for update in past:
        record = update.record
        if record is None or not any(c.id == str(edit.id) and c.after == after for c in record.entries):
            continue
        if update.state in _WAITS:
            return f"dropped, update {update.id} proposes the same and waits for review"
        if update.state in _REFUSED and session in {e.session for e in record.evidence}:
            words = str(update.state).replace("_", " ")
            return f"dropped, update {update.id} held the same and was {words}, on evidence from this session"
    return ""
