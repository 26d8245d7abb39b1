"""The file behind ``scripted:FILE``: JSON lines, checked line by line (CONTRACT 8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.errors import UsageError
from harnessctl.domain.limits import MOST_TOKENS
from harnessctl.domain.plain_files import PATIENCE_S, read_small
from harnessctl.layers.l0_weights import ModelIdentity, Price

_REPLY_KEYS = {
    "content": (str, type(None)),
    "code": (str,),
    "for": (str,),
    "usage": (dict,),
    "delay_ms": (int, float),
    "error": (dict,),
}
_USAGE_KEYS = {"prompt": (int,), "completion": (int,), "cached": (int,)}
_ERROR_KEYS = {"status": (int,), "body": (str, dict), "headers": (dict,)}
_MODEL_KEYS = {"window": (int,), "max_output": (int,), "price": (dict,), "tools": (bool,), "name": (str,)}
_PRICE_KEYS = {"prompt": (int, float), "completion": (int, float), "cached": (int, float)}


@dataclass(frozen=True, slots=True)
class ScriptedError:
    """An HTTP error to play."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One line: a reply or an error.

    :ivar line: 1-based line in the file.
    :ivar usage: (prompt, completion, cached) tokens, None to estimate.
    """

    line: int
    consumer: str = "root"
    content: str | None = None
    code: str | None = None
    usage: tuple[int, int, int] | None = None
    delay_ms: float = 0.0
    error: ScriptedError | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script."""

    name: str
    identity: ModelIdentity
    replies: tuple[ScriptedReply, ...] = field(default=())

    def of(self, consumer: str) -> tuple[ScriptedReply, ...]:
        """The subsequence one consumer plays."""
        return tuple(r for r in self.replies if r.consumer == consumer)


class _BadLineError(ValueError):
    pass


def read_script(path: Path) -> Script:
    """The script at ``path``, which may be a pipe: ``scripted:<(program)``.

    :raises UsageError: not readable, or a line is off; names file and line.
    """
    try:
        data = read_small(path, MOST_READ, patience=PATIENCE_S)
    except OSError as error:
        raise UsageError(
            f"cannot read the script {path}: {error.strerror}",
            id="no_script",
            hint="scripted:FILE takes a path to a file of JSON lines",
        ) from error
    return parse_script(data, str(path))


def parse_script(data: bytes, name: str) -> Script:
    """``data`` as a script; ``name`` is said in errors.

    :raises UsageError: a line is off.
    """
    identity = ModelIdentity("scripted", Path(name).name)
    replies: list[ScriptedReply] = []
    seen = False
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = _row(line)
            if "model" in row and not seen:
                identity = _identity(row, identity.name)
            else:
                replies.append(_reply(row, number))
        except _BadLineError as error:
            raise UsageError(
                f"{name}:{number}: {error}",
                id="bad_script",
                hint='a line is like {"content": "Let me look.", "code": "print(1)"}',
            ) from None
        seen = True
    return Script(name, identity, tuple(replies))


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _BadLineError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise _BadLineError("not a JSON object")
    return row


def _check(row: Mapping[str, Any], keys: Mapping[str, tuple[type, ...]], what: str) -> None:
    for key, value in row.items():
        if key not in keys:
            raise _BadLineError(f"unknown key {key!r} in {what}; known: {', '.join(keys)}")
        if not isinstance(value, keys[key]) or (isinstance(value, bool) and bool not in keys[key]):
            wanted = " or ".join(t.__name__ for t in keys[key])
            raise _BadLineError(f"{key!r} in {what} must be {wanted}, not {type(value).__name__}")
        if isinstance(value, int | float) and not 0 <= value <= MOST_TOKENS:
            raise _BadLineError(f"{key!r} in {what} must be from 0 to {MOST_TOKENS}")


def _identity(row: Mapping[str, Any], name: str) -> ModelIdentity:
    if len(row) > 1:
        raise _BadLineError("the 'model' line holds nothing else")
    model = row["model"]
    if not isinstance(model, dict):
        raise _BadLineError("'model' must be an object")
    _check(model, _MODEL_KEYS, "'model'")
    price = model.get("price")
    if price is not None:
        _check(price, _PRICE_KEYS, "'price'")
    return ModelIdentity(
        "scripted",
        model.get("name", name),
        window=model.get("window"),
        max_output=model.get("max_output"),
        price=price and Price(price.get("prompt", 0.0), price.get("completion", 0.0), price.get("cached")),
        tools=model.get("tools", True),
    )


def _reply(row: Mapping[str, Any], number: int) -> ScriptedReply:
    _check(row, _REPLY_KEYS, "a reply")
    if not row.keys() & {"content", "code", "error"}:
        raise _BadLineError("a reply needs 'content', 'code' or 'error'")
    if "error" in row and row.keys() & {"content", "code"}:
        raise _BadLineError("'error' excludes 'content' and 'code'")
    usage = row.get("usage")
    if usage is not None:
        _check(usage, _USAGE_KEYS, "'usage'")
    return ScriptedReply(
        line=number,
        consumer=row.get("for", "root"),
        content=row.get("content"),
        code=row.get("code"),
        usage=usage and (usage.get("prompt", 0), usage.get("completion", 0), usage.get("cached", 0)),
        delay_ms=row.get("delay_ms", 0),
        error=_error(row["error"]) if "error" in row else None,
    )


def _error(error: Mapping[str, Any]) -> ScriptedError:
    _check(error, _ERROR_KEYS, "'error'")
    status = error.get("status")
    if status is None or not 400 <= status <= 599:
        raise _BadLineError("'error' needs a 'status' from 400 to 599")
    body = error.get("body", "")
    headers = error.get("headers", {})
    return ScriptedError(
        status,
        body if isinstance(body, str) else json.dumps(body),
        tuple((str(key), str(value)) for key, value in headers.items()),
    )
