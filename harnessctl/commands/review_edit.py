"""``review edit``: a person changes what a proposal proposes, in an editor, before it lands."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harnessctl.commands.drafts import Draft, held, home_of, lay_out, save, seen_in
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.layers.l3_durable.landing.adding import refuse_large
from harnessctl.layers.l3_durable.landing.proposals import Proposal
from harnessctl.layers.l3_durable.landing.reworking import Reworked, editable, nothing_changed
from harnessctl.layers.l3_durable.places.actor import refuse_agents
from harnessctl.layers.l3_durable.places.names import PROPOSALS
from harnessctl.layers.l3_durable.rules.load_rules import MAX_OTHER_FILE
from harnessctl.layers.l3_durable.store import HarnessStore

EDITS = "edits"
#: In what a draft was laid out from: before the tip on which a conflict is settled.
_ON = " on "

#: Opens files for the user and waits; raises when that failed.
OpenEditor = Callable[[tuple[Path, ...]], None]


@contextmanager
def editing_draft(store: HarnessStore, prefix: str) -> Iterator[Draft[Proposal]]:
    """:func:`open_draft`, with the text held against other terminals as long as this lasts.

    :raises ConflictError: ``draft_open``: it is edited in another terminal.
    """
    refuse_agents(store.place.environment, "review edit")
    proposal = store.proposal(prefix)
    with held(_home(store, proposal), f"proposal {proposal.id}"):
        yield open_draft(store, proposal.id)


def open_draft(store: HarnessStore, prefix: str) -> Draft[Proposal]:
    """The files of the proposal whose id starts with ``prefix``, laid out or as they were left.

    :raises NotFoundError: ``no_proposal``.
    :raises HarnessError: ``no_text``: it only deletes.
    :raises RefusedError: ``agent_refused``.
    """
    refuse_agents(store.place.environment, "review edit")
    proposal = store.proposal(prefix)
    home = _home(store, proposal)
    commit, _, begun_on = seen_in(home).partition(_ON)
    made = editable(store.writer, proposal, begun_on if commit == proposal.commit else "")
    if not made.files:
        raise HarnessError(
            f"{proposal.id} only deletes: there is no text to edit",
            id="no_text",
            hint=f"harnessctl review accept {proposal.id} takes it as it is, "
            f"harnessctl review reject {proposal.id} ends it",
        )
    seen = proposal.commit if made.base == proposal.base else f"{proposal.commit}{_ON}{made.base}"
    return lay_out(proposal, home, seen, made.files)


def settles(draft: Draft[Proposal]) -> bool:
    """Whether the text holds what the branch and the proposal both say, to be settled by a person."""
    return _ON in draft.seen


def save_draft(store: HarnessStore, draft: Draft[Proposal]) -> Reworked:
    """Make the proposal what the draft's files say; the draft goes.

    :raises ConflictError: ``moved_ref``: it was changed or decided meanwhile; the text is set aside.
    :raises HarnessError: what is wrong with the text: it stays. The hint says where the text is.
    """
    proposal, ref = draft.of, PROPOSALS + draft.of.id
    commit, _, onto = draft.seen.partition(_ON)

    def land(files: tuple[EntryFile, ...]) -> Reworked:
        if onto and draft.is_begun(files):  # an editor that was left without a choice
            raise nothing_changed()
        for file in files:
            refuse_large(file.path, file.data, MAX_OTHER_FILE)
        return store.edit_proposal(proposal, files, onto)

    return save(
        draft,
        f"harnessctl review edit {proposal.id}",
        land,
        lambda _: store.repository.refs.read(ref) != commit,
    )


def _home(store: HarnessStore, proposal: Proposal) -> Path:
    return home_of(store.state_dir / EDITS, proposal.id)


def editor(command: str, screen: int | None = None) -> OpenEditor:
    """Opens files with the user's editor ``command`` (words as a shell would split them).

    :param screen: descriptor that the editor draws on, None for our own stdout.
    """

    def run(paths: tuple[Path, ...]) -> None:
        try:
            words = shlex.split(command)
            if not words:  # the text itself would be run
                raise ValueError("it names no program")
            done = subprocess.run([*words, *map(str, paths)], stdout=screen, check=False)
        except (OSError, ValueError) as error:
            why = (isinstance(error, OSError) and error.strerror) or str(error)
            raise UsageError(
                f"the editor '{command}' cannot be started: {why}",
                id="no_editor",
                hint="set VISUAL or EDITOR",
            ) from error
        if done.returncode != 0:
            folders = [path.parent for path in paths]
            kept = f"the text is kept in {os.path.commonpath(folders)}; " if folders else ""
            raise HarnessError(
                f"the editor '{command}' ended with exit status {done.returncode}; nothing was changed",
                id="editor_failed",
                hint=f"{kept}the same command goes on with it",
            )

    return run
