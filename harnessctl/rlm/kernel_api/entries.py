"""The pinned entries, for code in cells."""

from __future__ import annotations

import builtins
import json
import os
from typing import Any

from .host import Host


class Harness:
    """The pinned entries, for code: ``harness.list()``, ``harness.search("words")``, ``harness.show(id)``."""

    def __init__(self, path: str, host: Host) -> None:
        self._path = path
        self._host = host

    def _entries(self) -> list[dict[str, Any]]:
        if not os.path.exists(self._path):
            return []
        with open(self._path, encoding="utf-8") as file:
            entries: list[dict[str, Any]] = json.load(file)
        return entries

    def list(self) -> builtins.list[str]:
        """Ids and descriptions of every entry."""
        return [f"{entry['id']}: {entry['description']}" for entry in self._entries()]

    def search(self, words: str) -> builtins.list[str]:
        """Ids and descriptions of entries that hold any of ``words``, most of them first."""
        wanted = words.lower().split()
        found = []
        for entry in self._entries():
            text = " ".join([entry["id"], entry["description"], *entry["files"].values()]).lower()
            score = sum(word in text for word in wanted)
            if score:
                found.append((-score, f"{entry['id']}: {entry['description']}"))
        return [line for _, line in sorted(found)]

    def show(self, id: str) -> str:  # noqa: A002 - the word the prompt uses
        """The whole text of one entry, all its files.

        :raises KeyError: no such entry.
        """
        entry = next((e for e in self._entries() if e["id"] == id), None)
        if entry is None:
            raise KeyError(f"no entry {id!r}; harness.list() names them all")
        files = entry["files"]
        if len(files) == 1:
            return str(next(iter(files.values())))
        return "\n".join(f"==> {path} <==\n{text}" for path, text in files.items())

    def __repr__(self) -> str:
        return f"<harness: {len(self._entries())} entries; list(), search(words), show(id)>"
