"""What code in cells gives to the host, checked: it may be anything that JSON can say."""

from __future__ import annotations

import math
from typing import Any

from harnessctl.domain.errors import UsageError


def word(name: str, value: Any) -> str | None:
    """A name; None stays None.

    :raises UsageError: ``no_name``.
    """
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise UsageError(f"{name}={value!r} is no name", id="no_name", hint="give a text, or leave it out")


def count(name: str, value: Any) -> int | None:
    """A whole number from 1 on, also as ``1e5``; None stays None.

    :raises UsageError: ``bad_number``.
    """
    if value is None:
        return None
    if _is_number(value) and value >= 1 and value == int(value):
        return int(value)
    raise UsageError(
        f"{name}={value!r} is no number",
        id="bad_number",
        hint="give a whole number from 1 on, or leave it out",
    )


def seconds(name: str, value: Any) -> float | None:
    """A time from 0 on; None stays None.

    :raises UsageError: ``bad_number``.
    """
    if value is None:
        return None
    if _is_number(value) and value >= 0:
        return float(value)
    raise UsageError(
        f"{name}={value!r} is no time", id="bad_number", hint="give seconds from 0 on, or leave it out"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
