"""A revision with entries that do not load: refused, or read without them."""

from __future__ import annotations

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR, Kind
from harnessctl.domain.snapshot import Snapshot

_RUN_ANYWAY = "mend them, or run with --skip-broken to leave them out"


def check_loads(
    snapshot: Snapshot, *, skip_broken: bool, what: str = "the pinned revision", hint: str = _RUN_ANYWAY
) -> tuple[str, ...]:
    """Refuse a revision with entries that cannot be read; ids of those left out with ``skip_broken``.

    :param what: the revision, in words.
    :param hint: what helps.
    :raises HarnessError: ``broken_entries``, naming each file with its place and rule.
    """
    if not snapshot.broken:
        return ()
    if skip_broken:
        return tuple(sorted({_entry_of(finding.path) for finding in snapshot.broken}))
    lines = [_place(finding) for finding in snapshot.broken]
    raise HarnessError(
        f"{what} has entries that do not load:\n  " + "\n  ".join(lines),
        id="broken_entries",
        hint=hint,
    )


def _place(finding: Finding) -> str:
    where = f":{finding.line}:{finding.column}" if finding.line else ""
    return f"{finding.path}{where}: {finding.rule}: {finding.message}"


def _entry_of(path: str) -> str:
    """The id of the entry that a file belongs to; the path itself for what belongs to none."""
    kind, _, rest = path.removeprefix(f"{HARNESS_DIR}/").partition("/")
    if Kind.of_directory(kind) is None or not rest:
        return path
    if kind == Kind.SKILL.directory:
        return f"{kind}/{rest.split('/')[0]}"
    return f"{kind}/{rest.removesuffix('.md')}"
