"""The load rules over a whole ``.harness/``: what the writer, the reader and every check agree on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import SKILL_FILE as SKILL_NAME
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.layers.l3_durable.files.frontmatter import parse
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE, GITLINK, SYMLINK, TreeItem
from harnessctl.layers.l3_durable.rules import load_rules as rules
from harnessctl.layers.l3_durable.rules.names import Place, clashes, place
from harnessctl.layers.l3_durable.rules.policy import check_policy
from harnessctl.layers.l3_durable.rules.registry import below, found, tidy
from harnessctl.layers.l3_durable.rules.verdict import Verdict, judge, oversized


class Verdicts(Protocol):
    """Where verdicts by blob are kept between calls; see ``verdicts.py``."""

    def get(self, oid: str, kind: str) -> Verdict | None:
        """The kept verdict, None when there is none that can be trusted."""
        ...

    def put(self, oid: str, kind: str, verdict: Verdict) -> None:
        """Keep ``verdict``."""
        ...


class MemoryVerdicts:
    """Verdicts kept for one call."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Verdict] = {}

    def get(self, oid: str, kind: str) -> Verdict | None:
        """As in :class:`Verdicts`."""
        return self._kept.get((oid, kind))

    def put(self, oid: str, kind: str, verdict: Verdict) -> None:
        """As in :class:`Verdicts`."""
        self._kept[oid, kind] = verdict


class Entries(Mapping[str, Entry]):
    """Entries by id text, sorted; each is read and parsed when it is first asked for."""

    def __init__(self, groups: Mapping[str, tuple[EntryId, tuple[TreeItem, ...]]]) -> None:
        self._groups = groups
        self._built: dict[str, Entry] = {}

    def __getitem__(self, entry: str) -> Entry:
        if entry not in self._built:
            entry_id, items = self._groups[entry]
            files = tuple(EntryFile(item.path, item.mode, item.read()) for item in items)
            main = next(file for file in files if file.path == entry_id.path)
            read = parse(main.data, below(main.path))
            self._built[entry] = Entry(entry_id, files, read.meta, read.body)
        return self._built[entry]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


@dataclass(frozen=True)
class LoadReport:
    """What the load rules say about one ``.harness/``.

    :ivar entries: those that pass, by id text (``memory/x``), sorted; read lazily.
    :ivar findings: every violation, sorted by path and line.
    :ivar broken: findings by the entry they make unreadable (id text), or by path below
        ``.harness/`` where the file belongs to no entry. Nothing is ever dropped in silence.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    broken: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)


def check_load(files: Sequence[TreeItem], *, verdicts: Verdicts | None = None) -> LoadReport:
    """Judge a whole ``.harness/`` tree: entries, records' names, ``harness.toml``.

    :param files: every file below ``.harness/``, as git lists them.
    :param verdicts: kept verdicts; they change how long this takes, never what it says.
    """
    return _Loader(verdicts or MemoryVerdicts()).run(files)


class _Loader:
    """One pass over a tree; holds what is being gathered."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._groups: dict[str, tuple[EntryId, list[TreeItem]]] = {}
        self._broken: dict[str, list[Finding]] = {}
        self._needs: dict[str, tuple[str, Verdict]] = {}

    def run(self, files: Sequence[TreeItem]) -> LoadReport:
        for item in files:
            self._file(item, place(item.path))
        for name in sorted(self._groups):
            self._entry(name, *self._groups[name])
        self._dependencies()
        for clash in clashes(item.path for item in files):
            path = clash.path.partition("/")[2]
            self._refuse(place(path), path, clash)
        good = {
            name: (entry, tuple(sorted(items, key=lambda item: item.path)))
            for name, (entry, items) in sorted(self._groups.items())
            if name not in self._broken
        }
        broken = {name: tidy(group) for name, group in self._broken.items()}
        return LoadReport(Entries(good), tidy(f for group in broken.values() for f in group), broken)

    def _refuse(self, where: Place, path: str, finding: Finding) -> None:
        self._broken.setdefault(str(where.entry) if where.entry else path, []).append(finding)

    def _file(self, item: TreeItem, where: Place) -> None:
        """Rules on one file by its name and mode; what passes joins its entry."""
        if where.entry is not None:
            self._groups.setdefault(str(where.entry), (where.entry, []))[1].append(item)
        mode = _mode(item)
        if mode is not None:
            self._refuse(where, item.path, mode)
        elif where.problem:
            rule = rules.COUNT if where.rule_count else rules.NAME
            self._refuse(where, item.path, found(rule, item.path, where.problem))
        elif where.role == "policy":
            for finding in self._sized(item, rules.MAX_POLICY) or check_policy(item.read()):
                self._refuse(where, item.path, finding)
        elif where.role in ("file", "record"):
            limit = rules.MAX_OTHER_FILE if where.role == "file" else rules.MAX_RECORD
            for finding in self._sized(item, limit):
                self._refuse(where, item.path, finding)

    def _sized(self, item: TreeItem, limit: int) -> tuple[Finding, ...]:
        """HRN111 for a file with more than ``limit`` bytes; a size once known to fit is not asked again."""
        kept = self._verdicts.get(item.oid, f"file<={limit}")
        if kept is None:
            size = item.length()
            over = (found(rules.SIZE, "", f"has {size} bytes; at most {limit} are allowed"),)
            kept = Verdict(over if size > limit else ())
            self._verdicts.put(item.oid, f"file<={limit}", kept)
        return tuple(replace(problem, path=below(item.path)) for problem in kept.problems)

    def _entry(self, name: str, entry: EntryId, items: list[TreeItem]) -> None:
        """Rules on one entry: its main file and the number of its files."""
        main = next((item for item in items if item.path == entry.path), None)
        where = Place("main", entry)
        if main is None:
            self._refuse(where, entry.path, _no_main(entry, items))
        elif main.mode in (FILE, EXECUTABLE):
            verdict = self._judge(entry.kind, main)
            self._needs[name] = (main.path, verdict)
            for problem in verdict.problems:
                self._refuse(where, main.path, replace(problem, path=below(main.path)))
        if len(items) > rules.MAX_FILES:
            message = f"the skill has {len(items)} files; at most {rules.MAX_FILES} are allowed"
            self._refuse(where, entry.path, found(rules.COUNT, entry.path, message))

    def _judge(self, kind: Kind, item: TreeItem) -> Verdict:
        verdict = self._verdicts.get(item.oid, kind.value)
        if verdict is None:
            size = item.known_size()
            verdict = oversized(size) if size > rules.MAX_MAIN_FILE else judge(kind, item.read())
            self._verdicts.put(item.oid, kind.value, verdict)
        return verdict

    def _dependencies(self) -> None:
        """HRN121: every name in depends_on is an entry of this tree, broken or not."""
        for name, (path, verdict) in self._needs.items():
            for wanted in verdict.depends_on:
                if not self._is_there(wanted):
                    message = f"depends on '{wanted}', which does not exist"
                    where = Place("main", EntryId.parse(name))
                    line = verdict.depends_line
                    self._refuse(where, path, found(rules.DEPENDENCY, path, message, line=line))

    def _is_there(self, wanted: str) -> bool:
        if wanted in self._groups:
            return True
        try:
            return str(EntryId.parse(wanted)) in self._groups
        except HarnessError:
            return False


def _no_main(entry: EntryId, items: Sequence[TreeItem]) -> Finding:
    """HRN113, naming the file that was probably meant."""
    folder = entry.path.removesuffix(SKILL_NAME)
    meant = next((i.path for i in items if i.path.lower() == entry.path.lower()), None)
    if meant is None:
        return found(rules.SKILL_FILE, entry.path, f"'{below(folder)}' holds no {SKILL_NAME}")
    message = f"'{below(meant)}' is not read: the name is {SKILL_NAME}, in this case, on every system"
    return found(rules.SKILL_FILE, meant, message)


def _mode(item: TreeItem) -> Finding | None:
    """HRN108, HRN109 or HRN110."""
    if item.mode == FILE:
        return None
    if item.mode == SYMLINK:
        return found(rules.SYMLINK, item.path, "is a symlink")
    if item.mode == GITLINK:
        return found(rules.GITLINK, item.path, "is a nested repository (gitlink)")
    parts = item.path.split("/")
    if item.mode == EXECUTABLE and len(parts) > 3 and parts[0] == "skills" and parts[2] == "scripts":
        return None
    message = f"has mode {item.mode:06o}; allowed is 100644, and 100755 under a skill's scripts/"
    return found(rules.MODE, item.path, message)
