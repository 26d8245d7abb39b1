"""``check``: the validator, for hooks, CI, servers and people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harnessctl.config import Environment
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.finding import Severity
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.layers.l3_durable.checking.check_history import check_pushes, check_range
from harnessctl.layers.l3_durable.checking.check_now import (
    check_commit_message,
    check_staged,
    check_work_tree,
)
from harnessctl.layers.l3_durable.checking.checker import Checker, CheckReport
from harnessctl.layers.l3_durable.checking.verdicts import VerdictCache, open_cache
from harnessctl.layers.l3_durable.git.ranges import RefUpdate, read_ref_updates, resolve_git, tips
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.places.state_dir import repository_id


@dataclass(frozen=True)
class CheckRequest:
    """What to check: exactly one of the fields; with none the work tree, or the tip where it has no harness.

    :ivar staged: what ``git commit`` would commit now.
    :ivar rev: a revision, everything in it.
    :ivar range: ``A..B``: commits in B that are not in A, and the state at B.
    :ivar paths: files or folders of the work tree below ``.harness/``.
    :ivar pushed: lines a pre-receive or pre-push hook reads from standard input.
    :ivar message: text of a commit message that is being written.
    """

    staged: bool = False
    rev: str | None = None
    range: str | None = None
    paths: tuple[Path, ...] = ()
    pushed: tuple[str, ...] | None = None
    message: str | None = None


def check(request: CheckRequest, cwd: Path, environment: Environment, allow: Iterable[str]) -> CheckReport:
    """Check what ``request`` names in the repository around ``cwd``.

    A violation is a finding in the report; only being unable to check raises.

    :param allow: digests of strings that the user declared to be no secrets.
    :raises HarnessError: no repository, an unknown revision or file, an index in conflict.
    """
    in_hook = request.staged or request.pushed is not None or request.message is not None
    repository = Repository.open(cwd, from_env=in_hook)
    verdicts = _verdicts(repository, environment)
    report = _run(request, Checker(repository, frozenset(allow), verdicts), cwd, environment)
    verdicts.save()
    return report


def fails(report: CheckReport) -> bool:
    """Whether a report refuses what was checked."""
    return any(finding.severity is Severity.ERROR for finding in report.findings)


def _verdicts(repository: Repository, environment: Environment) -> VerdictCache:
    """The repository's kept verdicts; a check makes no id and no folder of its own."""
    try:
        name = repository_id(repository)
    except HarnessError:
        name = None
    folder = environment.state_home / name if name else None
    if folder is None or not folder.is_dir():
        return VerdictCache(None, b"")
    return open_cache(folder)


def _run(request: CheckRequest, checker: Checker, cwd: Path, environment: Environment) -> CheckReport:
    if request.staged:
        return check_staged(checker, cwd, environment)
    if request.message is not None:
        return check_commit_message(checker, cwd, environment, request.message)
    if request.pushed is not None:
        return _pushed(checker, request.pushed, environment)
    if request.range is not None:
        return _range(checker, request.range, environment)
    if request.rev is not None:
        return _revision(checker, _resolve(checker, request.rev, environment))
    return _here(checker, request.paths, environment)


def _here(checker: Checker, paths: tuple[Path, ...], environment: Environment) -> CheckReport:
    """The work tree; where it holds no ``.harness/``, what unpinned runs would read.

    :raises NotFoundError: ``lost_harness``: nothing would be checked, and that is no pass.
    """
    from harnessctl.layers.l3_durable.landing.repairs import refuse_lost
    from harnessctl.layers.l3_durable.places.mode import find_place

    root = checker.repository.root
    if not paths and (root is None or not os.path.lexists(root / HARNESS_DIR)):
        place = find_place(checker.repository, environment)
        refuse_lost(place)
        tip = place.tip()
        if tip is not None:
            return _revision(checker, tip)
    return check_work_tree(checker, paths)


def _revision(checker: Checker, commit: str) -> CheckReport:
    return checker.judge(f"revision {commit[:12]}", [], checker.items(commit))


def _range(checker: Checker, text: str, environment: Environment) -> CheckReport:
    old, dots, new = text.partition("..")
    if not dots or not new or new.startswith("."):
        raise UsageError(f"'{text}' is not a range", id="bad_range", hint="write A..B")
    from_commit = _resolve(checker, old, environment) if old else None
    to_commit = _resolve(checker, new, environment)
    return check_range(checker, [from_commit] if from_commit else [], to_commit, f"commits {text}")


def _resolve(checker: Checker, text: str, environment: Environment) -> str:
    """A commit by git's own names, or a REV of harness history (an update id, ``~2``)."""
    from harnessctl.layers.l3_durable.history.revisions import resolve
    from harnessctl.layers.l3_durable.places.mode import find_place

    try:
        return resolve_git(checker.repository, text)
    except NotFoundError as error:
        try:
            return resolve(find_place(checker.repository, environment), text)
        except NotFoundError:
            raise error from None


def _pushed(checker: Checker, lines: Sequence[str], environment: Environment) -> CheckReport:
    """A push as the hook that sees it is told."""
    repository = checker.repository
    branch = f"refs/heads/{repository.config('harness.branch') or 'harness'}"
    updates, sending = _from_framework(repository, environment.variables), True
    if not updates:
        updates, sending = read_ref_updates(lines)
    if sending:
        # What the other side has and this clone has not fetched cannot be walked.
        updates = tuple(replace(u, old=u.old if u.old and repository.has(u.old) else None) for u in updates)
    present = tips(repository, "refs/remotes/" if sending else "refs/")
    return check_pushes(checker, updates, present, branch)


def _from_framework(repository: Repository, variables: Mapping[str, str]) -> tuple[RefUpdate, ...]:
    """The push that the pre-commit framework tells of by variables; () outside of it.

    It gives a hook no standard input, and no two ends either where the first commit is pushed.
    """
    ref, local = variables.get("PRE_COMMIT_REMOTE_BRANCH"), variables.get("PRE_COMMIT_LOCAL_BRANCH")
    if ref is None or local is None:
        return ()
    new = variables.get("PRE_COMMIT_TO_REF") or resolve_git(repository, local)
    return (RefUpdate(ref, variables.get("PRE_COMMIT_FROM_REF"), new),)
