"""Reading all entries at one commit."""

from __future__ import annotations

from harnessctl.domain.finding import Severity
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l3_durable.checking.validation import Checks
from harnessctl.layers.l3_durable.content import POLICY, Content


def read_snapshot(content: Content, checks: Checks) -> Snapshot:
    """The entries of ``content``; what breaks a load rule is listed, never dropped in silence."""
    report = checks.load(content.items())
    return Snapshot(
        commit=content.commit,
        tree=content.tree,
        entries=report.entries,
        broken=tuple(f for f in report.findings if f.severity is Severity.ERROR),
        files=tuple(content.hashes()),
        policy=content.read(POLICY) or b"",
    )
