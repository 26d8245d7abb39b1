"""Findings as text, JSON, GitHub annotations, SARIF and GitLab code quality: pure functions.

Paths, messages and hints repeat what a repository chose; none of it may reach a terminal as an
escape sequence or a CI system as a command of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.safe_text import visible_line

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Findings = Sequence[Finding]


def as_text(findings: Findings) -> str:
    """``path:line:column: severity HRN103: message`` and the hint below it, one finding after the other."""
    lines = []
    for finding in findings:
        place = ":".join(str(p) for p in (_path(finding), finding.line, finding.column) if p)
        lines.append(f"{place}: {finding.severity.value} {finding.rule}: {visible_line(finding.message)}")
        if finding.hint:
            lines.append(f"    hint: {visible_line(finding.hint)}")
    return "".join(line + "\n" for line in lines)


def as_json(findings: Findings) -> str:
    """One array (CONTRACT 10)."""
    return json.dumps([f.to_json() for f in findings], indent=2) + "\n"


def as_github(findings: Findings) -> str:
    """Workflow commands that GitHub shows beside the lines.

    ``%``, CR and LF are escaped, in properties ``:`` and ``,`` too (as actions/toolkit does): agent
    text must not be able to end the command and begin another.
    """
    kinds = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
    lines = []
    for finding in findings:
        properties = {
            "file": _path(finding),
            "line": finding.line,
            "col": finding.column,
            "title": finding.rule,
        }
        listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
        text = finding.message + (f"\n{finding.hint}" if finding.hint else "")
        lines.append(f"::{kinds[finding.severity]} {listed}::{_data(text)}\n")
    return "".join(lines)


def as_gitlab(findings: Findings) -> str:
    """GitLab's code quality report."""
    levels = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.INFO: "info"}
    rows = [
        {
            "description": visible_line(finding.message),
            "check_name": finding.rule,
            "fingerprint": _fingerprint(finding),
            "severity": levels[finding.severity],
            "location": {"path": _path(finding), "lines": {"begin": max(finding.line, 1)}},
        }
        for finding in findings
    ]
    return json.dumps(rows, indent=2) + "\n"


def as_sarif(findings: Findings, rules: Mapping[str, tuple[str, str]], version: str) -> str:
    """A SARIF 2.1.0 log.

    :param rules: title and fix by rule id, for the rules that occur.
    """
    ids = sorted({finding.rule for finding in findings})
    driver = {
        "name": "harnessctl",
        "version": version,
        "rules": [_sarif_rule(rule, *rules.get(rule, (rule, ""))) for rule in ids],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, ids.index(finding.rule)) for finding in findings],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def summary(findings: Findings, what: str) -> str:
    """``2 errors, 1 warning in staged files``, or ``no findings in …``."""
    counts = {severity: sum(f.severity is severity for f in findings) for severity in Severity}
    parts = [
        _count(n, severity.value) for severity, n in counts.items() if n and severity is not Severity.INFO
    ]
    return f"{', '.join(parts) or 'no findings'} in {what}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _path(finding: Finding) -> str:
    return visible_line(finding.path) or "commit"


def _data(text: str) -> str:
    visible = "\n".join(visible_line(line) for line in text.split("\n"))
    return visible.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _fingerprint(finding: Finding) -> str:
    """Stable while a file's other lines move: rule, path and message, not the line."""
    text = "\0".join((finding.rule, finding.path, finding.message))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _sarif_rule(rule: str, title: str, fix: str) -> dict[str, object]:
    help_text = {"text": fix or title}
    return {"id": rule, "shortDescription": {"text": title}, "help": help_text}


def _sarif_result(finding: Finding, index: int) -> dict[str, object]:
    levels = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    text = visible_line(finding.message) + (f" ({visible_line(finding.hint)})" if finding.hint else "")
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": levels[finding.severity],
        "message": {"text": text},
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(finding)},
    }
    if finding.path:
        location: dict[str, object] = {
            "artifactLocation": {"uri": _uri(finding.path), "uriBaseId": "%SRCROOT%"}
        }
        if finding.line:
            region = {"startLine": finding.line} | ({"startColumn": finding.column} if finding.column else {})
            location["region"] = region
        result["locations"] = [{"physicalLocation": location}]
    return result


def _uri(path: str) -> str:
    """A relative path as a URI: everything but unreserved characters and ``/`` percent-encoded."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte: no file system gives it, a tree may
        raw = path.encode("utf-8", "surrogatepass")
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in raw)
