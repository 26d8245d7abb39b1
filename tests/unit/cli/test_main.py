"""The command line's frame: help without imports, exit codes, errors as JSON, internal reports."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from harnessctl.cli import main as frame
from harnessctl.cli.failure import report_internal
from harnessctl.domain.errors import ExitCode, HarnessError, RefusedError


def verbs() -> list[tuple[str, frame.Verb]]:
    return [pair for section in frame.SECTIONS.values() for pair in section.items()]


@pytest.mark.parametrize(("name", "verb"), verbs())
def test_every_verb_in_the_table_exists(name: str, verb: frame.Verb) -> None:
    module, _, attribute = verb.target.partition(":")
    assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", [name for name, _ in verbs()])
def test_every_verb_has_a_help_that_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert len(shown.splitlines()) > 4


def test_help_imports_no_verb_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom harnessctl.cli.main import run\nrun(['--help'])\n"
        "heavy = {'pygit2','rich','litellm','jupyter_client','jsonschema','yaml','psutil','httpx','openai'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "verbs = [m for m in sys.modules if m.startswith('harnessctl.cli.') and m not in "
        "('harnessctl.cli.main','harnessctl.cli.failure','harnessctl.cli.streams')]\n"
        "print('LOADED', sorted(loaded), verbs, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED [] []" in done.stderr


def test_a_ctrl_c_while_python_shuts_down_changes_no_exit_code() -> None:
    code = (
        "import atexit, os, signal, sys\nfrom harnessctl.cli.main import main\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv[1:] = ['--version']\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_verb_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["no-such-verb"]) == ExitCode.USAGE
    assert "no-such-verb" in capsys.readouterr().err


def test_usage_errors_are_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["list", "--json", "--no-such-option"]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["id"] == "usage"


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    class Root:
        def main(self, **_: object) -> int:
            raise error

    monkeypatch.setattr(frame, "_root", Root)
    return frame.run(list(argv))


def test_expected_failures_say_message_and_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RefusedError("no \x1b[31mred\u202e", id="secret", hint="do this")
    assert fail_with(error, monkeypatch, "x") == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert "hint: do this" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_expected_failures_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = HarnessError("it failed", id="slug", hint="next")
    assert fail_with(error, monkeypatch, "x", "--json") == ExitCode.FAILED
    assert json.loads(capsys.readouterr().out) == {
        "error": {"id": "slug", "message": "it failed", "hint": "next"}
    }


def test_json_after_the_end_of_options_is_an_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(HarnessError("it failed", id="slug"), monkeypatch, "x", "--", "--json")
    assert capsys.readouterr().out == ""


def test_interrupts_end_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fail_with(KeyboardInterrupt(), monkeypatch, "x") == ExitCode.INTERRUPTED


def test_internal_errors_leave_a_report_without_secrets(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "ghp_" + "Z9" * 18
    assert fail_with(RuntimeError(f"broke with {token}"), monkeypatch, "x") == ExitCode.INTERNAL
    (report,) = (home / "state/harnessctl/crashes").iterdir()
    text = report.read_text()
    assert "RuntimeError" in text
    assert token not in text
    said = capsys.readouterr().err
    assert str(report) in said
    assert token not in said


def test_internal_errors_without_a_place_for_the_report(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "state").write_text("a file where a folder should be")
    assert report_internal(RuntimeError("x"), [], as_json=False) == ExitCode.INTERNAL
    assert "could not be written" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("harnessctl ")


@pytest.mark.parametrize("command", ["", " ", "# nothing\n  # more"])
def test_a_gate_with_nothing_to_run_is_no_gate(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["run", "x", "--gate", command, "--model", "scripted:none"]) == ExitCode.USAGE
    assert "--gate" in capsys.readouterr().err
