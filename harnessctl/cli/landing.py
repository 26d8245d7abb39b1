"""What is said after a change landed; the same words for every verb that lands one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnessctl.cli.output import note, say

if TYPE_CHECKING:
    from harnessctl.layers.l3_durable.landing.landed import Landed


def tell_pushed(pushed: bool | None, branch: str) -> None:
    """Say "not pushed" where there is a remote that does not have it."""
    if pushed is False:
        say(f"not pushed: others see it after git push REMOTE {branch}")


def tell_landed(landed: Landed, branch: str) -> None:
    """The change's entries, its commit or files, and what the next run reads."""
    for warning in landed.warnings:
        place = f"{warning.path}:{warning.line}" if warning.line else warning.path
        note(f"warning: {place}: {warning.rule}: {warning.message}")
    record = landed.record
    for change in record.entries if record else ():
        say(f"  {change.action} {change.id}")
    if landed.written:
        say("commit them:")
        for path in landed.written:
            say(f"  {path}")
        return
    say(f"landed on '{branch}' as {landed.commit[:12]}")
    tell_pushed(landed.pushed, branch)
    if landed.lock:
        say(f"harness.lock now pins {landed.lock.commit[:12]}: the next run reads it")
    elif landed.unread:
        count = f"{landed.unread} landed update{'s' if landed.unread > 1 else ''}"
        note(f"the next run does not read {count}: harness.lock pins an earlier revision (harnessctl pin)")
