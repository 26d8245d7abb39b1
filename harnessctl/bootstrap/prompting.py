"""``prompt``: the system message, without a model or a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harnessctl.bootstrap.adapters import model_source, python_for, repository_files
from harnessctl.bootstrap.opening import settings, store
from harnessctl.config import Environment, Settings, read_environment
from harnessctl.domain.errors import HarnessError

if TYPE_CHECKING:
    from harnessctl.commands.prompt import ShownPrompt
    from harnessctl.layers.l3_durable.store import HarnessStore


def prompt(
    *, at: str | None = None, model: str | None = None, flags: Mapping[str, Any] | None = None
) -> ShownPrompt:
    """The system message of a run started now; errors as :func:`run_session` before its first call."""
    from harnessctl.commands import prompt as use_case
    from harnessctl.rlm.prompt import SessionFacts

    environment = read_environment()
    harness = store(environment)
    pin = harness.pin(at)
    snapshot = harness.snapshot_at(pin.commit)
    chosen = settings(environment, harness, snapshot, flags)
    protocol, notes = _protocol_before(environment, chosen, model)
    python, more = _python_before(harness, chosen)
    return use_case.prompt(
        snapshot,
        pin,
        SessionFacts(str(harness.root), python, protocol),
        tokens=chosen.prompt_tokens,
        files=repository_files(harness.root, chosen.prompt_files_tokens),
        notes=(*notes, *more),
    )


def _protocol_before(
    environment: Environment, chosen: Settings, model: str | None
) -> tuple[str, tuple[str, ...]]:
    """How the model would ask for code, and what was assumed for it."""
    if chosen.protocol != "auto":
        return chosen.protocol, ()
    try:
        tools = model_source(environment, chosen, model, None).identity.tools
    except HarnessError as error:
        if model:
            raise
        said = error.message.partition("\n")[0]
        return "tool", (f"shown as for a model that calls tools: {said}",)
    return ("tool" if tools else "fence"), ()


def _python_before(harness: HarnessStore, chosen: Settings) -> tuple[str, tuple[str, ...]]:
    """The kernel's Python, and what was assumed: a program that the repository names is not run for it."""
    if chosen.python and chosen.sources.get("run.python") == "harness.toml":
        return chosen.python, (f"the Python is what harness.toml says, not tried: {chosen.python}",)
    return python_for(harness, chosen, None, None, trust=False).path, ()
