"""From a trajectory to a proposal: one model call, one repair, then a clear failure.

The order is the guarantee: the reply is read, then cited events are searched for secrets, then
evidence and edits are checked, and only what passed all of it reaches the writer. Nothing is
written before, and what is kept of a failed reply is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.entry import Status
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import Event, EventType, event_text
from harnessctl.domain.gate import says_gate_passed
from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message
from harnessctl.domain.trajectory import Trajectory
from harnessctl.layers.l3_durable.checking.validation import InvalidError
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal
from harnessctl.layers.l3_durable.places.mode import not_initialised
from harnessctl.models.port import Attempt, ModelClient, ModelReply, ModelRequest, ProviderError
from harnessctl.refine.edits import BuiltEdit, build_edits
from harnessctl.refine.evidence import LABEL, build_evidence, check_citations, citations, refuse_secrets
from harnessctl.refine.kept import FailedAttempt, keep_replies
from harnessctl.refine.ports import Harness
from harnessctl.refine.prompt import Material, build_request, prompt_tokens, reply_tokens
from harnessctl.refine.redact import Redactor
from harnessctl.refine.repeats import repeated
from harnessctl.refine.reply import Citation, Problem, Reply, ReplyRejectedError, parse_reply
from harnessctl.refine.risk import as_risk
from harnessctl.refine.secrecy import Secrecy

CONSUMER = "refine"
#: Replies a model may give: the first, and one that mends it.
ATTEMPTS = 2
#: Characters of a failed reply that go back to the model, and of a summary in a commit's subject.
SHOWN_REPLY = 6_000
MAX_SUMMARY = 200
#: What mends a model that could not be asked, by the error's kind.
_REMEDIES = {"auth": "set a key that the provider takes, or name another --model"}


@dataclass(frozen=True)
class Refined:
    """What refining gave.

    :ivar proposal: None when there was nothing to learn; ``notes`` may say why.
    """

    proposal: Proposal | None
    notes: tuple[str, ...]
    usage: Usage


#: Told of each step, in a line.
Tell = Callable[[str], None]


def silent(_: str) -> None:
    """Nobody is told."""


class Refiner:
    """One refinement of one trajectory. Holds what all steps share; nothing changes but ``usage``."""

    def __init__(
        self,
        trajectory: Trajectory,
        *,
        client: ModelClient,
        harness: Harness,
        secrecy: Secrecy,
        redactor: Redactor,
        keep_in: Path,
        params: tuple[tuple[str, float], ...] = (),
        tell: Tell = silent,
    ) -> None:
        self._tell = tell
        self._trajectory = trajectory
        self._client = client
        self._harness = harness
        self._secrecy = secrecy.learn(event_text(event) for event in trajectory.events)
        self._redactor = redactor
        self._keep_in = keep_in
        self._params = params
        self._usage = Usage()

    async def refine(self) -> Refined:
        """Ask, check, propose.

        :raises NotFoundError: ``not_initialised``, before the model is asked.
        :raises RefusedError: a secret in a cited event or in the reply (exit 6).
        :raises HarnessError: no usable reply after the repair (the reply is kept in a file, named
            in the hint), no answer from the model, or the writer's own refusal.
        """
        if not any(event.type is EventType.REPLY for event in self._trajectory.events):
            return Refined(None, ("the session holds no reply of a model",), self._usage)
        snapshot = self._harness.landed_snapshot()
        if not snapshot.commit:
            raise not_initialised()
        material = Material(self._trajectory, snapshot, self._harness.updates(), self._secrecy)
        messages = build_request(material, prompt_tokens(self._client.identity), self._client.count_tokens)
        failed: list[FailedAttempt] = []
        for place in range(ATTEMPTS):
            answer = await self._call(messages, place, failed)
            try:
                return self._conclude(answer, material)
            except ReplyRejectedError as error:
                failed.append(self._failed(answer.content or "", error.problems))
                messages = (*messages, *_repair(failed[-1]))
        raise self._unusable(failed)

    def _conclude(self, answer: ModelReply, material: Material) -> Refined:
        """Propose what ``answer`` says.

        :raises ReplyRejectedError: it may be mended; nothing was written.
        """
        reply = self._read(answer)
        built = build_edits(reply, material.snapshot, verified=self._passed_gate() is not None)
        notes, fresh = [*built.notes, *self._trajectory.damage], []
        for edit in built.edits:
            why = repeated(edit.edit, self._trajectory.session, material.past)
            if why:
                notes.append(f"{edit.edit.id}: {why}")
            else:
                fresh.append(edit)
        proposal = self._propose(reply, fresh, material.snapshot.commit) if fresh else None
        return Refined(proposal, tuple(notes), self._usage)

    def _propose(self, reply: Reply, edits: list[BuiltEdit], base: str) -> Proposal:
        try:
            return self._harness.propose([edit.edit for edit in edits], self._draft(reply, edits), base)
        except InvalidError as error:
            problems = (
                Problem("", f"it would write {f.path}, and there {f.message} ({f.rule}); {f.hint}")
                for f in error.findings
            )
            raise ReplyRejectedError(tuple(problems)) from None

    async def _call(
        self, messages: tuple[Message, ...], place: int, failed: list[FailedAttempt]
    ) -> ModelReply:
        model = self._client.identity
        request = ModelRequest(messages, False, reply_tokens(model), CONSUMER, place, self._params)
        wrong = _in_short(failed[-1].problems) if failed else ""
        again = f" once more, to mend its reply ({wrong})" if failed else ""
        self._tell(f"asks {model}{again}: about {self._client.count_tokens(messages):,} tokens to read")
        try:
            answer = await self._client.complete(request, on_wait=self._waits)
        except ProviderError as error:
            self._usage += error.usage
            where = self._keep(failed) if failed else ""
            refused = f", and its first reply could not be used: {wrong}" if failed else ""
            raise HarnessError(
                f"the model gave no answer: {self._secrecy.mask(str(error))}{refused}",
                id="provider_error",
                hint=where or _REMEDIES.get(error.kind, "try again later, or with another --model"),
            ) from None
        self._usage += answer.usage
        return answer

    def _waits(self, attempt: Attempt, seconds: float) -> None:
        self._tell(f"{attempt.kind}; next try in {seconds:.0f} s")

    def _read(self, answer: ModelReply) -> Reply:
        """The reply, its evidence checked.

        :raises ReplyRejectedError: it may be mended.
        :raises RefusedError: it must not go on.
        """
        reply = parse_reply(answer.content or "", cut=answer.finish == "length")
        refuse_secrets(citations(reply), self._trajectory, self._secrecy)
        for place, text in reply.texts():
            self._secrecy.refuse(text, f"{place} of the refiner's reply")
        problems = check_citations(reply, self._trajectory)
        if problems:
            raise ReplyRejectedError(problems)
        return reply

    def _passed_gate(self) -> Event | None:
        """The last gate that passed in a session that ended verified."""
        events = self._trajectory.events
        ends = [event for event in events if event.type is EventType.END]
        if not ends or ends[-1].data.get("verified") is not True:
            return None
        gates = [e for e in events if e.type is EventType.GATE and says_gate_passed(event_text(e))]
        return gates[-1] if gates else None

    def _gate(self, edits: list[BuiltEdit]) -> tuple[Citation, ...]:
        """The gate that a claim of ``verified`` stands on: whoever checks the record looks for it there."""
        gate = self._passed_gate()
        if gate is None or not any(edit.source.status == Status.VERIFIED for edit in edits):
            return ()
        return (Citation("", LABEL, gate.n, event_text(gate).partition("\n")[0]),)

    def _failed(self, reply: str, problems: tuple[Problem, ...]) -> FailedAttempt:
        mask = self._secrecy.mask
        return FailedAttempt(mask(reply), tuple(Problem(mask(p.path), mask(p.message)) for p in problems))

    def _unusable(self, failed: list[FailedAttempt]) -> HarnessError:
        wrong = _in_short(failed[-1].problems)
        return HarnessError(
            f"the refiner's reply could not be used, also not after one repair: {wrong}",
            id="bad_refiner_reply",
            hint=self._keep(failed),
        )

    def _keep(self, failed: list[FailedAttempt]) -> str:
        model = str(self._client.identity)
        try:
            path = keep_replies(self._keep_in, self._trajectory.session, model, failed)
        except OSError as error:
            return f"the reply could not be kept in {self._keep_in}: {error.strerror}"
        return f"the reply is kept in {path}"

    def _draft(self, reply: Reply, edits: list[BuiltEdit]) -> Draft:
        gate = self._gate(edits)
        refuse_secrets(gate, self._trajectory, self._secrecy)
        cited = tuple(c for edit in edits for c in edit.source.evidence) + gate
        return Draft(
            summary=_one_line(reply.summary) or ", ".join(str(edit.edit.id) for edit in edits),
            why=_told(reply.rationale, [(e, e.source.reason) for e in edits]),
            expected_outcome=_told("", [(e, e.source.expected_outcome) for e in edits]),
            how_to_see=_told("", [(e, e.source.how_to_see) for e in edits]),
            model=str(self._client.identity),
            evidence=build_evidence(cited, self._trajectory, self._redactor),
            risk=as_risk(rule for edit in edits for rule in edit.rules),
            may_verify=self._passed_gate() is not None,
        )


def _repair(failed: FailedAttempt) -> tuple[Message, ...]:
    problems = "\n".join(f"- {problem}" for problem in failed.problems[:20])
    said = failed.reply[:SHOWN_REPLY] or "(an empty reply)"
    return (
        Message("assistant", said),
        Message(
            "user",
            f"That reply cannot be used:\n{problems}\n"
            "Answer once more with the whole JSON object, mended. Leave out edits that cannot be mended.",
        ),
    )


def _in_short(problems: tuple[Problem, ...]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_SUMMARY]


def _told(first: str, parts: list[tuple[BuiltEdit, str]]) -> str:
    """One text of what each edit says; with several edits each part names its entry."""
    texts = [first.strip()]
    for edit, text in parts:
        if text.strip():
            texts.append(f"{edit.edit.id}: {text.strip()}" if len(parts) > 1 else text.strip())
    return "\n".join(dict.fromkeys(text for text in texts if text))
