"""How a session ends, and which exit code that is."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.errors import ExitCode
from harnessctl.domain.outcome import RunStatus

#: Which exit code counts when several hold (CONTRACT 7).
PRECEDENCE = (
    ExitCode.REFUSED,
    ExitCode.INTERRUPTED,
    ExitCode.BUDGET_EXHAUSTED,
    ExitCode.GATE_FAILED,
    ExitCode.FAILED,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a session ended.

    :ivar reason: stable slug; "" where the status says everything.
    :ivar answer: the final answer, None when there is none.
    :ivar detail: one sentence for people: what exactly went wrong.
    """

    status: RunStatus
    reason: str = ""
    answer: str | None = None
    detail: str = ""


class EndSession(Exception):  # noqa: N818 - control flow, no error
    """Carries an ending from where it was found to the session."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


def exit_code(status: RunStatus, *, refused: bool = False) -> ExitCode:
    """The exit code of a run.

    :param refused: harness state moved in a way nobody knows of.
    """
    held = {status.exit_code} | ({ExitCode.REFUSED} if refused else set())
    return next((code for code in PRECEDENCE if code in held), ExitCode.DONE)
