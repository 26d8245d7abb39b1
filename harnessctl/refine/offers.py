"""What a session proposes by itself, from a cell: through the same rules as a refiner's reply.

An edit is read by the refiner's schema, its cited events are searched for secrets, quotes must stand,
the files are built as for a refiner, and the writer judges the result. All of that happens when the
cell asks, so that it hears at once what is wrong; and once more when the proposal is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harnessctl.domain.entry import Entry, Origin
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.event import event_text
from harnessctl.domain.ids import EntryId
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import EntryEdit
from harnessctl.layers.l1_context.skills import entry_for_cells
from harnessctl.layers.l3_durable.checking.ownership import read_entry
from harnessctl.layers.l3_durable.landing.proposals import Draft
from harnessctl.layers.l3_durable.rules.risk_rules import NO_QUOTE
from harnessctl.refine.edits import build_edits, tools_of
from harnessctl.refine.evidence import build_evidence, check_citations, citations, refuse_secrets
from harnessctl.refine.ports import Harness
from harnessctl.refine.redact import Redactor
from harnessctl.refine.repeats import repeated
from harnessctl.refine.reply import Edit, Reply, ReplyRejectedError, read_reply
from harnessctl.refine.risk import as_risk, rules_of
from harnessctl.refine.secrecy import Secrecy
from harnessctl.rlm.ports import Judged, Made

#: Characters of the summary, which is the subject of a commit.
MAX_SUMMARY = 200


class JudgingHarness(Harness, Protocol):
    """A harness that also says what it would write."""

    def judge_proposal(
        self, edits: Sequence[EntryEdit], draft: Draft, base: str = ""
    ) -> tuple[EntryEdit, ...]:
        """The edits as :meth:`propose` would write them; errors as there, nothing is written."""
        ...


@dataclass(frozen=True)
class _Built:
    """All wishes of a session about one entry, as one edit of the base."""

    edit: EntryEdit
    entry: Entry | None
    sources: tuple[Edit, ...]
    notes: tuple[str, ...]


class Offers:
    """The proposal door of one session; :class:`harnessctl.rlm.ports.Proposer`.

    :param snapshot: what the session reads; its commit is the base of what it proposes.
    :param secrecy: refuses secrets; what it has learnt is not asked for.
    """

    def __init__(
        self, harness: JudgingHarness, snapshot: Snapshot, secrecy: Secrecy, redactor: Redactor
    ) -> None:
        self._harness = harness
        self._snapshot = snapshot
        self._secrecy = secrecy
        self._redactor = redactor

    def judge(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Judged:
        """What ``edits`` would make; errors as :meth:`propose`, ``no_identity`` apart."""
        built = self._build(edits, trajectory, self._secrecy)
        if not self._changes(built.edit):
            return Judged(built.edit.action, _for_cells(built.entry), built.notes)
        self._refuse_repeated(built.edit, trajectory.session)
        written = self._harness.judge_proposal(
            [built.edit], self._draft(built, trajectory), self._snapshot.commit
        )
        entry = read_entry(written[0].id, written[0].files)
        return Judged(built.edit.action, _for_cells(entry), built.notes)

    def propose(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Made | None:
        """Make the proposal.

        :raises UsageError: ``bad_edits``: an edit is not one, or not possible; ``no_identity``.
        :raises RefusedError: a secret, or an entry that is not the agent's.
        :raises HarnessError: ``repeated_proposal``, ``invalid_entry``, ``not_initialised``.
        """
        secrecy = self._secrecy.learn(event_text(event) for event in trajectory.events)
        built = self._build(edits, trajectory, secrecy)
        if not self._changes(built.edit):
            return None
        self._refuse_repeated(built.edit, trajectory.session)
        draft = self._draft(built, trajectory)
        made = self._harness.propose([built.edit], draft, self._snapshot.commit)
        return Made(made.id, made.commit, draft.summary)

    def _build(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory, secrecy: Secrecy) -> _Built:
        snapshot, sources, notes = self._snapshot, [], []
        try:
            for raw in edits:
                reply = read_reply({"edits": [raw]})
                sources.append(reply.edits[0])
                _refuse_bad(reply, trajectory, secrecy)
                found = build_edits(reply, snapshot, verified=False)
                notes = list(found.notes)
                if found.edits:
                    edit = found.edits[0].edit
                    snapshot = _with(snapshot, edit)
        except ReplyRejectedError as error:
            raise _in_words(error) from None
        if not found.edits:
            raise UsageError("; ".join(found.notes), id="bad_edits", hint="leave it as it is")
        return self._as_one(edit.id, snapshot, sources, notes)

    def _as_one(self, entry: EntryId, after: Snapshot, sources: list[Edit], notes: list[str]) -> _Built:
        """The way from the base to ``after``, however many edits led there."""
        stood, stands = self._snapshot.entries.get(str(entry)), after.entries.get(str(entry))
        if stands is None:
            edit = EntryEdit(entry, "delete")
        else:
            edit = EntryEdit(entry, "update" if stood else "create", stands.files)
        return _Built(edit, stands, tuple(sources), tuple(notes))

    def _changes(self, edit: EntryEdit) -> bool:
        stood = self._snapshot.entries.get(str(edit.id))
        return (stood.files if stood else ()) != edit.files

    def _refuse_repeated(self, edit: EntryEdit, session: str) -> None:
        why = repeated(edit, session, self._harness.updates())
        if why:
            raise HarnessError(
                f"{edit.id}: {why}", id="repeated_proposal", hint="it needs no second proposal"
            )

    def _draft(self, built: _Built, trajectory: Trajectory) -> Draft:
        cited = tuple(dict.fromkeys(c for source in built.sources for c in source.evidence))
        rules = rules_of(built.edit, self._snapshot.entries.get(str(built.edit.id)), tools_of(built.edit))
        rules += [] if any(c.quote.strip() for c in cited) else [NO_QUOTE]
        last = built.sources[-1]
        model = trajectory.header.get("model")
        named = f"{model.get('provider')}/{model.get('name')}" if isinstance(model, Mapping) else None
        return Draft(
            summary=_summary(built, last),
            why=_joined(source.reason for source in built.sources),
            expected_outcome=last.expected_outcome,
            how_to_see=last.how_to_see,
            model=named,
            evidence=build_evidence(cited, trajectory, self._redactor),
            origin=Origin.AGENT,
            risk=as_risk(rules),
        )


def _refuse_bad(reply: Reply, trajectory: Trajectory, secrecy: Secrecy) -> None:
    """:raises RefusedError: a secret in what is cited or wanted.
    :raises ReplyRejectedError: evidence that does not stand.
    """
    refuse_secrets(citations(reply), trajectory, secrecy)
    for place, text in reply.texts():
        secrecy.refuse(text, place.removeprefix("edits[0]."))
    problems = check_citations(reply, trajectory)
    if problems:
        raise ReplyRejectedError(problems)


def _in_words(error: ReplyRejectedError) -> UsageError:
    said = []
    for problem in error.problems:
        place = problem.path.removeprefix("edits[0]").lstrip(".")
        said.append(f"{place}: {problem.message}" if place else problem.message)
    return UsageError("; ".join(said), id="bad_edits", hint="mend it and propose again")


def _with(snapshot: Snapshot, edit: EntryEdit) -> Snapshot:
    """``snapshot`` after ``edit``, as far as building further edits of the entry needs it."""
    entries = {name: entry for name, entry in snapshot.entries.items() if name != str(edit.id)}
    gone = {file.path for file in snapshot.entries[str(edit.id)].files} if edit.action == "delete" else set()
    entry = read_entry(edit.id, edit.files) if edit.files else None
    if entry is not None:
        entries[str(edit.id)] = entry
    return replace(snapshot, entries=entries, files=tuple(f for f in snapshot.files if f[0] not in gone))


def _for_cells(entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else entry_for_cells(entry)


def _summary(built: _Built, last: Edit) -> str:
    said = last.description or (built.entry.description if built.entry else "") or last.reason
    return " ".join(said.split())[:MAX_SUMMARY]


def _joined(texts: Any) -> str:
    return "\n".join(dict.fromkeys(text.strip() for text in texts if text.strip()))
