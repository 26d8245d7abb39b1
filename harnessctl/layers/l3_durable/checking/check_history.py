"""Checks of commits that exist: a range in CI, a push on a server or before it leaves.

The result is judged as a whole at the end, lint over the net change, and authority, trailers and
secrets for each commit by itself, since history keeps each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.layers.l3_durable.checking.checker import Checker, CheckReport, Items
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE
from harnessctl.layers.l3_durable.git.history import reaches, walk
from harnessctl.layers.l3_durable.git.ranges import RefUpdate, commit_of
from harnessctl.layers.l3_durable.git.repository import Commit, Repository
from harnessctl.layers.l3_durable.rules import commit_rules as rules
from harnessctl.layers.l3_durable.rules.authority import check_authority
from harnessctl.layers.l3_durable.rules.change import Change, compare
from harnessctl.layers.l3_durable.rules.names import place
from harnessctl.layers.l3_durable.rules.registry import tidy
from harnessctl.layers.l3_durable.rules.text import check_secrets
from harnessctl.layers.l3_durable.rules.trailers import check_message


def check_range(checker: Checker, old: Sequence[str], new: str, what: str) -> CheckReport:
    """Judge commits reachable from ``new`` and not from ``old``, and the state at ``new``."""
    commits = list(walk(checker.repository, [new], old))
    after = checker.items(new)
    report = checker.judge(what, _bases(checker, commits, old), after)
    kept = {item.oid for item in after}
    single = [finding for commit in commits for finding in _commit(checker, commit, kept)]
    return replace(report, findings=tidy([*report.findings, *single]))


def check_pushes(
    checker: Checker, updates: Iterable[RefUpdate], present: Sequence[str], branch: str
) -> CheckReport:
    """Judge what a push brings.

    :param present: commits that are let in already.
    :param branch: full name of the harness branch, whose history may only grow.
    """
    findings: list[Finding] = []
    files = touched = 0
    for update in updates:
        if update.ref == branch and update.old is not None and not _grows(checker.repository, update):
            message = (
                f"{update.ref} would be deleted" if update.new is None else f"{update.ref} would lose commits"
            )
            findings.append(
                Finding(rules.REWRITES.id, rules.REWRITES.severity, "", message, rules.REWRITES.fix)
            )
        new = commit_of(checker.repository, update.new) if update.new else None
        if new is None:
            continue
        hidden = [*present, *([update.old] if update.old else [])]
        report = check_range(checker, hidden, new, update.ref)
        findings += report.findings
        files, touched = files + report.files, touched + report.touched
    return CheckReport("pushed commits", tidy(findings), files, touched)


def _grows(repository: Repository, update: RefUpdate) -> bool:
    return update.new is not None and reaches(repository, [update.new], update.old or "")


def _bases(checker: Checker, commits: Sequence[Commit], old: Sequence[str]) -> list[Items]:
    """``.harness/`` of the commits that the new ones stand on; the first of ``old`` comes first."""
    new = {commit.id for commit in commits}
    below = {p for commit in commits for p in commit.parents if p not in new and checker.repository.has(p)}
    return [checker.items(p) for p in sorted(below, key=lambda p: (p not in old, p))]


def _commit(checker: Checker, commit: Commit, kept: set[str]) -> Iterator[Finding]:
    """Findings on one commit by itself, with the commit named.

    :param kept: blobs of the final state, whose secrets lint has already found.
    """
    for finding in _findings(checker, commit, kept):
        yield replace(finding, message=f"{finding.message} (commit {commit.id[:12]})")


def _findings(checker: Checker, commit: Commit, kept: set[str]) -> Iterator[Finding]:
    repository = checker.repository
    parents = [repository.commit(p) for p in commit.parents if repository.has(p)]
    changes, before, after = _changes(checker, commit, parents)
    facts = checker.facts(commit.author.email, changes, merge=len(parents) > 1)
    context = checker.context(before, after, facts)
    yield from check_authority(changes, context, facts)
    yield from check_message(commit.message, facts.records, checker.agents)
    for change in changes:
        item = change.after
        if item is not None and item.mode in (FILE, EXECUTABLE) and item.oid not in kept:
            yield from check_secrets(change.path, item.read(), context.allow)


def _changes(
    checker: Checker, commit: Commit, parents: Sequence[Commit]
) -> tuple[tuple[Change, ...], Items, Items]:
    """What a commit changes, with the files on both sides that the rules on single commits look at."""
    repository = checker.repository
    mine = repository.folder(commit.tree, HARNESS_DIR)
    theirs = [repository.folder(parent.tree, HARNESS_DIR) for parent in parents]
    if mine in theirs:
        return (), (), ()
    paths = set.intersection(*(set(repository.changed(other, mine)) for other in theirs or [None]))
    # An entry is judged by its main file, which a change beside it does not name.
    paths |= {where.entry.path for path in paths if (where := place(path)).entry is not None}
    after = _some(checker, mine, paths)
    bases = [_some(checker, other, paths) for other in theirs]
    return compare(bases, after), bases[0] if bases else (), after


def _some(checker: Checker, folder: str | None, paths: Iterable[str]) -> Items:
    if folder is None:
        return ()
    found = (checker.repository.entry(folder, path) for path in sorted(paths))
    return tuple(checker.as_item(file) for file in found if file is not None)
