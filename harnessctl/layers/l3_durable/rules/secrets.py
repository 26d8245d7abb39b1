"""Secrets in text: found before anything is stored, and masked in what is shown.

A hit keeps where the secret stands and a SHA-256 digest for the allow-list (``[secrets] allow`` in
``harness.toml``), never the value: not in findings, messages, records or crash texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harnessctl.domain.canonical import sha256_hex
from harnessctl.layers.l3_durable.rules.secret_kinds import KINDS, SecretKind


@dataclass(frozen=True, slots=True)
class SecretHit:
    """One secret in a text.

    :ivar kind: in words: ``GitHub token``.
    :ivar line: 1-based.
    :ivar column: 1-based, in characters.
    :ivar start: index of its first character in the text.
    :ivar end: index behind its last character.
    :ivar digest: ``sha256:`` of the secret, for the allow-list.
    """

    kind: str
    line: int
    column: int
    start: int
    end: int
    digest: str


def scan(data: bytes | str, *, allow: frozenset[str] = frozenset()) -> tuple[SecretHit, ...]:
    """Every secret in ``data``, in order, none overlapping.

    :param data: text, or bytes taken as UTF-8; other bytes count as one character each.
    :param allow: digests of what is known to be no secret.
    """
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    spans = sorted(_spans(text), key=lambda span: (span[0], -span[1]))
    hits: list[SecretHit] = []
    last, line, counted = 0, 1, 0
    for start, end, kind in spans:
        if start < last:
            continue
        line, counted = line + text.count("\n", counted, start), start
        digest = "sha256:" + sha256_hex(text[start:end].encode("utf-8", "surrogatepass"))
        last = end
        if digest not in allow:
            column = start - text.rfind("\n", 0, start)
            hits.append(SecretHit(kind, line, column, start, end, digest))
    return tuple(hits)


def mask(text: str, *, allow: frozenset[str] = frozenset()) -> str:
    """``text`` with every secret replaced by ``[secret: <kind>]``; masking twice changes nothing."""
    out: list[str] = []
    last = 0
    for hit in scan(text, allow=allow):
        out += (text[last : hit.start], f"[secret: {hit.kind}]")
        last = hit.end
    return "".join(out) + text[last:] if out else text


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of every match; spans may overlap."""
    folded = text.lower()
    for kind in KINDS:
        if kind.may_be_in(text, folded):
            yield from _spans_of(text, kind)


def _spans_of(text: str, kind: SecretKind) -> Iterator[tuple[int, int, str]]:
    stretch = re.compile(kind.tail)
    for pattern in kind.patterns:
        match = pattern.search(text)
        while match is not None:
            end = match.end()
            if kind.accept(match):
                start, end = match.span(kind.group)
                tail = stretch.match(text, end)
                end = tail.end() if tail else end
                yield start, end, kind.name
            # On from behind the stretched end: what lies inside has been found.
            match = pattern.search(text, max(end, match.end()))
