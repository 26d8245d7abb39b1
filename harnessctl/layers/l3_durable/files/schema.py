"""The JSON Schemas of the formats, and the only place that imports jsonschema.

Importing jsonschema costs 200 ms and validating 10,000 frontmatters with it 0.9 s, so a value is
first asked of :mod:`.schema_fast`, which knows the part of JSON Schema that our schemas use; only a
value that it does not accept reaches jsonschema, whose verdict and words are the ones given. That
the fast answer is never a wrong "yes" is shown by a test with generated values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from harnessctl.layers.l3_durable.files.schema_fast import Check, compile_schema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

#: Problems reported for one value; more would only repeat themselves.
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One way in which a value does not fit.

    :ivar path: where, as ``edits[0].evidence[1].event``; "" for the whole.
    :ivar message: what is wrong, without the value itself, which may be long or secret.
    """

    path: str
    message: str


@cache
def load(name: str) -> dict[str, Any]:
    """The schema ``name`` as shipped in ``schemas/``.

    :raises FileNotFoundError: no such schema.
    """
    source = files("harnessctl.layers.l3_durable") / "schemas" / f"{name}.json"
    schema: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return schema


def validate(name: str, value: Any) -> tuple[SchemaProblem, ...]:
    """How ``value`` fails to fit the schema ``name``; empty when it fits.

    :param name: ``memory``, ``prompt``, ``skill``, ``subagent``, ``record``, ``refiner_reply``,
        ``harness_toml`` or another file of ``schemas/``.
    """
    if _fast(name)(value):
        return ()
    errors = sorted(
        _validator(name).iter_errors(value), key=lambda error: [str(p) for p in error.absolute_path]
    )
    return tuple(dict.fromkeys(map(_problem, errors)))[:MAX_PROBLEMS]


@cache
def _fast(name: str) -> Check:
    return compile_schema(load(name))


@cache
def _validator(name: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # 200 ms, and needed only to say what is wrong

    return Draft202012Validator(load(name))


def _problem(error: ValidationError) -> SchemaProblem:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return SchemaProblem(path, _words(error))


def _words(error: ValidationError) -> str:
    """The violation in words that never repeat the value."""
    expected: Any = error.validator_value
    value: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "required":
            missing = [key for key in expected if key not in value]
            return (
                f"needs the key '{missing[0]}'" if len(missing) == 1 else f"needs the keys {_list(missing)}"
            )
        case "type":
            return f"must be {expected if isinstance(expected, str) else ' or '.join(expected)}"
        case "enum":
            return f"must be one of {_list(expected)}"
        case "const":
            return f"must be {json.dumps(expected)}"
        case "minLength":
            return "must not be empty" if expected == 1 else f"must have at least {expected} characters"
        case "maxLength":
            return f"must have at most {expected} characters, has {len(value)}"
        case "pattern":
            return f"does not match {expected}"
        case "maxItems":
            return f"must have at most {expected} items, has {len(value)}"
        case "minimum" | "exclusiveMinimum":
            return f"must be {'at least' if error.validator == 'minimum' else 'more than'} {expected}"
        case "additionalProperties":
            known = set(schema.get("properties", ()))
            return f"has keys that are not read here: {_list(k for k in value if k not in known)}"
        case "anyOf":
            return "fits none of the allowed forms: " + "; ".join(
                dict.fromkeys(_words(inner) for inner in error.context or ())
            )
        case None:
            return "must not stand here"
        case _:
            return f"breaks the rule '{error.validator}'"


def _list(values: Any) -> str:
    return ", ".join(f"'{value}'" for value in values)
