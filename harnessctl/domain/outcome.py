"""How a run ended."""

from __future__ import annotations

from enum import StrEnum

from harnessctl.domain.errors import ExitCode

#: In the place of a reason, for a session that was cut off before its end.
NO_END = "no_end"
#: The same of one whose log holds no header: a kill came first.
NO_HEADER = "no_header"
#: The same of one whose log does not fit together at its beginning or its end; it cannot go on.
DAMAGED = "damaged"


class RunStatus(StrEnum):
    """A run ends in exactly one of these (CONTRACT 7)."""

    SUCCESS = "success"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    BUDGET_EXHAUSTED = "budget_exhausted"
    GATE_FAILED = "gate_failed"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of ``harnessctl run`` for this status, when nothing outranks it."""
        return _EXIT[self]


_EXIT = {
    RunStatus.SUCCESS: ExitCode.DONE,
    RunStatus.FAILED: ExitCode.FAILED,
    RunStatus.INCOMPLETE: ExitCode.FAILED,
    RunStatus.BUDGET_EXHAUSTED: ExitCode.BUDGET_EXHAUSTED,
    RunStatus.GATE_FAILED: ExitCode.GATE_FAILED,
    RunStatus.INTERRUPTED: ExitCode.INTERRUPTED,
}
