"""``harness.toml`` as a load rule sees it: it parses and names a schema version that is known."""

from __future__ import annotations

import tomllib

from harnessctl.domain.finding import Finding
from harnessctl.domain.snapshot import SCHEMA_VERSION
from harnessctl.layers.l3_durable.rules.load_rules import ENCODING, POLICY
from harnessctl.layers.l3_durable.rules.names import POLICY_FILE
from harnessctl.layers.l3_durable.rules.registry import found


def check_policy(data: bytes) -> tuple[Finding, ...]:
    """HRN101 or HRN114 for a ``harness.toml`` that cannot be used."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at byte offset {error.start}"
        return (found(ENCODING, POLICY_FILE, message, line=data.count(b"\n", 0, error.start) + 1),)
    try:
        schema = tomllib.loads(text).get("schema", SCHEMA_VERSION)
    except (ValueError, RecursionError) as error:  # also a number of more digits than Python reads
        return (_broken(error),)
    if schema != SCHEMA_VERSION or isinstance(schema, bool):
        message = f"schema version {schema!r} is not known to this harnessctl, which reads {SCHEMA_VERSION}"
        hint = "upgrade harnessctl, or mend `schema`"
        return (found(POLICY, POLICY_FILE, message, hint=hint),)
    return ()


def _broken(error: Exception) -> Finding:
    """The TOML error with its place, which tomllib gives in words before Python 3.14."""
    text = str(error)
    message, at, place = text.rpartition(" (at line ")
    line, _, column = place.rstrip(")").partition(", column ")
    if not at or not (line.isdigit() and column.isdigit()):
        return found(POLICY, POLICY_FILE, f"not valid TOML: {text or type(error).__name__}")
    return found(POLICY, POLICY_FILE, f"not valid TOML: {message}", line=int(line), column=int(column))
