"""The store: one repository's harness behind one object.

Reading is free of side effects. Every verb that moves something goes through the writer's
transaction, refuses agents where CONTRACT 6 says so, and checks the identity before other work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from harnessctl.config import Environment, one_setting, parse_toml
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import EntryId, record_path
from harnessctl.domain.pin import Lock, Mode, Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.update import EntryEdit, Record
from harnessctl.layers.l3_durable.checking.validation import Checks
from harnessctl.layers.l3_durable.checking.verdicts import VerdictCache
from harnessctl.layers.l3_durable.content import POLICY, Content, files_at
from harnessctl.layers.l3_durable.files.lock import (
    LOCK_NAME,
    raw_lock,
    read_lock,
    render_lock,
    write_atomically,
)
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.git.occupied import occupants
from harnessctl.layers.l3_durable.git.patch import FilePatch, patch_files
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.history import history_cache
from harnessctl.layers.l3_durable.history.history_cache import HistoryCache
from harnessctl.layers.l3_durable.history.revisions import resolve
from harnessctl.layers.l3_durable.history.updates import Row, Update, list_updates
from harnessctl.layers.l3_durable.landing import (
    adding,
    decisions,
    initialising,
    offering,
    reworking,
    rollback,
    syncing,
    taking_back,
)
from harnessctl.layers.l3_durable.landing import proposals as proposing
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.landing.offering import Offered
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal
from harnessctl.layers.l3_durable.landing.repairs import refuse_lost
from harnessctl.layers.l3_durable.landing.reworking import Reworked
from harnessctl.layers.l3_durable.landing.rollback import Wanted
from harnessctl.layers.l3_durable.landing.syncing import Synced
from harnessctl.layers.l3_durable.landing.writer import Change, Writer
from harnessctl.layers.l3_durable.pins import pinning
from harnessctl.layers.l3_durable.pins.fence import HarnessFence, lock_digest
from harnessctl.layers.l3_durable.places import identity
from harnessctl.layers.l3_durable.places.actor import refuse_agents
from harnessctl.layers.l3_durable.places.mode import Place, find_place
from harnessctl.layers.l3_durable.places.operations import Operations
from harnessctl.layers.l3_durable.places.sealed import read_key
from harnessctl.layers.l3_durable.places.state_dir import (
    ensure_repository_id,
    ensure_state_dir,
    repository_id,
)
from harnessctl.layers.l3_durable.snapshot import read_snapshot

#: What else helps when a revision holds what was taken back, and the lock is to move to it.
_PIN_ANYWAY = "harnessctl log lists others; with --allow-revoked the lock names it, though runs refuse it"


class HarnessStore:
    """One repository's harness.

    :param allow: digests of harmless secrets from the user's own settings; the landed policy adds its.
    """

    def __init__(self, place: Place, allow: Iterable[str] = ()) -> None:
        self.place = place
        self._allow = frozenset(allow)

    # -- where ---------------------------------------------------------------------------------

    @property
    def repository(self) -> Repository:
        """The open repository."""
        return self.place.repository

    @property
    def root(self) -> Path:
        """Root of the work tree; of a bare repository, its git directory."""
        return self.repository.root or self.repository.git_dir

    @property
    def git_dir(self) -> Path:
        """This work tree's git directory."""
        return self.repository.git_dir

    @property
    def common_dir(self) -> Path:
        """The git directory that all work trees share."""
        return self.repository.common_dir

    @property
    def mode(self) -> Mode | None:
        """None when there is no harness yet."""
        return self.place.mode

    @property
    def branch(self) -> str:
        """Short name of the branch with landed state."""
        return self.place.branch

    @cached_property
    def repository_id(self) -> str:
        """Id of the repository; made and written into its configuration at the first use."""
        return ensure_repository_id(self.repository)

    @cached_property
    def state_dir(self) -> Path:
        """``$XDG_STATE_HOME/harnessctl/<repository id>``, 0700, made at the first use."""
        return ensure_state_dir(self.place.environment.state_home, self.repository_id)

    @property
    def state_path(self) -> Path:
        """As :attr:`state_dir` for those who only read: nothing is made, and it may not be there."""
        return self.place.environment.state_home / (repository_id(self.repository) or "unnamed")

    # -- reading -------------------------------------------------------------------------------

    def resolve(self, rev: str) -> str:
        """Full commit id of a REV; errors as :func:`revisions.resolve`, and ``lost_harness``."""
        refuse_lost(self.place)
        return resolve(self.place, rev)

    @property
    def lock(self) -> Lock | None:
        """``harness.lock`` of this work tree; errors as :func:`lock.parse_lock`."""
        return read_lock(self.place.lock_path) if self.place.lock_path else None

    def pin(self, at: str | None = None, *, allow_revoked: bool = False) -> Pin:
        """What a run started now would read; errors as :func:`pinning.resolve_pin`, and ``lost_harness``."""
        found = pinning.resolve_pin(self.place, at, allow_revoked=allow_revoked)
        if found.source is PinSource.EMPTY:
            refuse_lost(self.place)
        return found

    def snapshot(self, rev: str | None = None) -> Snapshot:
        """Entries at ``rev``, by default at the pin; empty where there is no harness."""
        commit = self.pin(allow_revoked=True).commit if rev is None else self.resolve(rev)
        return self.snapshot_at(commit)

    def snapshot_at(self, commit: str) -> Snapshot:
        """Entries at a full commit id; "" gives the empty snapshot."""
        return read_snapshot(self.content(commit), self.checks) if commit else Snapshot()

    def landed_snapshot(self) -> Snapshot:
        """Entries at the landed tip, empty where nothing has landed."""
        return self.snapshot_at(next(iter(self.place.landed_tips()), ""))

    def landed_tip(self) -> str:
        """Commit of the landed tip.

        :raises NotFoundError: ``not_initialised``, ``not_committed``, ``lost_harness``.
        """
        tips = self.place.landed_tips()
        if not tips:
            raise self._absent()
        return tips[0]

    def readable_lock(self) -> Lock | None:
        """The lock, None when there is none or it cannot be read."""
        return read_lock(self.place.lock_path, tolerant=True) if self.place.lock_path else None

    def unread(self, pin: Pin) -> int:
        """How many landed updates a run with ``pin`` will not read."""
        return pinning.unread_updates(self.place, pin.commit, self.history)

    def content(self, commit: str) -> Content:
        """Raw files at a full commit id."""
        return Content(self.repository, commit)

    def updates(self, keep: Callable[[Row], bool] = lambda _: True) -> tuple[Update, ...]:
        """Updates with their states, open proposals first, then newest first; those ``keep`` wants.

        :raises NotFoundError: ``lost_harness``.
        """
        refuse_lost(self.place)
        return list_updates(self.place, self.history, keep)

    def proposals(self) -> tuple[Proposal, ...]:
        """Open proposals, oldest first.

        :raises NotFoundError: ``lost_harness``.
        """
        refuse_lost(self.place)
        return proposing.list_proposals(self.place, self.history)

    def proposal(self, prefix: str) -> Proposal:
        """The one open proposal whose id starts with ``prefix``.

        :raises NotFoundError: ``no_proposal``, ``decided``, ``lost_harness``.
        :raises UsageError: ``ambiguous_revision``.
        """
        refuse_lost(self.place)
        return proposing.find_proposal(self.place, prefix, self.history)

    def patch(self, before: str, after: str) -> tuple[FilePatch, ...]:
        """What changes between two full commit ids ("": nothing there), with paths below the root.

        Record files are left out: they say the same in other words.
        """
        one, other = (self.content(c) if c else None for c in (before, after))
        paths = self.repository.changed(one.folder if one else None, other.folder if other else None)
        wanted = [p for p in paths if not p.startswith("updates/")]
        return patch_files(files_at(one, wanted), files_at(other, wanted))

    @property
    def fence(self) -> HarnessFence:
        """Sees moves of refs and lock during a run."""
        return HarnessFence(self.place, self.operations)

    def pushed(self, commit: str) -> bool | None:
        """Whether ``commit`` is on the remote as far as this clone knows; None without a remote."""
        if not self.place.remote:
            return None
        tip = self.place.remote_tip()
        return tip is not None and reaches(self.repository, (tip,), commit)

    @property
    def require_shared(self) -> bool:
        """Whether policy lets runs read only what is on the remote."""
        return self.place.require_shared()

    def in_use(self) -> tuple[str, ...]:
        """Work trees that have the harness branch checked out or half rebased, in words."""
        return occupants(self.repository, self.place.ref)

    # -- writing -------------------------------------------------------------------------------

    def check_identity(self) -> None:
        """:raises UsageError: ``no_identity``: a commit could not say who made it."""
        identity.author(self.repository, self.place.environment)
        identity.committer(self.repository, self.place.environment)

    @cached_property
    def operations(self) -> Operations:
        """The host's log of its own moves."""
        return Operations(self.state_dir)

    @cached_property
    def checks(self) -> Checks:
        """The load rules and the secrets scan, with what is allowed at the landed tip."""
        return Checks(self._verdicts, self._allow | _allowed(self.place))

    @cached_property
    def _verdicts(self) -> VerdictCache:
        folder = self._cache_dir
        return VerdictCache(folder / "verdicts", _key(folder)) if folder else VerdictCache(None, b"")

    @cached_property
    def history(self) -> HistoryCache:
        """What commits did, as far as it was worked out before."""
        folder = self._cache_dir
        return HistoryCache(folder / history_cache.FILE, _key(folder)) if folder else HistoryCache()

    @property
    def _cache_dir(self) -> Path | None:
        """Where to remember; None while there is nothing to remember, or where nothing can be written."""
        try:
            return self.state_dir if self.mode is not None else None
        except (HarnessError, OSError):
            return None

    @cached_property
    def writer(self) -> Writer:
        """The transaction."""
        return Writer(self.place, self.checks, self.operations)

    def initialise(self, *, in_tree: bool = False, unpinned: bool = False) -> Landed:
        """Make a harness; errors as :mod:`initialising`. Branch mode writes a lock unless ``unpinned``."""
        self._person("init")
        if in_tree:
            root = initialising.refuse_in_tree(self.place)
            written = initialising.init_in_tree(self.place, self.operations, root)
            self._find_place()
            return Landed(None, "", written=written)
        self.check_identity()
        begun = initialising.is_begun(self.place, Operations(self.state_path))
        if not begun:
            initialising.refuse_branch(self.place)
        place, operations = self.place, self.operations
        with self.repository.exclusive():  # or another init would take ours for one that was stopped
            begun = initialising.is_begun(place, operations)
            if not begun:
                initialising.refuse_branch(place)
            commit = place.landing_tip() if begun else initialising.init_branch(self.writer)
            initialising.name_branch(place, operations)
            self._find_place()
            lock = None if unpinned else self._first_lock(commit)
            initialising.name_mode(place, operations)
        self._find_place()
        return replace(self._landed(None, commit, lock), finished=begun)

    def _first_lock(self, commit: str) -> Lock | None:
        """The lock that ``init`` writes, unless an ``init`` that was stopped wrote it."""
        path = self.place.lock_path
        return None if path is None or read_lock(path, tolerant=True) else self._write_lock(commit)

    def add(self, wanted: Addition) -> Landed:
        """Land a person's edit, or write it into the work tree in in-tree mode."""
        self._person(wanted.verb)
        self.check_identity()
        if self.mode is None:
            raise self._absent()
        if self.mode is Mode.IN_TREE:
            return self._add_in_tree(wanted)
        made: list[tuple[Content, Record]] = []

        def plan(tip: Content) -> Change:
            record, change = adding.add_change(self.place, tip, wanted)
            made[:] = [(tip, record)]
            return change

        try:
            moved = decisions.land(self.writer, plan)
        except HarnessError:
            if made:  # says the lines of the text as it was given, where it is that which was refused
                adding.judge_given(self.checks, made[0][0], wanted)
            raise
        tip, record = made[0]
        return self._landed(record, moved.new, warnings=self._warnings(tip, wanted, moved.warnings))

    def _warnings(
        self, before: Content | None, wanted: Addition, found: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """``found``, with the lines of the text as it was given."""
        try:
            return adding.judge_given(self.checks, before, wanted) if found else found
        except HarnessError:
            return found

    def editable(self, entry: EntryId) -> tuple[EntryFile, ...]:
        """The files that a person's edit of ``entry`` starts from; () for a new one.

        :raises NotFoundError: ``not_initialised``.
        :raises HarnessError: in-tree, as :func:`adding.refuse_in_the_way`: the edit could not be written.
        """
        if self.mode is None:
            raise self._absent()
        before = self._tip_content()
        if self.mode is Mode.IN_TREE:
            touched = {entry.path, *(before.listing(entry) if before else ())}
            adding.refuse_in_the_way(self._work_tree(), before, dict.fromkeys(sorted(touched)))
        return before.entry(entry) if before else ()

    def propose(self, edits: Sequence[EntryEdit], draft: Draft, base: str = "") -> Proposal:
        """Write an agent's update as a proposal on ``base`` (a full commit id; "": the tip)."""
        self.check_identity()
        if self.mode is None:
            raise self._absent()
        return proposing.propose(self.writer, edits, draft, base or self.place.tip() or "")

    def judge_proposal(
        self, edits: Sequence[EntryEdit], draft: Draft, base: str = ""
    ) -> tuple[EntryEdit, ...]:
        """What :meth:`propose` would write, checked as there; nothing is written."""
        if self.mode is None:
            raise self._absent()
        return proposing.judge(self.writer, edits, draft, base or self.place.tip() or "")

    def accept(self, prefix: str, *, pin: bool = False) -> Landed:
        """Land the proposal whose id starts with ``prefix``; with ``pin`` move the lock to it.

        :raises HarnessError: ``pin_not_shared``: no run would read it yet; nothing has landed.
        """
        self._person("review accept")
        self.check_identity()
        if pin and self._lock_to_move:
            pinning.refuse_pin_of_landing(self.place)
        proposal = self.proposal(prefix)
        moved = proposing.accept(self.writer, proposal, self.history)
        lock = self._move_lock(moved.new) if pin else None
        return self._landed(proposal.record, moved.new, lock, moved.warnings)

    def reject(self, prefix: str, why: str = "") -> Landed:
        """Decide against a proposal; the decision is a record on the branch."""
        self._person("review reject")
        self.check_identity()
        proposal = self.proposal(prefix)
        waits = self.mode is Mode.IN_TREE and bool(self.in_use())
        record, commit = proposing.reject(self.writer, proposal, why, self.history, waits=waits)
        return self._landed(record, commit)

    def rebase_proposal(self, prefix: str) -> Reworked:
        """Put an open proposal on the tip; errors as :func:`reworking.rebase`."""
        self._person("review rebase")
        self.check_identity()
        return reworking.rebase(self.writer, self.proposal(prefix))

    def edit_proposal(self, proposal: Proposal, files: Sequence[EntryFile], onto: str = "") -> Reworked:
        """Replace what a proposal proposes by a person's version; errors as :func:`reworking.edit`."""
        self._person("review edit")
        self.check_identity()
        return reworking.edit(self.writer, proposal, files, onto)

    def offer_proposal(self, prefix: str) -> Offered:
        """Push an open proposal as a branch for a pull request; errors as :func:`offering.offer`."""
        self._person("review pr")
        proposal = self.proposal(prefix)
        return offering.offer(self.place, proposal.id, proposal.commit)

    def sync(self) -> Synced:
        """Fetch and push the harness branch; errors as :func:`syncing.sync`."""
        self._person("sync")
        done = syncing.sync(self.writer)
        self._find_place()
        return done

    def rollback(
        self, wanted: Wanted, *, only: bool = False, dry_run: bool = False
    ) -> tuple[Landed, rollback.Plan]:
        """Take entries back to a revision, or with ``only`` take back one update; an existing lock moves.

        :param dry_run: say what would happen, write nothing; the landing's commit is then "".
        """
        self._person("rollback")
        self.check_identity()
        make = taking_back.plan_only if only else rollback.plan_rollback
        made: list[rollback.Plan] = []

        def plan(tip: Content) -> Change:
            made[:] = [make(self.place, wanted, tip)]
            return made[0].change

        if dry_run:
            tip = self.content(self.place.landing_tip())
            self.checks.refuse_broken(tip, plan(tip).edits)
            return Landed(made[0].record, ""), made[0]
        instead = ""
        if self.mode is Mode.IN_TREE and self.in_use():
            tip = self.content(self.place.landing_tip())
            plan(tip)
            instead = taking_back.by_hand(self.place, tip, made[0].record)
        moved = decisions.land(self.writer, plan, instead)
        lock = self._move_lock(moved.new)
        return self._landed(made[0].record, moved.new, lock), made[0]

    def move_pin(
        self,
        rev: str | None = None,
        *,
        resolve_conflict: bool = False,
        allow_revoked: bool = False,
        check: Callable[[str], object] | None = None,
    ) -> Lock:
        """Write the lock: at ``rev``, by default the landed tip, or by settling its merge conflict.

        :param check: is given the commit before anything is written; raises to refuse it.
        :raises HarnessError: ``pin_not_landed``, ``pin_not_shared``: no run would read it.
        :raises RefusedError: ``pin_revoked``: runs would refuse to read it, unless ``allow_revoked``.
        """
        self._person("pin")
        if self.mode is None:
            raise self._absent()
        if resolve_conflict:
            commit = pinning.resolve_conflict(self.place)
        else:
            commit = self.resolve(rev) if rev else pinning.pinnable_tip(self.place)
        pinning.refuse_unreadable(self.place, commit)
        pinning.refuse_revoked(self.place, commit, allow=allow_revoked, otherwise=_PIN_ANYWAY)
        if check is not None:
            check(commit)
        return self._write_lock(commit)

    def revoked(self, commit: str) -> tuple[str, ...]:
        """Updates that ``commit`` holds and that were taken back since."""
        return pinning.revoked_updates(self.place, commit)

    # -- helpers -------------------------------------------------------------------------------

    def _absent(self) -> HarnessError:
        """Why there is no harness: it is lost, not committed, or there never was one."""
        refuse_lost(self.place)
        return self.place.absent()

    def _person(self, verb: str) -> None:
        refuse_agents(self.place.environment, verb)

    def _find_place(self) -> None:
        self.place = find_place(self.repository, self.place.environment)
        for name in ("writer", "checks", "_verdicts", "history"):
            self.__dict__.pop(name, None)

    def _work_tree(self) -> Path:
        """:raises UsageError: ``no_work_tree``."""
        if self.repository.root is None:
            raise UsageError("a bare repository has no work tree to write to", id="no_work_tree")
        return self.repository.root

    def _tip_content(self) -> Content | None:
        """What an edit starts from: HEAD in-tree, else the branch; None before the first commit."""
        tip = self.place.tip()
        return self.content(tip) if tip else None

    def _add_in_tree(self, wanted: Addition) -> Landed:
        root, before = self._work_tree(), self._tip_content()
        edit = adding.add_edit(before, wanted)
        files = proposing.file_edits(before, (edit,))
        # Before the record: compared with HEAD alone, work that is not committed may look like no change.
        adding.refuse_in_the_way(root, before, files, wanted.files)
        record = adding.add_record(self.place, before, edit, wanted)
        files |= {record_path(record.id): proposing.record_file(record)}
        try:
            self.checks.refuse_secrets(files, record.summary)
            self.checks.refuse_broken(before, files)
            warnings = self.checks.lint(before, files)
        except HarnessError:
            adding.judge_given(self.checks, before, wanted)  # as in :meth:`add`
            raise
        warnings = self._warnings(before, wanted, warnings)
        written = adding.write_files(root, before, files, wanted.files)
        return Landed(record, "", written=written, warnings=warnings)

    @property
    def tip_waits(self) -> bool:
        """Whether the landed tip is not shared yet, as policy wants it before runs read it."""
        return pinning.tip_waits(self.place)

    def _move_lock(self, commit: str) -> Lock | None:
        """Move an existing lock, but not to what no run would read; unpinned runs stay so."""
        return self._write_lock(commit) if self._lock_to_move and not self.require_shared else None

    @property
    def _lock_to_move(self) -> bool:
        return self.place.lock_path is not None and self.place.lock_path.exists()

    def _write_lock(self, commit: str) -> Lock:
        path = self.place.lock_path
        if path is None:
            raise UsageError(
                "a bare repository has no work tree to pin",
                id="no_work_tree",
                hint="pin in a clone that has one",
            )
        lock = pinning.lock_for(self.place, commit)
        data = render_lock(lock)
        self.writer.reached("before locked")
        try:
            old = _lock_now(path)
            self.operations.moved(LOCK_NAME, old, lock_digest(data))  # first, as in Writer.move
            write_atomically(path, data)
        except (OSError, HarnessError) as error:
            why = error.message if isinstance(error, HarnessError) else error.strerror
            raise HarnessError(
                f"{path} could not be written: {why}; {commit[:12]} is landed",
                id="lock_not_written",
                hint="runs go on reading what the lock says; once it can be written, harnessctl pin moves it",
            ) from error
        self.writer.reached("locked")
        return lock

    def _landed(
        self,
        record: Record | None,
        commit: str,
        lock: Lock | None = None,
        warnings: tuple[Finding, ...] = (),
    ) -> Landed:
        unread, pinned = 0, False
        with suppress(HarnessError):
            locked = pinning.locked_commit(self.place)
            pinned = locked is not None
            unread = pinning.unread_updates(self.place, locked, self.history) if locked else 0
            self.history.save()
        return Landed(record, commit, lock, self.pushed(commit), pinned, unread, (), warnings)


def open_store(
    start: Path, environment: Environment, *, allow: Iterable[str] = (), lenient: bool = False
) -> HarnessStore:
    """The store of the repository around ``start``; errors as :func:`git.opening.open_raw`.

    :param lenient: as of :func:`find_place`.
    """
    return HarnessStore(find_place(Repository.open(start), environment, lenient=lenient), allow)


def _lock_now(path: Path) -> str | None:
    """The fence's value of the lock that is replaced; None where there is none, or none that can be read."""
    try:
        data = raw_lock(path)
    except OSError:
        return None
    return None if data is None else lock_digest(data)


def _key(folder: Path) -> bytes:
    return read_key(folder / "verdicts.key")


def _allowed(place: Place) -> frozenset[str]:
    """``[secrets] allow`` of the landed policy; a broken policy allows nothing."""
    tip = next(iter(place.landed_tips()), None)
    data = Content(place.repository, tip).read(POLICY) if tip else None
    try:
        return frozenset(one_setting("secrets.allow", harness=parse_toml(data or b"", POLICY)) or ())
    except UsageError:
        return frozenset()
