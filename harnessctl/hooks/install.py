"""Writing and removing hook files; all that are wanted, or none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.errors import HarnessError
from harnessctl.hooks.script import BEFORE, HOOKS, hook_script
from harnessctl.hooks.survey import ADVICE, HooksPlace, Owner, survey

#: Said after every installation: what hooks cannot hold.
BYPASS = (
    "`git commit --no-verify` skips hooks and a fresh clone has none: let CI run `harnessctl check --range`"
)


@dataclass(frozen=True)
class Installed:
    """What was done.

    :ivar folder: where the hooks are.
    :ivar written: names of hooks written or, by an uninstallation, removed.
    :ivar chained: hooks that were there before and are run first, or were put back.
    """

    folder: Path
    written: tuple[str, ...]
    chained: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As ``hooks install --json`` and ``hooks uninstall --json`` print it."""
        return {"folder": str(self.folder), "hooks": list(self.written), "chained": list(self.chained)}


def install(place: HooksPlace, python: str, *, chain: bool, into_hooks_path: bool) -> Installed:
    """Write our hooks where git looks for them.

    :param python: interpreter that has harnessctl.
    :param chain: keep a person's hook and run it first.
    :param into_hooks_path: write into the folder that ``core.hooksPath`` names.
    :raises HarnessError: ``hooks_path`` or ``foreign_hook``; nothing was written.
    """
    folder = _folder(place, into_hooks_path)
    owners = survey(folder)
    _refuse_foreign(folder, owners, chain=chain)
    folder.mkdir(parents=True, exist_ok=True)
    chained = []
    for name, owner in owners.items():
        if owner is Owner.PERSON:
            (folder / name).rename(folder / f"{name}{BEFORE}")
            chained.append(name)
        _write(folder / name, hook_script(name, python))
    return Installed(folder, tuple(HOOKS), tuple(chained))


def uninstall(place: HooksPlace) -> Installed:
    """Remove our hooks and put back what they ran first; other hooks stay as they are."""
    if place.folder is None:
        return Installed(Path(), ())
    removed, restored = [], []
    for name, owner in survey(place.folder).items():
        if owner is not Owner.US:
            continue
        (place.folder / name).unlink()
        removed.append(name)
        before = place.folder / f"{name}{BEFORE}"
        if before.exists():
            before.rename(place.folder / name)
            restored.append(name)
    return Installed(place.folder, tuple(removed), tuple(restored))


def _folder(place: HooksPlace, into_hooks_path: bool) -> Path:
    if place.folder is None:
        raise HarnessError(
            "core.hooksPath is set to an empty value, so git runs no hook here",
            id="hooks_path",
            hint="unset it; until then run `harnessctl check --staged` yourself, and in CI --range",
        )
    husky = ".husky" in place.folder.parts
    if place.elsewhere and (husky or not into_hooks_path):
        call = f"call `harnessctl check --staged` from the hooks in {place.folder}, or write ours there with "
        raise HarnessError(
            f"core.hooksPath is '{place.setting}': git would not run a hook in this repository's own folder",
            id="hooks_path",
            hint=(ADVICE[Owner.HUSKY] if husky else call + "--into-hooks-path")
            + "; CI can run `harnessctl check --range`",
        )
    return place.folder


def _refuse_foreign(folder: Path, owners: Mapping[str, Owner], *, chain: bool) -> None:
    mine = {Owner.NOBODY, Owner.US, *([Owner.PERSON] if chain else [])}
    for name, owner in owners.items():
        taken = owner is Owner.PERSON and (folder / f"{name}{BEFORE}").exists()
        if owner in mine and not taken:
            continue
        raise HarnessError(
            f"{folder / name} is already there, written by {owner}",
            id="foreign_hook",
            hint=f"remove or rename {name}{BEFORE} first" if taken else ADVICE[owner],
        )


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(path)
