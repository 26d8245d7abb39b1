from __future__ import annotations

from pathlib import Path

import pytest

from harnessctl.config import read_environment
from harnessctl.refine.redact import Redactor, local_redactor, redactor

REDACTOR = redactor([Path("/home/ada")], ["ada", "root"], ["difference-engine.example.org", "localhost"])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/home/ada/code/app.py", "~/code/app.py"),
        ("cd /home/ada.", "cd ~."),
        ("HOME=/home/ada:/usr", "HOME=~:/usr"),
        ("/home/adam/x", "/home/[user]/x"),
        ("/Users/grace/x and /home/grace", "/Users/[user]/x and /home/[user]"),
        ("ada@difference-engine:~$", "[user]@[host]:~$"),
        ("on Difference-Engine.example.org", "on [host]"),
        ("metadata, Canada, adapt", "metadata, Canada, adapt"),
        ("the root of the tree, localhost", "the root of the tree, localhost"),
        ("/var/home/ada2", "/var/home/[user]"),
    ],
)
def test_names_and_homes_leave(text: str, redacted: str) -> None:
    assert REDACTOR.redact(text) == redacted
    assert REDACTOR.redact(redacted) == redacted


def test_a_redactor_that_knows_nothing_still_hides_homes() -> None:
    assert Redactor().redact("/home/x/y") == "/home/[user]/y"


def test_the_local_redactor_knows_user_home_and_host(tmp_path: Path) -> None:
    home = tmp_path / "grace"
    home.mkdir()
    link = tmp_path / "linked"
    link.symlink_to(home)
    local = local_redactor(read_environment({"HOME": str(link), "USER": "hopper"}), "mark1.navy.example")
    assert local.redact(f"{home}/a {link}/b hopper mark1") == "~/a ~/b [user] [host]"
