"""What a run is kept within: its gates, its sandbox, what its kernel is not told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import harnessctl
from harnessctl.config import GateSpec, Settings
from harnessctl.domain.errors import RefusedError
from harnessctl.layers.l2_execution.environment import holds_secret, kernel_environment
from harnessctl.layers.l2_execution.protection import exposure, readable_ancestors
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.layers.l2_execution.sandbox import Sandbox
from harnessctl.layers.l3_durable.pins.trust import Trust, programs_digest
from harnessctl.layers.l3_durable.rules import secrets
from harnessctl.rlm.gates import GatePlan, Gates
from harnessctl.rlm.ports import WorkTree

#: Characters of a command that name its gate.
NAME = 60


@dataclass(frozen=True)
class Safety:
    """What the user and the pin ask for.

    :ivar gates: of the pin, then of the command line.
    :ivar allowed_inputs: globs of gate inputs that the run may change.
    :ivar extra_inputs: globs that every gate judges by, beside its own.
    :ivar sandbox: None runs kernel and gates with all of the user's rights.
    :ivar secret: whether a variable's value looks like a credential.
    """

    gates: tuple[GateSpec, ...] = ()
    allowed_inputs: tuple[str, ...] = ()
    extra_inputs: tuple[str, ...] = ()
    sandbox: Sandbox | None = None
    secret: Callable[[str], bool] = lambda _: False

    def at(self, root: Path) -> Safety:
        """The same for a session whose work tree is at ``root``."""
        return self if self.sandbox is None else replace(self, sandbox=replace(self.sandbox, root=root))

    def to_json(self, gates: Gates | None) -> dict[str, Any]:
        """As it stands in the header: a session that is picked up again is kept within the same."""
        plan = {
            "specs": [asdict(spec) for spec in self.gates],
            "allowed": list(self.allowed_inputs),
            "extra": list(self.extra_inputs),
            "inputs": dict(gates.inputs) if gates else {},
        }
        return {"gates": plan, "sandbox": sandbox_json(self.sandbox)}


def sandbox_json(sandbox: Sandbox | None) -> dict[str, bool] | None:
    """What a reader needs to know of a sandbox; None without one."""
    return None if sandbox is None else {"network": sandbox.network}


def gate_specs(pinned: Sequence[GateSpec], commands: Sequence[str]) -> tuple[GateSpec, ...]:
    """The pin's gates and those of the command line, whose names are their commands; no name twice."""
    found = list(pinned)
    for command in commands:
        name = " ".join(command.split())[:NAME]
        count = sum(spec.name == name or spec.name.startswith(f"{name} #") for spec in found)
        found.append(GateSpec(f"{name} #{count + 1}" if count else name, command))
    return tuple(found)


def environment_of(
    variables: Mapping[str, str],
    safety: Safety,
    *,
    session: str,
    keys: Sequence[str],
    python: PythonChoice,
    folder: Path | None = None,
) -> dict[str, str]:
    """The environment of a session's kernel, and without ``folder`` of its gates: they run its code too."""
    return kernel_environment(
        variables,
        session,
        keys=keys,
        secret=safety.secret,
        ipython_folder=folder / "ipython" if folder else None,
        python=Path(python.path) if python.virtual else None,
    )


def gates_of(
    safety: Safety, environment: Mapping[str, str], worktree: WorkTree, header: Mapping[str, Any] | None
) -> Gates | None:
    """The session's gates, None without any.

    :param header: of a session that is picked up again: what its gates were at the start stands there.
    """
    specs, allowed, extra, inputs = safety.gates, safety.allowed_inputs, safety.extra_inputs, None
    if header is not None:
        kept = header.get("gates") or {"specs": ()}
        specs = tuple(GateSpec(**{**s, "inputs": tuple(s["inputs"])}) for s in kept["specs"])
        allowed, extra = tuple(kept.get("allowed", ())), tuple(kept.get("extra", ()))
        inputs = kept.get("inputs")
    if not specs:
        return None
    wrap = safety.sandbox.wrap if safety.sandbox else tuple
    return Gates(GatePlan(specs, allowed, extra, environment, wrap), worktree, inputs)


def sandbox_of(
    root: Path,
    home: Path,
    python: PythonChoice,
    *,
    git_dirs: Sequence[Path],
    hidden: Sequence[Path],
    network: bool,
) -> Sandbox:
    """The sandbox of a run in ``root``; the interpreter and the kernel's module stay readable in it."""
    own = Path(python.path)
    package = Path(harnessctl.__path__[0])
    shown = (own.parent.parent, own.resolve().parent.parent, Path(sys.prefix), Path(sys.base_prefix), package)
    return Sandbox(root, home, tuple(git_dirs), tuple(hidden), tuple(dict.fromkeys(shown)), network=network)


@dataclass(frozen=True)
class SafetyOptions:
    """What the command line says about safety.

    :ivar gates: commands that must pass, beside the pin's gates.
    :ivar no_gates: run without the pin's gates.
    :ivar trust: let the repository's programs run, and remember that.
    :ivar ask: asks the user a question, given the text that explains it; None where nobody can answer.
    """

    gates: tuple[str, ...] = ()
    gate_inputs: tuple[str, ...] = ()
    allow_gate_inputs: tuple[str, ...] = ()
    no_gates: bool = False
    sandbox: bool = False
    network: bool = True
    trust: bool = False
    ask: Callable[[str], bool] | None = None


def settle_trust(
    gates: Sequence[GateSpec], python: str | None, state_dir: Path, options: SafetyOptions
) -> None:
    """Make sure that the user lets the programs run which the repository brings.

    Trusted is exactly this set of gates and Python; any change asks again.

    :param gates: of ``harness.toml`` at the pin.
    :param python: the interpreter that ``harness.toml`` names, None when it names none.
    :param state_dir: of the repository, where it is remembered.
    :raises RefusedError: ``untrusted_gates`` or ``untrusted_python``: the user does not, or cannot be asked.
    """
    if not gates and python is None:
        return
    trust, digest = Trust(state_dir), programs_digest([asdict(spec) for spec in gates], python)
    if trust.holds(digest):
        return
    lines = [f"gate {spec.name}: {spec.command}" for spec in gates]
    lines += [f"Python of the kernel: {python}"] if python is not None else []
    said = "harness.toml at the pinned revision has these programs run, with your rights:\n  " + "\n  ".join(
        lines
    )
    if not options.trust and (options.ask is None or not options.ask(said)):
        skip = ", or with --no-gates to run without them" if gates else ""
        raise RefusedError(
            said,
            id="untrusted_gates" if gates else "untrusted_python",
            hint=f"look at them, then run once with --trust{skip}",
        )
    trust.remember(digest)


def brought_python(chosen: Settings) -> str | None:
    """The Python that ``harness.toml`` names by a path: a program that a clone may bring."""
    named = chosen.python if chosen.sources.get("run.python") == "harness.toml" else None
    return named if named and "/" in named else None


def looks_secret(value: str) -> bool:
    """Whether a text holds something that looks like a credential."""
    return bool(secrets.scan(value))


def key_values(variables: Mapping[str, str], named: str | None) -> tuple[str, ...]:
    """Values of the environment that no error text may repeat.

    :param named: the variable that the user says holds the model's key.
    """
    return tuple(value for name, value in variables.items() if _is_key(name, value, named))


def say_exposure(safety: Safety, named: str | None, say: Callable[[str], None]) -> None:
    """Say which keys code in the kernel could still reach; in a sandbox it reaches none."""
    said = "" if safety.sandbox else exposure(readable_ancestors, lambda n, v: _is_key(n, v, named))
    if said:
        say(said)


def _is_key(name: str, value: str, named: str | None) -> bool:
    return name == named or holds_secret(name, value) or looks_secret(value)
