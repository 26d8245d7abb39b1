"""JSON Schema compiled to plain functions: a quick "yes", and "ask jsonschema" for all else.

Covers what our schemas use. A keyword it does not know makes the compiled check answer "no", which
only costs time: the caller then asks jsonschema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

#: True: the value surely fits. False: it may not.
Check = Callable[[Any], bool]

_SILENT = frozenset({"$schema", "$id", "title", "description"})


def compile_schema(schema: Mapping[str, Any] | bool) -> Check:
    """A function that answers True only for values that fit ``schema``."""
    if isinstance(schema, bool):
        return _yes if schema else _no
    checks: list[Check] = []
    for keyword, wanted in schema.items():
        if keyword in _SILENT:
            continue
        make = _KEYWORDS.get(keyword)
        if keyword == "additionalProperties":
            checks.append(_additional(wanted, frozenset(schema.get("properties", ()))))
        elif make is None:
            return _no
        else:
            checks.append(make(wanted))
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _yes(value: object) -> bool:  # noqa: ARG001 - the shape of a check
    return True


def _no(value: object) -> bool:  # noqa: ARG001 - the shape of a check
    return False


def _type(wanted: Any) -> Check:
    if not isinstance(wanted, str) or wanted not in _TYPES:
        return _no
    return _TYPES[wanted]


def _integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Check] = {
    "string": lambda value: isinstance(value, str),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": _integer,
    "number": _number,
}


def _enum(wanted: Any) -> Check:
    if not all(isinstance(each, str) for each in wanted):
        return _no
    allowed = frozenset(wanted)
    return lambda value: isinstance(value, str) and value in allowed


def _const(wanted: Any) -> Check:
    if isinstance(wanted, bool) or not isinstance(wanted, str | int):
        return _no
    return lambda value: type(value) is type(wanted) and value == wanted


def _pattern(wanted: Any) -> Check:
    search = re.compile(wanted).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _min_length(wanted: Any) -> Check:
    return lambda value: not isinstance(value, str) or len(value) >= wanted


def _max_length(wanted: Any) -> Check:
    return lambda value: not isinstance(value, str) or len(value) <= wanted


def _max_items(wanted: Any) -> Check:
    return lambda value: not isinstance(value, list) or len(value) <= wanted


def _minimum(wanted: Any) -> Check:
    return lambda value: not _number(value) or value >= wanted


def _exclusive_minimum(wanted: Any) -> Check:
    return lambda value: not _number(value) or value > wanted


def _required(wanted: Any) -> Check:
    return lambda value: not isinstance(value, dict) or all(key in value for key in wanted)


def _items(wanted: Any) -> Check:
    each = compile_schema(wanted)
    return lambda value: not isinstance(value, list) or all(each(item) for item in value)


def _properties(wanted: Any) -> Check:
    checks = {key: compile_schema(inner) for key, inner in wanted.items()}
    return lambda value: (
        not isinstance(value, dict)
        or all(checks[key](inner) for key, inner in value.items() if key in checks)
    )


def _additional(wanted: Any, known: frozenset[str]) -> Check:
    rest = compile_schema(wanted)
    return lambda value: (
        not isinstance(value, dict) or all(rest(inner) for key, inner in value.items() if key not in known)
    )


def _any_of(wanted: Any) -> Check:
    checks = [compile_schema(inner) for inner in wanted]
    return lambda value: any(check(value) for check in checks)


def _all_of(wanted: Any) -> Check:
    checks = [compile_schema(inner) for inner in wanted]
    return lambda value: all(check(value) for check in checks)


_KEYWORDS: dict[str, Callable[[Any], Check]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minLength": _min_length,
    "maxLength": _max_length,
    "maxItems": _max_items,
    "minimum": _minimum,
    "exclusiveMinimum": _exclusive_minimum,
    "required": _required,
    "items": _items,
    "properties": _properties,
    "anyOf": _any_of,
    "allOf": _all_of,
}
