"""Rules on a commit message: its ``Harness-*`` trailers say what the records say that the commit brings.

Other trailers, and everything above the last paragraph, are nobody's business here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.files.message import commit_message
from harnessctl.layers.l3_durable.rules import commit_rules as rules
from harnessctl.layers.l3_durable.rules.registry import Rule, tidy

_TRAILER = re.compile(r"(Harness-[A-Za-z-]+)\s*:\s*(.*)\Z", re.IGNORECASE)
ACCEPTED_BY = "harness-accepted-by"


def trailers(message: str) -> tuple[tuple[int, str, str], ...]:
    """(line, key, value) of the ``Harness-*`` lines in the last paragraph; lines from 1."""
    lines = message.rstrip().split("\n")
    start = max((n for n, line in enumerate(lines) if not line.strip()), default=-1) + 1
    if start == 0:
        return ()  # a subject alone has no trailers
    found = ((n, _TRAILER.match(line)) for n, line in enumerate(lines[start:], start + 1))
    return tuple((n, match[1], match[2].strip()) for n, match in found if match)


def strip_comments(message: str, comment: str = "#") -> str:
    """A message file as git will read it: cut at the scissors, comment lines out.

    :param comment: ``core.commentChar``; "auto" is read as ``#``, which git takes unless a line begins so.
    """
    sign = "#" if comment == "auto" else comment
    cut = re.search(rf"^{re.escape(sign)} -{{10,}} >8 -{{10,}}$", message, re.MULTILINE)
    kept = message[: cut.start()] if cut else message
    return "\n".join(line for line in kept.split("\n") if not line.startswith(sign))


def check_message(message: str, records: Iterable[Record], agents: Iterable[str]) -> tuple[Finding, ...]:
    """Findings on one message.

    :param records: records that the commit brings.
    :param agents: e-mail addresses under which agents commit.
    """
    return tidy(_findings(message, tuple(records), frozenset(a.casefold() for a in agents)))


def _findings(message: str, records: tuple[Record, ...], agents: frozenset[str]) -> Iterator[Finding]:
    allowed = {
        (key.casefold(), value) for record in records for _, key, value in trailers(commit_message(record))
    }
    for line, key, value in trailers(message):
        if key.casefold() == ACCEPTED_BY:
            address = value.rpartition("<")[2].rstrip("> ").casefold()
            if not records:
                yield _finding(rules.FORGED, line, f"'{key}' stands in a commit that brings no record")
            elif address in agents:
                yield _finding(rules.ACCEPTED_BY_AGENT, line, f"'{key}' names an agent")
        elif (key.casefold(), value) not in allowed:
            yield _finding(rules.FORGED, line, f"'{key}' says what no record of this commit says")


def _finding(rule: Rule, line: int, message: str) -> Finding:
    return Finding(rule.id, Severity(rule.severity), "", message, rule.fix, line)
