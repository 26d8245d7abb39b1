"""What must hold before a commit object exists: the load rules over the whole result, and no secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, RefusedError
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.rules.load import LoadReport, check_load
from harnessctl.layers.l3_durable.secrets import scan
from harnessctl.layers.l3_durable.tree import TreeItem
from harnessctl.layers.l3_durable.verdicts import VerdictCache


class InvalidError(HarnessError):
    """The result would break load rules; ``findings`` says where."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        first = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        where = ":".join(str(part) for part in (first.path, first.line, first.column) if part)
        super().__init__(f"{where}: {first.rule}: {first.message}{more}", id="invalid_entry", hint=first.hint)
        self.findings = tuple(findings)


class Checks:
    """The checks of one repository.

    :param verdicts: kept verdicts by blob; they change how long a check takes, never what it says.
    :param allow: digests of secrets that the user declared harmless.
    """

    def __init__(self, verdicts: VerdictCache, allow: frozenset[str] = frozenset()) -> None:
        self.verdicts = verdicts
        self.allow = allow

    def load(self, items: Sequence[TreeItem]) -> LoadReport:
        """Judge a whole ``.harness/`` by the load rules."""
        report = check_load(items, verdicts=self.verdicts)
        self.verdicts.save()
        return report

    def refuse_broken(self, base: Content | None, edits: Mapping[str, EntryFile | None]) -> None:
        """Judge ``base`` with ``edits`` applied.

        What was broken before and is not touched does not stand in the way of other entries.

        :raises InvalidError: the edits break a load rule.
        """
        result = {item.path: item for item in base.items()} if base else {}
        for path, file in edits.items():
            if file is None:
                result.pop(path, None)
            else:
                result[path] = new_item(file)
        errors = _errors(self.load(tuple(result.values())))
        if errors and base:
            touched = {f"{HARNESS_DIR}/{path}" for path in edits}
            before = set(_errors(self.load(base.items())))
            errors = [e for e in errors if e.path in touched or e not in before]
        if errors:
            raise InvalidError(errors)

    def refuse_secrets(self, edits: Mapping[str, EntryFile | None], message: str) -> None:
        """:raises RefusedError: ``secret_found``: names the place and the kind, never the value."""
        for path, file in edits.items():
            if file is not None:
                self._refuse(file.data, f"{HARNESS_DIR}/{path}")
        self._refuse(message.encode(), "the commit message")

    def _refuse(self, data: bytes, where: str) -> None:
        for hit in scan(data, allow=self.allow):
            raise RefusedError(
                f"{where}:{hit.line}:{hit.column} looks like a secret ({hit.kind}); nothing was written",
                id="secret_found",
                hint=f"remove it; if it is harmless, list its digest under [secrets] allow: {hit.digest}",
            )


def new_item(file: EntryFile) -> TreeItem:
    """A file that is not written yet, as the load rules read it."""
    return TreeItem(file.path, file.mode, Repository.blob_id(file.data), lambda: file.data, len(file.data))


def _errors(report: LoadReport) -> list[Finding]:
    return [f for f in report.findings if f.severity is Severity.ERROR]
