"""Imports of Python-backed skills, from the copies that the host made of the pinned ones.

Only the modules that those skills are named after are found here, before anything else of the name: a
file in the repository cannot stand in for what was reviewed. Compiled files beside a copy are neither
read nor written, so that a changed one is never run.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, NoReturn


class PinnedLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from its source and nothing else."""

    def path_stats(self, path: str) -> NoReturn:
        """Without a time there is no compiled file."""
        raise OSError(f"{path}: compiled files are not used")

    def exec_module(self, module: ModuleType) -> None:
        """Run the source; a skill's module with a ``run`` can be called itself, as Prime Agent has it."""
        super().exec_module(module)
        if "." not in module.__name__ and callable(getattr(module, "run", None)):
            module.__class__ = CallableModule


class CallableModule(ModuleType):
    """A module that is called for its ``run``."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What ``run`` gives."""
        return self.run(*args, **options)


class SkillFinder(MetaPathFinder):
    """Finds the modules of Python-backed skills.

    :param places: module -> the folder that holds it.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Where ``fullname`` is, None when it is no module of a skill."""
        place = self.places.get(fullname.partition(".")[0])
        if place is None:
            return None
        for folder in (place,) if path is None else path:
            finder = importlib.machinery.FileFinder(folder, (PinnedLoader, [".py"]))
            spec = finder.find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def find_skills(file: str) -> None:
    """Let the modules that ``file`` names be imported; those of the standard library are left alone."""
    if not os.path.exists(file):
        return
    with open(file, encoding="utf-8") as stream:
        named: dict[str, str] = json.load(stream)
    standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())  # none before Python 3.10
    places = {name: folder for name, folder in named.items() if name not in standard}
    if places:
        sys.meta_path.insert(0, SkillFinder(places))
