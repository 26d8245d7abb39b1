"""Options of a forked kernel, against the stock application's own parser."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from harnessctl.layers.l2_execution.forks import available

pytestmark = pytest.mark.skipif(not available(), reason="kernels are forked on Linux")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as the server loads it, without a debugger."""
    monkeypatch.setitem(sys.modules, "debugpy", None)
    from harnessctl.layers.l2_execution import forkedkernel

    return forkedkernel


def configuration(application: Any, argv: list[str]) -> dict[str, dict[str, object]]:
    """What an application's configuration is after ``argv``, values as text."""
    app = application()
    app.parse_command_line(argv)
    app.config.HistoryManager.enabled = False
    found: dict[str, dict[str, object]] = {}
    for section, options in app.config.items():
        # The stock parser files an alias under the most derived class, which reads its bases' sections too.
        own = found.setdefault("IPKernelApp" if section == application.__name__ else section, {})
        own.update({name: str(value) for name, value in options.items()})
    return {section: options for section, options in found.items() if options}


@pytest.mark.parametrize(
    "argv",
    [
        ["-f", "/tmp/c.json"],
        ["-f", "/tmp/c.json", "--InteractiveShell.colors=NoColor", "--IPKernelApp.log_level=40"],
        ["--HistoryManager.enabled=True", "-f", "/tmp/with space.json"],
        ["-f", "/tmp/c.json", "--InteractiveShell.banner1=a=b --c\nd"],
        ["-f", "/tmp/c.json", "--Session.key=b''"],
        ["--f=/tmp/c.json", "--log-level=ERROR", "--ip=/tmp/k", "--profile=p"],
        ["-f", "/tmp/c.json", "--colors=NoColor"],
        ["-f", "/tmp/c.json", "--Application.log_level=40"],
        ["-f", "/tmp/c.json", "--debug"],
        ["-f", "/tmp/c.json", "--colors", "NoColor"],
        ["-f", "/tmp/c.json", "--IPKernelApp.exec_lines=a=1", "--IPKernelApp.exec_lines=b=2"],
    ],
)
def test_reads_options_as_the_stock_application_does(module: ModuleType, argv: list[str]) -> None:
    """Plain ones by itself, the others with the stock parser."""
    assert configuration(module.ForkedApp, argv) == configuration(module.IPKernelApp, argv)


def test_plain_options(module: ModuleType) -> None:
    assert module.plain_options(["-f", "c", "--A.b=", "--C_d.e_f=x=y"]) == [
        ("IPKernelApp", "connection_file", "c"),
        ("A", "b", ""),
        ("C_d", "e_f", "x=y"),
    ]
    assert module.plain_options(["--A.b=c", "--A.b=d"]) is None
    assert module.plain_options(["--log-level=ERROR"]) == [("IPKernelApp", "log_level", "ERROR")]
    for other in (["-f"], ["--debug"], ["file.py"], ["--A.b.c=d"], ["--A.b", "c"], ["-A.b=c"], ["--no=a"]):
        assert module.plain_options(other) is None
