"""Texts that a person edits, as they lie in the state directory meanwhile.

A draft is one folder: the files below ``text/``, and beside them what they were laid out from. It comes
by one rename, so that no call meets half of one, and goes when its text has landed; until then, after a
refusal or a crash of the editor, it stays, and the next call goes on with it. A text whose beginning
changed meanwhile is set aside under a name that no draft ever has: nothing overwrites it. While an
editor has a draft open, its process holds the draft: two editors on one file lose one's text.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.ids import new_ulid
from harnessctl.domain.plain_files import opened, read_small
from harnessctl.layers.l3_durable.content import entry_digest
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE
from harnessctl.layers.l3_durable.git.turns import NotYoursError, holding
from harnessctl.layers.l3_durable.rules.load_rules import MAX_OTHER_FILE

TEXT = "text"
SEEN = "seen.json"
#: Ids of errors that another edit of the same draft would not mend.
FINAL = ("nothing_changed", "draft_gone", "conflict", "moved_ref", "uncommitted")

#: In no id: between a draft's name and what else the name of its folder says.
_MARK = "++"
#: Characters up to which a folder is named by the whole id; file systems take 255.
_LONGEST = 128

Of = TypeVar("Of")
Saved = TypeVar("Saved")


@dataclass(frozen=True)
class Draft(Generic[Of]):
    """Files as they lie in ``home`` to be edited.

    :ivar of: what is edited: an entry, a proposal.
    :ivar seen: what they were laid out from: it is compared when they are saved.
    :ivar begun: digest of the files as they were laid out.
    :ivar resumed: the text was left there by an earlier call.
    :ivar aside: an earlier text that was laid out from something else, where it was put.
    """

    of: Of
    home: Path
    seen: str
    begun: str
    resumed: bool = False
    aside: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of the files to edit."""
        return self.home / TEXT

    def paths(self) -> tuple[Path, ...]:
        """The files, sorted."""
        return tuple(sorted(p for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()))

    @property
    def named(self) -> Path:
        """How messages name the text: by its file, where it is one."""
        return _named(self.folder)

    def read(self) -> tuple[EntryFile, ...]:
        """The files as they are now; executable are those that their owner may execute.

        Of one that is too large for any entry no more is read than it takes to see that.

        :raises HarnessError: ``not_a_file``: something else stands where a file would be read; passed over,
            it would look like the wish to delete the file.
        """
        found = []
        for path in sorted(self.folder.rglob("*")):
            plain = not path.is_symlink() and (path.is_file() or path.is_dir())
            if not plain and not path.name.startswith(".#"):  # so editors mark what they have open
                raise HarnessError(
                    f"{path} is no plain file",
                    id="not_a_file",
                    hint="put a file with the text in its place, or remove it to delete the entry's file",
                )
        for path in self.paths():
            mode = EXECUTABLE if path.stat().st_mode & 0o100 else FILE
            with open(opened(path), "rb") as file:
                data = file.read(MAX_OTHER_FILE + 1)
            found.append(EntryFile(path.relative_to(self.folder).as_posix(), mode, data))
        return tuple(found)

    def is_begun(self, files: Sequence[EntryFile]) -> bool:
        """Whether ``files`` are what was laid out."""
        return _digest(files) == self.begun

    def drop(self) -> None:
        """Forget the files."""
        shutil.rmtree(self.home, ignore_errors=True)


def home_of(folder: Path, name: str) -> Path:
    """The draft's folder for an id: its own for each, and no longer than a file system takes."""
    flat = name.replace("/", "+")
    return folder / (flat if len(flat) <= _LONGEST else f"{flat[:60]}{_MARK}{sha256_hex(name.encode())}")


@contextmanager
def held(home: Path, what: str) -> Iterator[None]:
    """Keep the draft in ``home`` from every other process while an editor has it open.

    The lock is a file beside the folder, because the folder itself comes and goes; the death of the process
    releases it.

    :param what: what is edited, for the message.
    :raises ConflictError: ``draft_open``: another process has it open.
    """
    lock = home.with_name(f"{home.name}{_MARK}lock")
    home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(holding(lock, 0))
            # Removed by who held it, between our opening it and our turn: the next call makes a new one.
            if not lock.exists() or not os.path.samestat(os.fstat(handle), lock.stat()):
                raise NotYoursError(str(lock))
        except (NotYoursError, FileNotFoundError) as error:
            raise ConflictError(
                f"{what} is being edited in another terminal",
                id="draft_open",
                hint="save it there and close the editor, then call this again",
            ) from error
        stack.callback(lock.unlink, missing_ok=True)
        yield


def seen_in(home: Path) -> str:
    """What the draft in ``home`` was laid out from, "" where there is none."""
    draft = _found(None, home)
    return draft.seen if draft is not None else ""


def lay_out(of: Of, home: Path, seen: str, files: Sequence[EntryFile]) -> Draft[Of]:
    """The draft left in ``home`` if it was laid out from ``seen``, else ``files`` laid out anew."""
    left = _left(of, home, seen)
    if left is not None:
        return left
    aside = _set_aside(home)
    home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Draft(of, Path(tempfile.mkdtemp(dir=home.parent, prefix=_MARK)), seen, _digest(files))
    try:
        made.folder.mkdir()
        for file in files:
            path = made.folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
            path.chmod(0o700 if file.mode == EXECUTABLE else 0o600)
        (made.home / SEEN).write_text(json.dumps({"seen": seen, "begun": made.begun}))
        made.home.rename(home)
    except OSError:
        made.drop()
        left = _left(of, home, seen)  # another call was faster: two terminals then edit one text
        if left is None:
            raise
        return left
    return Draft(of, home, seen, made.begun, aside=aside)


def save(
    draft: Draft[Of],
    verb: str,
    land: Callable[[tuple[EntryFile, ...]], Saved],
    is_stale: Callable[[HarnessError], bool],
) -> Saved:
    """What ``land`` gives for the draft's files; the draft goes.

    :param verb: the command that goes on with the draft.
    :param is_stale: whether, after an error, what the files were laid out from is no longer what is there:
        the next call then begins anew, so the text is set aside.
    :raises HarnessError: ``draft_gone``; what ``land`` raises: the text stays, and the hint says where.
    """
    if not draft.folder.is_dir():
        raise gone(draft.folder, verb)
    try:
        files = draft.read()
        done = land(files)
    except HarnessError as error:
        if error.id == "nothing_changed":
            draft.drop()
            raise
        kept = _kept(draft, verb, error, stale=is_stale(error))
        error.hint = "; ".join(part for part in (error.hint, kept) if part)
        raise
    with suppress(OSError):  # a second terminal may have landed it, or saved what is not this one's to drop
        if draft.read() == files:
            draft.drop()
    return done


def gone(path: Path, verb: str) -> HarnessError:
    """The error of a draft whose text is no longer there."""
    return HarnessError(
        f"the text to be edited, {path}, is gone; nothing was changed",
        id="draft_gone",
        hint=f"{verb} in another terminal may have landed it; the next one begins anew",
    )


def _kept(draft: Draft[Any], verb: str, error: HarnessError, *, stale: bool) -> str:
    """Where the text lies after ``error``, for its hint; "" where none is left."""
    if stale or error.id == "draft_gone":
        aside = _set_aside(draft.home)
        return f"your text is kept in {aside}" if aside else ""
    what = "your text, with what was refused in it," if error.id == "secret_found" else "your text"
    return f"{what} is kept in {draft.named}; {verb} goes on with it"


def _left(of: Of, home: Path, seen: str) -> Draft[Of] | None:
    """The draft in ``home`` when it was laid out from ``seen`` and something is there to go on with."""
    draft = _found(of, home)
    return draft if draft is not None and draft.seen == seen and draft.paths() else None


def _found(of: Of, home: Path) -> Draft[Of] | None:
    """The draft in ``home``; None where there is none, or what tells of it cannot be read."""
    try:
        found = json.loads(read_small(home / SEEN, MAX_OTHER_FILE))
        return Draft(of, home, str(found["seen"]), str(found["begun"]), resumed=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _set_aside(home: Path) -> Path | None:
    """Put what lies in ``home`` where nothing is written; where. None when nobody wrote anything there."""
    draft = _found(None, home)
    if draft is not None and (not draft.paths() or draft.is_begun(draft.read())):
        draft.drop()
    if not home.exists():
        return None
    target = home.with_name(f"{home.name}{_MARK}{new_ulid()}")
    try:
        home.rename(target)
    except FileNotFoundError:  # another call was faster, and says where
        return None
    return _named(target / TEXT if (target / TEXT).is_dir() else target)


def _named(folder: Path) -> Path:
    """How a message names the text in ``folder``: by its file, where it is one."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return files[0] if len(files) == 1 else folder


def _digest(files: Sequence[EntryFile]) -> str:
    return entry_digest(tuple(files)) or ""
