"""The refiner's edits as files: what each entry should be afterwards, byte for byte.

A new entry is written whole. An entry that stands is changed in place: single keys of its
frontmatter, and its text only where the reply gives one. What an agent may not change, and what
would change nothing, is sorted out here; the writer checks all of it again on the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harnessctl.domain.entry import SKILL_METADATA_PREFIX, Entry, EntryFile, Origin, Owner, Status
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.ids import SKILL_FILE, EntryId, Kind
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.update import EntryEdit
from harnessctl.layers.l3_durable.files.frontmatter import emit, parse, set_key
from harnessctl.layers.l3_durable.files.schema import validate
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE
from harnessctl.layers.l3_durable.rules.risk_rules import NO_QUOTE, RiskRule
from harnessctl.refine.evidence import plain_lines
from harnessctl.refine.prompt import is_agents
from harnessctl.refine.reply import Edit, Problem, Reply, ReplyRejectedError
from harnessctl.refine.risk import rules_of

SCRIPTS = "scripts/"


@dataclass(frozen=True)
class BuiltEdit:
    """One edit ready for the writer, with the reply's edit it comes from."""

    edit: EntryEdit
    source: Edit
    rules: tuple[RiskRule, ...]


@dataclass(frozen=True)
class BuiltEdits:
    """All edits of a reply that change something; ``notes`` tell what was dropped or toned down."""

    edits: tuple[BuiltEdit, ...]
    notes: tuple[str, ...] = ()


def build_edits(reply: Reply, snapshot: Snapshot, *, verified: bool) -> BuiltEdits:
    """Edits of ``reply`` over ``snapshot``.

    :param verified: the session's gates passed; otherwise ``verified`` is written ``hypothesis``.
    :raises ReplyRejectedError: an edit of what is not there, not the agent's, or not well named;
        all such problems at once.
    """
    built: list[BuiltEdit] = []
    notes: list[str] = []
    problems: list[Problem] = []
    seen: set[EntryId] = set()
    for source in reply.edits:
        try:
            entry_id = _id_of(source)
            if entry_id in seen:
                raise _wrong(source, "name", f"{entry_id} is edited twice in one reply; give one edit")
            seen.add(entry_id)
            edit, said = _build(source, entry_id, snapshot, verified)
        except ReplyRejectedError as error:
            problems.extend(error.problems)
            continue
        notes.extend(f"{entry_id}: {note}" for note in said)
        if edit is not None:
            problems.extend(_frontmatter_problems(source, edit))
            rules = rules_of(edit, snapshot.entries.get(str(entry_id)), tools_of(edit))
            rules += [] if any(c.quote.strip() for c in source.evidence) else [NO_QUOTE]
            built.append(BuiltEdit(edit, source, tuple(rules)))
    if problems:
        raise ReplyRejectedError(tuple(problems))
    return BuiltEdits(tuple(built), tuple(notes))


def _wrong(edit: Edit, key: str, message: str) -> ReplyRejectedError:
    return ReplyRejectedError((Problem(f"{edit.path}.{key}", message),))


def _id_of(edit: Edit) -> EntryId:
    """The entry meant. The id as entries are listed (``memory/x``) is taken for a name too."""
    name = edit.name.removeprefix(f"{edit.kind.directory}/").removeprefix(f"{edit.kind.value}/")
    try:
        return EntryId.parse(f"{edit.kind.directory}/{name}")
    except UsageError as error:
        raise _wrong(edit, "name", f"{error.message}: {error.hint}") from None


def _build(
    edit: Edit, entry_id: EntryId, snapshot: Snapshot, verified: bool
) -> tuple[EntryEdit | None, list[str]]:
    before = snapshot.entries.get(str(entry_id))
    if before is None and _stands(entry_id, snapshot):
        raise _wrong(edit, "name", f"{entry_id} stands but cannot be read; people have to mend it first")
    if before is not None and not is_agents(before):
        raise _wrong(edit, "name", f"{entry_id} belongs to a human and may not be changed")
    if edit.action == "create":
        if before is not None:
            raise _wrong(edit, "action", f"{entry_id} exists already; use 'update'")
        return _create(edit, entry_id, verified)
    if before is None:
        raise _wrong(edit, "action", f"{entry_id} does not exist; use 'create' or leave it out")
    if edit.action == "delete":
        return EntryEdit(entry_id, "delete"), []
    return _update(edit, before, verified)


def _stands(entry_id: EntryId, snapshot: Snapshot) -> bool:
    folder = entry_id.path.removesuffix(SKILL_FILE) if entry_id.kind is Kind.SKILL else None
    return any(
        path == entry_id.path or (folder is not None and path.startswith(folder))
        for path, _, _ in snapshot.files
    )


def _create(edit: Edit, entry_id: EntryId, verified: bool) -> tuple[EntryEdit, list[str]]:
    description = _one_line(edit.description)
    for key, value in (("description", description), ("content", (edit.content or "").strip())):
        if not value:
            raise _wrong(edit, key, f"needed to create {entry_id}")
    status, notes = _status(edit.status or Status.HYPOTHESIS, verified)
    own = {"title": _one_line(edit.title), "status": status, "owner": Owner.AGENT, "origin": Origin.AGENT}
    texts = {key: str(value) for key, value in own.items() if value}
    meta: dict[str, Any] = {"description": description, **texts}
    if entry_id.kind is Kind.SKILL:
        metadata = {SKILL_METADATA_PREFIX + key: value for key, value in texts.items()}
        meta = {"name": entry_id.name, "description": description, "metadata": metadata}
    main = EntryFile(entry_id.path, FILE, emit(meta, _body(edit)))
    return EntryEdit(entry_id, "create", _sorted({main.path: main, **_files(edit, entry_id)})), notes


def _update(edit: Edit, before: Entry, verified: bool) -> tuple[EntryEdit | None, list[str]]:
    data = before.main.data
    wanted = {"description": _one_line(edit.description), "title": _one_line(edit.title)}
    new_text = edit.content is not None and bool(edit.content.strip())
    claimed = edit.status or (before.own("status") if new_text else "")
    wanted["status"], notes = _status(claimed, verified)
    try:
        for key, value in wanted.items():
            if value and value != before.own(key):
                data = set_key(data, _key_path(before.id.kind, key), value)
    except HarnessError as error:
        raise _wrong(edit, "action", f"{before.id} cannot be changed in place: {error.message}") from None
    if new_text:
        data = _with_body(data, _body(edit), before.main.path)
    files = {file.path: file for file in before.files}
    files[before.main.path] = replace(before.main, data=data)
    files |= _files(edit, before.id, files)
    result = _sorted(files)
    if result == before.files:
        return None, [*notes, "dropped, it would change nothing"]
    return EntryEdit(before.id, "update", result), notes


def _status(claimed: str, verified: bool) -> tuple[str, list[str]]:
    if claimed == Status.VERIFIED and not verified:
        return Status.HYPOTHESIS.value, ["written as a hypothesis, since no gate of the session passed"]
    return str(claimed), []


def _key_path(kind: Kind, key: str) -> tuple[str, ...]:
    if kind is Kind.SKILL and key != "description":
        return ("metadata", SKILL_METADATA_PREFIX + key)
    return (key,)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _body(edit: Edit) -> str:
    text = plain_lines(edit.content or "").strip("\n")
    if text.lstrip().startswith("---\n"):
        raise _wrong(edit, "content", "give the text only; the frontmatter is written from the other keys")
    return text + "\n"


def _with_body(data: bytes, body: str, path: str) -> bytes:
    front = parse(data, path)
    head = data[: len(data) - len(front.body.encode())]
    newline = "\r\n" if front.crlf else "\n"
    if not head.endswith(b"\n"):
        head += newline.encode()
    return head + body.replace("\n", newline).encode()


def _files(
    edit: Edit, entry_id: EntryId, before: Mapping[str, EntryFile] | None = None
) -> dict[str, EntryFile]:
    if edit.files and entry_id.kind is not Kind.SKILL:
        raise _wrong(edit, "files", "only a skill has files beside its text")
    files: dict[str, EntryFile] = {}
    for name, text in edit.files.items():
        if not _is_plain_path(name):
            raise _wrong(edit, "files", f"'{name[:80]}' is not a path below the skill's folder")
        path = entry_id.path.removesuffix(SKILL_FILE) + name
        old = (before or {}).get(path)
        runs = name.startswith(SCRIPTS) and text.startswith("#!")
        mode = old.mode if old else EXECUTABLE if runs else FILE
        files[path] = EntryFile(path, mode, text.encode())
    return files


def _is_plain_path(name: str) -> bool:
    """Below the folder and not its ``SKILL.md``; which names are allowed is the load rules' business."""
    parts = name.split("/")
    plain = all(part not in ("", ".", "..") and not part.startswith(".git") for part in parts)
    return plain and "\\" not in name and name.isprintable() and name.lower() != SKILL_FILE.lower()


def _sorted(files: Mapping[str, EntryFile]) -> tuple[EntryFile, ...]:
    return tuple(files[path] for path in sorted(files))


def _frontmatter_problems(source: Edit, edit: EntryEdit) -> list[Problem]:
    """What the kind's schema says to the result, early enough for the model to mend it."""
    if not edit.files:
        return []
    main = Entry(edit.id, edit.files).main
    found = validate(edit.id.kind.value, parse(main.data, main.path).meta)
    return [Problem(source.path, f"the entry's {p.path or 'frontmatter'} {p.message}") for p in found]


def tools_of(edit: EntryEdit) -> tuple[str, ...]:
    """The tools that a subagent may use after ``edit``; empty for all, and for other kinds."""
    if edit.id.kind is not Kind.SUBAGENT or not edit.files:
        return ()
    main = Entry(edit.id, edit.files).main
    return Entry(edit.id, edit.files, parse(main.data, main.path).meta).own_list("tools")
