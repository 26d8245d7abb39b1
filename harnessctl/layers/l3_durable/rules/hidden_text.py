"""Places where a rendered page hides text, or where text speaks to the model over the reader's head.

Every expression is anchored or bounded so that no text makes it take longer than its own length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]{2,}")
#: Words from which a comment says something; markers such as ``<!-- toc -->`` have fewer.
_SAYS_SOMETHING = 3


_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE


#: (what, needles of which one stands in every match, in lower case, the expression)
_FORMS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "a comment written as a link definition",
        ("]:",),
        (r"^\[ [^\]\n]{0,40} \]: [ ]* (?:\#|<>) [ ]+ [\"'(]"),
    ),
    (
        "text pushed out of sight by white space",
        ("   ", "\t\t", "\u00a0"),
        (r"(?<![ \t\u00a0]) [ \t\u00a0]{200,} (?=\S)"),
    ),
    (
        "a chat template's control words",
        ("<|", "inst]", "sys>>", "system", "assistant"),
        (r"<\|[a-z_]{2,20}\|> | \[/?INST\] | <</?SYS>> | </?(?:system|assistant)(?:_prompt)?>"),
    ),
    (
        "an order to drop other instructions",
        ("ignore", "disregard", "forget", "override"),
        (
            r"""\b (?:ignore|disregard|forget|override) \s (?:all\s|any\s|the\s|your\s){0,3}
            (?:previous|prior|earlier|above|preceding|other|system) \s (?:\w{1,20}\s)?
            (?:instruction|prompt|rule|message|guideline)s? \b"""
        ),
    ),
    (
        "an order to hide something from a person",
        ("user", "human", "reviewer", "person"),
        (
            r"""\b (?:do\snot|don't|never|without) \s (?:tell|inform|mention|show|reveal)(?:ing)? \b
            [^.\n]{0,40} \b (?:user|human|reviewer|person) \b"""
        ),
    ),
    ("a long run of encoded text", ("",), (r"(?<![a-z0-9+/]) [a-z0-9+/]{400,}")),
)


#: Characters of one tag, or of one address, that are looked at.
_LONGEST = 600
_HIDES = re.compile(
    r"\b(?:hidden\b|display\s?:\s?none|visibility\s?:\s?hidden|opacity\s?:\s?0(?![.\d])|font-size\s?:\s?0)"
)
_ADDRESS_END = re.compile(r"[)\s]")


def _hiding_markup(text: str) -> Iterator[int]:
    """Tags with an attribute that hides; found from the attribute backwards, so that each costs the same."""
    for match in _HIDES.finditer(text):
        start = text.rfind("<", max(0, match.start() - _LONGEST), match.start())
        inside = text[start : match.start()]
        if start >= 0 and inside[1:2].isalpha() and ">" not in inside and "\n" not in inside:
            yield start


def _telling_images(text: str) -> Iterator[int]:
    """Images whose address has a query with a value."""
    at = text.find("](http")
    while at >= 0:
        address = _ADDRESS_END.split(text[at + 2 : at + _LONGEST], maxsplit=1)[0]
        query = address.partition("?")[2]
        start = text.rfind("![", max(0, at - _LONGEST), at)
        if "=" in query and start >= 0 and "]" not in text[start:at]:
            yield start
        at = text.find("](http", at + 1)


def hidden_text(text: str) -> Iterator[tuple[int, str]]:
    """(index, what) of the first place of each form in ``text``."""
    for match in _COMMENT.finditer(text) if "<!--" in text else ():
        if len(_WORD.findall(match[1])) >= _SAYS_SOMETHING:
            yield match.start(), "a comment that a rendered page hides"
            break
    folded = text.lower()
    for what, places in (
        ("markup that hides text", _hiding_markup(folded)),
        ("a remote image whose address can carry data out", _telling_images(folded)),
    ):
        first = next(places, None)
        if first is not None:
            yield first, what
    for what, needles, form in _FORMS:
        if not any(needle in folded for needle in needles):
            continue
        found = re.search(form, text, _FLAGS)  # compiled once, by the module `re`
        if found:
            yield found.start(), what
