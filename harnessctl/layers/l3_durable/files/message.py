"""Commit messages: a copy of the record for people who read `git log`.

Text that an agent wrote is put on its own lines and stripped of control characters, so that it can
neither start a trailer block nor end one: git reads trailers from the last paragraph only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harnessctl.domain.ids import EntryId
from harnessctl.domain.update import Record, RecordType
from harnessctl.layers.l3_durable.git.repository import Person

#: git's own advice is 50 to 72; entries' kinds take some of it.
SUBJECT_LENGTH = 100

#: Key of the trailer that says who let an update in.
ACCEPTED_BY = "Harness-Accepted-By"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def subject(record: Record) -> str:
    """``memory(update): prefer the lock file's resolver``."""
    return _line(f"{_scope(record)}({_verb(record)}): {_line(record.summary)}")[:SUBJECT_LENGTH].rstrip()


def commit_message(record: Record, accepted_by: Person | None = None) -> str:
    """Subject, reason and trailers of the commit that brings ``record``."""
    paragraphs = [subject(record)]
    if record.why.strip():
        paragraphs.append("Why: " + _paragraph(record.why))
    lines = [f"{key}: {_line(value)}" for key, value in _trailers(record)]
    if accepted_by is not None:
        lines.append(f"{ACCEPTED_BY}: {_line(accepted_by.name)} <{_line(accepted_by.email)}>")
    return "\n\n".join([*paragraphs, "\n".join(lines)]) + "\n"


def _scope(record: Record) -> str:
    kinds = {EntryId.parse(change.id).kind.value for change in record.entries}
    return kinds.pop() if len(kinds) == 1 else "harness"


def _verb(record: Record) -> str:
    if record.type is RecordType.ROLLBACK:
        return "rollback"
    if record.type is RecordType.DECISION:
        return "reject"
    actions = {change.action for change in record.entries}
    return str(actions.pop()) if len(actions) == 1 else "update"


def _trailers(record: Record) -> Iterable[tuple[str, str]]:
    yield "Harness-Update", record.id
    if record.type is RecordType.DECISION:
        yield "Harness-Rejects", record.of or ""
    for update in record.takes_back:
        yield "Harness-Takes-Back", update
    for evidence in record.evidence:
        yield "Harness-Session", evidence.session
    yield "Harness-Base", record.base
    for evidence in record.evidence:
        yield "Harness-Evidence", f"sha256:{evidence.head_hash} events={ranges(evidence.events)}"
    if record.model:
        yield "Harness-Model", record.model
        yield "Assisted-by", f"harnessctl:{record.model}"


def ranges(numbers: Iterable[int]) -> str:
    """``38-41,45`` for 38, 39, 40, 41, 45."""
    parts: list[list[int]] = []
    for n in sorted(set(numbers)):
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _paragraph(text: str) -> str:
    """``text`` without empty lines, so that it stays one paragraph."""
    lines = (_CONTROL.sub(" ", line).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
