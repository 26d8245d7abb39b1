"""``review edit``: a person changes what a proposal proposes, in an editor, before it lands.

The files lie in the state directory while they are edited. They go when the proposal took them; until
then, after a refusal or a crash of the editor, they stay, and the next call goes on with them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.layers.l3_durable.landing.proposals import Proposal
from harnessctl.layers.l3_durable.landing.reworking import Reworked, proposed_files
from harnessctl.layers.l3_durable.places.actor import refuse_agents
from harnessctl.layers.l3_durable.store import HarnessStore

EDITS = "edits"

#: Opens files for the user and waits; raises when that failed.
OpenEditor = Callable[[tuple[Path, ...]], None]


@dataclass(frozen=True)
class Draft:
    """A proposal's files as they lie in ``folder``.

    :ivar resumed: they were left there by an earlier call.
    """

    proposal: Proposal
    folder: Path
    resumed: bool

    def paths(self) -> tuple[Path, ...]:
        """The files, sorted."""
        return tuple(sorted(p for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()))

    def read(self) -> tuple[EntryFile, ...]:
        """The files with the modes they were proposed with; a new one under ``scripts/`` as it is."""
        found = []
        for path in self.paths():
            name = path.relative_to(self.folder).as_posix()
            mode = 0o100755 if path.stat().st_mode & 0o100 else 0o100644
            found.append(EntryFile(name, mode, path.read_bytes()))
        return tuple(found)


def open_draft(store: HarnessStore, prefix: str) -> Draft:
    """The files of the proposal whose id starts with ``prefix``, laid out or as they were left.

    :raises NotFoundError: ``no_proposal``.
    :raises RefusedError: ``agent_refused``.
    """
    refuse_agents(store.place.environment, "review edit")
    proposal = store.proposal(prefix)
    folder = store.state_dir / EDITS / proposal.id
    if folder.is_dir() and any(folder.rglob("*")):
        return Draft(proposal, folder, resumed=True)
    for file in proposed_files(store.writer, proposal):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(file.data)
        path.chmod(0o700 if file.mode == 0o100755 else 0o600)
    return Draft(proposal, folder, resumed=False)


def save_draft(store: HarnessStore, draft: Draft) -> Reworked:
    """Make the proposal what the draft's files say; the draft goes.

    :raises HarnessError: what is wrong with the text; the files stay, and the hint says where.
    """
    try:
        done = store.edit_proposal(draft.proposal, draft.read())
    except HarnessError as error:
        if error.id == "nothing_changed":
            shutil.rmtree(draft.folder)
            raise
        kept = (
            f"your text is kept in {draft.folder}; harnessctl review edit {draft.proposal.id} goes on with it"
        )
        error.hint = f"{error.hint}; {kept}" if error.hint else kept
        raise
    shutil.rmtree(draft.folder)
    return done


def drop_draft(draft: Draft) -> None:
    """Forget the files of a draft that was only just laid out."""
    if not draft.resumed:
        shutil.rmtree(draft.folder, ignore_errors=True)


def editor(command: str) -> OpenEditor:
    """Opens files with the user's editor ``command`` (words as a shell would split them)."""

    def run(paths: tuple[Path, ...]) -> None:
        words = shlex.split(command)
        try:
            done = subprocess.run([*words, *map(str, paths)], check=False)
        except (OSError, IndexError) as error:
            raise UsageError(
                f"the editor '{command}' cannot be started", id="no_editor", hint="set VISUAL or EDITOR"
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
