"""The fence around a run: did harness refs or the lock move, other than by the host's own hand?

Values are trees of ``.harness/``, not commits, so that a commit of code in in-tree mode is no move, and
records and policy count as much as entries: gates and models are read from there too. A lock
that equals the checked-out commit's is no move either, so that switching branches is none.
Which branch is read is part of the state: configuration could otherwise point the next run elsewhere.
``refs/harness/live`` is left out (every run makes one), and the remote-tracking branch while a
local one exists, because a background `git fetch` moves it.
"""

from __future__ import annotations

from collections.abc import Mapping

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.files.lock import LOCK_NAME, raw_lock
from harnessctl.layers.l3_durable.places.mode import BRANCH_KEY, MODE_KEY, Place
from harnessctl.layers.l3_durable.places.names import DECISIONS, PROPOSALS
from harnessctl.layers.l3_durable.places.operations import Operations

ABSENT = "absent"
AS_COMMITTED = "as committed"
UNSET = "unset"
NO_FILE = "no plain file"
#: Of a ref whose commit holds no harness.
NO_FOLDER = f"no {HARNESS_DIR}/"
#: Before the commit of a ref that cannot be read.
UNREADABLE = "unreadable"


class HarnessFence:
    """Captures the harness state of one repository."""

    def __init__(self, place: Place, operations: Operations) -> None:
        self._place = place
        self._operations = operations
        self._commits: dict[tuple[str, str], str] = {}

    def capture(self) -> Mapping[str, str]:
        """Ref -> tree of ``.harness/`` there; ``harness.lock`` -> digest of its bytes or ``absent``, after
        the words ``as committed`` where the checked-out commit has it so; ``harness.branch`` and
        ``harness.mode`` -> their values or ``unset``.

        :raises HarnessError: ``not_a_file``, ``bad_head``: the repository cannot be read.
        """
        self._place.repository.refuse_waiting()
        refs = self._place.repository.refs
        found = {**refs.list(PROPOSALS), **refs.list(DECISIONS)}
        local, remote = self._place.local_tip(), self._place.remote_tip()
        if local:
            found[self._place.ref] = local
        elif remote and self._place.remote_ref:
            found[self._place.remote_ref] = remote
        state = {name: self._digest(commit) for name, commit in sorted(found.items())}
        for name, value in state.items():
            self._commits.setdefault((name, value), found[name])
        settings = {key: self._place.repository.config_now(key) or UNSET for key in (BRANCH_KEY, MODE_KEY)}
        return state | settings | {LOCK_NAME: self._lock()}

    def commit_of(self, name: str, value: str | None) -> str | None:
        """Commit at which a capture first found the ref ``name`` with ``value``, None where unknown."""
        return self._commits.get((name, value or ""))

    def unknown_moves(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
        """What differs between two captures and is not explained by the host's own operation log."""
        moved: list[str] = []
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if name == LOCK_NAME:
                if _committed(new) and (_committed(old) or _bare(new) != ABSENT):
                    continue  # a switch, or a commit; not the removal of a lock that git never had
                old, new = _bare(old), _bare(new)
            if old != new and not self._known(name, old, new):
                moved.append(name)
        return tuple(moved)

    def _known(self, name: str, before: str | None, after: str | None) -> bool:
        """Whether a chain of logged moves of ``name`` leads from one value to the other."""
        reached = {before}
        for operation in self._operations.read():
            if operation.what == name:
                old, new = (self._value(name, v) for v in (operation.old, operation.new))
                if old in reached:
                    reached.add(new)
        return after in reached

    def _value(self, name: str, logged: str | None) -> str | None:
        if name == LOCK_NAME:
            return logged or ABSENT
        if name in (BRANCH_KEY, MODE_KEY):
            return logged or UNSET
        return self._digest(logged) if logged and self._place.repository.has(logged) else logged

    def _digest(self, commit: str) -> str:
        """The tree of ``.harness/``; where that cannot be read, the commit itself stands for it.

        What is missing at a tip or in a proposal is no reason to stop a run of an intact pin, and a move
        of that ref shows all the same.
        """
        try:
            folder = Content(self._place.repository, commit).folder
        except HarnessError:
            return f"{UNREADABLE} {commit}"
        return f"tree {folder}" if folder else NO_FOLDER

    def _lock(self) -> str:
        path = self._place.lock_path
        try:
            data = raw_lock(path) if path is not None else None
        except UsageError:  # a pipe or a folder in its place
            return NO_FILE
        value = ABSENT if data is None else lock_digest(data)
        head = self._place.repository.head_commit
        if head is not None:
            committed = self._place.repository.file(self._place.repository.commit(head).tree, LOCK_NAME)
            if committed == data:
                return f"{AS_COMMITTED} {value}"
        return value


def _committed(value: str | None) -> bool:
    return (value or "").startswith(AS_COMMITTED)


def _bare(value: str | None) -> str | None:
    """A lock's value without whether it is committed."""
    return value and value.removeprefix(f"{AS_COMMITTED} ").removeprefix(AS_COMMITTED)


def lock_digest(data: bytes) -> str:
    """The fence's value for a lock's bytes."""
    return "sha256:" + sha256_hex(data)
