"""Commits that harnessctl writes are never signed: nothing may ask for a passphrase in the middle of one."""

from __future__ import annotations

from contextlib import suppress

from harnessctl.layers.l3_durable.store import HarnessStore

#: Stands in the repository's state folder once its user has been told.
TOLD_NAME = "told-unsigned"
UNSIGNED = (
    "git is set to sign commits (commit.gpgsign), and harnessctl signs none of its own. Where the branch "
    "asks for signed commits, land through a pull request: harnessctl review pr. This is said once."
)


def unsigned_once(store: HarnessStore) -> str:
    """What a person who signs commits is told at the first landing, "" where it is said or nobody signs."""
    if not store.repository.config_flag("commit.gpgsign"):
        return ""
    marker = store.state_dir / TOLD_NAME
    if marker.exists():
        return ""
    with suppress(OSError):  # it has landed; on a full disk it is said again
        marker.touch()
    return UNSIGNED
