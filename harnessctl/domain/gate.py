"""How a gate's outcome is written where people and checks read it: one line, first in its event's text.

An update may claim ``verified`` only when its record cites an event that says so, and a check in CI
has nothing but the record's excerpt to see it by.
"""

from __future__ import annotations

import re

_PASSED = re.compile(r"gate [^\n]{1,200}: passed(?: \(exit 0\))?(?:\n|\Z)")


def gate_line(name: str, *, passed: bool, exit_status: int | None) -> str:
    """``gate tests: passed (exit 0)``, or ``failed``; the status is left out when there was none."""
    status = "" if exit_status is None else f" (exit {exit_status})"
    return f"gate {name}: {'passed' if passed else 'failed'}{status}"


def says_gate_passed(text: str) -> bool:
    """Whether an event's text begins with the line of a gate that passed."""
    return _PASSED.match(text) is not None
