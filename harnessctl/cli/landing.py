"""What is said after a change landed; the same words for every verb that lands one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnessctl.cli.output import note, say

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harnessctl.layers.l3_durable.landing.landed import Landed
    from harnessctl.layers.l3_durable.store import HarnessStore


def tell_pushed(pushed: bool | None, store: HarnessStore) -> None:
    """Say "not pushed" where there is a remote that does not have it."""
    if pushed is False:
        say(f"not pushed: others see it after {store.place.sharing}")


def tell_written(written: Iterable[Path], root: Path) -> None:
    """Files of the work tree that the user is to commit, as git names them."""
    say("commit them:")
    for path in written:
        say(f"  {path.relative_to(root)}")


def tell_unsigned(store: HarnessStore) -> None:
    """Say once in a repository that what lands is not signed, where git is set to sign."""
    from harnessctl.commands.signing import unsigned_once

    said = unsigned_once(store)
    if said:
        note(f"note: {said}")


def tell_landed(landed: Landed, store: HarnessStore, done: str = "") -> None:
    """The change's entries, its commit or files, and what the next run reads.

    :param done: in a word, to begin with: "added".
    """
    for warning in landed.warnings:
        place = f"{warning.path}:{warning.line}" if warning.line else warning.path
        note(f"warning: {place}: {warning.rule}: {warning.message}")
    record = landed.record
    if done and record:
        say(f"{done} {record.id}")
    for change in record.entries if record else ():
        say(f"  {change.action} {change.id}")
    if landed.written:
        tell_written(landed.written, store.root)
        return
    say(f"landed on '{store.branch}' as {landed.commit[:12]}")
    tell_pushed(landed.pushed, store)
    tell_unsigned(store)
    if landed.lock:
        say(f"harness.lock now pins {landed.lock.commit[:12]}: the next run reads it")
    elif not landed.pushed and store.require_shared:
        then = ", then harnessctl pin" if landed.pinned else ""
        share = store.place.sharing
        note(f"the next run does not read it: [review] require_shared wants it shared: {share}{then}")
    elif landed.unread:
        count = f"{landed.unread} landed update{'s' if landed.unread > 1 else ''}"
        note(f"the next run does not read {count}: harness.lock pins an earlier revision (harnessctl pin)")
