"""``edit``: a person changes an entry in an editor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harnessctl.commands.drafts import Draft, gone, held, home_of, lay_out, save
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.layers.l3_durable.content import entry_digest
from harnessctl.layers.l3_durable.files.tree import FILE
from harnessctl.layers.l3_durable.landing.adding import Addition, refuse_large
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.places.actor import refuse_agents
from harnessctl.layers.l3_durable.store import HarnessStore

DRAFTS = "drafts"


@contextmanager
def editing(store: HarnessStore, entry: str) -> Iterator[Draft[EntryId]]:
    """:func:`open_entry`, with the text held against other terminals as long as this lasts.

    :raises ConflictError: ``draft_open``: it is edited in another terminal.
    """
    refuse_agents(store.place.environment, "edit")
    wanted = EntryId.parse(entry)
    with held(_home(store, wanted), str(wanted)):
        yield open_entry(store, entry)


def open_entry(store: HarnessStore, entry: str) -> Draft[EntryId]:
    """The main file of ``entry``, or a beginning for a new one, laid out to be edited or as it was left.

    :raises ConflictError: in-tree, ``uncommitted``: the work tree has changes of it.
    :raises UsageError: ``bad_entry_id``, ``no_identity``.
    :raises RefusedError: ``agent_refused``.
    """
    refuse_agents(store.place.environment, "edit")
    store.check_identity()
    wanted = EntryId.parse(entry)
    files = store.editable(wanted)
    main = next((f.data for f in files if f.path == wanted.path), _beginning(wanted))
    return lay_out(
        wanted,
        _home(store, wanted),
        entry_digest(files) or "",
        (EntryFile(_file_name(wanted), FILE, main),),
    )


def entry_path(draft: Draft[EntryId]) -> Path:
    """The file to edit."""
    return draft.folder / _file_name(draft.of)


def save_entry(store: HarnessStore, draft: Draft[EntryId], *, summary: str = "", why: str = "") -> Landed:
    """Land the draft's text; the draft goes.

    :raises ConflictError: ``conflict``: somebody changed the entry meanwhile; the text is set aside.
    :raises HarnessError: ``nothing_changed``, ``draft_gone``; what is wrong with the text: it stays. The
        hint says where the text is.
    """
    entry, verb = draft.of, f"harnessctl edit {draft.of}"

    def land(files: tuple[EntryFile, ...]) -> Landed:
        # An editor may leave files of its own beside the text.
        text = next((f.data for f in files if f.path == _file_name(entry)), None)
        if text is None:
            raise gone(entry_path(draft), verb)
        if draft.is_begun((EntryFile(_file_name(entry), FILE, text),)):
            raise HarnessError(
                f"the text of {entry} was left as it was; nothing was written", id="nothing_changed"
            )
        main = EntryFile(entry.path, FILE, refuse_large(entry.path, text))
        return store.add(Addition(entry, (main,), summary, why, seen=draft.seen))

    return save(draft, verb, land, lambda error: error.id == "conflict")


def _home(store: HarnessStore, entry: EntryId) -> Path:
    return home_of(store.state_dir / DRAFTS, str(entry))


def _file_name(entry: EntryId) -> str:
    return PurePosixPath(entry.path).name


def _beginning(entry: EntryId) -> bytes:
    name = f"name: {entry.name}\n" if entry.kind is Kind.SKILL else ""
    return f'---\n{name}description: ""\n---\n'.encode()
