"""The page: everything escaped and masked, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from harnessctl.cli.session_html import plot, session_html
from harnessctl.commands.export import Sample, masked_lines, page_of
from harnessctl.commands.sessions import show_session
from harnessctl.domain.event import EventType
from harnessctl.layers.l3_durable.rules.secrets import mask
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.recorder import Recorder

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> \u202e \x1b[31m {{ 7*7 }}"
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"


def session(state: Path) -> Path:
    """A session in which every text is hostile."""
    folder = state / "sessions" / "01M8M8MGRWM3F6T8ZRBV8ZH9A8"
    recorder = Recorder.create(folder, SystemClock())
    model = {"provider": EVIL, "name": EVIL}
    pin = {"commit": EVIL, "source": "tip", "branch": EVIL, "entries": EVIL}
    recorder.append(EventType.HEADER, {"session": EVIL, "model": model, "pin": pin, "root": EVIL})
    recorder.append(EventType.TASK, {"text": EVIL})
    recorder.append(EventType.REQUEST, {"consumer": "root"}, turn=1)
    usage = {"prompt": 900, "completion": 100, "tokens": 1000}
    recorder.append(EventType.REPLY, {"request": 2, "content": EVIL + TOKEN, "usage": usage}, turn=1)
    recorder.append(EventType.CELL, {"cell": 1, "code": EVIL + TOKEN}, turn=1)
    recorder.append(EventType.OUTPUT, {"cell": 1, "stream": EVIL, "text": EVIL * 2}, turn=1)
    recorder.append(EventType.RESULT, {"cell": 1, "status": "ok", "text": EVIL, "ms": 5}, turn=1)
    recorder.append(EventType.REPAIR, {"what": EVIL, "text": EVIL})
    recorder.append(EventType.END, {"status": "failed", "reason": EVIL, "detail": EVIL, "usage": usage})
    recorder.close()
    return folder


class Tags(HTMLParser):
    """Names of all elements, and everything that could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for name, value in attrs:
            outside = name in ("src", "href") and not str(value).startswith("#")
            if outside or name.startswith("on") or name == "srcset":
                self.bad.append(f"{tag} {name}={value}")


def page(state: Path) -> str:
    session(state)
    return session_html(page_of(show_session(state, "", mask)))


def test_nothing_hostile_is_an_element(tmp_path: Path) -> None:
    text = page(tmp_path)
    tags = Tags()
    tags.feed(text)
    assert not tags.names & {"script", "img", "iframe", "link", "object", "embed", "base"}
    assert not tags.bad
    assert "&lt;script&gt;" in text
    assert "{{ 7*7 }}" in text
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import", text)


def test_hidden_characters_show_and_secrets_do_not(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert TOKEN not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "\\u202e" in text


def test_lines_are_masked_and_say_so(tmp_path: Path) -> None:
    lines = b"".join(masked_lines(session(tmp_path), mask))
    assert TOKEN.encode() not in lines
    assert lines.count(b'"masked":true') == 2


def test_the_plot_grows_to_what_was_used() -> None:
    assert plot([]) is None
    made = plot([Sample(1.0, 1, 900, 100, 1000), Sample(4.0, 2, 1900, 100, 3000)])
    assert made is not None
    assert [label for _, label in made.rows] == ["0", "1,000", "2,000", "3,000"]
    assert made.dots[0][0] < made.dots[1][0]
    assert made.dots[0][1] > made.dots[1][1]
