"""Rules on one commit: what an agent's may not do, and what a message may claim."""

from __future__ import annotations

from harnessctl.domain.finding import Severity
from harnessctl.layers.l3_durable.rules.registry import Rule


def _agent(rule: str, title: str, reason: str, example: str, fix: str) -> Rule:
    return Rule(rule, "authority", Severity.ERROR, title, reason, example, fix)


DELETES = _agent(
    "HRN301",
    "Agent deletes a human's entry",
    "What a person wrote is a person's to remove. An entry without an owner counts as a human's.",
    "D .harness/memory/build.md, owned by a human, by the agent's author",
    "let a person delete it",
)
RENAMES = _agent(
    "HRN302",
    "Agent renames a human's entry",
    "The id is how people and other entries name it; a rename is a deletion in disguise.",
    "R .harness/memory/build.md -> .harness/memory/old.md",
    "let a person rename it",
)
CHANGES = _agent(
    "HRN303",
    "Agent changes a human's entry",
    "A human's entry is out of bounds: an agent proposes an entry of its own beside it.",
    "M .harness/memory/build.md, owned by a human, by the agent's author",
    "propose a new entry, or let a person change this one",
)
RE_OWNS = _agent(
    "HRN304",
    "Agent changes who owns an entry",
    "Ownership is the base's: whoever could re-own an entry could then change it.",
    "owner: human -> owner: agent",
    "leave `owner` as it was",
)
CLAIMS_HUMAN = _agent(
    "HRN305",
    "Agent claims a human origin or owner",
    "Where a text comes from is computed by the writer, not told by the text.",
    "origin: human in an entry that the agent adds",
    "write origin: agent, or leave it to the writer",
)
CLAIMS_VERIFIED = _agent(
    "HRN306",
    "Agent claims verified without a passed gate",
    "`verified` means that a gate passed in the run the evidence comes from; the update's record says so.",
    "status: verified in an update whose record cites no passed gate",
    "write status: hypothesis",
)
POLICY = _agent(
    "HRN307",
    "Agent touches harness.toml",
    "Budgets, gates and review policy bind the agent; only people change them.",
    "M .harness/harness.toml by the agent's author",
    "let a person change it",
)
RECORDS = _agent(
    "HRN308",
    "Agent touches an existing record",
    "Records are the evidence of who let what in.",
    "M .harness/updates/2026-11/01J….json by the agent's author",
    "leave records alone",
)
UNRECORDED = _agent(
    "HRN309",
    "Agent's commit without a record",
    "A commit by hand is legal for people; an agent's update without its record has no evidence.",
    "A .harness/memory/x.md by the agent's author, nothing under updates/",
    "let `harnessctl refine` or the kernel's harness.propose make the proposal",
)
DISAGREES = Rule(
    "HRN310",
    "authority",
    Severity.WARNING,
    "Owner or origin disagrees with the author",
    "A person's new entry says it is the agent's, or the other way round: whoever reads it later would "
    "treat it so.",
    "A .harness/memory/x.md with owner: agent, by a person",
    "set owner and origin to who wrote it",
)

AUTHORITY_RULES: tuple[Rule, ...] = (
    DELETES, RENAMES, CHANGES, RE_OWNS, CLAIMS_HUMAN, CLAIMS_VERIFIED, POLICY, RECORDS, UNRECORDED, DISAGREES,
)  # fmt: skip

FORGED = Rule(
    "HRN401",
    "commit",
    Severity.ERROR,
    "Harness trailer that no record bears out",
    "`git log` shows trailers; they are a copy of the record that the commit brings, and nothing else.",
    "Harness-Update: 01J… in a commit without that record",
    "remove the Harness-* lines; harnessctl writes them",
)
ACCEPTED_BY_AGENT = Rule(
    "HRN402",
    "commit",
    Severity.ERROR,
    "Acceptance claimed by an agent",
    "Who let an update in is a person: the committer.",
    "Harness-Accepted-By: harnessctl agent <agent@harnessctl.invalid>",
    "let a person accept the proposal",
)

REWRITES = Rule(
    "HRN403",
    "commit",
    Severity.ERROR,
    "Harness history rewritten",
    "Pins and records name commits; history only grows, and an update is taken back by a new commit.",
    "push --force to refs/heads/harness",
    "fetch, and land on top of what is there; `harnessctl rollback` takes an update back",
)

COMMIT_RULES: tuple[Rule, ...] = (FORGED, ACCEPTED_BY_AGENT, REWRITES)
