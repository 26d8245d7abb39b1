"""Lint rules on records: their form, and that they are only ever added."""

from __future__ import annotations

import json
from collections.abc import Iterator

from harnessctl.domain.finding import Finding
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.files.schema import validate
from harnessctl.layers.l3_durable.rules import lint_rules as rules
from harnessctl.layers.l3_durable.rules.change import Change
from harnessctl.layers.l3_durable.rules.registry import found


def check_record(change: Change, data: bytes) -> Iterator[Finding]:
    """HRN214 on a record that a change adds."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
        yield found(rules.RECORD, change.path, "is not JSON in UTF-8", line=line, column=column)
        return
    problems = validate("record", value)
    for problem in problems:
        place = f"'{problem.path}' " if problem.path else ""
        yield found(rules.RECORD, change.path, f"{place}{problem.message}")
    if problems:
        return
    name = change.path.rpartition("/")[2].removesuffix(".json")
    if value["id"] != name:
        yield found(rules.RECORD, change.path, f"its id is '{value['id']}', its name says '{name}'")
    elif Record.from_json(value).to_bytes() != data:
        message = "is not written as records are: sorted keys, two spaces, LF, UTF-8"
        yield found(rules.RECORD, change.path, message)


def check_untouched(change: Change) -> Iterator[Finding]:
    """HRN215 on a record that was there before."""
    if change.before is not None:
        what = "is deleted" if change.after is None else "is changed"
        yield found(rules.RECORD_CHANGED, change.path, f"{what}; records are only ever added")
