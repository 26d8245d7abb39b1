"""``hooks``: git hooks for those who use no hook framework."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harnessctl.hooks.install import Installed, install, uninstall
from harnessctl.hooks.survey import HooksPlace, Owner, hooks_place, survey
from harnessctl.layers.l3_durable.git.repository import Repository


@dataclass(frozen=True)
class HooksStatus:
    """Which hooks are there.

    :ivar place: where git looks.
    :ivar owners: who wrote each hook that we would write; {} where git runs none.
    """

    place: HooksPlace
    owners: dict[str, Owner]

    @property
    def installed(self) -> bool:
        """All of ours are where git looks."""
        return bool(self.owners) and set(self.owners.values()) == {Owner.US}

    def to_json(self) -> dict[str, object]:
        """As ``hooks status --json`` prints it."""
        folder = self.place.folder
        return {
            "folder": str(folder) if folder else None,
            "hooks_path": self.place.setting,
            "hooks": {name: owner.value for name, owner in self.owners.items()},
            "installed": self.installed,
        }


def hooks_status(cwd: Path) -> HooksStatus:
    """Which hooks the repository around ``cwd`` has."""
    place = _place(cwd)
    return HooksStatus(place, survey(place.folder) if place.folder else {})


def install_hooks(cwd: Path, python: str, *, chain: bool = False, into_hooks_path: bool = False) -> Installed:
    """Install; errors as :func:`harnessctl.hooks.install.install`."""
    return install(_place(cwd), python, chain=chain, into_hooks_path=into_hooks_path)


def uninstall_hooks(cwd: Path) -> Installed:
    """Remove our hooks."""
    return uninstall(_place(cwd))


def _place(cwd: Path) -> HooksPlace:
    repository = Repository.open(cwd)
    return hooks_place(repository.config("core.hooksPath"), repository.common_dir, repository.root)
