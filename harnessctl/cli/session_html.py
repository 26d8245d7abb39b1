"""A session as one HTML file that needs nothing else: no script, no font, no picture from elsewhere.

Everything a model, a tool or a repository wrote is escaped by the template engine, hidden characters
are made visible first, and a content security policy stands in the page in case that ever fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from harnessctl.commands.export import Page, PageTurn, Sample
from harnessctl.domain.errors import MissingExtraError
from harnessctl.domain.safe_text import visible

#: The plot's size in user units, and room for the labels of its axes.
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 180, 64, 24, 10
_STEPS = (1, 2, 5)


def session_html(page: Page) -> str:
    """The page as text.

    :raises MissingExtraError: jinja2 or pygments is not installed.
    """
    try:
        import jinja2
        from markupsafe import Markup
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError as error:
        raise MissingExtraError("export --format html", "run") from error

    formatter = HtmlFormatter(nowrap=True)
    lexer = PythonLexer(stripnl=False)

    def code(text: str) -> Any:
        # pygments escapes what it is given.
        return Markup(highlight(shown(text), lexer, formatter).rstrip("\n"))  # noqa: S704

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"shown": shown, "code": code, "duration": duration, "thousands": thousands}
    environment.tests["turn"] = lambda item: isinstance(item, PageTurn)
    template = files("harnessctl.cli").joinpath("session.html.jinja").read_text(encoding="utf-8")
    styles = [HtmlFormatter(style=style).get_style_defs(".code") for style in ("default", "github-dark")]
    return environment.from_string(template).render(page=page, plot=plot(page.samples), styles=styles)


def shown(text: object) -> str:
    """Text with hidden and control characters made visible, line ends kept."""
    return "\n".join(visible(line) for line in str(text).split("\n"))


def thousands(number: object) -> str:
    """``12,345``."""
    return f"{int(str(number or 0)):,}"


def duration(seconds: float) -> str:
    """``3.2 s``, ``4 min 10 s`` or ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True)
class Plot:
    """Tokens over time, as coordinates.

    :ivar line: points of the polyline; ``area`` closes it down to the axis.
    :ivar dots: (x, y, words) of each call.
    :ivar rows: (y, label) of the grid lines; ``columns`` (x, label) along the time axis.
    """

    width: int
    height: int
    left: int
    base: int
    line: str
    area: str
    dots: tuple[tuple[float, float, str], ...]
    rows: tuple[tuple[float, str], ...]
    columns: tuple[tuple[float, str], ...]


def plot(samples: Sequence[Sample]) -> Plot | None:
    """The plot of ``samples``; None when nothing was used."""
    most = max((s.total for s in samples), default=0)
    if not most:
        return None
    last = max(max(s.at for s in samples), 0.001)
    base = HEIGHT - BOTTOM
    step = _nice(most / 3)
    top = step * -(-most // step)

    def x(at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 12) * at / last, 1)

    def y(tokens: float) -> float:
        return round(base - (base - TOP) * tokens / top, 1)

    corners = [(x(0), y(0))]
    for sample in samples:
        corners += [(x(sample.at), corners[-1][1]), (x(sample.at), y(sample.total))]
    line = " ".join(f"{a},{b}" for a, b in corners)
    dots = tuple(
        (x(s.at), y(s.total), f"turn {s.turn}: {s.prompt:,} in, {s.completion:,} out; {s.total:,} so far")
        for s in samples
    )
    rows = tuple((y(n), f"{n:,}") for n in range(0, top + 1, step))
    columns = tuple((x(last * i / 4), duration(last * i / 4)) for i in range(5))
    return Plot(WIDTH, HEIGHT, LEFT, base, line, f"{line} {corners[-1][0]},{base}", dots, rows, columns)


def _nice(rough: float) -> int:
    """The next of 1, 2, 5, 10, 20, … that is at least ``rough``."""
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= rough:
                return step * power
        power *= 10
