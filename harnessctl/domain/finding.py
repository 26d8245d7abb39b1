"""What a check found: plain data, rendered by whoever asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """``error`` refuses, ``warning`` is said and lets pass, ``info`` informs a reviewer."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of one rule at one place.

    :ivar rule: stable id, ``HRN101``.
    :ivar path: path in the repository (``.harness/memory/x.md``); "" when about the whole.
    :ivar line: 1-based; 0 when the finding is about the whole file.
    :ivar column: 1-based; 0 when unknown.
    :ivar message: one sentence. Never holds a secret's value.
    :ivar hint: what to do about it.
    """

    rule: str
    severity: Severity
    path: str
    message: str
    hint: str = ""
    line: int = 0
    column: int = 0

    def to_json(self) -> dict[str, object]:
        """The finding as it appears in ``--json``."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "hint": self.hint,
        }
