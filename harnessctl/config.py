"""Settings from plain mappings, and the only reader of the environment.

Precedence, highest first: flags, environment, the user's ``config.toml``, git configuration
``harness.*``, the repository's ``harness.toml``. A repository may set budgets, gates, a model's
name; it never sets endpoints, key names, or a Python inside the clone (CONTRACT 4), so those are
read from the first three only.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnessctl.domain.errors import UsageError
from harnessctl.domain.limits import Limits

#: Set in a kernel's environment: the id of the session whose kernel it is (CONTRACT 6).
KERNEL_MARK = "HARNESSCTL_KERNEL"


@dataclass(frozen=True)
class Environment:
    """What harnessctl takes from the process environment, read once."""

    variables: Mapping[str, str]
    home: Path
    state_home: Path
    config_home: Path
    cache_home: Path

    @property
    def actor(self) -> str:
        """``HARNESSCTL_ACTOR``: "agent" makes this process an agent."""
        return self.variables.get("HARNESSCTL_ACTOR", "")

    @property
    def kernel_mark(self) -> str:
        """Session id when this process runs in a kernel of ours, "" otherwise."""
        return self.variables.get(KERNEL_MARK, "")

    @property
    def editor(self) -> str:
        """The user's editor."""
        return self.variables.get("VISUAL") or self.variables.get("EDITOR") or "vi"


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """The environment of this process, or of ``variables``.

    Paths follow the XDG base directory specification; relative values are ignored, as it asks.
    """
    env = dict(os.environ if variables is None else variables)
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()

    def xdg(name: str, default: str) -> Path:
        value = env.get(name, "")
        return Path(value) if value.startswith("/") else home / default

    return Environment(
        variables=env,
        home=home,
        state_home=xdg("XDG_STATE_HOME", ".local/state") / "harnessctl",
        config_home=xdg("XDG_CONFIG_HOME", ".config") / "harnessctl",
        cache_home=xdg("XDG_CACHE_HOME", ".cache") / "harnessctl",
    )


@dataclass(frozen=True, slots=True)
class GateSpec:
    """A command that must pass before a run may call itself verified."""

    name: str
    command: str
    inputs: tuple[str, ...] = ()
    timeout_s: float = 600.0
    attempts: int = 1


@dataclass(frozen=True)
class Settings:
    """What a verb runs with, merged by precedence."""

    model: str | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    params: tuple[tuple[str, float], ...] = ()
    max_output: int | None = None
    window: int | None = None
    protocol: str = "auto"
    python: str | None = None
    limits: Limits = field(default_factory=Limits)
    gates: tuple[GateSpec, ...] = ()
    prompt_tokens: int = 2000
    require_shared: bool = False
    secrets_allow: tuple[str, ...] = ()
    branch: str = "harness"
    agent_name: str = "harnessctl agent"
    agent_email: str = "agent@harnessctl.invalid"
    sources: Mapping[str, str] = field(default_factory=dict)


def read_toml(path: Path) -> dict[str, Any]:
    """The TOML file at ``path``, {} when it does not exist.

    :raises UsageError: not readable as TOML; names file, line and reason.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", id="bad_config") from error
    return parse_toml(data, str(path))


def parse_toml(data: bytes, name: str) -> dict[str, Any]:
    """``data`` as TOML; ``name`` is said in the error.

    :raises UsageError: not UTF-8 or not TOML.
    """
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            f"{name} is not valid TOML: {error}", id="bad_config", hint="mend the file"
        ) from error
