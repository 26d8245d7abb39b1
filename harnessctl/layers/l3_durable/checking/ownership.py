"""Owner and origin of entries: set by the writer from who acts, compared with the base.

What an agent writes about itself counts for nothing: it owns what it creates, it may change only
what the base says an agent owns, and it claims ``verified`` only after a passed gate.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnessctl.domain.entry import SKILL_METADATA_PREFIX, Entry, EntryFile, Origin, Owner, Status
from harnessctl.domain.errors import RefusedError
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.domain.update import EntryEdit
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.files.frontmatter import FrontmatterError, parse, set_key
from harnessctl.layers.l3_durable.rules.commit_rules import CHANGES, CLAIMS_VERIFIED, DELETES


def read_entry(entry: EntryId, files: Sequence[EntryFile]) -> Entry | None:
    """The entry made of ``files``, None when there is none or its main file does not parse."""
    main = next((f for f in files if f.path == entry.path), None)
    if main is None:
        return None
    try:
        found = parse(main.data, main.path)
    except FrontmatterError:
        return None
    return Entry(entry, tuple(files), found.meta, found.body)


def owner_of(content: Content, entry: EntryId) -> Owner | None:
    """Who owns an entry at a commit; None when it is not there.

    An entry without a stated owner, or one that does not parse, is a human's: the safe side.
    """
    files = content.entry(entry)
    if not files:
        return None
    found = read_entry(entry, files)
    return (found.owner if found else None) or Owner.HUMAN


def agent_edit(base: Content, edit: EntryEdit, origin: Origin, *, may_verify: bool) -> EntryEdit:
    """``edit`` of an agent with owner and origin set.

    :param may_verify: a gate passed in the run that the edit stands on.
    :raises RefusedError: ``not_owner`` or ``claims_verified``.
    """
    if owner_of(base, edit.id) is Owner.HUMAN:
        raise RefusedError(
            f"{_rule(edit)}: {edit.id} is owned by a human; an agent may not {edit.action} it",
            id="not_owner",
            hint="propose a new entry, or let a person change this one",
        )
    if edit.action == "delete":
        return edit
    found = read_entry(edit.id, edit.files)
    if found is not None and found.status is Status.VERIFIED and not may_verify:
        raise RefusedError(
            f"{CLAIMS_VERIFIED.id}: {edit.id} claims to be verified, and no gate passed in its run",
            id="claims_verified",
            hint="propose it with status hypothesis",
        )
    return _with_keys(edit, {"owner": Owner.AGENT.value, "origin": _untrusted_first(origin)})


def _rule(edit: EntryEdit) -> str:
    return DELETES.id if edit.action == "delete" else CHANGES.id


def human_edit(base: Content | None, edit: EntryEdit) -> EntryEdit:
    """``edit`` of a person: what the file states stays; a missing owner is the base's, else human."""
    if edit.action == "delete":
        return edit
    found = read_entry(edit.id, edit.files)
    if found is None:
        return edit
    before = read_entry(edit.id, base.entry(edit.id)) if base else None
    keys = {}
    if found.owner is None:
        keys["owner"] = ((before.owner if before else None) or Owner.HUMAN).value
    if found.origin is None:
        keys["origin"] = Origin.HUMAN.value
    return _with_keys(edit, keys)


def _untrusted_first(origin: Origin) -> str:
    return Origin.UNTRUSTED.value if origin is Origin.UNTRUSTED else Origin.AGENT.value


def _with_keys(edit: EntryEdit, keys: dict[str, str]) -> EntryEdit:
    files = tuple(
        EntryFile(f.path, f.mode, _set(edit.id, f.data, keys)) if f.path == edit.id.path else f
        for f in edit.files
    )
    return EntryEdit(edit.id, edit.action, files)


def _set(entry: EntryId, data: bytes, keys: dict[str, str]) -> bytes:
    for key, value in keys.items():
        path = ("metadata", SKILL_METADATA_PREFIX + key) if entry.kind is Kind.SKILL else (key,)
        try:
            data = set_key(data, path, value)
        except FrontmatterError:
            return data  # does not parse: the load rules refuse it with the place
    return data
