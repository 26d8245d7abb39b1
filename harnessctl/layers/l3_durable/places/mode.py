"""Where a repository keeps its harness: which mode, which branch, which refs count as landed.

In a fresh clone the branch is the lock's, else configuration ``harness.branch``, else a local
``refs/heads/harness``, else the remote-tracking one (read only), else ``.harness`` in HEAD, which is
in-tree mode (CONTRACT 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harnessctl.config import Environment, one_setting, parse_toml, user_config
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.content import POLICY, Content
from harnessctl.layers.l3_durable.files.lock import LOCK_NAME, read_lock
from harnessctl.layers.l3_durable.git.history import merge_base
from harnessctl.layers.l3_durable.git.repository import Repository

DEFAULT_BRANCH = "harness"
MODE_KEY = "harness.mode"
BRANCH_KEY = "harness.branch"
SHARED_KEY = "harness.requireShared"
HEADS = "refs/heads/"


@dataclass(frozen=True)
class Place:
    """One repository's harness.

    :ivar mode: None when there is no harness yet.
    :ivar branch: short name of the branch that holds landed state.
    :ivar remote: name of the remote it is shared through, "" for none.
    """

    repository: Repository
    environment: Environment
    mode: Mode | None
    branch: str
    remote: str

    @property
    def ref(self) -> str:
        """Full name of the local branch."""
        return HEADS + self.branch

    @property
    def remote_ref(self) -> str | None:
        """Full name of the remote-tracking branch, None without a remote."""
        return f"refs/remotes/{self.remote}/{self.branch}" if self.remote else None

    @property
    def lock_path(self) -> Path | None:
        """Where ``harness.lock`` stands, None in a bare repository."""
        root = self.repository.root
        return root / LOCK_NAME if root else None

    def local_tip(self) -> str | None:
        """Commit of the local branch."""
        return self.repository.refs.read(self.ref)

    def remote_tip(self) -> str | None:
        """Commit of the remote-tracking branch."""
        return self.repository.refs.read(self.remote_ref) if self.remote_ref else None

    def tip(self) -> str | None:
        """What unpinned runs follow: HEAD in-tree; else the local branch, else the remote-tracking one."""
        if self.mode is Mode.IN_TREE:
            return self.repository.head_commit
        return self.local_tip() or self.remote_tip()

    def landed_tips(self) -> tuple[str, ...]:
        """Commits from which everything landed is reachable."""
        found = (self.local_tip(), self.remote_tip())
        return tuple(dict.fromkeys(t for t in found if t))

    def readable_tips(self) -> tuple[str, ...]:
        """Commits from which all is reachable that a lock may name and an unpinned run may read.

        What landed, or of it what is on the remote where :meth:`require_shared` says so.
        """
        if not self.require_shared():
            return self.landed_tips()
        tip = self.remote_tip()
        return (tip,) if tip else ()

    def require_shared(self) -> bool:
        """``[review] require_shared``: whether runs read only what the others can read too.

        The user's own settings first. A landed policy asks for it when it does so on either side: else a
        commit that nobody else has could lift what the others agreed on.
        """
        stated = self.repository.config(SHARED_KEY)
        own = one_setting(
            "review.require_shared",
            user=user_config(self.environment),
            git={} if stated is None else {SHARED_KEY: stated},
        )
        return any(map(self._asks_for_shared, self.landed_tips())) if own is None else bool(own)

    @property
    def sharing(self) -> str:
        """What a person types so that others get what has landed."""
        return "git push" if self.mode is Mode.IN_TREE else "harnessctl sync"

    def _asks_for_shared(self, tip: str) -> bool:
        try:
            policy = parse_toml(Content(self.repository, tip).read(POLICY) or b"", POLICY)
        except UsageError:  # a load rule names it; what it would have asked for cannot be told
            return False
        try:
            return bool(one_setting("review.require_shared", harness=policy))
        except UsageError:  # somebody asked, in other words than true
            return True

    def landing_tip(self) -> str:
        """Commit of the local branch, on which landings are made.

        :raises NotFoundError: as :meth:`absent`, or ``no_local_branch`` in a clone that has only
            the remote-tracking branch.
        """
        tip = self.local_tip()
        if tip is not None:
            return tip
        if self.mode is not None and self.remote_tip() is not None:
            raise NotFoundError(
                f"this clone has {self.remote_ref} but no branch '{self.branch}' to land on",
                id="no_local_branch",
                hint=f"git branch {self.branch} {self.remote}/{self.branch}",
            )
        raise self.absent()

    def absent(self) -> NotFoundError:
        """Why nothing has landed: in-tree nothing is committed yet, or there is no harness at all."""
        if self.mode is not Mode.IN_TREE:
            return not_initialised()
        return NotFoundError(
            f"the harness is in-tree, and nothing is committed on branch '{self.branch}' yet",
            id="not_committed",
            hint=f"commit {HARNESS_DIR}/ first: git add {HARNESS_DIR}, then git commit",
        )


def not_initialised() -> NotFoundError:
    """The error of every verb that needs a harness where there is none."""
    return NotFoundError("this repository has no harness", id="not_initialised", hint="harnessctl init")


def find_place(repository: Repository, environment: Environment, *, lenient: bool = False) -> Place:
    """Work out mode and branch; reads configuration, the lock and refs, changes nothing.

    :param lenient: take a HEAD that cannot be read for one without a harness.
    """
    branch, mode = _branch(repository), None
    stated = repository.config(MODE_KEY)
    remote = _remote(repository, branch or DEFAULT_BRANCH)
    if stated == Mode.IN_TREE.value:
        mode = Mode.IN_TREE
    elif branch and _has_harness(repository, branch, remote):
        beside_code = (
            stated is None and _in_head(repository, lenient) and _is_code(repository, branch, remote)
        )
        mode = Mode.IN_TREE if beside_code else Mode.BRANCH
    elif _in_head(repository, lenient):
        mode = Mode.IN_TREE
    if mode is Mode.IN_TREE:
        branch = repository.config(BRANCH_KEY) or default_branch(repository)
    name = branch or DEFAULT_BRANCH
    return Place(repository, environment, mode, name, _remote(repository, name))


def default_branch(repository: Repository) -> str:
    """Where the project lands: the remote's HEAD, else main or master, else the checked-out branch."""
    pointed = repository.refs.symbolic("refs/remotes/origin/HEAD")
    if pointed:
        return pointed.removeprefix("refs/remotes/origin/")
    for name in ("main", "master"):
        if repository.refs.read(HEADS + name):
            return name
    head = repository.head_ref
    return head.removeprefix(HEADS) if head else "main"


def _branch(repository: Repository) -> str | None:
    lock = read_lock(repository.root / LOCK_NAME, tolerant=True) if repository.root else None
    if lock is not None:
        return lock.branch
    return repository.config(BRANCH_KEY) or DEFAULT_BRANCH


def _tips(repository: Repository, branch: str, remote: str) -> list[str]:
    refs = (HEADS + branch, f"refs/remotes/{remote}/{branch}")
    return [tip for tip in map(repository.refs.read, refs) if tip is not None]


def _has_harness(repository: Repository, branch: str, remote: str) -> bool:
    """Whether a tip holds one, or cannot be read: then it is the harness that is damaged, not absent."""
    contents = (Content(repository, tip) for tip in _tips(repository, branch, remote))
    return any(content.unreadable or content.folder is not None for content in contents)


def _is_code(repository: Repository, branch: str, remote: str) -> bool:
    """Whether the branch shares history with the code: an orphan harness branch never does.

    The code is HEAD, or the project's default branch where HEAD is the very branch in question.
    """
    code = repository.head_commit
    main = default_branch(repository)
    if repository.head_ref == HEADS + branch and main != branch:
        code = next(iter(_tips(repository, main, remote)), code)
    tips = [t for t in _tips(repository, branch, remote) if not Content(repository, t).unreadable]
    return code is not None and any(merge_base(repository, code, tip) is not None for tip in tips)


def _in_head(repository: Repository, lenient: bool) -> bool:
    try:
        head = repository.head_commit
    except HarnessError:
        if not lenient:
            raise
        return False
    return head is not None and repository.folder(repository.commit(head).tree, HARNESS_DIR) is not None


def _remote(repository: Repository, branch: str) -> str:
    stated = repository.config(f"branch.{branch}.remote")
    names = repository.remotes()
    if stated in names:
        return str(stated)
    return "origin" if "origin" in names else names[0] if len(names) == 1 else ""
