"""Reading refs and moving them with compare-and-swap: a ref moves only from the value it was read with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pygit2

from harnessctl.layers.l3_durable.git.lost_race import HeldError, LostRaceError
from harnessctl.layers.l3_durable.git.moving import PACKED, moving
from harnessctl.layers.l3_durable.git.waiting import is_pipe, refuse_no_file

_OID = re.compile("[0-9a-f]{40}")
#: Symbolic refs that are followed one after the other, as git does.
_DEEPEST = 5

__all__ = ["HeldError", "LostRaceError", "Refs"]


class Refs:
    """The refs of one repository.

    :param common_dir: the git directory that all its work trees share, where refs lie.
    """

    def __init__(self, raw: pygit2.Repository, common_dir: Path) -> None:
        self._raw = raw
        self._common = common_dir

    def read(self, name: str) -> str | None:
        """Id the ref points at (a symbolic ref is followed), None when there is no such ref.

        :raises HarnessError: ``not_a_file``, as all that reads refs.
        """
        refuse_no_file(f"{self._common}/{PACKED}")
        return self._read(name)

    def _read(self, name: str) -> str | None:
        for _ in range(_DEEPEST):
            target = self._target(name)
            if not isinstance(target, bytes):
                return None if target is None else str(target)
            name = os.fsdecode(target)
        return None

    @staticmethod
    def is_legal(name: str) -> bool:
        """Whether a ref can be called so."""
        return bool(pygit2.reference_is_valid_name(name))

    def symbolic(self, name: str) -> str | None:
        """Name of the ref that the symbolic ref ``name`` points at, None when it is none."""
        refuse_no_file(f"{self._common}/{PACKED}")
        target = self._target(name)
        return target.decode("utf-8", "surrogateescape") if isinstance(target, bytes) else None

    def _target(self, name: str) -> pygit2.Oid | bytes | None:
        refuse_no_file(f"{self._common}/{name}", or_folder=True)
        try:
            target: pygit2.Oid | bytes = self._raw.lookup_reference(name).raw_target
        except (KeyError, ValueError, pygit2.GitError, OSError):
            return None
        return target

    def were(self, name: str) -> tuple[str, ...]:
        """Ids that the ref's reflog has it at, newest first, each once; () without a reflog.

        Read from the file: libgit2 finds no reflog of a ref that is gone or broken.
        """
        log = self._common / "logs" / name
        try:
            lines = () if is_pipe(log) else log.read_text("utf-8", "replace").splitlines()
        except OSError:
            return ()
        found = (oid for line in reversed(lines) for oid in reversed(line.split(" ", 2)[:2]))
        return tuple(dict.fromkeys(oid for oid in found if _OID.fullmatch(oid) and oid.strip("0")))

    def broken(self, name: str) -> Path | None:
        """The ref's file when there is one and no id can be read from it, as a power cut may leave it."""
        path = self._common / name
        return path if path.is_file() and self.read(name) is None else None

    def list(self, prefix: str) -> dict[str, str]:
        """Refs whose full name starts with ``prefix``: name -> id, sorted."""
        found = ((name, self._read(name)) for name in self.names(prefix))
        return {name: oid for name, oid in found if oid is not None}

    def names(self, prefix: str) -> tuple[str, ...]:
        """Names that start with ``prefix``, sorted; some may have gone by the time they are read.

        libgit2 lists all refs of a repository or none, and one may hold a hundred thousand tags.
        """
        return tuple(sorted({*self._loose(prefix), *self._packed(prefix)}))

    def _loose(self, prefix: str) -> Iterator[str]:
        top = self._common / prefix.rpartition("/")[0]
        for folder, _, files in os.walk(top):
            below = Path(folder).relative_to(self._common).as_posix()
            for file in files:
                name = f"{below}/{file}"
                if name.startswith(prefix) and not file.endswith(".lock"):
                    yield name

    def _packed(self, prefix: str) -> Iterator[str]:
        """Lines of ``packed-refs`` are ``<id> <name>``; others begin with ``#`` or ``^``."""
        refuse_no_file(f"{self._common}/{PACKED}")
        try:
            data = (self._common / PACKED).read_bytes()
        except OSError:
            return
        wanted = b" " + os.fsencode(prefix)
        place = data.find(wanted)
        while place >= 0:
            end = data.find(b"\n", place)
            end = len(data) if end < 0 else end
            if not data.startswith(b"#", data.rfind(b"\n", 0, place) + 1):
                yield os.fsdecode(data[place + 1 : end])
            place = data.find(wanted, end)

    def move(self, name: str, old: str | None, new: str | None, message: str) -> None:
        """Point ``name`` from ``old`` to ``new`` (None: create it, or remove it).

        libgit2 compares under the ref's lock. A lost race shows there as GitError or OSError
        (the lock file), so both end as one error here.

        :raises LostRaceError: nothing moved.
        :raises HarnessError: ``not_a_file``: nothing moved.
        """
        for path in (name, f"logs/{name}", PACKED):
            refuse_no_file(f"{self._common}/{path}", or_folder=True)
        try:
            with moving(self._common, name, new):
                self._move(name, old, new, message)
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            raise LostRaceError(str(error)) from error

    def _move(self, name: str, old: str | None, new: str | None, message: str) -> None:
        if old is None:
            assert new is not None
            self._raw.create_reference_direct(name, pygit2.Oid(hex=new), False, message)
            return
        reference = self._raw.lookup_reference(name)
        if str(reference.target) != old:
            raise LostRaceError(f"{name} is at {reference.target}, not at {old}")
        if new is None:
            reference.delete()
        else:
            reference.set_target(pygit2.Oid(hex=new), message)
