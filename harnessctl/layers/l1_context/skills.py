"""Entries as code in a cell has them, and what makes a skill importable there."""

from __future__ import annotations

from typing import Any

from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.ids import SKILL_FILE, Kind
from harnessctl.layers.l1_context.frame import flags_of

PYPROJECT = "pyproject.toml"


def inner_path(entry: Entry, file: EntryFile) -> str:
    """The file's path below its skill's folder (``references/y.md``); its name for other kinds."""
    folder = entry.id.path.removesuffix(SKILL_FILE) if entry.id.kind is Kind.SKILL else ""
    return file.path.removeprefix(folder) if folder else file.path.rpartition("/")[2]


def python_module(entry: Entry) -> str:
    """The module that a Python-backed skill brings, "" for every other entry.

    Such a skill holds ``pyproject.toml`` and ``src/<name, with _ for ->/__init__.py``, as Prime Agent
    writes them.
    """
    if entry.id.kind is not Kind.SKILL:
        return ""
    module = entry.id.name.replace("-", "_")
    inner = {inner_path(entry, file) for file in entry.files}
    backed = PYPROJECT in inner and f"src/{module}/__init__.py" in inner
    return module if backed and module.isidentifier() else ""


def entry_for_cells(entry: Entry) -> dict[str, Any]:
    """The entry as ``harness`` in a cell has it: the JSON of lists, its files' texts, its module, flags.

    ``files`` is by path inside the entry, the main file first; None stands for what is no text.
    """
    ordered = sorted(entry.files, key=lambda file: (file.path != entry.main.path, file.path))
    texts = {inner_path(entry, file): _text(file.data) for file in ordered}
    known = {"files": texts, "module": python_module(entry), "flags": list(flags_of(entry))}
    return {**entry.to_json(), **known}


def _text(data: bytes) -> str | None:
    return None if b"\0" in data else data.decode("utf-8-sig", "replace")
