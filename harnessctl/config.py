"""Settings from plain mappings, and the only reader of the environment.

Precedence, highest first: flags, environment, the user's ``config.toml``, git configuration
``harness.*``, the repository's ``harness.toml``. A repository may set budgets, gates, a model's
name; it never sets endpoints, key names, or a Python inside the clone (CONTRACT 4), so those are
read from the first three only.
"""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harnessctl.domain.errors import UsageError
from harnessctl.domain.ids import suggestion
from harnessctl.domain.limits import MOST, Limits
from harnessctl.domain.plain_files import read_small

#: Bytes of a settings file, and dots in one key: tomllib takes time that grows with the square of both.
MAX_TOML = 256 * 1024
MAX_DOTS = 64
#: What may hold dots and no key: a text in any of TOML's four quotes, or a comment. Each alternative ends,
#: if need be at the end of the line or the file, so that the search goes over no character twice.
_NO_KEY = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']|'(?!''))*(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*"?'
    r"|'[^'\n]*'?"
    r"|\#[^\n]*",
    re.DOTALL,
)
_ENDS_A_KEY = re.compile(r"[=\[\]{},]")

#: Tokens that rendered entries may take in a system prompt, where no setting says otherwise.
PROMPT_TOKENS = 2000

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
    prompt_tokens: int = PROMPT_TOKENS
    prompt_files_tokens: int = 1500
    sources: Mapping[str, str] = field(default_factory=dict)


def user_config(environment: Environment) -> dict[str, Any]:
    """The user's own ``config.toml``, {} when there is none.

    :raises UsageError: it cannot be read, or is no TOML; names file, line and reason.
    """
    path = environment.config_home / "config.toml"
    try:
        data = read_small(path, MAX_TOML)
    except FileNotFoundError:
        return {}
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "mend its rights")
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            id="bad_config",
            hint=f"{remedy}, or set XDG_CONFIG_HOME to a folder that can be read",
        ) from error
    return parse_toml(data, str(path))


#: What mends a path that is not what it must be.
_REMEDIES = {
    errno.EINVAL: "settings are a file: put away what stands in its place",
    errno.EFBIG: "settings take a few lines: take out what is not one",
    errno.EISDIR: "settings are a file: put the folder of that name away",
    errno.ENOTDIR: "everything above it must be a folder: set HOME to yours",
}


def parse_toml(data: bytes, name: str) -> dict[str, Any]:
    """``data`` as TOML; ``name`` is said in the error.

    :raises UsageError: not UTF-8 or not TOML.
    """
    if len(data) > MAX_TOML:
        raise UsageError(
            f"{name} is too large: {len(data)} bytes, and {MAX_TOML} are read",
            id="bad_config",
            hint="settings take a few lines: take out what is not one",
        )
    try:
        text = data.decode("utf-8-sig")
        for number, dots in _dots_of_keys(text):
            if dots > MAX_DOTS:
                raise UsageError(
                    f"{name}, line {number}: a key nests too deep: {dots} dots, and {MAX_DOTS} are read",
                    id="bad_config",
                    hint="no setting is deeper than one dot: mend the key",
                )
        return tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(
            f"{name} nests too deep: tables or lists in each other, more than can be read",
            id="bad_config",
            hint="no setting nests them: mend the file",
        ) from error
    except ValueError as error:  # not UTF-8, not TOML, or a number of more digits than Python reads
        raise UsageError(
            f"{name} is not valid TOML: {error}", id="bad_config", hint=f"mend {name}"
        ) from error


def _dots_of_keys(text: str) -> Iterator[tuple[int, int]]:
    """Line and number of dots of whatever may be a key; dots in texts and comments are no nesting."""
    bare = _NO_KEY.sub(lambda found: "\n" * found[0].count("\n") or "_", text)
    for number, line in enumerate(bare.split("\n"), 1):
        for part in _ENDS_A_KEY.split(line):
            yield number, part.count(".")


@dataclass(frozen=True, slots=True)
class _Key:
    """One setting: where it may be set, and how its text or TOML value is read.

    :ivar read: what a value becomes, as TOML types it; ValueError for one of another type or range.
    :ivar user: whether the user's ``config.toml`` may set it.
    """

    name: str
    read: Callable[[Any], Any]
    env: str = ""
    git: str = ""
    repository: bool = True
    flag: str = ""
    user: bool = True


def _git_only(name: str) -> _Key:
    """A setting that belongs to one repository, so that its git configuration alone holds it."""
    return _Key(name, _text, "", name, repository=False, user=False)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a non-empty text is wanted")
    if "\0" in value:
        raise ValueError("a text without NUL is wanted")
    return value


def _endpoint(value: Any) -> str:
    """A web address; refused, it is not repeated: it may hold a key."""
    text = _text(value)
    with suppress(ValueError):  # brackets or a port that are none
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return text
    raise ValueError("an address that begins with http:// or https:// and a host is wanted")


def gate_command(value: Any) -> str:
    """A gate's command as it was given.

    :raises ValueError: there is nothing in it to run: an empty command would pass and prove nothing.
    """
    text = _text(value)
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        raise ValueError("a command that runs something is wanted")
    return text


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a whole number is wanted")
    if not 0 <= value <= MOST:
        raise ValueError(f"a number from 0 to {MOST} is wanted")
    return value


def _at_least_one(value: Any) -> int:
    number = _count(value)
    if number < 1:
        raise ValueError("a number of at least 1 is wanted")
    return number


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number is wanted")
    if not 0 <= value <= MOST:  # nor is it no number at all, such as nan
        raise ValueError(f"a number from 0 to {MOST} is wanted")
    return float(value)


def _seconds(value: Any) -> float:
    number = _amount(value)
    if number == 0:
        raise ValueError("more than 0 seconds are wanted")
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is wanted")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of texts is wanted")
    return tuple(value)


def _protocol(value: Any) -> str:
    if value not in ("auto", "tool", "fence"):
        raise ValueError("one of auto, tool, fence is wanted")
    return str(value)


def _number_in(text: str) -> int | float | str:
    """The number that ``text`` writes, else ``text`` itself, which no number's key takes."""
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text


def _flag_in(text: str) -> bool | str:
    """As :func:`_number_in`, for the words that git knows for yes and no."""
    yes, no = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
    return text.lower() in yes if text.lower() in (*yes, *no) else text


#: How flags, the environment and git, where every value is a text, write what TOML has types for.
_IN_TEXT: Mapping[Callable[[Any], Any], Callable[[str], Any]] = {
    _count: _number_in,
    _at_least_one: _number_in,
    _amount: _number_in,
    _seconds: _number_in,
    _flag: _flag_in,
}


_KEYS = (
    _Key("run.model", _text, "HARNESSCTL_MODEL", "harness.model"),
    _Key("run.python", _text, "HARNESSCTL_PYTHON", "harness.python"),
    _Key("run.window", _at_least_one, "HARNESSCTL_WINDOW", "harness.window"),
    _Key("run.protocol", _protocol, "HARNESSCTL_PROTOCOL", "harness.protocol", flag="--protocol"),
    _Key("model.api_base", _endpoint, "HARNESSCTL_API_BASE", repository=False),
    _Key("model.api_key_env", _text, "HARNESSCTL_API_KEY_ENV", repository=False),
    _Key("model.max_output", _at_least_one, "HARNESSCTL_MAX_OUTPUT", "harness.maxOutput", repository=False),
    _Key("model.temperature", _amount, "HARNESSCTL_TEMPERATURE", "harness.temperature", repository=False),
    _Key("model.top_p", _amount, "HARNESSCTL_TOP_P", "harness.topP", repository=False),
    _Key("budgets.turns", _at_least_one, "HARNESSCTL_TURNS", "harness.turns"),
    _Key("budgets.tokens", _at_least_one, "HARNESSCTL_TOKENS", "harness.tokens"),
    _Key("budgets.cost_usd", _amount, "HARNESSCTL_COST_USD", "harness.costUsd", flag="--max-cost"),
    _Key("budgets.wall_s", _seconds, "HARNESSCTL_WALL_S", "harness.wallS", flag="--max-time"),
    _Key("budgets.depth", _count, "HARNESSCTL_DEPTH", "harness.depth"),
    _Key("budgets.children", _count, "HARNESSCTL_CHILDREN", "harness.children"),
    _Key("budgets.cell_s", _seconds, "HARNESSCTL_CELL_S", "harness.cellS", flag="--cell-time"),
    _Key("prompt.tokens", _count, "HARNESSCTL_PROMPT_TOKENS", "harness.promptTokens"),
    _Key("prompt.files_tokens", _count, "HARNESSCTL_PROMPT_FILES_TOKENS", "harness.promptFilesTokens"),
    _Key("review.require_shared", _flag, "", "harness.requireShared"),
    _Key("secrets.allow", _texts),
    _git_only("harness.branch"),
    _git_only("harness.agentName"),
    _git_only("harness.agentEmail"),
)


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    user: Mapping[str, Any] | None = None,
    git: Mapping[str, str] | None = None,
    harness: Mapping[str, Any] | None = None,
) -> Settings:
    """Merge the five sources, highest first: flags, environment, user, git, ``harness.toml``.

    :param flags: by dotted name (``run.model``); None values count as not given.
    :param user: the parsed user ``config.toml``, tables as in ``harness.toml`` plus ``[model]``.
    :param git: git configuration ``harness.*`` by full key, any letter case.
    :param harness: the parsed ``harness.toml`` of the pin.
    :raises UsageError: a value of the wrong form, naming source and key.
    """
    for error in _no_tables(user, harness):
        raise error
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key in _KEYS:
        found = _first(key, flags or {}, env or {}, user, git or {}, harness)
        if found is not None:
            values[key.name], sources[key.name] = found
    return _settings(values, sources, _gates(harness))


def wrong_settings(
    *,
    env: Mapping[str, str] | None = None,
    user: Mapping[str, Any] | None = None,
    git: Mapping[str, str] | None = None,
    harness: Mapping[str, Any] | None = None,
) -> Iterator[UsageError]:
    """What is wrong with each value of these sources, whichever of them wins: runs refuse it."""
    yield from _no_tables(user, harness)
    for key in _KEYS:
        yield from _wrong(key, env, None, None, None)
        yield from _wrong(key, None, user, None, None)
        yield from _wrong(key, None, None, git, None)
        yield from _wrong(key, None, None, None, harness)
    try:
        _gates(harness)
    except UsageError as error:
        yield error


def _no_tables(user: Mapping[str, Any] | None, harness: Mapping[str, Any] | None) -> Iterator[UsageError]:
    """What stands where a table of settings belongs, so that no key in it would be read."""
    for source, tables, keys in (
        ("config.toml", user, [key for key in _KEYS if key.user]),
        ("harness.toml", harness, [key for key in _KEYS if key.repository]),
    ):
        for name, key in {key.name.partition(".")[0]: key for key in keys}.items():
            if not isinstance((tables or {}).get(name, {}), Mapping):
                said = f"{source}: {name}: one table [{name}] is wanted"
                yield UsageError(said, id="bad_config", hint=_mended(key, source))


def _wrong(
    key: _Key,
    env: Mapping[str, str] | None,
    user: Mapping[str, Any] | None,
    git: Mapping[str, str] | None,
    harness: Mapping[str, Any] | None,
) -> Iterator[UsageError]:
    try:
        _first(key, {}, env or {}, user, git or {}, harness)
    except UsageError as error:
        yield error


def one_setting(
    name: str,
    *,
    env: Mapping[str, str] | None = None,
    user: Mapping[str, Any] | None = None,
    git: Mapping[str, str] | None = None,
    harness: Mapping[str, Any] | None = None,
) -> Any:
    """The one setting ``name`` from these sources, highest first; None where none of them sets it.

    For what is not the run's: a policy that counts at the landed tip, a list that every verb needs.

    :raises UsageError: as :func:`load_settings`, for this one value.
    """
    key = next(key for key in _KEYS if key.name == name)
    found = _first(key, {}, env or {}, user, git or {}, harness)
    return None if found is None else found[0]


def _first(
    key: _Key,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    user: Mapping[str, Any] | None,
    git: Mapping[str, str],
    harness: Mapping[str, Any] | None,
) -> tuple[Any, str] | None:
    """Value and source of ``key``: the first source that sets it, None for none."""
    in_git = {name.lower(): value for name, value in git.items()} if key.git else {}
    for source, raw in (
        ("flags", flags.get(key.name)),
        (key.env, env.get(key.env) or None if key.env else None),
        ("config.toml", _at(user, key.name) if key.user else None),
        ("git config", in_git.get(key.git.lower())),
        ("harness.toml", _at(harness, key.name) if key.repository else None),
    ):
        if raw is None:
            continue
        if isinstance(raw, str) and not source.endswith(".toml"):
            value = _IN_TEXT.get(key.read, str)(raw)
        else:
            value = raw
        try:
            return key.read(value), source
        except ValueError as error:
            raise UsageError(
                f"{_said(key, source, raw)}: {error}", id="bad_config", hint=_mended(key, source)
            ) from error
    return None


def _mended(key: _Key, source: str) -> str:
    """Where a wrong value is put right."""
    return {
        "flags": "give another value",
        "config.toml": "mend it in harnessctl/config.toml below XDG_CONFIG_HOME (~/.config)",
        "git config": f"git config {key.git} VALUE, or git config --unset {key.git}",
        "harness.toml": "mend it where the harness is kept; harnessctl doctor says how",
    }.get(source, f"export {source} with another value, or unset it")


def _said(key: _Key, source: str, raw: Any) -> str:
    """A setting as the user wrote it: an option, a variable, or a key of a file."""
    if source == "flags" and key.flag:
        return f"{key.flag} {raw}"
    if source == key.env:
        return source if key.read is _endpoint else f"{source}={raw}"
    return f"{source}: {key.name}"


#: Tables and keys of ``harness.toml`` that are no settings of their own.
_POLICY = ("schema", *(f"gates.{field}" for field in ("name", "command", "inputs", "timeout_s", "attempts")))
#: Variables that are no settings, and how all of ours begin.
_OWN_ENV, _OURS_IN_ENV = ("HARNESSCTL_ACTOR", KERNEL_MARK), "HARNESSCTL_"
#: Keys of git configuration that harnessctl writes for itself.
_OWN_GIT = ("harness.mode", "harness.repositoryId")


def unread_keys(
    *,
    user: Mapping[str, Any] | None = None,
    git: Iterable[str] = (),
    harness: Mapping[str, Any] | None = None,
    env: Iterable[str] = (),
) -> tuple[str, ...]:
    """A sentence for each key of a source that nothing reads, with what was perhaps meant.

    :param git: names of the keys that are set below ``harness.``, any letter case.
    :param env: names of the variables that are set.
    """
    own = [key.name for key in _KEYS if key.user]
    shared = [*(key.name for key in _KEYS if key.repository), *_POLICY]
    known = {name.lower(): name for name in (*GIT_KEYS, *_OWN_GIT)}
    variables = [*(key.env for key in _KEYS if key.env), *_OWN_ENV]
    found = [
        ("environment", name, variables)
        for name in env
        if name.startswith(_OURS_IN_ENV) and name not in variables
    ]
    found += [("config.toml", name, own) for name in _names(user) if name not in own]
    found += [("git config", name, list(known.values())) for name in git if name.lower() not in known]
    found += [
        ("harness.toml", name, shared) for name in _names(harness) if name not in shared and _ours(name)
    ]
    return tuple(_unread(source, name, names) for source, name, names in found)


def _ours(name: str) -> bool:
    """No for what ``[review]`` holds for other tools; a slip of a key of ours is none of that."""
    known = [key.name for key in _KEYS]
    return not name.startswith("review.") or bool(suggestion(name, known))


def _unread(source: str, name: str, known: list[str]) -> str:
    key = next((key for key in _KEYS if key.name == name), None)
    if key is not None and not key.user:
        return f"{source}: '{name}' is read from git configuration alone: git config {key.git} VALUE"
    if key is not None and source == "harness.toml":
        return f"{source}: '{name}' is not read from a repository: it is the user's own to set"
    meant = next((key for key in _KEYS if not key.git and _as_in_git(key) == name.lower()), None)
    if source == "git config" and meant is not None:
        other = f", or in {meant.env}" if meant.env else ""
        return f"{source}: '{name}' is not read from there: set {meant.name} in config.toml{other}"
    return f"{source}: '{name}' is read by nothing. {suggestion(name, known)}".rstrip()


def _as_in_git(key: _Key) -> str:
    """How git would spell a key that is not read from there."""
    return "harness." + key.name.rpartition(".")[2].replace("_", "")


def _names(tables: Mapping[str, Any] | None) -> list[str]:
    """Dotted names of what is set, tables one level deep; each once."""
    found = []
    for table, value in (tables or {}).items():
        rows = value if isinstance(value, list) else [value]
        inner = [f"{table}.{key}" for row in rows if isinstance(row, Mapping) for key in row]
        found += inner or ([] if isinstance(value, Mapping) else [table])
    return list(dict.fromkeys(found))


def _at(tables: Mapping[str, Any] | None, name: str) -> Any:
    table, _, key = name.partition(".")
    inner = (tables or {}).get(table)
    return inner.get(key) if isinstance(inner, Mapping) else None


def _settings(values: Mapping[str, Any], sources: Mapping[str, str], gates: tuple[GateSpec, ...]) -> Settings:
    standard = Limits()
    limits = Limits(
        turns=values.get("budgets.turns", standard.turns),
        tokens=values.get("budgets.tokens"),
        cost_usd=values.get("budgets.cost_usd"),
        wall_s=values.get("budgets.wall_s"),
        depth=values.get("budgets.depth", standard.depth),
        children=values.get("budgets.children", standard.children),
        cell_s=values.get("budgets.cell_s", standard.cell_s),
    )
    plain = Settings()
    return Settings(
        model=values.get("run.model"),
        api_base=values.get("model.api_base"),
        api_key_env=values.get("model.api_key_env"),
        params=tuple(
            (name, values[f"model.{name}"]) for name in ("temperature", "top_p") if f"model.{name}" in values
        ),
        max_output=values.get("model.max_output"),
        window=values.get("run.window"),
        protocol=values.get("run.protocol", plain.protocol),
        python=values.get("run.python"),
        limits=limits,
        gates=gates,
        prompt_tokens=values.get("prompt.tokens", plain.prompt_tokens),
        prompt_files_tokens=values.get("prompt.files_tokens", plain.prompt_files_tokens),
        sources=dict(sources),
    )


def _gates(harness: Mapping[str, Any] | None) -> tuple[GateSpec, ...]:
    raw = (harness or {}).get("gates", [])
    if not isinstance(raw, list):
        raise UsageError(
            "harness.toml: gates must be [[gates]] tables",
            id="bad_config",
            hint="begin each gate with a line [[gates]]",
        )
    gates = []
    for number, table in enumerate(raw, 1):
        try:
            gates.append(
                GateSpec(
                    name=_text(table.get("name")),
                    command=gate_command(table.get("command")),
                    inputs=_texts(table.get("inputs", [])),
                    timeout_s=_seconds(table.get("timeout_s", 600.0)),
                    attempts=_count(table.get("attempts", 1)),
                )
            )
        except (ValueError, AttributeError) as error:
            raise UsageError(
                f"harness.toml: gate {number}: {error}",
                id="bad_config",
                hint="mend the gate where the harness is kept; harnessctl doctor says how",
            ) from error
    return tuple(gates)


#: Keys of git configuration that set something, ``harness.*``.
GIT_KEYS = tuple(key.git for key in _KEYS if key.git)


def describe_keys() -> tuple[str, ...]:
    """A row of a Markdown table for each setting: its name, and each source that may set it."""
    return tuple(
        f"| `{key.name}` | {_code(key.env)} | {'yes' if key.user else 'no'} | {_code(key.git)} "
        f"| {'yes' if key.repository else 'no'} |"
        for key in _KEYS
    )


def _code(text: str) -> str:
    return f"`{text}`" if text else "–"
