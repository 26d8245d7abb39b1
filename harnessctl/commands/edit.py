"""``edit``: a person changes an entry in an editor.

The text lies in the state directory while it is edited. It goes when it has landed; until then, after a
refusal or a crash of the editor, it stays, and the next call goes on with it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.layers.l3_durable.content import entry_digest
from harnessctl.layers.l3_durable.files.tree import FILE
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.places.actor import refuse_agents
from harnessctl.layers.l3_durable.store import HarnessStore

DRAFTS = "drafts"
SEEN = "seen.json"


@dataclass(frozen=True)
class EntryDraft:
    """An entry's main file as it lies in ``folder`` to be edited.

    :ivar seen: digest of the entry when it was laid out, "" for a new one.
    :ivar resumed: the text was left there by an earlier call.
    """

    entry: EntryId
    folder: Path
    seen: str
    resumed: bool

    @property
    def path(self) -> Path:
        """The file to edit."""
        return self.folder / Path(self.entry.path).name


def open_entry(store: HarnessStore, entry: str) -> EntryDraft:
    """The main file of ``entry`` as landed, or a beginning for a new one, laid out to be edited.

    :raises UsageError: ``bad_entry_id``, ``no_identity``.
    :raises RefusedError: ``agent_refused``.
    """
    refuse_agents(store.place.environment, "edit")
    store.check_identity()
    wanted = EntryId.parse(entry)
    folder = store.state_dir / DRAFTS / str(wanted).replace("/", "+")
    if (folder / SEEN).exists():
        return EntryDraft(wanted, folder, json.loads((folder / SEEN).read_bytes())["seen"], resumed=True)
    files = store.editable(wanted)
    seen = entry_digest(files) or ""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = EntryDraft(wanted, folder, seen, resumed=False)
    main = next((f.data for f in files if f.path == wanted.path), _beginning(wanted))
    draft.path.write_bytes(main)
    (folder / SEEN).write_text(json.dumps({"seen": seen}))
    return draft


def save_entry(store: HarnessStore, draft: EntryDraft, *, summary: str = "", why: str = "") -> Landed:
    """Land the draft's text; the draft goes.

    :raises ConflictError: ``conflict``: somebody changed the entry meanwhile; the text stays.
    :raises HarnessError: what is wrong with the text; it stays, and the hint says where.
    """
    file = EntryFile(draft.entry.path, FILE, draft.path.read_bytes())
    try:
        done = store.add(Addition(draft.entry, (file,), summary, why, seen=draft.seen))
    except HarnessError as error:
        if error.id == "nothing_changed":
            drop_entry(draft)
            raise
        kept = f"your text is kept in {draft.path}"
        if error.id == "conflict":
            # What they saw is gone: the next call starts from the entry as it is now.
            (draft.folder / SEEN).unlink()
        else:
            kept += f"; harnessctl edit {draft.entry} goes on with it"
        error.hint = f"{error.hint}; {kept}" if error.hint else kept
        raise
    drop_entry(draft)
    return done


def drop_entry(draft: EntryDraft) -> None:
    """Forget the draft."""
    shutil.rmtree(draft.folder, ignore_errors=True)


def _beginning(entry: EntryId) -> bytes:
    name = f"name: {entry.name}\n" if entry.kind is Kind.SKILL else ""
    return f'---\n{name}description: ""\n---\n'.encode()
