"""What must hold before a commit object exists: the load rules over the whole result, and no secret.

Judging 10,000 entries anew for each landing would cost a third of a second even with every verdict
at hand. A harness known to be whole is therefore remembered by the id of its tree, with the names
its entries depend on, and a landing on top of it judges what it touches: those entries, what they
depend on, and the names beside new files. Deleting something that others depend on, or a base that
is not known, has everything judged. The memory is the verdict cache's: lost or forged, it is as if
it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, RefusedError
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.ids import HARNESS_DIR, EntryId
from harnessctl.domain.safe_text import visible_line
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.checking.ownership import read_entry
from harnessctl.layers.l3_durable.checking.verdicts import VerdictCache
from harnessctl.layers.l3_durable.content import Content, entry_of
from harnessctl.layers.l3_durable.files.tree import TreeItem
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.rules.authority import CommitFacts, check_authority
from harnessctl.layers.l3_durable.rules.change import Change, LintContext
from harnessctl.layers.l3_durable.rules.lint import check_lint
from harnessctl.layers.l3_durable.rules.load import LoadReport, check_load
from harnessctl.layers.l3_durable.rules.names import clashes
from harnessctl.layers.l3_durable.rules.secrets import scan
from harnessctl.layers.l3_durable.rules.verdict import Verdict

#: Kind under which the verdict on a whole ``.harness/`` tree is kept.
WHOLE = "harness"

#: path below ``.harness/`` -> the file, None to remove it
Edits = Mapping[str, EntryFile | None]


class InvalidError(HarnessError):
    """The result would break load rules; ``findings`` says where."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        first = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        path = visible_line(first.path)  # a name with a line break could forge a line of its own
        where = ":".join(str(part) for part in (path, first.line, first.column) if part)
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

    def refuse_broken(self, base: Content | None, edits: Edits) -> Verdict | None:
        """Judge ``base`` with ``edits`` applied; what :meth:`remember` wants to know of the result.

        What was broken before and is not touched does not stand in the way of other entries; the
        result is not whole then, and None comes back.

        :raises InvalidError: the edits break a load rule.
        """
        known = self.verdicts.get(base.folder, WHOLE) if base and base.folder else None
        if base is not None and known is not None and not _needed(base, edits, known):
            return self._judge_touched(base, edits, known)
        return self._judge_all(base, edits)

    def lint(self, base: Content | None, edits: Edits) -> tuple[Finding, ...]:
        """Judge what ``edits`` touch by the lint rules; its warnings.

        :raises InvalidError: a lint rule refuses what was touched.
        """
        found = check_lint(*self._touched(base, edits))
        errors = [f for f in found if f.severity is Severity.ERROR]
        if errors:
            raise InvalidError(errors)
        return found

    def refuse_overreach(self, base: Content, edits: Edits, record: Record) -> None:
        """Judge an agent's ``edits`` of ``base`` by the rules that hooks and CI judge its commits by.

        :raises RefusedError: ``overreach``: names path and rule (HRN301 to HRN309).
        """
        changes, context = self._touched(base, edits)
        for finding in check_authority(changes, context, CommitFacts(by_agent=True, records=(record,))):
            if finding.severity is Severity.ERROR:
                raise RefusedError(
                    f"{visible_line(finding.path)}: {finding.rule}: {finding.message}",
                    id="overreach",
                    hint=finding.hint,
                )

    def _touched(self, base: Content | None, edits: Edits) -> tuple[list[Change], LintContext]:
        """``edits`` as the rules read a change: the touched files and the rest of their entries."""
        entries = {e for e in map(entry_of, edits) if e is not None}
        before = {i.path: i for e in entries for i in (base.entry_items(e) if base else ())}
        before |= {i.path: i for path in edits if entry_of(path) is None and base and (i := base.item(path))}
        after = {path: item for path, item in before.items() if path not in edits}
        after |= {path: new_item(file) for path, file in edits.items() if file is not None}
        changes = [Change(path, before.get(path), after.get(path)) for path in sorted(edits)]
        return changes, LintContext(after, before, self.allow)

    def remember(self, folder: str | None, verdict: Verdict | None) -> None:
        """Keep that the ``.harness/`` tree ``folder`` is whole."""
        if folder is not None and verdict is not None:
            self.verdicts.put(folder, WHOLE, verdict)
            self.verdicts.save()

    def _judge_all(self, base: Content | None, edits: Edits) -> Verdict | None:
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
            new = [e for e in errors if e.path in touched or e not in before]
            if not new:
                return None
            errors = new
        if errors:
            raise InvalidError(errors)
        return Verdict((), tuple(sorted(self._all_needs(result.values()))))

    def _all_needs(self, items: Iterable[TreeItem]) -> set[str]:
        """Every name that an entry among ``items``, just judged, depends on."""
        needs: set[str] = set()
        for item in items:
            entry = entry_of(item.path)
            if entry is not None and entry.path == item.path:
                verdict = self.verdicts.get(item.oid, entry.kind.value)
                needs.update(verdict.depends_on if verdict else ())
        return needs

    def _judge_touched(self, base: Content, edits: Edits, known: Verdict) -> Verdict:
        touched = {e for e in map(entry_of, edits) if e is not None}
        files = {path: new_item(file) for path, file in edits.items() if file is not None}
        needs: set[str] = set()
        for entry in touched:
            kept = [i for i in base.entry_items(entry) if i.path not in edits]
            files |= {item.path: item for item in kept}
            main = files.get(entry.path)
            read = read_entry(entry, (EntryFile(main.path, main.mode, main.read()),)) if main else None
            needs.update(read.depends_on if read else ())
        beside = _entries(needs) - touched
        items = [*files.values(), *(item for entry in beside for item in base.entry_items(entry))]
        findings = [f for f in _errors(self.load(items)) if entry_of(_below(f.path)) not in beside]
        findings += [f for f in clashes(_names(base, files)) if _below(f.path) in files]
        if findings:
            raise InvalidError(findings)
        return Verdict((), tuple(sorted(needs.union(known.depends_on))))

    def refuse_secrets(self, edits: Edits, message: str) -> None:
        """:raises RefusedError: ``secret_found``: names the place and the kind, never the value."""
        for path, file in edits.items():
            if file is not None:
                self._refuse(path.encode("utf-8", "replace"), "the name of a file")
                self._refuse(file.data, f"{HARNESS_DIR}/{visible_line(path)}")
        self._refuse(message.encode("utf-8", "replace"), "the commit message")

    def _refuse(self, data: bytes, where: str) -> None:
        for hit in scan(data, allow=self.allow):
            raise RefusedError(
                f"{where}:{hit.line}:{hit.column} looks like a secret ({hit.kind}); nothing was written",
                id="secret_found",
                hint="remove it; if it is harmless, list its digest in "
                f"{HARNESS_DIR}/harness.toml under [secrets] allow: {hit.digest}",
            )


def new_item(file: EntryFile) -> TreeItem:
    """A file that is not written yet, as the load rules read it."""
    return TreeItem(file.path, file.mode, Repository.blob_id(file.data), lambda: file.data, len(file.data))


def _needed(base: Content, edits: Edits, known: Verdict) -> bool:
    """Whether ``edits`` remove an entry that another one may depend on."""
    gone = {entry_of(path) for path, file in edits.items() if file is None}
    return bool(gone & _entries(known.depends_on)) and base.folder is not None


def _entries(names: Iterable[str]) -> set[EntryId]:
    found = set()
    for name in names:
        try:
            found.add(EntryId.parse(name))
        except HarnessError:
            continue  # no entry's name: the load rules say so
    return found


def _names(base: Content, files: Mapping[str, TreeItem]) -> set[str]:
    """The paths of ``files`` and every name beside them or beside a folder they lie in."""
    found = set(files)
    for folder in {path[: n + 1] for path in files for n, c in enumerate(path) if c == "/"} | {""}:
        tree = base.repository.folder(base.folder, folder.rstrip("/")) if base.folder else None
        found.update(folder + name for name in (base.repository.names(tree) if tree else ()))
    return found


def _below(path: str) -> str:
    return path.removeprefix(f"{HARNESS_DIR}/")


def _errors(report: LoadReport) -> list[Finding]:
    return [f for f in report.findings if f.severity is Severity.ERROR]
