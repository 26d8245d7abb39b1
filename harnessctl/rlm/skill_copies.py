"""Copies of pinned skills on disk, for a session: scripts can be run, Python-backed skills imported.

A copy is made from the pinned bytes, read-only, in the session's own folder: ``skills/<name>``. Those of
Python-backed skills are there when a kernel starts, others when a cell asks for them. Before a kernel
starts, and at the end, each copy is compared with the pin; one that a cell changed is said, and put
back. The folder goes with the session, so that no other session could read what was changed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.domain.event import EventType
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.domain.plain_files import make, remove_folder
from harnessctl.layers.l1_context.skills import inner_path, python_module
from harnessctl.layers.l2_execution.registration import KERNEL_FOLDER
from harnessctl.rlm.door import Handler
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recorder import StorageError

FOLDER_NAME = "skills"
#: Beside ``entries.json``: module -> folder that holds it, for the kernel's importer.
MODULES_NAME = "modules.json"
#: What running Python leaves beside a module; never read from a copy, so never said.
_CACHE = "__pycache__"
#: Changed files that are named.
_NAMED = 10


class SkillCopies:
    """The copies of one session; a room of the door.

    :param entries: the pinned entries, by id.
    :param session: the session's folder.
    :param changed: gets what cells changed: {"session", "entry", "files"}.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        session: Path,
        journal: Journal,
        changed: list[Mapping[str, Any]],
    ) -> None:
        self.folder = session / FOLDER_NAME
        self._session = session.name
        self._changed = changed
        self._skills = {name: e for name, e in entries.items() if e.id.kind is Kind.SKILL}
        self._modules = {name: module for name, e in self._skills.items() if (module := python_module(e))}
        self._kernel_folder = session / KERNEL_FOLDER
        self._journal = journal

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the request."""
        return {"harness.path": self.path}

    async def path(self, what: Mapping[str, Any]) -> str:
        """The folder of the copy of the skill ``id``; made now where there is none.

        :raises UsageError: no skill's id.
        :raises NotFoundError: no such skill in the pin.
        :raises StorageError: it cannot be written.
        """
        entry = EntryId.parse(str(what.get("id")))
        if entry.kind is not Kind.SKILL:
            raise UsageError(
                f"{entry} is one file, without a folder", id="no_folder", hint="harness.show prints it"
            )
        skill = self._skills.get(str(entry))
        if skill is None:
            raise NotFoundError(
                f"no pinned skill {entry}", id="no_entry", hint="harness.list() names them all"
            )
        return str(self._made(skill))

    def ready(self) -> None:
        """Before a kernel starts: copies of what it can import, every copy as pinned.

        :raises StorageError: they cannot be written.
        """
        self._say_changed()
        places = {}
        for name, module in self._modules.items():
            places[module] = str(self._made(self._skills[name]) / "src")
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with make(self._kernel_folder / MODULES_NAME) as file:
                file.write(json.dumps(places).encode())
        except OSError as error:
            raise StorageError(self.folder, error) from error

    def close(self) -> None:
        """At the session's end: say what was changed, remove the copies.

        :raises StorageError: it cannot be said.
        """
        try:
            self._say_changed()
            _remove(self.folder)
        except OSError as error:
            raise StorageError(self.folder, error) from error

    def _made(self, skill: Entry) -> Path:
        target = self.folder / skill.id.name
        if not target.is_dir() or target.is_symlink():
            try:
                _copy(skill, target)
            except OSError as error:
                raise StorageError(target, error) from error
        return target

    def _say_changed(self) -> None:
        """Compare the copies with the pin; remove those that differ, or hold compiled files."""
        for name, skill in self._skills.items():
            target = self.folder / skill.id.name
            if not os.path.lexists(target):
                continue
            files = _differences(skill, target)
            if files:
                self._changed.append({"session": self._session, "entry": name, "files": files})
                what = f"The copy of {name} was changed during the session ({_named(files)})"
                text = f"{what}; no session reads that, the pinned content counts."
                data = {"what": "skill_copy", "text": text, "entry": name, "files": files}
                self._journal.record(EventType.REPAIR, data)
            if files or any(target.rglob(_CACHE)):
                _remove(target)


def remove_copies(session: Path) -> None:
    """Remove what a session that was cut off left; its folders are read-only."""
    _remove(session / FOLDER_NAME)


def _copy(skill: Entry, target: Path) -> None:
    """Write the files of ``skill`` below ``target``: files 0444 or 0555, folders 0555."""
    _remove(target)
    for file in skill.files:
        path = target / inner_path(skill, file)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o555 if file.mode & 0o111 else 0o444)
    for folder in (*(p for p in target.rglob("*") if p.is_dir()), target):
        folder.chmod(0o555)


def _remove(path: Path) -> None:
    """Remove a copy, or all of them; nothing that a symbolic link leads to."""
    for folder, _, _ in [] if path.is_symlink() else os.walk(path):
        with suppress(OSError):
            os.chmod(folder, 0o700)  # what lies in a read-only folder cannot be removed
    remove_folder(path)


def _differences(skill: Entry, target: Path) -> list[str]:
    """Paths below ``target`` that are not as pinned: changed, missing, added; sorted."""
    if target.is_symlink() or not target.is_dir():
        return ["."]
    pinned = {inner_path(skill, file): file for file in skill.files}
    found = set(_paths(target))
    differing = {path for path in found & pinned.keys() if not _holds(target / path, pinned[path])}
    return sorted(differing | (found ^ pinned.keys()))


def _paths(target: Path) -> Iterator[str]:
    """What lies below ``target`` but for folders and compiled files, links to folders included."""
    for folder, folders, files in os.walk(target):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name != _CACHE]
        yield from (Path(folder, name).relative_to(target).as_posix() for name in (*files, *links))


def _holds(path: Path, file: EntryFile) -> bool:
    """Whether ``path`` is a plain file with the bytes of ``file``; one that cannot be read is not."""
    with suppress(OSError):
        known = path.lstat()
        same_size = stat.S_ISREG(known.st_mode) and known.st_size == len(file.data)
        return same_size and sha256_hex(path.read_bytes()) == file.sha256
    return False


def _named(files: Sequence[str]) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(files[:_NAMED]) + more
