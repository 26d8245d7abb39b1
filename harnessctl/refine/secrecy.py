"""What the refiner does about secrets: mask what a model or a file will see, refuse what is cited.

A value found anywhere in a log is masked wherever it stands, also where the scanner would not know
it again (cut in half by a line break, without the variable name before it). Values live in memory
only: no message, file or ``repr`` here holds one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from harnessctl.domain.errors import RefusedError

#: Values that are hunted for in other texts have this many characters, or half as many with digits
#: among letters. Others ("postgres" as a password) are masked only where the scanner sees them.
LONG = 16


class Hit(Protocol):
    """One secret in a text: what a scanner says about it. Offsets are in characters."""

    @property
    def kind(self) -> str:
        """What it looks like: "GitHub token"."""
        ...

    @property
    def line(self) -> int:
        """1-based."""
        ...

    @property
    def start(self) -> int:
        """Where the value begins."""
        ...

    @property
    def end(self) -> int:
        """Just behind the value."""
        ...

    @property
    def digest(self) -> str:
        """What an allow-list names it by."""
        ...


class Scan(Protocol):
    """Finds secrets; those whose digest is in ``allow`` are left out."""

    def __call__(self, data: str, *, allow: frozenset[str]) -> Sequence[Hit]:
        """Every hit in ``data``."""
        ...


@dataclass(frozen=True)
class Secrecy:
    """A scanner with an allow-list, and the values it has met so far."""

    scan: Scan
    allow: frozenset[str] = frozenset()
    _values: frozenset[str] = field(default=frozenset(), repr=False)

    def learn(self, texts: Iterable[str]) -> Secrecy:
        """The same, knowing the secrets of ``texts`` too."""
        values = set(self._values)
        for text in texts:
            for hit in self.scan(text, allow=self.allow):
                value = text[hit.start : hit.end]
                values.update(part for part in (value, *value.splitlines()) if _worth_hunting(part))
        return replace(self, _values=frozenset(values))

    def mask(self, text: str) -> str:
        """``text`` with every secret replaced by ``[secret]`` or ``[secret: kind]``."""
        for hit in sorted(self.scan(text, allow=self.allow), key=lambda hit: -hit.start):
            text = f"{text[: hit.start]}[secret: {hit.kind}]{text[hit.end :]}"
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, "[secret]")
        return text

    def refuse(self, text: str, place: str) -> None:
        """Refuse to go on with ``text``.

        :raises RefusedError: it holds a secret; names ``place``, kind and line, never the value.
        """
        hits = self.scan(text, allow=self.allow)
        if hits:
            first = hits[0]
            raise _refusal(place, first.kind, first.line, first.digest)
        for value in self._values:
            at = text.find(value)
            if at >= 0:
                raise _refusal(place, "secret seen elsewhere in the log", text.count("\n", 0, at) + 1, "")


def _worth_hunting(value: str) -> bool:
    value = value.strip()
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return len(value) >= (LONG // 2 if mixed else LONG) and not value.startswith("-----")


def _refusal(place: str, kind: str, line: int, digest: str) -> RefusedError:
    allowed = f"; if it is none, add {digest} to [secrets] allow in harness.toml" if digest else ""
    return RefusedError(
        f"{place} holds what looks like a secret ({kind}, line {line}); no proposal was made",
        id="secret_in_evidence",
        hint=f"if the value is real, replace it where it is valid{allowed}",
    )
