"""What a session works with: model, Python, sandbox, proposer, files of the repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harnessctl.config import Environment, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from harnessctl.commands.safety import Safety
    from harnessctl.config import GateSpec
    from harnessctl.domain.snapshot import Snapshot
    from harnessctl.layers.l1_context.repository_files import RepositoryText
    from harnessctl.layers.l2_execution.python import PythonChoice
    from harnessctl.layers.l3_durable.store import HarnessStore
    from harnessctl.models.catalogue import ModelSource
    from harnessctl.models.local_weights import OnProgress
    from harnessctl.models.port import ModelClient
    from harnessctl.rlm.ports import Proposer


def model_source(
    environment: Environment, chosen: Settings, name: str | None, on_progress: OnProgress | None
) -> ModelSource:
    """The model called ``name``, by default the configured one; nothing heavy is loaded yet."""
    from harnessctl.commands.safety import key_values
    from harnessctl.models import catalogue
    from harnessctl.models.discreet import DiscreetClient

    more = {} if on_progress is None else {"on_progress": on_progress}
    found = catalogue.resolve(name, chosen, environment, **more)
    keys = key_values(environment.variables, chosen.api_key_env)
    return replace(found, build=lambda: DiscreetClient(found.build(), keys))


def python_for(
    harness: HarnessStore, chosen: Settings, flag: str | None, kernel: str | None, *, trust: bool
) -> PythonChoice:
    """What the kernel runs on: an installed Jupyter kernel, a Python that is named, or what is found.

    :raises HarnessError: it is not there, or the clone brings it and is not trusted.
    """
    from harnessctl.layers.l2_execution.python import choose_python

    if kernel:
        from harnessctl.layers.l2_execution.kernelspecs import kernel_named

        return kernel_named(kernel)
    where = chosen.sources.get("run.python", "")

    return choose_python(
        harness.root,
        flag=flag,
        configured=chosen.python,
        configured_by=where,
        from_repository=where == "harness.toml",
        trusted=trust,
        tracked=harness.repository.tracked,
    )


def safety_of(
    environment: Environment,
    harness: HarnessStore,
    python: PythonChoice,
    gates: tuple[GateSpec, ...],
    *,
    sandbox: Mapping[str, bool] | None,
    allowed: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
) -> Safety:
    """What a run is kept within.

    :param sandbox: {"network": whether it has one}; None for none.
    :raises UsageError: ``no_sandbox``: none can be made here.
    """
    from harnessctl.commands.safety import Safety, looks_secret, sandbox_of

    box = None
    if sandbox is not None:
        box = sandbox_of(
            harness.root,
            environment.home,
            python,
            git_dirs=(harness.git_dir, harness.common_dir),
            hidden=(environment.state_home, environment.config_home),
            network=sandbox["network"],
        )
        box.check()
    return Safety(gates, allowed, extra, box, looks_secret)


class Models:
    """The models of one run, each built once: the root's, and those that children ask for by name."""

    def __init__(self, source: ModelSource, find: Callable[[str], ModelSource]) -> None:
        self._source = source
        self._find = find
        self._clients: dict[str, ModelClient] = {}

    @property
    def root(self) -> ModelClient:
        """The root's."""
        return self._built(self._source)

    def named(self, name: str) -> tuple[ModelClient, str]:
        """The model called ``name``, and the name that finds it again from any folder.

        :raises HarnessError: there is none.
        """
        source = self._find(name)
        if source.name not in self._clients:
            source.warm()
        return self._built(source), source.name

    async def aclose(self) -> None:
        """Free what they hold."""
        for client in self._clients.values():
            await client.aclose()

    def _built(self, source: ModelSource) -> ModelClient:
        if source.name not in self._clients:
            self._clients[source.name] = source.build()
        return self._clients[source.name]


def repository_files(root: Path, tokens: int) -> RepositoryText:
    """What AGENTS.md and CLAUDE.md of the work tree at ``root`` say in ``tokens`` tokens; 0 reads nothing."""
    from harnessctl.layers.l1_context.repository_files import (
        RepositoryText,
        is_guidance,
        read_repository_files,
    )
    from harnessctl.layers.l3_durable.git.repository import Repository

    if not tokens:
        return RepositoryText()
    repository = Repository.open(root)
    return read_repository_files(
        root,
        tokens,
        tracked=repository.tracked,
        nested=repository.tracked_where(is_guidance),
    )


def proposer_of(environment: Environment, harness: HarnessStore, snapshot: Snapshot) -> Proposer:
    """The proposal door of a session that reads ``snapshot``."""
    import platform

    from harnessctl.layers.l3_durable.rules import secrets
    from harnessctl.refine.offers import Offers
    from harnessctl.refine.redact import local_redactor
    from harnessctl.refine.secrecy import Secrecy

    secrecy = Secrecy(secrets.scan, harness.checks.allow)
    return Offers(harness, snapshot, secrecy, local_redactor(environment, platform.node()))


def propose_left_behind(environment: Environment, harness: HarnessStore, note: Callable[[str], None]) -> None:
    """Make proposals of what sessions wished that were cut off; what came of it is said."""
    from harnessctl.commands.left_behind import propose_left_behind

    def door(snapshot: Snapshot) -> Proposer:
        return proposer_of(environment, harness, snapshot)

    propose_left_behind(harness.state_dir / "sessions", harness.snapshot_at, door, note)


class LinkedTrees:
    """Work trees made and removed by git, for :mod:`harnessctl.commands.linked`."""

    def __init__(self, environment: Environment) -> None:
        self._variables = environment.variables

    def head(self, root: Path) -> str:
        """Commit checked out at ``root``, "" for none."""
        from harnessctl.layers.l3_durable.git.linked import head_of

        return head_of(root)

    def add(self, root: Path, path: Path, commit: str) -> None:
        """Make ``path``, detached at ``commit``."""
        from harnessctl.layers.l3_durable.git.linked import add_linked

        add_linked(root, path, commit, self._variables)

    def remove(self, root: Path, path: Path) -> None:
        """Remove ``path``."""
        from harnessctl.layers.l3_durable.git.linked import remove_linked

        remove_linked(root, path, self._variables)

    def is_kept(self, path: Path, commit: str) -> bool:
        """Whether a branch or a tag holds ``commit``."""
        from harnessctl.layers.l3_durable.git.linked import is_kept

        return is_kept(path, commit, self._variables)

    def is_clean(self, path: Path) -> bool:
        """Whether all that is not ignored in ``path`` is committed."""
        from harnessctl.layers.l3_durable.git.linked import is_clean

        return is_clean(path)

    def free_branch(self, path: Path, wanted: str) -> str:
        """A branch name like ``wanted`` that is free."""
        from harnessctl.layers.l3_durable.git.linked import free_branch

        return free_branch(path, wanted)
