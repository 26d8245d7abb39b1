"""How failures are said: a sentence and a hint, one JSON object, or an internal error's report."""

from __future__ import annotations

import io
import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

from harnessctl.cli.streams import silence
from harnessctl.domain.errors import ExitCode, HarnessError, UsageError
from harnessctl.domain.safe_text import visible

if TYPE_CHECKING:
    from pathlib import Path


#: Reports that are kept, and bytes of one: a defect that repeats must not fill a disk.
MOST_REPORTS = 20
REPORT_BYTES = 64 * 1024


def report_error(error: HarnessError, *, as_json: bool) -> int:
    """Say an expected failure; its exit code. What looks like a secret in an argument is not repeated."""
    from harnessctl.layers.l3_durable.rules.secrets import mask

    message, hint = mask(error.message), error.hint and mask(error.hint)
    if as_json:
        _print_object({"error": {"id": error.id, "message": message, "hint": hint}})
    else:
        print(f"error: {visible(message)}", file=sys.stderr)
        if hint:
            print(f"hint: {visible(hint)}", file=sys.stderr)
    return int(error.exit_code)


def _print_object(value: object) -> None:
    """One JSON object on stdout; on stderr where stdout takes nothing, which may be the very failure."""
    line = json.dumps(value, ensure_ascii=False)
    try:
        print(line, flush=True)
    except OSError:
        silence(sys.stdout)
        print(line, file=sys.stderr)


def report_usage(error: Any, *, as_json: bool) -> int:
    """A mistake on the command line, found by typer: its own text, or one JSON object; the exit code."""
    from harnessctl.layers.l3_durable.rules.secrets import mask

    if as_json:
        return report_error(UsageError(error.format_message(), id="usage", hint="see --help"), as_json=True)
    said = io.StringIO()
    error.show(file=said)
    print(mask(said.getvalue()), end="", file=sys.stderr)
    return int(ExitCode.USAGE)


def report_denied(error: OSError, argv: list[str], *, as_json: bool) -> int:
    """A folder of our own that cannot be used, in words; any other error of the system is internal."""
    from harnessctl.config import read_environment
    from harnessctl.layers.l3_durable.places.unwritable import denied_place

    denied = denied_place(error, read_environment())
    if denied is not None:
        return report_error(denied, as_json=as_json)
    return report_internal(error, argv, as_json=as_json)


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
    from harnessctl.layers.l3_durable.rules.secrets import mask

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
        path.write_bytes(_bounded(mask(text).encode("utf-8", "backslashreplace")))
        for old in sorted(folder.glob("*.txt"))[:-MOST_REPORTS]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path


def _bounded(report: bytes) -> bytes:
    """Head and tail of ``report``: what was called, and where it ended."""
    if len(report) <= REPORT_BYTES:
        return report
    half = REPORT_BYTES // 2 - 64
    return b"%b\n[... %d bytes left out ...]\n%b" % (report[:half], len(report) - 2 * half, report[-half:])
