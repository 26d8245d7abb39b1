"""What an agent's commit may not do, and where a person's entry disagrees with its author.

Ownership is the base's: what the commit itself says about owner and origin counts for nothing. An
entry without an owner, or one that cannot be read, is a human's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harnessctl.domain.entry import Entry, Origin, Owner, Status
from harnessctl.domain.finding import Finding
from harnessctl.domain.gate import says_gate_passed
from harnessctl.domain.ids import EntryId
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.files.frontmatter import FrontmatterError, parse
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE, TreeItem
from harnessctl.layers.l3_durable.rules import commit_rules as rules
from harnessctl.layers.l3_durable.rules.change import Change, LintContext
from harnessctl.layers.l3_durable.rules.names import place
from harnessctl.layers.l3_durable.rules.registry import Rule, found, tidy


@dataclass(frozen=True)
class CommitFacts:
    """One commit, or what is about to become one.

    :ivar by_agent: its author is the agent, or the process that makes it is one.
    :ivar records: records that it brings.
    :ivar merge: it has several parents.
    """

    by_agent: bool
    records: tuple[Record, ...] = ()
    merge: bool = False


def check_authority(
    changes: Sequence[Change], context: LintContext, commit: CommitFacts
) -> tuple[Finding, ...]:
    """Findings of the rules HRN301 to HRN310 on what a commit changes."""
    return tidy(_findings(changes, context, commit))


def _findings(changes: Sequence[Change], context: LintContext, commit: CommitFacts) -> Iterator[Finding]:
    touched = sorted({entry for c in changes if (entry := place(c.path).entry) is not None}, key=str)
    # A forge's squash makes a person the author; what an agent's record names is still the agent's.
    named = {e.id for record in commit.records if record.actor.kind == "agent" for e in record.entries}
    theirs = [entry for entry in touched if commit.by_agent or str(entry) in named]
    may_verify = any(map(cites_passed_gate, commit.records))
    moved_to = _new_mains(changes)
    for entry in theirs:
        yield from _agent(entry, context, may_verify, moved_to)
    if commit.by_agent:
        yield from _beside_entries(changes)
        if touched and not commit.records and not commit.merge:
            path = next(c.path for c in changes if place(c.path).entry is not None)
            yield found(rules.UNRECORDED, path, "is changed by an agent's commit that brings no record")
    elif not commit.merge and not commit.records:
        for entry in touched:
            yield from _disagrees(entry, context)


def _beside_entries(changes: Sequence[Change]) -> Iterator[Finding]:
    """Policy and records are out of an agent's reach."""
    for change in changes:
        role = place(change.path).role
        if role == "policy":
            yield found(rules.POLICY, change.path, "is changed by an agent")
        elif role == "record" and change.before is not None:
            yield found(rules.RECORDS, change.path, "was there before, and an agent touches it")


def cites_passed_gate(record: Record) -> bool:
    """Whether the record's evidence shows a gate that passed."""
    return any(says_gate_passed(x.text) for evidence in record.evidence for x in evidence.excerpt)


def _new_mains(changes: Sequence[Change]) -> Mapping[str, str]:
    """Blob id -> path of main files that the change adds."""
    return {
        change.after.oid: change.path
        for change in changes
        if change.before is None and change.after is not None and place(change.path).role == "main"
    }


def _agent(
    entry: EntryId, context: LintContext, may_verify: bool, moved_to: Mapping[str, str]
) -> Iterator[Finding]:
    """Rules on one entry that an agent's commit touches."""
    path = entry.path
    item = context.before.get(path)
    before, after = read_main(entry, item), read_main(entry, context.after.get(path))
    if item is not None and (before is None or before.owner is not Owner.AGENT):
        yield from _humans(path, item, before, after, context, moved_to)
    if after is None:
        return
    if after.owner is not Owner.AGENT and (before is None or before.owner is Owner.AGENT):
        stated = "no owner, which counts as a human's" if after.owner is None else "owner: human"
        yield found(rules.CLAIMS_HUMAN, path, f"an agent's entry says {stated}", hint="write owner: agent")
    if after.origin is Origin.HUMAN and (before is None or before.origin is not Origin.HUMAN):
        yield found(rules.CLAIMS_HUMAN, path, "an agent's text says origin: human")
    claimed = before is not None and before.status is Status.VERIFIED
    if after.status is Status.VERIFIED and not claimed and not may_verify:
        yield found(rules.CLAIMS_VERIFIED, path, "claims verified, and no cited event is a passed gate")


def _humans(
    path: str,
    item: TreeItem,
    before: Entry | None,
    after: Entry | None,
    context: LintContext,
    moved_to: Mapping[str, str],
) -> Iterator[Finding]:
    """Rules on an entry that the base says is a human's."""
    if path not in context.after:
        target = moved_to.get(item.oid)
        if target is None:
            yield found(rules.DELETES, path, "is a human's, and an agent deletes it")
        else:
            yield found(rules.RENAMES, path, f"is a human's, and an agent renames it to '{target}'")
        return
    rule: Rule = rules.CHANGES
    message = "is a human's, and an agent changes it"
    if after is not None and before is not None and after.owner is not before.owner:
        rule, message = rules.RE_OWNS, "is a human's, and an agent changes its owner"
    yield found(rule, path, message)


def _disagrees(entry: EntryId, context: LintContext) -> Iterator[Finding]:
    """HRN310 on a new entry of a person."""
    after = read_main(entry, context.after.get(entry.path))
    if after is None or entry.path in context.before:
        return
    if after.owner is Owner.AGENT:
        yield found(rules.DISAGREES, entry.path, "a person adds it, and it says owner: agent")
    if after.origin is Origin.AGENT:
        yield found(rules.DISAGREES, entry.path, "a person adds it, and it says origin: agent")


def read_main(entry: EntryId, item: TreeItem | None) -> Entry | None:
    """The entry as its main file has it; None when the file is gone or cannot be read."""
    if item is None or item.mode not in (FILE, EXECUTABLE):
        return None
    try:
        read = parse(item.read(), "")
    except FrontmatterError:
        return None
    return Entry(entry, (), read.meta, read.body)
