"""The entries that this session reads, for code in cells: ``harness``."""

from __future__ import annotations

import builtins
import json
from typing import Any

from .host import Host, HostError

#: Directory of each kind, by the words that people use for it.
_KINDS = {"prompt": "prompts", "skill": "skills", "subagent": "subagents"}


class Harness:
    """What earlier work left for this session.

    ``harness.list()``, ``harness.search("words")``, ``harness.show("kind/name")``; of a skill also
    ``harness.show("skills/name", "references/file.md")`` and ``harness.path("skills/name")``;
    ``harness.propose("kind/name", …)`` for what later sessions should know.
    """

    def __init__(self, path: str, host: Host) -> None:
        self._path = path
        self._host = host
        self._pinned: dict[str, dict[str, Any]] | None = None

    def list(self, kind: str = "") -> builtins.list[str]:
        """Ids and descriptions of all entries, or of those of one kind (``skills``)."""
        wanted = _KINDS.get(kind, kind)
        return [_line(e) for e in self._entries() if not wanted or e["id"].startswith(f"{wanted}/")]

    def search(self, words: str) -> builtins.list[str]:
        """Ids and descriptions of entries that hold any of ``words``, most of them first."""
        wanted = words.lower().split()
        found = []
        for entry in self._entries():
            texts = (text for text in entry["files"].values() if text)
            text = " ".join((entry["id"], entry["description"], *texts)).lower()
            score = sum(word in text for word in wanted)
            if score:
                found.append((-score, _line(entry)))
        return [line for _, line in sorted(found)]

    def show(self, id: str, file: str = "") -> str:  # noqa: A002 - the word the prompt uses
        """The text of an entry; of a skill its SKILL.md and the names of its other files, or one ``file``.

        :raises KeyError: no such entry, or no such file in it.
        """
        entry = self._entry(id)
        files = entry["files"]
        if file:
            if file not in files:
                raise KeyError(f"{entry['id']} has no file {file!r}; it has: {', '.join(files)}")
            return _text(files[file], entry["id"])
        if not files:
            return f"{entry['id']} is proposed to be deleted"
        main, *others = files
        said = [_text(files[main], entry["id"])]
        if entry.get("proposed"):
            said.insert(0, f"[proposed by this session, not accepted yet: {entry['proposed']}]")
        if entry["flags"]:
            said.insert(0, f"[{', '.join(entry['flags'])}]")
        if others:
            how = f"harness.show({entry['id']!r}, {others[0]!r}) prints one"
            said.append(
                f"[other files: {', '.join(others)}; {how}, harness.path({entry['id']!r}) is their folder]"
            )
        if entry["module"] and not entry.get("proposed"):
            said.append(f"[Python-backed: import {entry['module']}]")
        kind, _, name = entry["id"].partition("/")
        if kind == "subagents" and not entry.get("proposed"):
            said.append(f'[a child works as it: rlm("task", agent="{name}")]')
        return "\n".join(said)

    def path(self, id: str) -> str:  # noqa: A002 - as in show
        """The folder of a skill: a read-only copy made for this session, to run its scripts from.

        :raises HostError: no such skill.
        """
        found: str = self._host.call("harness.path", id=id)
        return found

    def propose(
        self,
        id: str = "",  # noqa: A002 - as in show
        *,
        kind: str = "",
        name: str = "",
        description: str | None = None,
        content: str | None = None,
        why: str = "",
        evidence: Any = None,
        action: str | None = None,
        title: str | None = None,
        files: dict[str, str] | None = None,
        status: str | None = None,
        expected_outcome: str | None = None,
        how_to_see: str | None = None,
    ) -> str:
        """Propose what later sessions should know: a memory, prompt note, skill or subagent.

        This session sees it at once, as proposed. At its end it becomes a proposal, which a person reviews.

        :param id: ``kind/name`` as in ``memory/build``; or give ``kind`` and ``name``.
        :param description: one line, what a reader sees first; needed for a new entry.
        :param content: the text, Markdown; needed for a new entry.
        :param why: what happened in this session that others should know; always needed.
        :param evidence: quotes of what this session saw, character by character, or numbers of events.
            Without it the last results are cited.
        :param action: ``create``, ``update`` or ``delete``; by itself create or update, as there is one.
        :param files: of a skill, texts by path: ``{"scripts/run.sh": "…"}``.
        :param status: ``hypothesis`` (by itself) or ``verified``.
        :param expected_outcome: what should go better with it; ``how_to_see``: where that would show.
        :raises HostError: it cannot be proposed; the words say why.
        """
        given = {
            "id": id,
            "kind": kind,
            "name": name,
            "description": description,
            "content": content,
            "why": why,
            "evidence": evidence,
            "action": action,
            "title": title,
            "files": files,
            "status": status,
            "expected_outcome": expected_outcome,
            "how_to_see": how_to_see,
        }
        said: str = self._host.call("harness.propose", **given)
        return said

    def _entries(self) -> builtins.list[dict[str, Any]]:
        """The pinned entries, with what this session proposes in their place."""
        if self._pinned is None:
            self._pinned = _read(self._path)
        try:
            proposed = self._host.call("harness.proposed")
        except HostError:
            proposed = []  # a session without a proposal door
        return [*(self._pinned | {entry["id"]: entry for entry in proposed}).values()]

    def _entry(self, id: str) -> dict[str, Any]:  # noqa: A002 - as in show
        head, slash, name = id.strip().partition("/")
        wanted = f"{_KINDS.get(head, head)}{slash}{name}"
        for entry in self._entries():
            if entry["id"] == wanted:
                return entry
        raise KeyError(f"no entry {id!r}; harness.list() names them all")

    def __repr__(self) -> str:
        return f"<harness: {len(self._entries())} entries; list(), search(words), show(id), propose(id, …)>"


def _read(path: str) -> dict[str, dict[str, Any]]:
    """The pinned entries by id; they stay the same while the session lasts.

    :raises HostError: a cell has changed the file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return {entry["id"]: entry for entry in json.load(file)}
    except (OSError, ValueError, TypeError, KeyError) as error:
        said = f"{path}: a cell has changed this file with the pinned entries ({error}); the next kernel has"
        raise HostError(f"{said} it whole again", "entries_file") from error


def _line(entry: dict[str, Any]) -> str:
    mark = f" (proposed: {entry['proposed']})" if entry.get("proposed") else ""
    return f"{entry['id']}{mark}: {entry['description']}"


def _text(text: str | None, entry: str) -> str:
    return f"[no text; open it below harness.path({entry!r})]" if text is None else text
