"""Gates: commands that decide whether an answer may be called verified.

Run after a final answer, when the kernel and everything it left running have ended. A run is verified
when every gate passed on exactly the files that the run leaves behind: a round of gates that changes
the work tree (caches, generated files) is followed by another, and a tree that does not come to rest
is not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harnessctl.config import GateSpec
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.gate import gate_line
from harnessctl.domain.outcome import RunStatus
from harnessctl.layers.l1_context.result_text import shorten
from harnessctl.layers.l2_execution.command import CommandRun, run_command
from harnessctl.rlm.ending import Ending
from harnessctl.rlm.gate_inputs import capture, changed, inputs_of, matches
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.ports import Watcher, WorkTree

#: Rounds until the work tree must have come to rest.
MOST_ROUNDS = 3
#: Characters of a gate's output that the model is shown and the log keeps.
SHOWN = 8_000
#: Changed files that are named; the rest is counted.
NAMED = 8
MENDING = (
    "[The kernel was ended before the gates ran, with everything it had started: variables are gone, files "
    "stay. Mend this, then give the final answer again.]"
)

#: Puts a command into the sandbox, or leaves it as it is.
Wrap = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class GatePlan:
    """Which gates a run has and how they are started.

    :ivar allowed: globs of gate inputs that the run may change.
    :ivar extra_inputs: globs that every gate judges by, beside its own.
    :ivar environment: of the commands, without keys.
    """

    specs: tuple[GateSpec, ...]
    allowed: tuple[str, ...] = ()
    extra_inputs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    wrap: Wrap = tuple


class Gates:
    """The gates of one session. Made at its start, since it remembers the gates' inputs as they are then.

    :ivar allowed_changes: inputs that did change, as ``--allow-gate-input`` permits.
    """

    def __init__(self, plan: GatePlan, worktree: WorkTree, inputs: Mapping[str, Any] | None = None) -> None:
        self.plan = plan
        self.allowed_changes: tuple[str, ...] = ()
        self._tree = worktree
        self._start: Mapping[str, Any] = inputs if inputs is not None else self._capture(None)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Gate -> path -> digest at the start, for the header: a session picked up again needs them."""
        return self._start

    async def check(self, journal: Journal, watcher: Watcher, turn: int, answer: Ending) -> Ending | None:
        """Run the gates on ``answer``; how the session ends, None when a gate did not pass.

        What did not pass stands in the log; :func:`.continuation.decide` says from there whether the
        model may mend it.
        """
        before = self._tree.tree_hash()
        for _ in range(MOST_ROUNDS):
            first = before
            passed = True
            for spec in self.plan.specs:
                after = await self._run(spec, journal, watcher, turn, before)
                passed, before = passed and after.passed, after.tree
            journal.sync()
            if not passed:
                return None
            if before == first:
                return replace(answer, gated_tree=before)
        return unsettled(answer, self._moving(first, before))

    def still_holds(self, ending: Ending, tree: str) -> Ending:
        """``ending`` at the very end: nothing may have been written since the gates passed."""
        if not ending.gated_tree:
            return ending
        if tree != ending.gated_tree:
            return unsettled(ending, self._moving(ending.gated_tree, tree) if tree else ["it cannot be read"])
        edited = sorted({path for paths in self.changed_inputs().values() for path in paths})
        return unsettled(ending, edited) if edited else ending

    def changed_inputs(self) -> dict[str, tuple[str, ...]]:
        """Gate -> inputs that are not as they were at the start and may not differ."""
        allowed, found = set[str](), dict[str, tuple[str, ...]]()
        now = self._capture(self._start)
        for spec in self.plan.specs:
            paths = changed(self._start.get(spec.name) or {}, now[spec.name])
            permitted = {p for p in paths if matches(p, self.plan.allowed)}
            allowed |= permitted
            found[spec.name] = tuple(p for p in paths if p not in permitted)
        self.allowed_changes = tuple(sorted(allowed))
        return found

    def _capture(self, start: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
        root = self._tree.root
        extra = capture(root, self.plan.extra_inputs, folders=True)
        found = {}
        for spec in self.plan.specs:
            globs = inputs_of(spec, None if start is None else start.get(spec.name) or {})
            found[spec.name] = capture(root, globs, folders=bool(spec.inputs)) | extra
        return found

    async def _run(
        self, spec: GateSpec, journal: Journal, watcher: Watcher, turn: int, before: str
    ) -> _Gated:
        edited = self.changed_inputs()[spec.name]
        if edited:
            data = _event(spec, "input_changed", None, 0, _edited_text(spec, edited))
            data |= {"changed_inputs": list(edited), "tree_before": before, "tree_after": before}
            journal.record(EventType.GATE, {**data, "left": 0}, turn=turn)
            return _Gated(False, before)
        watcher.note(f"gate {spec.name} runs" + (f": {spec.command}" if spec.command != spec.name else ""))
        command = self.plan.wrap(["/bin/sh", "-c", spec.command])
        run = await run_command(command, Path(self._tree.root), self.plan.environment, limit_s=spec.timeout_s)
        after = self._tree.tree_hash()
        status = "passed" if run.exit == 0 else "timeout" if run.exit is None else "failed"
        left = max(0, spec.attempts - failures(journal, spec.name)) if status != "passed" else 0
        text = _text(spec, run, mend=left > 0)
        data = _event(spec, status, run.exit, run.ms, text)
        data |= {"changed_inputs": [], "tree_before": before, "tree_after": after, "left": left}
        journal.record(EventType.GATE, data, turn=turn)
        return _Gated(status == "passed", after)

    def _moving(self, before: str, after: str) -> tuple[str, ...]:
        return tuple(change.path for change in self._tree.changes(before, after))


@dataclass(frozen=True, slots=True)
class _Gated:
    passed: bool
    tree: str


def failures(journal: Journal, gate: str) -> int:
    """How often ``gate`` has failed since the session began or was last picked up."""
    count = 0
    for event in reversed(journal.events):
        if event.type is EventType.REPAIR and event.data.get("what") == "resume":
            break
        failed = event.type is EventType.GATE and event.data.get("status") != "passed"
        count += failed and event.data.get("name") == gate
    return count


def unsettled(answer: Ending, paths: Sequence[str]) -> Ending:
    """The gates passed, and not on the files that the run leaves: something still writes."""
    detail = f"the work tree changed while or after the gates ran: {named(paths)}"
    return replace(answer, status=RunStatus.GATE_FAILED, reason="tree_changed", detail=detail, gated_tree="")


def named(paths: Sequence[str]) -> str:
    """The first paths, and how many more."""
    rest = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(paths[:NAMED]) + rest


def _event(spec: GateSpec, status: str, code: int | None, ms: int, text: str) -> dict[str, Any]:
    return {
        "name": spec.name,
        "command": spec.command,
        "status": status,
        "exit": code,
        "ms": ms,
        "text": text,
    }


def _edited_text(spec: GateSpec, paths: Sequence[str]) -> str:
    line = gate_line(spec.name, passed=False, exit_status=None)
    return f"{line}\nnot run: what it judges by changed during the run: {named(paths)}"


def _text(spec: GateSpec, run: CommandRun, *, mend: bool) -> str:
    parts = [gate_line(spec.name, passed=run.exit == 0, exit_status=run.exit)]
    if run.exit is None:
        parts.append(f"ended after its limit of {spec.timeout_s:g} s")
    if run.text.strip():
        parts.append(shorten(run.text.rstrip("\n"), SHOWN))
    if mend:
        parts.append(MENDING)
    return "\n".join(parts)


def last_runs(events: Sequence[Event]) -> tuple[Mapping[str, Any], ...]:
    """Each gate's last run, as ``result.json`` holds it: the event's data and how often it ran."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.type is EventType.GATE:
            name = str(event.data["name"])
            runs = found.pop(name, {"runs": 0})["runs"] + 1
            found[name] = {**event.data, "runs": runs}
    return tuple({key: value for key, value in gate.items() if key != "left"} for gate in found.values())
