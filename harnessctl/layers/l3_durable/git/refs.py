"""Reading refs and moving them with compare-and-swap: a ref moves only from the value it was read with."""

from __future__ import annotations

import pygit2


class LostRaceError(Exception):
    """The ref was not, or no longer, at the expected value, or somebody holds its lock; nothing moved."""


class Refs:
    """The refs of one repository."""

    def __init__(self, raw: pygit2.Repository) -> None:
        self._raw = raw

    def read(self, name: str) -> str | None:
        """Id the ref points at (a symbolic ref is followed), None when there is no such ref."""
        try:
            return str(self._raw.lookup_reference(name).resolve().target)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def symbolic(self, name: str) -> str | None:
        """Name of the ref that the symbolic ref ``name`` points at, None when it is none."""
        try:
            target = self._raw.lookup_reference(name).raw_target
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return target.decode("utf-8", "surrogateescape") if isinstance(target, bytes) else None

    def list(self, prefix: str) -> dict[str, str]:
        """Refs whose full name starts with ``prefix``: name -> id, sorted."""
        names = sorted(n for n in self._raw.listall_references() if n.startswith(prefix))
        found = ((name, self.read(name)) for name in names)
        return {name: oid for name, oid in found if oid is not None}

    def move(self, name: str, old: str | None, new: str | None, message: str) -> None:
        """Point ``name`` from ``old`` to ``new`` (None: create it, or remove it).

        libgit2 compares under the ref's lock. A lost race shows there as GitError or OSError
        (the lock file), so both end as one error here.

        :raises LostRaceError: nothing moved.
        """
        try:
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
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            raise LostRaceError(str(error)) from error
