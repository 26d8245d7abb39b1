"""Rules on one file's text: line ends, hidden characters, hidden instructions, secrets."""

from __future__ import annotations

from collections.abc import Iterator

from harnessctl.domain.finding import Finding
from harnessctl.domain.safe_text import character_name, hidden_characters
from harnessctl.layers.l3_durable.files.yaml_text import position
from harnessctl.layers.l3_durable.rules import lint_rules as rules
from harnessctl.layers.l3_durable.rules.hidden_text import hidden_text
from harnessctl.layers.l3_durable.rules.registry import found
from harnessctl.layers.l3_durable.rules.secrets import scan

#: Places named for one rule in one file; the rest is counted.
MAX_PLACES = 10


def check_text(path: str, data: bytes, allow: frozenset[str]) -> Iterator[Finding]:
    """Findings on a file that is text; ``path`` is relative to ``.harness/``."""
    text = data.decode("utf-8", "surrogateescape")
    if text.startswith("\ufeff"):
        yield found(rules.BOM, path, "begins with a byte order mark", line=1, column=1)
        text = text[1:]
    crlf = text.find("\r\n")
    if crlf >= 0:
        message = f"has {text.count(chr(13) + chr(10))} lines that end with CR LF"
        yield found(rules.CRLF, path, message, line=position(text, crlf)[0])
    yield from _hidden(path, text)
    yield from _instructions(path, text)
    yield from check_secrets(path, text, allow)


def check_secrets(path: str, text: str | bytes, allow: frozenset[str]) -> Iterator[Finding]:
    """HRN206 for each secret; the message holds its kind and digest, never the value."""
    hits = scan(text, allow=allow)
    for hit in hits[:MAX_PLACES]:
        hint = f"{rules.SECRET.fix}: {hit.digest}"
        message = f"looks like a secret ({hit.kind})"
        yield found(rules.SECRET, path, message, line=hit.line, column=hit.column, hint=hint)
    if len(hits) > MAX_PLACES:
        yield found(rules.SECRET, path, f"holds {len(hits) - MAX_PLACES} more of what looks like secrets")


def _hidden(path: str, text: str) -> Iterator[Finding]:
    places = [
        index
        for index in hidden_characters(text)
        if text[index : index + 2] != "\r\n" and not "\udc80" <= text[index] <= "\udcff"
    ]
    for index in places[:MAX_PLACES]:
        line, column = position(text, index)
        message = f"holds {character_name(text[index])}, which a reader does not see"
        yield found(rules.HIDDEN, path, message, line=line, column=column)
    if len(places) > MAX_PLACES:
        yield found(rules.HIDDEN, path, f"holds {len(places) - MAX_PLACES} more such characters")


def _instructions(path: str, text: str) -> Iterator[Finding]:
    for index, what in hidden_text(text):
        line, column = position(text, index)
        yield found(rules.INSTRUCTIONS, path, f"holds {what}", line=line, column=column)
