"""Making a harness: an orphan branch, or ``.harness/`` beside the code.

Everything that could stand in the way is looked at first; where something does, no ref is made.
"""

from __future__ import annotations

from pathlib import Path

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.content import POLICY, Content
from harnessctl.layers.l3_durable.files.lock import write_atomically
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.landing.writer import Change, Writer, refuse_occupied
from harnessctl.layers.l3_durable.places import identity
from harnessctl.layers.l3_durable.places.mode import BRANCH_KEY, HEADS, MODE_KEY, Place, default_branch
from harnessctl.layers.l3_durable.places.operations import Operations

STARTER = """\
# Policy of this harness. Only people change this file.
schema = 1

# [run]
# model = "provider/name"
# python = ".venv/bin/python"

# [budgets]
# turns = 50
# tokens = 200000

# [[gates]]
# name = "tests"
# command = "pytest -q"
# inputs = ["tests/**"]
# timeout_s = 600

# [review]
# require_shared = false

# [prompt]
# tokens = 2000

# [secrets]
# allow = []
"""

#: Why the branch was made, in the reflog and among the operations.
INIT = "init"


def init_branch(writer: Writer) -> str:
    """Create the orphan branch with a starter policy; the commit. :func:`refuse_branch` was asked before.

    :raises HarnessError: ``name_taken``: somebody else made the branch meanwhile.
    :raises ConflictError: ``moved_ref``: the lock file of another git stays in the way.
    """
    place = writer.place
    author = identity.author(place.repository, place.environment)
    committer = identity.committer(place.repository, place.environment)
    files = {POLICY: EntryFile(POLICY, 0o100644, STARTER.encode())}
    commit, _ = writer.build(None, Change(files, "harness(init): start a harness\n", author, committer))
    try:
        writer.settle(place.ref, None, commit, INIT)
    except LostRaceError as error:
        raise HarnessError(
            f"branch '{place.branch}' appeared meanwhile: {error}",
            id="name_taken",
            hint="harnessctl status says whether it is a harness that somebody else began just now",
        ) from error
    return commit


def is_begun(place: Place, operations: Operations) -> bool:
    """Whether an ``init`` here made the branch and was stopped before it was done: the mode comes last.

    One that a clone got from elsewhere was made by git, or by ``sync``.
    """
    tip = place.local_tip()
    if tip is None or place.repository.config_now(MODE_KEY) is not None:
        return False
    made = (o.new for o in operations.read() if o.what == place.ref and o.why == INIT and o.new)
    return any(reaches(place.repository, (tip,), commit) for commit in made)


def name_branch(place: Place, operations: Operations) -> None:
    """Tell git's configuration which branch holds the harness.

    :raises HarnessError: ``not_configured``: it cannot be written; the branch is there.
    """
    _told(place, operations, BRANCH_KEY, place.branch)


def name_mode(place: Place, operations: Operations) -> None:
    """Tell it too that the harness is on a branch, which ends ``init``; errors as :func:`name_branch`."""
    _told(place, operations, MODE_KEY, Mode.BRANCH.value)


def _told(place: Place, operations: Operations, key: str, value: str) -> None:
    try:
        _set(place, operations, key, value)
    except HarnessError as error:
        raise HarnessError(
            f"branch '{place.branch}' is made, and git's configuration could not be told: {error.message}",
            id="not_configured",
            hint="the harness works without it; once that can be written, harnessctl init again finishes",
        ) from error


def _set(place: Place, operations: Operations, key: str, value: str) -> None:
    """Set one key; the note for the fence comes first, as in :meth:`Writer.move`."""
    old = place.repository.config(key)
    operations.moved(key, old, value)
    place.repository.set_config(key, value)


def refuse_branch(place: Place) -> None:
    """Look at everything that could stand in the way of the branch; writes nothing.

    :raises HarnessError: ``already_initialised``, ``name_taken``, ``mixed_modes``, ``branch_in_use``.
    """
    _refuse_initialised(place)
    repository = place.repository
    tip = repository.refs.read(place.ref)
    if tip is not None:
        if Content(repository, tip).folder is not None:
            raise _already(place)
        if place.repository.config(MODE_KEY) == Mode.BRANCH.value:
            raise HarnessError(
                f"branch '{place.branch}' held this project's harness and holds no {HARNESS_DIR}/ now",
                id="name_taken",
                hint="harnessctl doctor says where to look for it",
            )
        raise _taken(f"a branch '{place.branch}' exists and holds no {HARNESS_DIR}/")
    if repository.refs.read(f"refs/tags/{place.branch}") is not None:
        raise _taken(f"a tag '{place.branch}' exists, and git would call the name ambiguous")
    below = repository.refs.list(f"{place.ref}/")
    if below:
        raise _taken(f"{next(iter(below))} exists, so git cannot make {place.ref}")
    for above in _parents(place.ref):
        if repository.refs.read(above) is not None:
            raise _taken(f"{above} exists, so git cannot make {place.ref}")
    refuse_occupied(place)


def _parents(ref: str) -> list[str]:
    parts = ref.removeprefix(HEADS).split("/")
    return [HEADS + "/".join(parts[:n]) for n in range(1, len(parts))]


def _refuse_initialised(place: Place) -> None:
    if place.mode is Mode.IN_TREE and place.repository.config(MODE_KEY) is None:
        raise HarnessError(
            f"HEAD holds {HARNESS_DIR}/, so this project keeps its harness in-tree; both at once is refused",
            id="mixed_modes",
            hint="harnessctl init --in-tree",
        )
    if place.mode is not None:
        raise _already(place)


def refuse_in_tree(place: Place) -> Path:
    """Look at what could stand in the way in-tree; the work tree's root. Writes nothing.

    :raises HarnessError: ``already_initialised``, ``mixed_modes``.
    :raises UsageError: ``no_work_tree``.
    """
    root = place.repository.root
    if root is None:
        raise UsageError(
            "a bare repository has no work tree",
            id="no_work_tree",
            hint="harnessctl init without --in-tree keeps the harness on a branch",
        )
    if place.mode is Mode.BRANCH:
        raise HarnessError(
            f"branch '{place.branch}' holds this project's harness; both at once is refused",
            id="mixed_modes",
            hint="harnessctl status says where it stands; there is no verb that moves a harness in-tree",
        )
    if place.repository.config(MODE_KEY) is not None:
        raise _already(place)
    return root


def init_in_tree(place: Place, operations: Operations, root: Path) -> tuple[Path, ...]:
    """Write ``.harness/`` below ``root``; the files written, which the user commits."""
    policy = root / HARNESS_DIR / POLICY
    written: tuple[Path, ...] = ()
    if not policy.exists():
        policy.parent.mkdir(exist_ok=True)
        write_atomically(policy, STARTER.encode())
        written = (policy,)
    _set(place, operations, BRANCH_KEY, default_branch(place.repository))
    _set(place, operations, MODE_KEY, Mode.IN_TREE.value)
    return written


def _already(place: Place) -> HarnessError:
    where = f"on branch '{place.branch}'" if place.mode is not Mode.IN_TREE else "in-tree"
    return HarnessError(
        f"this repository has a harness already, {where}", id="already_initialised", hint="harnessctl status"
    )


def _taken(why: str) -> HarnessError:
    return HarnessError(
        f"{why}; no ref was made",
        id="name_taken",
        hint="choose another name: git config harness.branch NAME, then harnessctl init",
    )
