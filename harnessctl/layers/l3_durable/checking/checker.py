"""One pipeline for every check: load rules over the whole result, lint and authority over what changed.

What differs between a hook, CI, a server and a person at the prompt is only where the trees come
from: the index and HEAD, two ends of a range or a push, the work tree.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.files.tree import FILE, TreeItem
from harnessctl.layers.l3_durable.git.ranges import blob_size
from harnessctl.layers.l3_durable.git.repository import Repository, TreeFile
from harnessctl.layers.l3_durable.history.records import read_record
from harnessctl.layers.l3_durable.places.identity import AGENT_EMAIL
from harnessctl.layers.l3_durable.rules.authority import CommitFacts, check_authority
from harnessctl.layers.l3_durable.rules.change import Change, LintContext, compare
from harnessctl.layers.l3_durable.rules.lint import check_lint
from harnessctl.layers.l3_durable.rules.load import Verdicts, check_load
from harnessctl.layers.l3_durable.rules.load_rules import MAX_POLICY, MAX_RECORD
from harnessctl.layers.l3_durable.rules.names import POLICY_FILE, place
from harnessctl.layers.l3_durable.rules.registry import tidy

Items = tuple[TreeItem, ...]


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    :ivar what: what was checked, in words: ``staged files``.
    :ivar files: number of files judged by the load rules.
    :ivar touched: number of files judged by lint.
    """

    what: str
    findings: tuple[Finding, ...] = ()
    files: int = 0
    touched: int = 0


@dataclass(frozen=True)
class Checker:
    """Checks of one repository.

    :ivar allow: digests of harmless secrets from the user's own settings.
    :ivar verdicts: kept verdicts, or None.
    """

    repository: Repository
    allow: frozenset[str] = frozenset()
    verdicts: Verdicts | None = None

    def judge(
        self, what: str, bases: Sequence[Items], after: Items, commit: CommitFacts | None = None
    ) -> CheckReport:
        """Judge ``after`` as a result, and what it changes against all of ``bases``.

        :param commit: who makes the change; None when its commits are judged one by one.
        """
        changes = compare(bases, after)
        context = self.context(bases[0] if bases else (), after, commit)
        findings = [*check_load(after, verdicts=self.verdicts).findings, *check_lint(changes, context)]
        if commit is not None:
            findings += check_authority(changes, context, commit)
        return CheckReport(what, tidy(findings), len(after), len(changes))

    def context(self, before: Items, after: Items, commit: CommitFacts | None) -> LintContext:
        """What lint and authority rules need beside the changes."""
        old, new = {item.path: item for item in before}, {item.path: item for item in after}
        # A person may allow a string in the very commit that brings it; an agent may not.
        trusted = [old] if commit is not None and commit.by_agent else [old, new]
        allow = self.allow.union(*(allowed(tree.get(POLICY_FILE)) for tree in trusted))
        return LintContext(after=new, before=old, allow=allow)

    def items(self, commit: str) -> Items:
        """``.harness/`` of a commit; a link or a nested repository in its place is one odd item."""
        tree = self.repository.commit(commit).tree
        folder = self.repository.folder(tree, HARNESS_DIR)
        if folder is not None:
            return self.as_items(self.repository.files(folder))
        odd = self.repository.entry(tree, HARNESS_DIR)
        return self.as_items([TreeFile("", odd.mode, odd.oid)]) if odd else ()

    def as_items(self, files: Iterable[TreeFile]) -> Items:
        """Files of a tree or of the index with their content at hand, not yet read."""
        return tuple(map(self.as_item, files))

    def as_item(self, file: TreeFile) -> TreeItem:
        """One such file."""
        blob = _Blob(self.repository, file.oid)
        return TreeItem(file.path, file.mode, file.oid, blob.read, -1, blob.size)

    @cached_property
    def agents(self) -> frozenset[str]:
        """Addresses under which agents commit here, case folded."""
        stated = self.repository.config("harness.agentEmail") or AGENT_EMAIL
        return frozenset({stated.casefold(), AGENT_EMAIL.casefold()})

    def facts(
        self, author: str, changes: Iterable[Change], *, merge: bool, agent: bool = False
    ) -> CommitFacts:
        """Who makes a change.

        :param author: address of its author.
        :param agent: the process that makes it is an agent's.
        """
        records = brought(changes)
        return CommitFacts(agent or author.casefold() in self.agents, records, merge)


class _Blob:
    """One blob, asked for its size and content several times by as many rules, read once while small."""

    #: Bytes up to which content is kept: most entries, and few assets.
    KEPT = 16 * 1024

    def __init__(self, repository: Repository, oid: str) -> None:
        self._repository, self._oid = repository, oid
        self._data: bytes | None = None
        self._size: int | None = None

    def read(self) -> bytes:
        if self._data is not None:
            return self._data
        data = self._repository.blob(self._oid)
        self._size = len(data)
        if len(data) <= self.KEPT:
            self._data = data
        return data

    def size(self) -> int:
        if self._size is None:
            self._size = blob_size(self._repository, self._oid)
        return self._size


def brought(changes: Iterable[Change]) -> tuple[Record, ...]:
    """Records that a change adds and that can be read."""
    found = []
    for change in changes:
        item = change.after
        if (
            change.before is None
            and item is not None
            and item.mode == FILE
            and place(change.path).role == "record"
        ):
            data = item.read() if item.length() <= MAX_RECORD else b""
            try:
                found.append(read_record(data))
            except HarnessError:
                continue  # HRN214 says what is wrong with it
    return tuple(found)


def allowed(policy: TreeItem | None) -> frozenset[str]:
    """``[secrets] allow`` of a ``harness.toml``; nothing where it cannot be read."""
    if policy is None or policy.mode != FILE or policy.length() > MAX_POLICY:
        return frozenset()
    try:
        secrets = tomllib.loads(policy.read().decode("utf-8-sig")).get("secrets")
    except (ValueError, RecursionError):
        return frozenset()
    listed = secrets.get("allow") if isinstance(secrets, dict) else None
    return frozenset(v for v in listed if isinstance(v, str)) if isinstance(listed, list) else frozenset()
