"""``pin``: move the lock."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.commands.loading import check_loads
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.pin import Lock
from harnessctl.layers.l3_durable.content import POLICY
from harnessctl.layers.l3_durable.landing.repairs import wrong_policy
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Pinned:
    """The lock before (None: there was none, or it was unreadable) and after.

    :ivar revoked: updates in it that were taken back since: runs need ``--allow-revoked``.
    :ivar skipped: ids of its entries that do not load: runs need ``--skip-broken``.
    :ivar waits: the landed tip was meant, which is not shared yet as policy wants it.
    """

    before: Lock | None
    lock: Lock
    revoked: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    waits: bool = False

    def to_json(self) -> dict[str, object]:
        """As ``pin --json`` prints it."""
        return {
            "before": self.before.commit if self.before else None,
            "commit": self.lock.commit,
            "branch": self.lock.branch,
            "tree": self.lock.tree,
            "entries": self.lock.entries,
            "revoked": list(self.revoked),
            "skipped": list(self.skipped),
            "waits": self.waits,
        }


#: What helps when a revision has entries that no run would load.
_PIN_ANYWAY = "mend them and pin the result, or pin it with --skip-broken: runs need --skip-broken then"


def pin(
    store: HarnessStore,
    rev: str | None = None,
    *,
    resolve: bool = False,
    allow_revoked: bool = False,
    skip_broken: bool = False,
) -> Pinned:
    """Write ``harness.lock`` at ``rev``, by default the landed tip.

    :param resolve: settle a merge conflict in the lock: take the side that holds the other.
    :param allow_revoked: also where the revision holds an update that was taken back since.
    :param skip_broken: also where the revision has entries that do not load.
    :raises HarnessError: ``pin_not_landed``, ``pin_not_shared``; ``broken_entries``, ``broken_policy``:
        runs would refuse it.
    :raises ConflictError: ``lock_conflict``: with ``resolve``, neither side holds the other.
    :raises RefusedError: ``agent_refused``, ``pin_revoked``.
    """
    before = store.readable_lock()
    skipped: tuple[str, ...] = ()

    def check(commit: str) -> None:
        nonlocal skipped
        skipped = check_loads(
            store.snapshot_at(commit),
            skip_broken=skip_broken,
            what=f"revision {commit[:12]}",
            hint=_PIN_ANYWAY,
        )
        policy = store.content(commit).read(POLICY)
        for error in wrong_policy(policy) if policy and f"{HARNESS_DIR}/{POLICY}" not in skipped else ():
            raise HarnessError(
                f"revision {commit[:12]}: {error.message}: runs would refuse it",
                id="broken_policy",
                hint="mend it there and pin the result; harnessctl doctor says how",
            )

    lock = store.move_pin(rev, resolve_conflict=resolve, allow_revoked=allow_revoked, check=check)
    revoked = store.revoked(lock.commit) if allow_revoked else ()
    return Pinned(before, lock, revoked, skipped, rev is None and store.tip_waits)
