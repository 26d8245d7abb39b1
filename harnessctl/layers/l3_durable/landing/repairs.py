"""What can be wrong with the refs of a harness, and how each is put right.

Nothing that only a person could miss is removed: what would be lost otherwise is kept under
``refs/harness/rescue``.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harnessctl.config import parse_toml, wrong_settings
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.ids import HARNESS_DIR, record_path
from harnessctl.domain.pin import Lock, Mode
from harnessctl.domain.safe_text import visible_line
from harnessctl.layers.l3_durable.content import POLICY, Content
from harnessctl.layers.l3_durable.files.lock import LOCK_NAME, read_lock
from harnessctl.layers.l3_durable.files.tree import GITLINK
from harnessctl.layers.l3_durable.git.lost_race import LostRaceError
from harnessctl.layers.l3_durable.git.repository import Repository, TreeFile
from harnessctl.layers.l3_durable.git.staging import PREFIX as STAGED
from harnessctl.layers.l3_durable.history.records import find_record
from harnessctl.layers.l3_durable.landing.proposals import list_proposals
from harnessctl.layers.l3_durable.landing.writer import Writer
from harnessctl.layers.l3_durable.places.mode import BRANCH_KEY, DEFAULT_BRANCH, MODE_KEY, Place
from harnessctl.layers.l3_durable.places.names import DECISIONS, LIVE, PROPOSALS, RESCUE
from harnessctl.layers.l3_durable.rules.policy import check_policy

#: Id of the finding that the harness's branch is gone or damaged.
LOST = "lost_harness"
#: Seconds after which a lock file of git is nobody's: git holds one for milliseconds.
STALE_S = 60.0
#: Seconds after which a temporary file of the lock is nobody's: writing one takes milliseconds.
LEFT_S = 300.0
#: The same of a landing's objects; a landing that takes a day would be a strange one.
STAGED_LEFT_S = 86_400.0
_TEMPORARY = re.compile(rf"\.{re.escape(LOCK_NAME)}\.[a-z0-9_]{{8}}")
#: The same beside a file of an entry, or beside harness.toml.
_TEMPORARY_ENTRY = re.compile(r"\..+\.[a-z0-9_]{8}")
#: Seconds up to which one is not worth a word.
FRESH_S = 5.0


#: Of a branch that configuration names.
NOT_HERE = "and there is no such branch here"


@dataclass(frozen=True)
class Repair:
    """One thing that is wrong.

    :ivar id: stable slug of the kind.
    :ivar what: the thing and what is wrong with it, in words.
    :ivar remedy: what :attr:`act` does, in words; without an ``act``, what a person can do.
    :ivar act: puts it right; None where only a person can. May raise :class:`HarnessError` or OSError.
    :ivar harmless: nothing is wrong if it is meant, or it is left over from something that went well.
    """

    id: str
    what: str
    remedy: str
    act: Callable[[], None] | None = None
    harmless: bool = False


def stale_locks(place: Place) -> Iterator[Repair]:
    """Lock files that a killed git left before refs of ours or the configuration; nobody can change those."""
    common = place.repository.common_dir
    names = [place.ref, "packed-refs", "config", *([place.remote_ref] if place.remote_ref else [])]
    files = [common / f"{name}.lock" for name in names]
    files += sorted((common / "refs/harness").rglob("*.lock"))
    if place.mode is Mode.IN_TREE:
        files += [place.repository.git_dir / f"{name}.lock" for name in ("index", "HEAD")]
    for file in files:
        age = _age(file)
        if age is not None and abs(age) > FRESH_S:
            yield _lock_repair(file, age)


def left_over_files(place: Place) -> Iterator[Repair]:
    """What a process that was killed while it wrote the lock or a landing's objects leaves for ever."""
    here = []
    if place.lock_path is not None:
        here = [
            p for p in sorted(place.lock_path.parent.glob(f".{LOCK_NAME}.*")) if _TEMPORARY.fullmatch(p.name)
        ]
    for file in here:
        if _is_left(file, LEFT_S):
            what = f"{file} was left by a process that was killed while it wrote {LOCK_NAME}"
            yield Repair("left_over_file", what, "remove it", partial(_remove_left, file, LEFT_S))
    for file in _temporary_entries(place):
        what = f"{file} was left by a process that was killed while it wrote an entry"
        yield Repair("left_over_file", what, "look whether its text is wanted, then remove it")
    for folder in sorted((place.repository.common_dir / "objects").glob(f"{STAGED}*")):
        if _is_left(folder, STAGED_LEFT_S):
            what = f"{folder} holds objects of a landing that was killed before its ref moved"
            yield Repair("left_over_file", what, "remove it", partial(_remove_left, folder, STAGED_LEFT_S))


def _temporary_entries(place: Place) -> Iterator[Path]:
    """Files beside entries of the work tree that a killed writer left, and that nobody committed."""
    root = place.repository.root
    if place.mode is not Mode.IN_TREE or root is None:
        return
    for file in sorted((root / HARNESS_DIR).rglob(".*")):
        named_so = _TEMPORARY_ENTRY.fullmatch(file.name) and file.is_file()
        if named_so and not place.repository.tracked(str(file.relative_to(root))) and _is_left(file, LEFT_S):
            yield file


def _is_left(path: Path, after: float) -> bool:
    age = _age(path)
    return age is not None and age > after and not _holders(path)


def _remove_left(path: Path, after: float) -> None:
    if not _is_left(path, after):
        raise HarnessError(f"{path} is in use again", id="busy", hint="run doctor again")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _lock_repair(file: Path, age: float) -> Repair:
    """A lock file that nobody holds is removed; one that somebody may hold is a person's to judge.

    One with a time far in the future is nobody's either: a clock was set back since it was left.
    """
    far = abs(age)
    apart = f"{far / 60:.0f} minutes" if far >= STALE_S else f"{far:.0f} seconds"
    says = f"is {apart} old" if age >= 0 else f"has a time {apart} in the future"
    what = f"{file} {says}: what it locks cannot be changed"
    holders = _holders(file)
    if holders:
        what += f"; process {', '.join(holders)} has it open"
        return Repair("stale_lock", what, "let that process finish, or end it")
    if far <= STALE_S:
        return Repair("stale_lock", what, f"wait; once it is {STALE_S:.0f} seconds old, --fix removes it")
    return Repair("stale_lock", what, "remove it, if no git is at work there", partial(_unlink_unheld, file))


def _unlink_unheld(file: Path) -> None:
    age = _age(file)
    if _holders(file) or (age is not None and abs(age) <= STALE_S):
        raise HarnessError(f"{file} is in use again", id="busy", hint="run doctor again")
    file.unlink()


def _holders(file: Path) -> list[str]:
    """Ids of processes that have ``file`` open, as far as the system tells (Linux: /proc)."""
    processes = (name for name in os.listdir("/proc") if name.isdigit()) if os.path.isdir("/proc") else ()
    return sorted((pid for pid in processes if str(file) in _opened(pid)), key=int)


def _opened(pid: str) -> set[str]:
    """Paths of what a process has open; none of one that is gone or another user's."""
    found = set()
    with suppress(OSError):
        for handle in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{handle}"))
    return found


def odd_mode(place: Place) -> Iterator[Repair]:
    """A configured mode that is none: it counts for nothing, and whoever set it is to know."""
    stated = place.repository.config(MODE_KEY)
    known = [mode.value for mode in Mode]
    if stated is not None and stated not in known:
        what = f"git configuration {MODE_KEY} is {stated!r}, which is no mode and counts for nothing"
        remedy = f"git config {MODE_KEY} with one of {', '.join(known)}"
        if place.mode is not None:
            remedy += f"; what is here is {place.mode.value}"
        yield Repair("bad_config", what, remedy)


def odd_branch(place: Place) -> Iterator[Repair]:
    """A configured branch without a harness, where there is none: its name may be mistyped.

    A name in the lock counts before it, and ``harness.mode`` makes of it a harness that was lost.
    """
    stated, mode = place.repository.config(BRANCH_KEY), place.repository.config(MODE_KEY)
    if stated is None or stated != place.branch or place.mode is not None or mode == Mode.BRANCH.value:
        return
    remedy = f"git config {BRANCH_KEY} with the right name, or --unset it for {DEFAULT_BRANCH!r}"
    if not place.repository.refs.is_legal(place.ref):
        why = "which no branch can be called"
    elif place.landed_tips():
        why = f"which holds no {HARNESS_DIR}/"
    else:
        why = NOT_HERE
        remedy += "; harnessctl init starts a harness there"
    what = f"git configuration {BRANCH_KEY} is {stated!r}, {why}"
    # A user may have named the branch of all repositories, also of those that have no harness yet.
    yield Repair("bad_config", what, remedy, harmless=why == NOT_HERE)


def damaged_head(place: Place) -> Iterator[Repair]:
    """HEAD, or the branch that it names, which cannot be read: no run begins."""
    try:
        _ = place.repository.head_commit
    except HarnessError as error:
        yield Repair(error.id, error.message, error.hint)


def lost_harness(place: Place, lock: Lock | None) -> Iterator[Repair]:
    """A branch that should hold the harness and does not: moved or removed with git, or damaged."""
    stated = place.repository.config(MODE_KEY) == Mode.BRANCH.value
    tip = place.local_tip()
    damage = _content(place, tip).unreadable if tip and place.mode is not Mode.IN_TREE else ""
    broken = None if tip else place.repository.refs.broken(place.ref)
    expected = place.mode is not None or stated or lock is not None
    if not damage and (not expected or (place.mode is not None and broken is None)):
        return
    what = f"its tip {tip[:12]} holds no {HARNESS_DIR}/" if tip else "there is no such branch here"
    if broken:
        what = f"{broken} names no commit"
    if tip and damage:
        what = f"its tip {tip[:12]} cannot be read: {damage}"
    found = _last_harness(place)
    shown = f"git reflog show {place.branch}"
    if tip and not place.repository.has(tip):  # git itself shows no reflog then
        shown = f"{place.repository.common_dir / 'logs' / place.ref}"
    remedy = f"{shown} lists where it was"
    if place.remote and not (tip or broken or place.repository.refs.were(place.ref)):
        remedy = f"harnessctl sync brings it, if '{place.remote}' has it"  # it never was in this clone
    elif found:
        remedy += f", {found[:12]} being the newest that holds a harness"
    if lock and place.repository.has(lock.commit):
        remedy += f"; {LOCK_NAME} pins {lock.commit}, which is still here (git log {lock.commit[:12]})"
    elif lock:
        remedy += f"; {LOCK_NAME} pins {lock.commit}, which is to be fetched from where others have it"
    if broken:
        remedy += "; git makes the branch anew once that file is moved away"
    remedy += "; point the branch at the right one with git"
    yield Repair(LOST, f"branch '{place.branch}' should hold the harness, and {what}", remedy)


def refuse_lost(place: Place) -> None:
    """For who would take a lost harness for one without history; a tip that cannot be read says so itself.

    :raises NotFoundError: ``lost_harness``.
    """
    if place.mode is None or place.repository.refs.broken(place.ref):
        lock = read_lock(place.lock_path, tolerant=True) if place.lock_path else None
        for lost in lost_harness(place, lock):
            raise NotFoundError(lost.what, id=lost.id, hint=lost.remedy)


def _last_harness(place: Place) -> str:
    """The newest commit in the branch's reflog that holds a harness and can be read, "" for none."""
    for oid in place.repository.refs.were(place.ref):
        content = _content(place, oid)
        if not content.unreadable and content.folder is not None:
            return oid
    return ""


def missing_files(place: Place, pinned: str) -> Iterator[Repair]:
    """Files of what is landed, followed or ``pinned`` ("": none) whose objects are not in this repository."""
    repository = place.repository
    remedy = f"git fetch {place.remote} may bring it" if place.remote else "git fsck names what is missing"
    remedy += "; a clone of somebody else's that has it can be fetched from, too"
    for commit in _looked_at(place, pinned):
        what = f"revision {commit[:12]}"
        try:
            lost = [file for file in _content(place, commit).files if _is_lost(repository, file)]
        except NotFoundError as error:
            yield Repair("missing_object", f"{what} cannot be read in whole: {error.message}", remedy)
            continue
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            what += f" lacks {HARNESS_DIR}/{visible_line(lost[0].path)}{more}"
            yield Repair("missing_object", f"{what}: object {lost[0].oid} is not in this repository", remedy)


def _is_lost(repository: Repository, file: TreeFile) -> bool:
    return file.mode != GITLINK and not repository.has(file.oid)


def _looked_at(place: Place, pinned: str) -> list[str]:
    """What is followed, landed and pinned, each once."""
    followed = None
    with suppress(HarnessError):  # :func:`damaged_head` names it
        followed = place.tip()
    return list(dict.fromkeys(filter(None, [followed, *place.landed_tips(), pinned])))


def broken_policies(place: Place, pinned: str) -> Iterator[Repair]:
    """A ``harness.toml`` that cannot be read, at what is landed or followed, or at ``pinned`` ("": none)."""
    again = "commit, then harnessctl pin"
    remedy = f"mend it where the branch is checked out (git worktree add FOLDER {place.branch}), {again}"
    if place.mode is Mode.IN_TREE:
        remedy = f"mend {HARNESS_DIR}/{POLICY} and commit it"
    for commit in _looked_at(place, pinned):
        try:
            data = _content(place, commit).read(POLICY)
        except NotFoundError:  # :func:`missing_files` names it
            continue
        where = f"{POLICY} of {'the pinned revision' if commit == pinned else 'revision'} {commit[:12]}"
        unread = check_policy(data) if data is not None else ()
        for finding in unread:
            yield Repair("broken_policy", f"{where} cannot be read: {finding.message}", remedy)
        for error in wrong_policy(data) if data is not None and not unread else ():
            yield Repair("broken_policy", f"{where} is refused by runs: {error.message}", remedy)


def wrong_policy(data: bytes) -> Iterator[UsageError]:
    """What is wrong with the values of a ``harness.toml`` that can be read."""
    try:
        policy = parse_toml(data, POLICY)
    except UsageError as error:
        yield error
        return
    yield from wrong_settings(harness=policy)


def _age(path: Path) -> float | None:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime
    return None


def left_over_proposals(writer: Writer) -> Iterator[Repair]:
    """Proposal refs that are no open proposals: decided already, without a record, or unreadable."""
    place = writer.place
    waiting = {proposal.id for proposal in list_proposals(place)}
    for name, oid in place.repository.refs.list(PROPOSALS).items():
        update = name.removeprefix(PROPOSALS)
        if update in waiting:
            continue
        if unreadable := _content(place, oid).unreadable:
            yield _unreadable_ref(writer, name, oid, update, unreadable)
        elif find_record(_content(place, oid), update) is None:
            what = f"{name} holds no record of {update}: it was not made by harnessctl"
            yield Repair(
                "bad_proposal",
                what,
                f"move it to {RESCUE}{update}",
                partial(_move_away, writer, name, oid, RESCUE + update),
            )
        else:
            rescue = "" if _same_record(place, oid, update) else RESCUE + update
            kept = f", and keep what differs from the landed as {rescue}" if rescue else ""
            yield Repair(
                "left_over_proposal",
                f"{name} is decided on already",
                f"remove the ref{kept}",
                partial(_move_away, writer, name, oid, rescue),
                # A merge with git, here or where pull requests are merged, knows nothing of the ref.
                harmless=not rescue,
            )


def _unreadable_ref(writer: Writer, name: str, oid: str, update: str, why: str) -> Repair:
    """A ref of ours that nothing can be read from; where its object is gone, there is nothing to keep."""
    if writer.place.repository.has(oid):
        rescue, remedy = RESCUE + update, f"move it to {RESCUE}{update}"
    else:
        rescue, remedy = "", "remove the ref, if it cannot be fetched from where others have it"
    what = f"{name} cannot be read: {why}"
    return Repair("unreadable_ref", what, remedy, partial(_move_away, writer, name, oid, rescue))


def _same_record(place: Place, proposal: str, update: str) -> bool:
    """Whether the landed record of ``update`` is the proposed one; yes for a rejected one."""
    proposed = _content(place, proposal).read(record_path(update))
    landed = (_content(place, tip).read(record_path(update)) for tip in place.landed_tips())
    return all(data in (None, proposed) for data in landed)


def _content(place: Place, commit: str) -> Content:
    return Content(place.repository, commit)


def left_over_decisions(writer: Writer) -> Iterator[Repair]:
    """Waiting decisions whose record has landed, or that cannot be read."""
    place = writer.place
    tips = [_content(place, tip) for tip in place.landed_tips()]
    for name, oid in place.repository.refs.list(DECISIONS).items():
        if unreadable := _content(place, oid).unreadable:
            yield _unreadable_ref(writer, name, oid, name.removeprefix(DECISIONS), unreadable)
        elif any(tip.has_record(name.removeprefix(DECISIONS)) for tip in tips):
            what = f"{name} has landed"
            yield Repair(
                "left_over_decision", what, "remove the ref", partial(_move_away, writer, name, oid, "")
            )


def left_over_live(
    writer: Writer, running: Collection[str], stopped: Callable[[str], AbstractContextManager[None]]
) -> Iterator[Repair]:
    """Refs that keep the pinned commit of sessions that do not run.

    :param stopped: held while the ref of that session goes; raises :class:`HarnessError` if it runs by then.
    """
    for name, oid in writer.place.repository.refs.list(LIVE).items():
        session = name.removeprefix(LIVE)
        if session not in running:
            what = f"{name} keeps a commit for session {session}, which does not run"
            act = partial(_let_go, writer, name, oid, partial(stopped, session))
            yield Repair("left_over_live", what, "remove the ref", act)


def _let_go(writer: Writer, name: str, oid: str, stopped: Callable[[], AbstractContextManager[None]]) -> None:
    with stopped():
        _move_away(writer, name, oid, "")


def _move_away(writer: Writer, name: str, oid: str, rescue: str) -> None:
    try:
        if rescue and writer.place.repository.refs.read(rescue) is None:
            writer.settle(rescue, None, oid, "rescue")
        writer.settle(name, oid, None, "doctor")
    except LostRaceError as error:
        raise HarnessError(f"{name} moved meanwhile", id="moved_ref", hint="run doctor again") from error
