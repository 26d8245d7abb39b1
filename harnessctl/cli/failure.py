"""How failures are said: a sentence and a hint, one JSON object, or an internal error's report."""

from __future__ import annotations

import json
import sys
import traceback
from typing import TYPE_CHECKING

from harnessctl.domain.errors import ExitCode, HarnessError
from harnessctl.domain.safe_text import visible

if TYPE_CHECKING:
    from pathlib import Path


def report_error(error: HarnessError, *, as_json: bool) -> int:
    """Say an expected failure; its exit code."""
    if as_json:
        body = {"error": {"id": error.id, "message": error.message, "hint": error.hint}}
        print(json.dumps(body, ensure_ascii=False))
    else:
        print(f"error: {visible(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {visible(error.hint)}", file=sys.stderr)
    return int(error.exit_code)


def report_internal(error: BaseException, argv: list[str], *, as_json: bool) -> int:
    """Write a defect's report to a file, say where it is; the exit code."""
    where = _write_report(error, argv)
    name = type(error).__name__
    wrapped = HarnessError(
        f"internal error ({name}); this is a defect of harnessctl",
        id="internal",
        hint=f"the report is in {where}" if where else "the report could not be written",
    )
    report_error(wrapped, as_json=as_json)
    return int(ExitCode.INTERNAL)


def _write_report(error: BaseException, argv: list[str]) -> Path | None:
    """The report: version, platform, verb, traceback; no values of variables, and secrets masked."""
    import platform
    from importlib.metadata import version

    from harnessctl.config import read_environment
    from harnessctl.domain.ids import new_ulid
    from harnessctl.layers.l3_durable.secrets import mask

    text = "\n".join(
        [
            f"harnessctl {version('harnessctl')}, Python {platform.python_version()}, {platform.platform()}",
            f"verb: {argv[0] if argv else '(none)'}",
            "".join(traceback.format_exception(error)),
        ]
    )
    folder = read_environment().state_home / "crashes"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{new_ulid()}.txt"
        path.write_text(mask(text), encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None
    return path
