"""Children as sessions: how one is made ready, and how those of a session that stopped are found again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from harnessctl.commands.building import (
    Circle,
    RunPorts,
    RunSpec,
    check_price,
    forking_of,
    header_of,
    parts_of,
    protocol_of,
    resume_facts,
)
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import NO_HEADER, RunStatus
from harnessctl.domain.pin import Pin
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l1_context.harness import render_harness
from harnessctl.layers.l1_context.view import View, system_of
from harnessctl.layers.l2_execution.process import GuardedProcess
from harnessctl.layers.l2_execution.registration import KERNEL_FOLDER, end_left_over
from harnessctl.models.port import ModelClient
from harnessctl.rlm.agents import Agent, agent_of
from harnessctl.rlm.apart import ChildWatcher, NoFence, SharedPin, SharedTree
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.children import Census, Child, ChildEnd, ChildRefusedError, ChildSession, ChildSpec
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.lineage import Kin, descendants, kin_of, node_of, tree_usage
from harnessctl.rlm.log import LOG_NAME, DamagedLogError
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.post import Post
from harnessctl.rlm.prompt import SessionFacts, system_message
from harnessctl.rlm.protocol import Protocol
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.reopen import Addition, additions
from harnessctl.rlm.seat import Seat
from harnessctl.rlm.session import open_session, run_session

#: What every header states and picking its session up builds on.
_STATED_ALWAYS = ("session", "root", "tree", "pin", "skipped", "model", "protocol", "python", "limits")
_ROLE = (
    "# Child session\n"
    "You are {name}, started by another session for one task. Your final answer is all that it sees of your "
    "work, so let it stand by itself. You share its work tree; files that you change, others see."
)


class Household:
    """All sessions of one run: what they share.

    :ivar sessions: the folder that each of them has one in.
    :ivar skipped: ids of entries left out.
    """

    def __init__(
        self,
        spec: RunSpec,
        snapshot: Snapshot,
        pin: Pin,
        ports: RunPorts,
        sessions: Path,
        skipped: tuple[str, ...] = (),
    ) -> None:
        self.sessions = sessions
        self.budget = Budget(spec.limits)
        self._census = Census(spec.limits)
        self._post = Post()
        self._spec, self._snapshot, self._pin, self._ports = spec, snapshot, pin, ports
        self.skipped = skipped
        self._forking = forking_of(spec, spec.session, sessions / spec.session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """No session works any more: end the process that their kernels were forked from."""
        await self._forking.close()

    @cached_property
    def harness(self) -> str:
        """The section of the prompt that every session has."""
        return render_harness(tuple(self._snapshot.entries.values()), self._spec.prompt_tokens).text

    def circle(self, seat: Seat, deadline: float | None = None) -> Circle:
        """What the session at ``seat`` shares with the others."""
        launch = self._forking.launch if seat.depth else GuardedProcess.start
        return Circle(seat, self.budget, self._census, self._post, self.spawn, deadline, launch)

    def spawn(self, child: ChildSpec) -> ChildSession:
        """A child whose log has begun.

        :raises HarnessError: there is no such subagent or model, or a limit of cost and no price.
        """
        agent = agent_of(self._snapshot.entries.values(), child.agent) if child.agent else None
        model, model_name = self._model(child.model, agent)
        check_price(self._spec.limits, model)
        spec, ports = self._spec_of(child, self._limits(child), model_name), self._ports_of(child.seat, model)
        protocol = protocol_of(spec.protocol, model)
        recorder = Recorder.create(self.sessions / child.seat.session, ports.clock)
        try:
            view = View(self._system(protocol, child.seat, agent), protocol)
            parts = self._parts(child, spec, ports, recorder, view)
            header = header_of(spec, self._pin, ports, child.seat, self.skipped, protocol)
            header |= {"agent": agent.id if agent else None, **spec.safety.to_json(None)}
            task = Addition(EventType.TASK, {"text": child.task})
            open_session((Addition(EventType.HEADER, header), task), parts)
        except BaseException:
            recorder.close()
            raise
        return _Running(None, parts, recorder)

    def gather(self, seat: Seat, events: Sequence[Event]) -> tuple[Kin, ...]:
        """Know again who was started below the root, and book what they used."""
        kin = tuple(descendants(seat, events, self.sessions))
        self.budget.used.update(tree_usage(seat, events, kin))
        self._census.started = len(kin)
        for one in kin:
            self._post.join(one.seat, None)
        return kin

    def restored(self, seat: Seat, events: Sequence[Event], deadline: float | None) -> Iterator[Child]:
        """The children of a session that is picked up: ended ones, and those that go on."""
        for kin in kin_of(seat, events, self.sessions):
            spec = spec_of(kin, deadline)
            known = _end_of(kin, self.budget.of(kin.seat.node))
            if known is not None:
                yield Child(spec, known, recorded="status" in kin.told)
                continue
            try:
                yield Child(spec, session=self._pick_up(spec, kin))
            except HarnessError as error:
                detail = f"cut off when harnessctl stopped, and it cannot go on: {error.message}"
                usage = self.budget.of(kin.seat.node)
                yield Child(spec, ChildEnd(RunStatus.INTERRUPTED, "stopped", detail, usage=usage))

    def _pick_up(self, child: ChildSpec, kin: Kin) -> ChildSession:
        """:raises HarnessError: its log does not allow it, or its model is not there."""
        recorder = Recorder.open(kin.folder, self._ports.clock)
        try:
            end_left_over(kin.folder / KERNEL_FOLDER, child.seat.session)
            header_of_stopped(recorder)
            stated = stated_of(recorder.events)
            agent = agent_of(self._snapshot.entries.values(), child.agent) if child.agent else None
            model, model_name = self._model(child.model, agent)
            spec = self._spec_of(child, Limits.from_json(stated["limits"]), model_name)
            ports = self._ports_of(child.seat, model)
            view = view_again(
                recorder.events, spec, model, lambda protocol: self._system(protocol, child.seat, agent)
            )
            parts = self._parts(child, spec, ports, recorder, view)
            below = tuple(self.restored(child.seat, recorder.events, parts.deadline))
            facts = resume_facts(spec, model, view.protocol, {})
            opening = additions(recorder.events, parts.journal.tally.variables, facts, spec.files)
            settle(opening, child.seat, below, parts, self.budget)
        except BaseException:
            recorder.close()
            raise
        return _Running(opening, parts, recorder)

    def _parts(
        self, child: ChildSpec, spec: RunSpec, ports: RunPorts, recorder: Recorder, view: View
    ) -> TurnParts:
        circle = self.circle(child.seat, child.deadline)
        return parts_of(spec, self._snapshot, ports, recorder, view, circle)

    def _spec_of(self, child: ChildSpec, limits: Limits, model_name: str) -> RunSpec:
        """What the root's says, for a child: no gates of its own, and its own limits."""
        if limits.tokens is not None:
            self.budget.caps[child.seat.node] = limits.tokens
        return replace(
            self._spec,
            task=child.task,
            limits=limits,
            session=child.seat.session,
            model_name=model_name,
            safety=replace(self._spec.safety, gates=()),
        )

    def _limits(self, child: ChildSpec) -> Limits:
        """A child's own; cost and, unless it has a limit of its own, tokens are the tree's business."""
        limits = self._spec.limits
        turns = limits.turns if child.turns is None else child.turns
        return replace(limits, turns=turns, tokens=child.tokens, cost_usd=None, wall_s=child.wall_s)

    def _model(self, wanted: str | None, agent: Agent | None) -> tuple[ModelClient, str]:
        """The model of a child: as asked for, else as its subagent says where there is such a model."""
        if wanted is not None:
            return self._named(wanted)
        if agent is not None and agent.model is not None:
            try:
                return self._named(agent.model)
            except HarnessError as error:
                said = f"{agent.id} asks for the model {agent.model}, which cannot be had: {error.message}"
                self._ports.watcher.note(f"{said}; the run's own is used")
        return self._ports.model, self._spec.model_name

    def _named(self, name: str) -> tuple[ModelClient, str]:
        if name in ("", self._spec.model_name):
            return self._ports.model, self._spec.model_name
        if self._ports.model_named is None:
            raise ChildRefusedError(f"there is no model {name!r} for a child here", id="child_model")
        return self._ports.model_named(name)

    def _ports_of(self, seat: Seat, model: ModelClient) -> RunPorts:
        return replace(
            self._ports,
            model=model,
            worktree=SharedTree(self._ports.worktree.root),
            harness_state=NoFence(),
            watcher=ChildWatcher(seat.name, self._ports.watcher),
            interrupts=Interrupts(),
            pin=SharedPin(self._ports.pin),
            inbox=Inbox(seat.name),
        )

    def _system(self, protocol: Protocol, seat: Seat, agent: Agent | None) -> str:
        facts = SessionFacts(str(self._ports.worktree.root), self._spec.python.path, protocol)
        role = _ROLE.format(name=seat.name)
        if agent is not None:
            role = f"{role}\n\n{agent.instructions}"
        return system_message(facts, self.harness, self._ports.repository_files.text, role)


def header_of_stopped(recorder: Recorder) -> Mapping[str, Any]:
    """What the header of a session says that is to go on.

    :raises HarnessError: there is none.
    :raises DamagedLogError: it lacks what every header states.
    """
    first, folder = recorder.events[0] if recorder.events else None, recorder.folder
    if first is None or first.type is not EventType.HEADER:
        raise HarnessError(
            f"the log of session {folder.name} ends before its header; there is nothing to go on with",
            id=NO_HEADER,
            hint="start anew: harnessctl run",
        )
    missing = next((key for key in _STATED_ALWAYS if key not in first.data), None)
    if missing is not None:
        raise DamagedLogError(folder / LOG_NAME, f"event 0: header.{missing} is missing")
    return first.data


def stated_of(events: Sequence[Event]) -> dict[str, Any]:
    """What a session's log says of it now: its header, and what it was picked up with since."""
    stated = dict(events[0].data)
    for event in events:
        if event.type is EventType.REPAIR and event.data.get("what") == "resume":
            stated.update(event.data)
    return stated


def view_again(
    events: Sequence[Event], spec: RunSpec, model: ModelClient, system: Callable[[Protocol], str]
) -> View:
    """The view in the protocol of the model that goes on; the system message stays unless that changes.

    :param system: the message anew, for a protocol.
    """
    stated = stated_of(events)
    same = model.identity.to_json() == dict(stated["model"])
    protocol: Protocol = stated["protocol"] if same else protocol_of(spec.protocol, model)
    return View(system_of(events, protocol) or system(protocol), protocol)


def settle(
    opening: list[Addition], seat: Seat, below: Sequence[Child], parts: TurnParts, budget: Budget
) -> None:
    """Bring a session that is picked up together with its children, and say to it what became of them.

    :param opening: what picks it up; gets what is said. Calls it books as cut off count from now on.
    """
    for addition in opening:
        if addition.type is EventType.REPLY:
            node = node_of(str(addition.data.get("consumer") or seat.name), seat)
            budget.used[node] = budget.used.get(node, Usage()) + Usage.from_json(addition.data["usage"])
    if below:
        said = "; ".join(_words(child) for child in below)
        text = f"[Your children: {said}. rlm.list() and rlm.get(name) find them.]"
        opening.append(Addition(EventType.REPAIR, {"what": "children", "text": text}))
    parts.inbox.restore(parts.journal.events)
    if parts.children is not None:
        parts.children.restore(below)


def _words(child: Child) -> str:
    if child.end is None:
        return f"{child.name} goes on, in a new kernel"
    detail = f" ({child.end.detail})" if child.end.reason == "stopped" else ""
    return f"{child.name} is {child.end.state}{detail}"


def spec_of(kin: Kin, deadline: float | None) -> ChildSpec:
    """What a child was to do, as its log and its parent's tell."""
    header: Mapping[str, Any] = kin.events[0].data if kin.events else {}
    task = next((e.data["text"] for e in kin.events if e.type is EventType.TASK), kin.told.get("task"))
    agent = header.get("agent") or kin.told.get("agent")
    return ChildSpec(kin.seat, str(task or ""), agent, kin.told.get("model"), deadline=deadline)


def _end_of(kin: Kin, usage: Usage) -> ChildEnd | None:
    """How it ended, from its own log, else from its parent's; None for one that was cut off."""
    data = kin.end or (kin.told if "status" in kin.told else None)
    if data is None:
        return None
    status, answer = RunStatus(data["status"]), data.get("answer")
    return ChildEnd(status, str(data.get("reason") or ""), str(data.get("detail") or ""), answer, usage)


@dataclass(frozen=True)
class _Running:
    """A child that is ready to run.

    :ivar opening: what is still to be written first, None when it has been.
    """

    opening: Sequence[Addition] | None
    parts: TurnParts
    recorder: Recorder

    async def run(self) -> ChildEnd:
        """To its end."""
        tree = SharedTree(self.recorder.folder)
        try:
            end = await run_session(self.opening, self.parts, tree, NoFence())
        finally:
            self.recorder.close()
        ending = end.ending
        return ChildEnd(ending.status, ending.reason, ending.detail, ending.answer, end.usage)

    def stop(self, reason: str) -> None:
        """End it in order."""
        self.parts.interrupts.end(reason)

    def close(self) -> None:
        """Let go of its log."""
        self.recorder.close()
