"""What can go wrong, as the user meets it.

Every failure that harnessctl expects is a :class:`HarnessError` with a stable ``id`` (for scripts),
one sentence that names the thing and the reason, and a ``hint`` with the next step. Anything else
that reaches the top is a defect and ends with :attr:`ExitCode.INTERNAL`.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line; stable, documented in ``--help``."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERNAL = 3
    GATE_FAILED = 4
    BUDGET_EXHAUSTED = 5
    REFUSED = 6
    INTERRUPTED = 130


class HarnessError(Exception):
    """An expected failure.

    :param message: one sentence: what, where and why.
    :param id: stable slug for ``--json`` (``no_identity``, ``moved_ref``, …).
    :param hint: the next step; never a ready-made destructive command.
    """

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, message: str, *, id: str, hint: str = "") -> None:  # noqa: A002 - the JSON key is `id`
        super().__init__(message)
        self.message = message
        self.id = id
        self.hint = hint

    @property
    def words(self) -> str:
        """Message and hint in one line, for where there is room for one."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UsageError(HarnessError):
    """The call itself is off: an unknown name, a bad option value, nothing configured."""

    exit_code = ExitCode.USAGE


class RefusedError(HarnessError):
    """Refused for safety: an agent at a landing verb, a secret, an untrusted program."""

    exit_code = ExitCode.REFUSED


class ConflictError(HarnessError):
    """Somebody else changed the same thing; nothing was overwritten."""


class NotFoundError(HarnessError):
    """The named entry, revision, session, proposal or file is not there."""


def install_hint(extra: str) -> str:
    """How to install harnessctl with an optional dependency; it is on no package index."""
    return f"from a clone of harnessctl: pip install '.[{extra}]'"


class MissingExtraError(UsageError):
    """An optional dependency is not installed; the hint holds the command that adds it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the '{extra}' extra, which is not installed",
            id="missing_extra",
            hint=install_hint(extra),
        )
