"""``show``: one entry at the pin, or one update with its record."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.entry import Entry
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR, EntryId, suggestion
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.history.updates import Update
from harnessctl.layers.l3_durable.store import HarnessStore

#: Characters from which on the beginning of an update's id is taken as one.
_FEWEST = 4


@dataclass(frozen=True)
class ShownEntry:
    """One entry with its text; ``text`` is the main file as it stands in git, other files by name."""

    commit: str
    entry: Entry

    @property
    def text(self) -> str:
        """The main file; bytes that are not UTF-8 cannot occur in an entry that loads."""
        return self.entry.main.data.decode("utf-8-sig")

    def to_json(self) -> dict[str, object]:
        """As ``show --json`` prints it."""
        return self.entry.to_json() | {
            "commit": self.commit,
            "digest": self.entry.digest,
            "body": self.entry.body,
            "text": self.text,
            "files": [
                {"path": f.path, "mode": f"{f.mode:06o}", "sha256": f.sha256} for f in self.entry.files
            ],
        }


@dataclass(frozen=True)
class ShownUpdate:
    """One update with its record (None for a commit by hand) and its patch."""

    update: Update
    patch: bytes

    def to_json(self) -> dict[str, object]:
        """As ``show --json`` prints it."""
        record = self.update.record
        return self.update.to_json() | {
            "record": record.to_json() if record else None,
            "patch": self.patch.decode("utf-8", "replace"),
        }


def show_entry(store: HarnessStore, entry: str, *, at: str | None = None) -> ShownEntry:
    """The entry ``entry`` (``kind/name``) at ``at`` (a REV), by default at the pin.

    :raises UsageError: ``bad_entry_id``.
    :raises NotFoundError: ``no_entry``.
    :raises HarnessError: ``broken_entry``: it is there and breaks a load rule, which is named.
    """
    wanted = str(EntryId.parse(entry))
    snapshot = store.snapshot(at)
    found = snapshot.entries.get(wanted)
    if found is not None:
        return ShownEntry(snapshot.commit, found)
    problem = _problem(snapshot.broken, wanted)
    if problem is not None:
        where = f"{problem.path}:{problem.line}:{problem.column}" if problem.line else problem.path
        raise HarnessError(
            f"{where}: {problem.rule}: {problem.message}", id="broken_entry", hint=problem.hint
        )
    since = landed_since(store, wanted, "show") if at is None else ""
    raise NotFoundError(
        f"there is no entry '{wanted}' at {snapshot.commit[:12] or 'the empty harness'}",
        id="no_entry",
        hint=since or f"{suggestion(wanted, snapshot.entries)}harnessctl list",
    )


def landed_since(store: HarnessStore, entry: str, verb: str) -> str:
    """The hint of a ``verb`` that looked for ``entry`` at the pin; "" where it has not landed either."""
    if entry not in store.landed_snapshot().entries:
        return ""
    return f"it has landed since: harnessctl {verb} {entry} --at {store.branch}; status says what runs read"


def evidence_of(store: HarnessStore, entry: str) -> tuple[Update, ...]:
    """Landed updates of the entry ``entry`` that stand, newest first: what it rests on.

    :raises UsageError: ``bad_entry_id``.
    """
    wanted = str(EntryId.parse(entry))
    return store.updates(
        lambda row: row.state is UpdateState.LANDED and bool(row.id) and wanted in row.entries
    )


def evidence_json(update: Update) -> dict[str, object]:
    """One update's evidence as ``show --evidence --json`` prints it."""
    record = update.record
    return {
        "update": update.id,
        "model": record.model if record else None,
        "why": record.why if record else "",
        "accepter": update.accepter.name if update.accepter else None,
        "evidence": record.to_json()["evidence"] if record else [],
    }


def show_update(store: HarnessStore, rev: str) -> ShownUpdate:
    """The update that ``rev`` (a commit, an update id or a prefix of one) names.

    :raises NotFoundError: ``unknown_revision``.
    """
    wanted = rev.strip().upper()
    try:
        commit = store.resolve(rev)
    except NotFoundError:
        commit = ""  # a rejected update has no commit of its own; its decision is listed
    rows = store.updates(
        lambda row: bool(commit and row.commit == commit) or _is_called(row.id, wanted, whole=not commit)
    )
    named = [u for u in rows if u.id and u.id.startswith(wanted)] or rows
    if not commit and len(named) != 1:
        store.resolve(rev)  # says what is wrong with it
    if not named:
        raise NotFoundError(f"{commit[:12]} brought no update", id="no_update", hint="harnessctl log")
    parents = named[0].commit.parents
    patch = b"".join(f.data for f in store.patch(parents[0] if parents else "", named[0].commit.id))
    return ShownUpdate(named[0], patch)


def _is_called(update: str, wanted: str, *, whole: bool) -> bool:
    """Whether ``wanted`` is the id or the beginning of it; ``whole``: at least a few characters of it."""
    return bool(update) and len(wanted) >= (_FEWEST if whole else 0) and update.startswith(wanted)


def _problem(broken: tuple[Finding, ...], entry: str) -> Finding | None:
    prefix = f"{HARNESS_DIR}/{entry}"
    return next(
        (f for f in broken if f.path in (prefix, f"{prefix}.md") or f.path.startswith(f"{prefix}/")), None
    )
