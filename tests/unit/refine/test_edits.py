from __future__ import annotations

from typing import Any

import pytest

from harnessctl.domain.entry import Entry
from harnessctl.domain.update import EntryEdit
from harnessctl.layers.l3_durable.files.frontmatter import parse
from harnessctl.refine.edits import BuiltEdits, build_edits
from harnessctl.refine.reply import ReplyRejectedError, parse_reply
from tests.fakes.refining import edit, entry, reply, snapshot

AGENTS = entry(
    "memory/build",
    "---\ndescription: how to build # kept comment\nstatus: verified\nowner: agent\n---\nUse make.\n",
)
HUMANS = entry("memory/rules", "---\ndescription: house rules\nowner: human\n---\nBe kind.\n")
UNOWNED = entry("memory/old", "---\ndescription: nobody said whose\n---\nText.\n")
SKILL = entry(
    "skills/audit",
    "---\nname: audit\ndescription: audits\nmetadata:\n  harnessctl-owner: agent\n---\nSteps.\n",
    scripts__run="#!/bin/sh\necho 1\n",
)
HELPER = entry("subagents/reviewer", "---\ndescription: reviews\ntools: Read\nowner: agent\n---\nReview.\n")


def build(*edits: dict[str, Any], entries: tuple[Entry, ...] = (), verified: bool = False) -> BuiltEdits:
    return build_edits(parse_reply(reply(*edits)), snapshot(*entries), verified=verified)


def one(value: dict[str, Any], *entries: Entry, verified: bool = False) -> EntryEdit:
    (built,) = build(value, entries=entries, verified=verified).edits
    return built.edit


def refused(*edits: dict[str, Any], entries: tuple[Entry, ...] = ()) -> list[str]:
    with pytest.raises(ReplyRejectedError) as caught:
        build(*edits, entries=entries)
    return [str(p) for p in caught.value.problems]


def test_a_new_memory_is_written_whole() -> None:
    made = one(edit(title="Counting: files", content="Use `git ls-files`.\r\n\r\n"))
    assert made.action == "create"
    (file,) = made.files
    assert (file.path, file.mode) == ("memory/count-files.md", 0o100644)
    front = parse(file.data, "x")
    assert front.meta == {
        "description": "git ls-files lists what is tracked",
        "title": "Counting: files",
        "status": "hypothesis",
        "owner": "agent",
        "origin": "agent",
    }
    assert front.body == "Use `git ls-files`.\n"


def test_a_new_skill_keeps_our_keys_under_metadata_and_its_scripts_run() -> None:
    files = {"scripts/go.sh": "#!/bin/sh\n", "references/notes.md": "notes\n"}
    made = one(edit(kind="skill", name="audit", files=files))
    assert [(f.path, f.mode) for f in made.files] == [
        ("skills/audit/SKILL.md", 0o100644),
        ("skills/audit/references/notes.md", 0o100644),
        ("skills/audit/scripts/go.sh", 0o100755),
    ]
    meta = parse(made.files[0].data, "x").meta
    assert set(meta) == {"name", "description", "metadata"}
    assert meta["metadata"]["harnessctl-owner"] == "agent"


def test_an_update_changes_only_what_it_names() -> None:
    made = one(edit(action="update", name="build", description=None, content="Use uv.", status=None), AGENTS)
    text = made.files[0].data.decode()
    assert text == (
        "---\ndescription: how to build # kept comment\nstatus: hypothesis\nowner: agent\n---\nUse uv.\n"
    )


def test_an_update_without_text_keeps_the_text() -> None:
    value = edit(action="update", name="build", description="builds", content=None, status=None)
    assert one(value, AGENTS).files[0].data.endswith(b"status: verified\nowner: agent\n---\nUse make.\n")


def test_line_ends_of_the_file_stay() -> None:
    crlf = entry("memory/win", "---\r\ndescription: d\r\nowner: agent\r\n---\r\nold\r\n")
    made = one(edit(action="update", name="win", content="a\nb", description="e"), crlf)
    data = made.files[0].data
    assert data.count(b"\n") == data.count(b"\r\n")
    assert data.endswith(b"---\r\na\r\nb\r\n")


def test_an_updated_skill_keeps_its_other_files_and_modes() -> None:
    value = edit(action="update", kind="skill", name="audit", files={"references/a.md": "x"}, content="New.")
    made = one(value, SKILL)
    assert [f.path for f in made.files] == [
        "skills/audit/SKILL.md",
        "skills/audit/references/a.md",
        "skills/audit/scripts/run",
    ]
    assert parse(made.files[0].data, "x").meta["metadata"]["harnessctl-status"] == "hypothesis"


def test_a_deletion_has_no_files() -> None:
    value = edit(action="delete", name="build", content=None, description=None)
    assert one(value, AGENTS) == EntryEdit(AGENTS.id, "delete")


def test_the_listed_id_is_taken_for_a_name() -> None:
    assert str(one(edit(name="memory/count-files")).id) == "memory/count-files"
    assert str(one(edit(kind="prompt", name="prompts/uv")).id) == "prompts/uv"


def test_an_edit_that_changes_nothing_is_dropped_and_said() -> None:
    value = edit(
        action="update", name="build", description="how to build", content="Use make.", status="verified"
    )
    built = build(value, entries=(AGENTS,), verified=True)
    assert built.edits == ()
    assert built.notes == ("memory/build: dropped, it would change nothing",)


def test_verified_needs_a_passed_gate() -> None:
    value = edit(status="verified")
    built = build(value)
    assert b"status: hypothesis" in built.edits[0].edit.files[0].data
    assert "no gate" in built.notes[0]
    assert b"status: verified" in one(value, verified=True).files[0].data


@pytest.mark.parametrize("action", ["create", "update", "delete"])
@pytest.mark.parametrize(("name", "owned"), [("rules", HUMANS), ("old", UNOWNED)])
def test_a_humans_entry_is_out_of_bounds(action: str, name: str, owned: Entry) -> None:
    (said,) = refused(edit(action=action, name=name), entries=(owned,))
    assert said == f"edits[0].name: memory/{name} belongs to a human and may not be changed"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (edit(name="build"), "exists already; use 'update'"),
        (edit(action="update", name="nowhere"), "does not exist"),
        (edit(action="delete", name="nowhere"), "does not exist"),
        (edit(kind="prompt", name="a/b"), "only memory may nest"),
        (edit(description="  "), "edits[0].description: needed"),
        (edit(content="\n"), "edits[0].content: needed"),
        (edit(content="---\ndescription: x\n---\ny"), "frontmatter is written from the other keys"),
        (edit(files={"a.md": "x"}), "only a skill has files"),
        (edit(kind="skill", name="double--dash"), "the entry's name does not match"),
        (edit(description="x" * 1025), "the entry's description must have at most 1024"),
    ],
)
def test_what_cannot_be_written_is_named(value: dict[str, Any], said: str) -> None:
    (found,) = refused(value, entries=(AGENTS,))
    assert said in found


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a//b", "./a", "SKILL.md", "skill.MD", "a\\b", ".git/x", "a\nb", ""]
)
def test_files_stay_in_the_skills_folder(path: str) -> None:
    (said,) = refused(edit(kind="skill", name="audit2", files={path: "x"}))
    assert "edits[0].files" in said


def test_all_problems_are_told_at_once() -> None:
    said = refused(edit(name="rules"), edit(action="update", name="nowhere"), entries=(HUMANS,))
    assert len(said) == 2


def test_two_edits_of_one_entry_are_refused() -> None:
    assert "edited twice" in refused(edit(), edit())[0]


def test_an_entry_that_cannot_be_read_is_not_written_over() -> None:
    broken = snapshot(AGENTS)
    broken = type(broken)(files=broken.files)
    with pytest.raises(ReplyRejectedError, match="cannot be read"):
        build_edits(parse_reply(reply(edit(name="build"))), broken, verified=False)


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (edit(), ()),
        (edit(evidence=None, events=[5]), ("HRN707",)),
        (edit(kind="prompt"), ("HRN701",)),
        (edit(kind="subagent"), ("HRN702",)),
        (edit(kind="subagent", action="update", name="reviewer"), ("HRN702",)),
        (edit(kind="skill"), ("HRN704",)),
        (edit(kind="skill", files={"scripts/a.py": "1"}), ("HRN704", "HRN705")),
        (edit(kind="skill", files={"references/a.md": "1"}), ("HRN704",)),
        (edit(kind="skill", action="update", name="audit", files={"scripts/run": "2"}), ("HRN704", "HRN705")),
        (edit(kind="skill", action="update", name="audit"), ("HRN704",)),
        (edit(action="delete", name="build"), ("HRN706",)),
    ],
)
def test_risk_rules_follow_what_changes(value: dict[str, Any], rules: tuple[str, ...]) -> None:
    (built,) = build(value, entries=(AGENTS, SKILL, HELPER)).edits
    assert tuple(rule.id for rule in built.rules) == rules
