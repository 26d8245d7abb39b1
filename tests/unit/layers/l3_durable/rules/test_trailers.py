from __future__ import annotations

from harnessctl.domain.ids import new_ulid
from harnessctl.domain.update import Actor, Evidence, Record, RecordType
from harnessctl.layers.l3_durable.files.message import commit_message
from harnessctl.layers.l3_durable.git.repository import Person
from harnessctl.layers.l3_durable.rules.trailers import check_message, strip_comments, trailers

AGENTS = ["agent@harnessctl.invalid"]
ADA = Person("Ada", "ada@example.com", 0)
RECORD = Record(
    RecordType.UPDATE,
    new_ulid(),
    Actor("agent", "a"),
    "1" * 40,
    "prefer the lock file",
    why="Harness-Update: not a trailer here",
    model="openai/x",
    evidence=(Evidence(new_ulid(), 9, "2" * 64, (3, 4, 7)),),
)


def rules(message: str, *records: Record) -> list[str]:
    return [f.rule for f in check_message(message, records, AGENTS)]


def test_what_the_writer_writes_passes() -> None:
    assert rules(commit_message(RECORD), RECORD) == []
    assert rules(commit_message(RECORD, ADA), RECORD) == []


def test_every_harness_trailer_must_be_the_records() -> None:
    message = commit_message(RECORD)
    harness = [line for line in message.splitlines() if line.startswith("Harness-")]
    assert len(trailers(message)) == len(harness) > 3
    for line in harness:
        assert rules(message.replace(line, line + "0"), RECORD) == ["HRN401"]
        assert "HRN401" in rules(message.replace(line, line.upper() + "x"), RECORD)
    assert rules(message) == ["HRN401"] * len(harness), "no record at all"


def test_squashed_commits_keep_the_trailers_of_each_record() -> None:
    other = Record(RecordType.UPDATE, new_ulid(), Actor("human", "b"), "", "other")
    both = commit_message(RECORD).rstrip() + "\n" + commit_message(other).split("\n\n")[-1]
    assert rules(both, RECORD, other) == []
    assert "HRN401" in rules(both, RECORD)


def test_an_agent_does_not_accept() -> None:
    agent = Person("harnessctl agent", "Agent@Harnessctl.invalid", 0)
    assert rules(commit_message(RECORD, agent), RECORD) == ["HRN402"]
    assert rules("x\n\nHarness-Accepted-By: Ada <ada@example.com>") == ["HRN401"]


def test_only_the_last_paragraph_holds_trailers() -> None:
    assert rules("Subject\n\nHarness-Update: quoted\n\nSigned-off-by: A <a@b.c>\n") == []
    assert rules("Harness-Update: a subject") == []
    assert rules("Subject\n\n  Harness-Update: indented") == []


def test_a_message_file_is_read_as_git_reads_it() -> None:
    for sign in ("#", ";"):
        scissors = f"{sign} {'-' * 24} >8 {'-' * 24}\n"
        file = f"Subject\n\nBody\n{sign} Harness-Update: a comment\n{scissors}Harness-Update: below\n"
        assert strip_comments(file, sign).strip() == "Subject\n\nBody"
    assert strip_comments("a\n#b\n", "auto") == "a\n"
