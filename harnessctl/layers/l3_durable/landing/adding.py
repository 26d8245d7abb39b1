"""A person's own edit: on the branch as a landing, in-tree as files for the person to commit."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, RefusedError, UsageError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR, EntryId, Kind, new_ulid, record_path
from harnessctl.domain.safe_text import visible_line
from harnessctl.domain.update import Actor, EntryEdit, Record, RecordType
from harnessctl.layers.l3_durable.checking.ownership import human_edit
from harnessctl.layers.l3_durable.checking.validation import Checks, Edits
from harnessctl.layers.l3_durable.content import Content, entry_digest, no_entry
from harnessctl.layers.l3_durable.files.lock import write_atomically
from harnessctl.layers.l3_durable.files.message import commit_message
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE
from harnessctl.layers.l3_durable.landing.proposals import changes_of, file_edits, record_file
from harnessctl.layers.l3_durable.landing.writer import Change
from harnessctl.layers.l3_durable.places import identity
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.rules.load_rules import MAX_MAIN_FILE, MAX_OTHER_FILE, SIZE


@dataclass(frozen=True)
class Addition:
    """What a person adds: the entry and its new files, paths relative to ``.harness/``.

    :ivar remove: the entry goes instead; ``files`` is empty.
    :ivar seen: digest of the entry as the person saw it ("" for none); None: whatever is there is replaced.
    """

    entry: EntryId
    files: tuple[EntryFile, ...]
    summary: str = ""
    why: str = ""
    remove: bool = False
    seen: str | None = None

    @property
    def verb(self) -> str:
        """The verb that a person called."""
        return "remove" if self.remove else "add" if self.seen is None else "edit"


def add_edit(before: Content | None, wanted: Addition) -> EntryEdit:
    """The edit that ``wanted`` is on top of ``before``, with owner and origin; errors as :func:`_given`."""
    return human_edit(before, _given(before, wanted))


def judge_given(checks: Checks, before: Content | None, wanted: Addition) -> tuple[Finding, ...]:
    """Judge ``wanted`` as the person wrote it, without the keys that are put in: its lines are theirs.

    :return: what the lint rules warn of.
    :raises HarnessError: what the checks refuse.
    """
    edits = file_edits(before, (_given(before, wanted),))
    checks.refuse_secrets(edits, "")
    checks.refuse_broken(before, edits)
    return checks.lint(before, edits)


def _given(before: Content | None, wanted: Addition) -> EntryEdit:
    """The edit as the person wrote it; a lone ``SKILL.md`` leaves a skill's other files.

    :raises ConflictError: ``conflict``: it is no longer what the person saw.
    :raises NotFoundError: ``no_entry``: there is nothing to remove.
    """
    now = before.entry(wanted.entry) if before else ()
    if wanted.seen is not None and (entry_digest(now) or "") != wanted.seen:
        raise ConflictError(
            f"{wanted.entry} was changed by somebody else since it was opened",
            id="conflict",
            hint="nothing was overwritten; edit it again",
        )
    if wanted.remove:
        if not now:
            raise no_entry(before, wanted.entry)
        return EntryEdit(wanted.entry, "delete", ())
    files = {f.path: f for f in wanted.files}
    if wanted.entry.kind is Kind.SKILL and set(files) == {wanted.entry.path}:
        files = {f.path: f for f in now} | files
    return EntryEdit(wanted.entry, "update" if now else "create", tuple(sorted(files.values(), key=_path)))


def add_record(place: Place, before: Content | None, edit: EntryEdit, wanted: Addition) -> Record:
    """The record of a person's edit; its evidence is empty.

    :raises HarnessError: ``nothing_changed``.
    :raises UsageError: ``no_identity``.
    """
    changes = changes_of(before, (edit,))
    if not changes:
        raise HarnessError(f"{wanted.entry} has this content already", id="nothing_changed")
    return Record(
        type=RecordType.UPDATE,
        id=new_ulid(),
        actor=Actor("human", identity.author(place.repository, place.environment).name),
        base=before.commit if before else "",
        summary=wanted.summary or f"{changes[0].action} {wanted.entry}",
        why=wanted.why,
        entries=changes,
    )


def add_change(place: Place, tip: Content, wanted: Addition) -> tuple[Record, Change]:
    """The landing that adds ``wanted`` to ``tip``."""
    edit = add_edit(tip, wanted)
    record = add_record(place, tip, edit, wanted)
    files = file_edits(tip, (edit,)) | {record_path(record.id): record_file(record)}
    author = identity.author(place.repository, place.environment)
    committer = identity.committer(place.repository, place.environment)
    return record, Change(files, commit_message(record), author, committer)


def write_files(
    root: Path, before: Content | None, edits: Edits, given: Sequence[EntryFile] = ()
) -> tuple[Path, ...]:
    """Write ``edits`` of ``before`` below ``root/.harness`` in the work tree; what was written or removed.

    What is in the way is looked for here, whatever was found earlier: the checks before this take long
    enough for an editor to save.

    :raises HarnessError: as :func:`refuse_in_the_way`; nothing was written.
    """
    refuse_in_the_way(root, before, edits, given)
    changed = []
    for name, file in edits.items():
        path = root / HARNESS_DIR / name
        if file is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, file.data, file.mode & 0o777)
        changed.append(path)
    return tuple(changed)


def refuse_in_the_way(
    root: Path, before: Content | None, edits: Edits, given: Sequence[EntryFile] = ()
) -> None:
    """Refuse ``edits`` of ``before`` that would take away what only the work tree holds.

    A file that is not there is no work (a sparse checkout has none), nor are line endings: git itself
    may have written those. Files that git does not track count as work.

    :param given: files as the person gave them; what lies there with that content is not lost.
    :raises ConflictError: ``uncommitted``: names the files.
    :raises RefusedError: ``symlink_in_the_way``: a link below ``.harness`` would lead the write elsewhere.
    """
    for name in edits:
        _refuse_links(root, root / HARNESS_DIR / name)
    handed = {f.path: f.data for f in given}
    lost = []
    for name, file in edits.items():
        known = (before.read(name) if before else None, file.data if file else None, handed.get(name))
        if _holds_other(root / HARNESS_DIR / name, [data for data in known if data is not None]):
            lost.append(f"{HARNESS_DIR}/{name}")
    if lost:
        raise ConflictError(
            f"{', '.join(lost)}: the work tree holds changes that are not committed; nothing was overwritten",
            id="uncommitted",
            hint="commit or stash them first; in-tree a file can also be edited where it lies",
        )


def _holds_other(path: Path, known: Iterable[bytes]) -> bool:
    """Whether something lies at ``path`` that is none of ``known``, line endings aside."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return True
        found = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:  # it can't be shown to be committed
        return True
    return all(_plain(found) != _plain(data) for data in known)


def _plain(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _refuse_links(root: Path, path: Path) -> None:
    for part in (path, *path.parents):
        if part == root:
            return
        if part.is_symlink():
            raise RefusedError(f"{part} is a symbolic link", id="symlink_in_the_way", hint="remove it first")


def read_files(entry: EntryId, source: Path) -> tuple[EntryFile, ...]:
    """The file or, for a skill, the folder ``source`` as the files of ``entry``.

    :raises NotFoundError: ``no_file``: it, or something in it, is not there or cannot be read.
    :raises UsageError: ``bad_source``: a folder for an entry that is one file, or a link in it.
    :raises HarnessError: ``invalid_entry``: a file is too large to be one of an entry.
    """
    named = visible_line(str(source))
    try:
        if source.is_dir():
            if entry.kind is not Kind.SKILL:
                raise UsageError(f"{named} is a folder, and {entry} is one file", id="bad_source")
            return tuple(_read_folder(entry, source))
        if source.exists() and not source.is_file():
            raise UsageError(f"{named} is no file", id="bad_source", hint="- reads standard input")
        return (EntryFile(entry.path, FILE, _read_file(source, entry.path, MAX_MAIN_FILE)),)
    except OSError as error:
        named = visible_line(os.fsdecode(error.filename or source))
        raise NotFoundError(
            f"cannot read {named}: {error.strerror}; nothing was written",
            id="no_file",
            hint="name a file that you can read, or - for standard input",
        ) from error


def refuse_large(path: str, data: bytes, limit: int = MAX_MAIN_FILE) -> bytes:
    """``data``, of which no more was read than it takes to see that it is too much for ``path``.

    :raises HarnessError: ``invalid_entry``: it is, in the words of the rule on sizes.
    """
    if len(data) <= limit:
        return data
    raise HarnessError(
        f"{HARNESS_DIR}/{visible_line(path)}: {SIZE.id}: has more than the {limit} bytes that are allowed",
        id="invalid_entry",
        hint=SIZE.fix,
    )


def _read_file(file: Path, path: str, limit: int) -> bytes:
    with file.open("rb") as opened:
        return refuse_large(path, opened.read(limit + 1), limit)


def _read_folder(entry: EntryId, source: Path) -> Iterator[EntryFile]:
    top = f"{entry.kind.directory}/{entry.name}"
    for folder, folders, names in os.walk(source, onerror=_not_passed_over):
        folders.sort()
        for path in (Path(folder) / name for name in sorted((*folders, *names))):
            if path.is_symlink():  # os.walk would pass over a linked folder without a word
                raise UsageError(
                    f"{visible_line(str(path))} is a symbolic link; a skill holds plain files",
                    id="bad_source",
                )
            if path.is_dir():
                continue
            if not path.is_file():
                raise UsageError(f"{visible_line(str(path))} is no plain file", id="bad_source")
            mode = EXECUTABLE if os.access(path, os.X_OK) else FILE
            below = f"{top}/{path.relative_to(source).as_posix()}"
            limit = MAX_MAIN_FILE if below == entry.path else MAX_OTHER_FILE
            yield EntryFile(below, mode, _read_file(path, below, limit))


def _not_passed_over(error: OSError) -> None:
    """A folder that cannot be listed is part of the skill too."""
    raise error


def _path(file: EntryFile) -> str:
    return file.path
