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


#: Every way a session can end: (status, reason) -> when. ``docs/design/endings.md`` is this table.
ENDINGS: dict[tuple[RunStatus, str], str] = {
    (RunStatus.SUCCESS, ""): "an answer, and every gate passed on the files as they are left: verified",
    (RunStatus.SUCCESS, "no_gates"): "an answer, and no gate to verify it by",
    (RunStatus.GATE_FAILED, "gate_exit"): "a gate ended with another status than 0, as often as it may",
    (RunStatus.GATE_FAILED, "gate_timeout"): "a gate passed its time limit, as often as it may",
    (RunStatus.GATE_FAILED, "gate_input_changed"): "files that a gate judges by changed during the run",
    (RunStatus.GATE_FAILED, "tree_changed"): "the work tree changed while or after the gates ran",
    (RunStatus.INCOMPLETE, "empty_reply"): "three empty replies in a row",
    (
        RunStatus.INCOMPLETE,
        "cut_reply",
    ): "three replies in a row hit the output limit and held nothing to run",
    (RunStatus.INCOMPLETE, "pin_revoked"): "an update in the pin was taken back during the run",
    (RunStatus.FAILED, "provider_error"): "the model could not be asked",
    (RunStatus.FAILED, "kernel_start"): "no kernel came up",
    (RunStatus.FAILED, "kernel_lost"): "more than five kernels were lost",
    (RunStatus.FAILED, "storage"): "the log could not be written",
    (RunStatus.FAILED, "error"): "something else that was expected to happen; the detail says what",
    (RunStatus.BUDGET_EXHAUSTED, "turns"): "the limit of turns",
    (RunStatus.BUDGET_EXHAUSTED, "tokens"): "the limit of tokens, used or too near for the next call",
    (RunStatus.BUDGET_EXHAUSTED, "cost"): "the limit of cost, used or too near for the next call",
    (RunStatus.BUDGET_EXHAUSTED, "wall"): "the limit of wall clock",
    (RunStatus.INTERRUPTED, "interrupted"): "the second Ctrl-C",
    (RunStatus.INTERRUPTED, "terminated"): "SIGTERM or SIGHUP",
    (RunStatus.INTERRUPTED, "cancelled"): "a child that its parent cancelled",
    (RunStatus.INTERRUPTED, "parent_ended"): "a child whose parent ended first",
    (RunStatus.INTERRUPTED, "stopped"): "a child that a stop of harnessctl cut off and that cannot go on",
}
#: Outranks the reason of any status: harness state moved and nobody knows why. Exit 6.
MOVED = "ref_moved"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a session ended.

    :ivar reason: stable slug; "" where the status says everything.
    :ivar answer: the final answer, None when there is none.
    :ivar detail: one sentence for people: what exactly went wrong.
    :ivar gated_tree: hash of the work tree that every gate passed on; "" when there is none such.
    """

    status: RunStatus
    reason: str = ""
    answer: str | None = None
    detail: str = ""
    gated_tree: str = ""


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
