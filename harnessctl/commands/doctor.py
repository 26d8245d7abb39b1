"""``doctor``: what is wrong with the harness and its run state, what would put it right, and doing so."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.event import EventType
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.outcome import NO_HEADER
from harnessctl.domain.safe_text import visible_line
from harnessctl.layers.l2_execution.left_sockets import left_folders, remove_dead, remove_left, socket_bases
from harnessctl.layers.l2_execution.registration import KERNEL_FOLDER, Registration, end_left_over, forget
from harnessctl.layers.l3_durable.content import POLICY
from harnessctl.layers.l3_durable.git.waiting import wrong_around
from harnessctl.layers.l3_durable.landing import repairs
from harnessctl.layers.l3_durable.landing.initialising import is_begun
from harnessctl.layers.l3_durable.landing.repairs import Repair
from harnessctl.layers.l3_durable.landing.writer import Writer
from harnessctl.layers.l3_durable.places.actor import refuse_agents
from harnessctl.layers.l3_durable.places.mode import MODE_KEY
from harnessctl.layers.l3_durable.places.operations import Operations
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.log import LOG_NAME, read_log
from harnessctl.rlm.occupancy import is_written, may_begin, unwritten
from harnessctl.rlm.recorder import Recorder

#: Files of the state folder that are made for the user alone.
_PRIVATE = ("verdicts", "verdicts.key", "history", "operations.jsonl")


@dataclass(frozen=True)
class Diagnosis:
    """One thing that is or was wrong.

    :ivar fixed: it was put right.
    :ivar failed: why it could not be, "" when that was not tried or worked.
    """

    repair: Repair
    fixed: bool = False
    failed: str = ""

    def to_json(self) -> dict[str, object]:
        """As ``doctor --json`` prints it."""
        return {
            "id": self.repair.id,
            "what": self.repair.what,
            "remedy": self.repair.remedy,
            "fixable": self.repair.act is not None,
            "fixed": self.fixed,
            "failed": self.failed or None,
        }


@dataclass(frozen=True)
class Health:
    """Everything that was looked at."""

    found: tuple[Diagnosis, ...]

    @property
    def ill(self) -> bool:
        """Whether something is wrong now."""
        return any(not (one.fixed or one.repair.harmless) for one in self.found)

    def to_json(self) -> list[dict[str, object]]:
        """One array."""
        return [one.to_json() for one in self.found]


def doctor(
    store: HarnessStore, *, fix: bool = False, machine: bool = False, wrong: Iterable[HarnessError] = ()
) -> Health:
    """Look at lock files, refs, the pin, logs, kernels and the state folder's modes.

    :param fix: put right what can be.
    :param wrong: what is wrong with the user's settings; only the user can mend it.
    :param machine: look for left sockets in the user's temporary folders too, whichever repository's.
    :raises RefusedError: ``agent_refused``: with ``fix``.
    """
    if fix:
        refuse_agents(store.place.environment, "doctor --fix")
        with suppress(HarnessError, OSError):
            store.state_dir  # noqa: B018 - made here; what needs it says why it cannot be written
    found = [Repair(error.id, error.message, error.hint) for error in wrong]
    found += _all(store)
    if machine:
        found += _sockets(socket_bases(store.place.environment.variables))
    return Health(tuple(_treat(repair) if fix else Diagnosis(repair) for repair in found))


def strange_files(start: Path) -> Health | None:
    """Pipes and the like in place of files of the repository around ``start``; None: there are none.

    No look at it might come back from them: all else can be looked at when these are gone.
    """
    found = tuple(Diagnosis(Repair(e.id, e.message, e.hint)) for e in wrong_around(start))
    return Health(found) if found else None


def _treat(repair: Repair) -> Diagnosis:
    if repair.act is None:
        return Diagnosis(repair)
    try:
        repair.act()
    except HarnessError as error:
        return Diagnosis(repair, failed=error.message)
    except OSError as error:
        return Diagnosis(repair, failed=error.strerror or str(error))
    return Diagnosis(repair, fixed=True)


def _all(store: HarnessStore) -> Iterator[Repair]:
    """What is wrong; a HEAD that cannot be read is said once, not by each look that needs it."""
    damaged = tuple(repairs.damaged_head(store.place))
    yield from damaged
    said = {(head.id, head.remedy) for head in damaged}
    yield from (one for one in _looks(store) if (one.id, one.remedy) not in said)


def _looks(store: HarnessStore) -> Iterator[Repair]:
    yield from repairs.stale_locks(store.place)
    yield from repairs.left_over_files(store.place)
    yield from _unusable(store.state_path)
    yield from _modes(store.place.environment.state_home, store.state_path)
    yield from _said(lambda: _operations(store))
    logs = sorted((store.state_path / "sessions").glob(f"*/{LOG_NAME}"))
    running = {log.parent.name for log in logs if is_written(log)}
    yield from repairs.odd_mode(store.place)
    yield from repairs.odd_branch(store.place)
    lost = tuple(repairs.lost_harness(store.place, store.readable_lock()))
    yield from lost
    if not lost:
        yield from _said(lambda: _unfinished(store))
    if store.mode is not None and not lost:
        yield from _said(lambda: _harness(store, running))
    for log in logs:
        if log.parent.name not in running:
            yield from _kernel(log.parent, socket_bases(store.place.environment.variables))
            yield from _log(log)


def _harness(store: HarnessStore, running: set[str]) -> Iterator[Repair]:
    """What needs a branch that can be read."""
    writer = Writer(store.place, store.checks, Operations(store.state_path))
    yield from _said(lambda: repairs.left_over_proposals(writer))
    yield from _said(lambda: repairs.left_over_decisions(writer))
    sessions = store.state_path / "sessions"
    yield from _said(lambda: repairs.left_over_live(writer, running, lambda name: _stopped(sessions / name)))
    yield from _pin(store)


def _operations(store: HarnessStore) -> Iterator[Repair]:
    """Nothing, unless the log of moved refs cannot be read."""
    for _ in Operations(store.state_path).read():
        pass
    yield from ()


def _unfinished(store: HarnessStore) -> Iterator[Repair]:
    """An ``init`` that was killed after it had made the branch."""
    if is_begun(store.place, Operations(store.state_path)):
        what = f"an init was stopped after it had made branch '{store.branch}'; {MODE_KEY} is not set"
        remedy = "harnessctl init again finishes it, with a lock; or with --unpinned, without one"
        yield Repair("unfinished_init", what, remedy)


def _said(look: Callable[[], Iterator[Repair]]) -> Iterator[Repair]:
    """What ``look`` finds; what keeps it from looking is a finding too, and the other checks go on."""
    try:
        yield from look()
    except HarnessError as error:
        what = f"a part of the harness could not be looked at: {error.message}"
        yield Repair(error.id, what, error.hint or "git fsck names what is damaged")


def _pin(store: HarnessStore) -> Iterator[Repair]:
    pinned = ""
    try:
        pinned = store.pin().commit
    except HarnessError as error:
        yield Repair(error.id, f"the pin cannot be read: {error.message}", _pin_remedy(store, error))
    yield from repairs.missing_files(store.place, pinned)
    yield from repairs.broken_policies(store.place, pinned)
    yield from _said(lambda: _broken_entries(store, pinned))


def _broken_entries(store: HarnessStore, pinned: str) -> Iterator[Repair]:
    """Entries that keep the next run from starting; ``harness.toml`` has its own finding."""
    again = "mend it (harnessctl edit or remove), then harnessctl pin; or run with --skip-broken"
    for finding in store.snapshot_at(pinned).broken if pinned else ():
        if finding.path != f"{HARNESS_DIR}/{POLICY}":
            what = f"{visible_line(finding.path)} of the pin {pinned[:12]} does not load: {finding.rule}"
            yield Repair("broken_entry", f"{what}: {finding.message}", again)


def _pin_remedy(store: HarnessStore, error: HarnessError) -> str:
    """What a person can do; a pin that is here and not on the branch may mean that the branch was moved."""
    if error.id != "pin_not_landed":
        return error.hint or "harnessctl pin REV writes the lock anew"
    was = f"git reflog show {store.branch} lists where it was"
    return f"if '{store.branch}' was moved, {was}; if not, {error.hint}"


def _kernel(folder: Path, bases: tuple[Path, ...]) -> Iterator[Repair]:
    """A kernel that outlived its session; known by process id, start time and mark together."""
    known = Registration.read(folder / KERNEL_FOLDER)
    if known is None:
        return
    alive = known.alive()
    if alive:
        what = f"session {folder.name} ended and its kernel still runs (process {', '.join(map(str, alive))})"
        yield Repair("left_over_kernel", what, "end it", partial(_end_kernel, folder, known, bases))
    else:
        what = f"session {folder.name} still has its dead kernel registered"
        yield Repair("dead_kernel", what, "forget it", partial(_forget, folder, known, bases))


def _end_kernel(folder: Path, known: Registration, bases: tuple[Path, ...]) -> None:
    with _stopped(folder):
        end_left_over(folder / KERNEL_FOLDER, folder.name)
        remove_dead(Path(known.folder), bases)


def _forget(folder: Path, known: Registration, bases: tuple[Path, ...]) -> None:
    with _stopped(folder):
        forget(folder / KERNEL_FOLDER)
        remove_dead(Path(known.folder), bases)


@contextmanager
def _stopped(folder: Path) -> Iterator[None]:
    """While this lasts the session does not go on.

    :raises HarnessError: ``session_runs``: it has gone on since it was looked at.
    """
    with unwritten(folder / LOG_NAME) if (folder / LOG_NAME).exists() else nullcontext(True) as stopped:
        if not stopped:
            raise HarnessError(f"session {folder.name} has gone on meanwhile", id="session_runs")
        yield


def _sockets(bases: Iterable[Path]) -> Iterator[Repair]:
    """Folders of sockets of sessions that were killed; nothing but the folders' names tells whose."""
    left = left_folders(bases)
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        what = f"{left[0]}{more}: sockets of a session that is gone; nobody listens"
        yield Repair("left_sockets", what, "remove them", partial(remove_left, left))


def _log(log: Path) -> Iterator[Repair]:
    content = read_log(log)
    if content.damage:
        readable = f"what follows event {len(content.events) - 1} proves nothing"
        yield Repair(
            "damaged_log",
            f"{log}: {content.damage}; {readable if content.events else 'none of it can be read'}",
            "a copy of the log, if there is one; harnessctl verify --all names the updates that rest on it",
        )
    elif content.tail or content.unended:
        what = f"{log} ends in the middle of a record ({len(content.tail)} bytes)"
        yield Repair("torn_log", what, "set the torn tail aside and say so in the log", partial(_mend, log))
    elif (not content.events or content.events[0].type is not EventType.HEADER) and not may_begin(log):
        what = f"{log} holds no header: its session was stopped before that, or the log lost what it held"
        remedy = "a copy of the log, if there is one; harnessctl sessions prune lists it among old sessions"
        yield Repair(NO_HEADER, what, remedy)


def _mend(log: Path) -> None:
    try:
        Recorder.open(log.parent, SystemClock()).close()
    except ConflictError as error:
        raise HarnessError("a session writes it now", id="session_running") from error


def _unusable(state_dir: Path) -> Iterator[Repair]:
    """A state folder that no run could write: it, or the nearest folder above it that is there."""
    nearest = next(path for path in (state_dir, *state_dir.parents) if os.path.lexists(path))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        why = "cannot be written" if nearest.is_dir() else "is no folder"
        remedy = "set XDG_STATE_HOME to a folder that can be written, or mend this one"
        yield Repair("state_unwritable", f"{nearest} {why}: no run can keep its state", remedy)


def _modes(state_home: Path, state_dir: Path) -> Iterator[Repair]:
    """Run state is the user's alone: logs hold what commands printed, keys sign what is kept."""
    private = [*filter(Path.is_dir, (state_home, state_dir)), *(state_dir / name for name in _PRIVATE)]
    private += sorted(path for log in state_dir.glob(f"sessions/*/{LOG_NAME}") for path in (log.parent, log))
    wrong = [path for path in private if _open_to_others(path)]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        what = f"{wrong[0]}{more} can be read or written by others"
        yield Repair("open_state", what, "take group's and others' rights away", partial(_close, wrong))


def _open_to_others(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not stat.S_ISLNK(mode) and bool(mode & 0o077)


def _close(paths: list[Path]) -> None:
    for path in paths:
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~0o077)
