"""Checks of what is not committed yet: staged files, a message, files of the work tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from harnessctl.config import Environment
from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.layers.l3_durable.checking.checker import Checker, CheckReport, Items
from harnessctl.layers.l3_durable.files.work_files import read_folder
from harnessctl.layers.l3_durable.git.index import parents_of_next_commit, staged_files
from harnessctl.layers.l3_durable.places.actor import agent_reason
from harnessctl.layers.l3_durable.places.identity import author
from harnessctl.layers.l3_durable.rules.change import Change, compare
from harnessctl.layers.l3_durable.rules.lint import check_lint
from harnessctl.layers.l3_durable.rules.registry import tidy
from harnessctl.layers.l3_durable.rules.trailers import check_message, strip_comments


def check_staged(checker: Checker, cwd: Path, environment: Environment) -> CheckReport:
    """Judge what ``git commit`` would commit now."""
    bases, after = _next_commit(checker, cwd, environment)
    if not compare(bases[:1], after):
        return CheckReport("staged files", files=len(after))
    # A merge can be invalid although neither side changed anything the other had not judged.
    changes = compare(bases, after)
    facts = checker.facts(
        _author(checker, environment), changes, merge=len(bases) > 1, agent=bool(agent_reason(environment))
    )
    return checker.judge("staged files", bases, after, facts)


def check_commit_message(checker: Checker, cwd: Path, environment: Environment, message: str) -> CheckReport:
    """Judge the trailers of the message of the commit that is being made."""
    bases, after = _next_commit(checker, cwd, environment)
    changes: tuple[Change, ...] = compare(bases, after)
    # With --amend the record is in HEAD already, and git does not tell a hook of amending.
    every = (*changes, *compare([], bases[0] if bases else ()))
    facts = checker.facts("", every if "harness-" in message.casefold() else (), merge=False)
    text = strip_comments(message, checker.repository.config("core.commentChar") or "#")
    return CheckReport("the commit message", check_message(text, facts.records, checker.agents))


def check_work_tree(checker: Checker, paths: Sequence[Path]) -> CheckReport:
    """Judge all of ``.harness/`` as it lies on disk; with ``paths``, what concerns those files.

    HEAD is asked for what only a change shows: a record that is gone or written into, wider tools.

    :raises NotFoundError: ``no_such_file``: a path is not there or lies outside ``.harness/``.
    """
    root = checker.repository.root
    if root is None:
        raise UsageError("a bare repository has no work tree to check", id="no_work_tree", hint="use --rev")
    after = read_folder(root / HARNESS_DIR)
    wanted = [_below(root, path) for path in paths]
    head = checker.repository.head_commit
    report = checker.judge("the work tree", [], after)
    before = checker.items(head) if head else ()
    changed = check_lint(compare([before], after), checker.context(before, after, None))
    kept = tuple(f for f in tidy([*report.findings, *changed]) if not wanted or _concerns(f, wanted))
    return CheckReport(report.what, kept, report.files, report.touched)


def _next_commit(checker: Checker, cwd: Path, environment: Environment) -> tuple[list[Items], Items]:
    variables = environment.variables
    parents = parents_of_next_commit(checker.repository, variables)
    return [checker.items(p) for p in parents], checker.as_items(staged_files(cwd, variables))


def _author(checker: Checker, environment: Environment) -> str:
    """Address of the commit's author, "" where git would have to guess one."""
    try:
        return author(checker.repository, environment).email
    except UsageError:
        return ""


def _below(root: Path, path: Path) -> str:
    """``path`` relative to the repository, with ``/``; links in its last part are not followed."""
    full = path.parent.resolve() / path.name
    inside = full.relative_to(root).as_posix() if full.is_relative_to(root) else ""
    if PurePosixPath(inside).parts[:1] != (HARNESS_DIR,) or not (full.exists() or full.is_symlink()):
        raise NotFoundError(
            f"{path} is no file below {HARNESS_DIR}/ of this repository",
            id="no_such_file",
            hint=f"name files or folders below {root / HARNESS_DIR}",
        )
    return inside


def _concerns(finding: Finding, wanted: Sequence[str]) -> bool:
    return any(finding.path == path or finding.path.startswith(f"{path}/") for path in wanted)
