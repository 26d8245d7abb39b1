"""Text from a repository or a model, made fit for a terminal, a log or a web page.

Such text can hold escape sequences that move the cursor, bidirectional controls that show code in
another order than it runs, and characters that no one sees but a model reads. Everything printed
goes through :func:`visible` or :func:`visible_line`; the checker uses :func:`hidden_at` to say where
such characters stand, so that screen and checker agree about what is hidden.

Sources: Unicode's Default_Ignorable_Code_Point property and Bidi_Control property (17.0), UAX 31
section 2.3 for where U+200C and U+200D are part of a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

ZWNJ, ZWJ = "\u200c", "\u200d"
_EMOJI_STYLE = "\ufe0f"

#: Everything that may have to be made visible; whether it must depends on its neighbours.
_SUSPECT = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, without tab and line feed
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidi controls
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # blanks, variation selectors, BOM
    "\ud800-\udfff"  # lone surrogates: bytes that were not UTF-8
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags and further variation selectors
    "]"
)

#: Scripts whose words need ZWJ or ZWNJ: Arabic to Thaana, the Indic block, Tibetan to Myanmar, Khmer,
#: Mongolian.
_JOINING = (
    (0x0600, 0x08FF),
    (0x0900, 0x0DFF),
    (0x0F00, 0x109F),
    (0x1780, 0x18AF),
    (0xA840, 0xA87F),
    (0xA8E0, 0xA8FF),
    (0xA980, 0xA9DF),
    (0xFB50, 0xFDFF),
    (0xFE70, 0xFEFE),
    (0x10A00, 0x10AFF),
    (0x11000, 0x11FFF),
)


def _joins(char: str) -> bool:
    """Whether ``char`` belongs to a word of a script that writes joiners."""
    code = ord(char)
    return any(low <= code <= high for low, high in _JOINING) and unicodedata.category(char)[0] in "LM"


def _pictograph(char: str) -> bool:
    """Whether ``char`` is an emoji or a part of one."""
    code = ord(char)
    return char == _EMOJI_STYLE or 0x1F3FB <= code <= 0x1F3FF or unicodedata.category(char) == "So"


def hidden_at(text: str, index: int) -> bool:
    """Whether the character at ``index`` is one a reader cannot see, or that changes what is seen.

    ZWJ and ZWNJ pass inside words of scripts that need them, ZWJ between emoji, and the emoji
    variation selector after a symbol, a digit, ``#`` or ``*``.
    """
    char = text[index]
    if not _SUSPECT.match(char):
        return False
    before = text[index - 1] if index else ""
    after = text[index + 1] if index + 1 < len(text) else ""
    if char in (ZWJ, ZWNJ) and before:
        if _joins(before) and (not after or not _SUSPECT.match(after)):
            return False
        return not (char == ZWJ and _pictograph(before) and after != "" and _pictograph(after))
    if char == _EMOJI_STYLE and before:
        return not (
            before in "0123456789#*\u00a9\u00ae" or unicodedata.category(before) in ("So", "Sm", "Po")
        )
    return True


def hidden_characters(text: str) -> Iterator[int]:
    """Indexes of all hidden characters of ``text``, in order."""
    for match in _SUSPECT.finditer(text):
        if hidden_at(text, match.start()):
            yield match.start()


def character_name(char: str) -> str:
    """``U+202E RIGHT-TO-LEFT OVERRIDE``; just the number where Unicode gives no name."""
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X} {name}".rstrip()


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible(text: str) -> str:
    r"""``text`` with every hidden character written as ``\x1b``, ``\u202e`` or ``\U000e0041``.

    Tabs and line feeds stay; a carriage return becomes ``\r`` unless a line feed follows it. The
    result can be encoded as UTF-8 and holds nothing a terminal would obey.
    """
    out: list[str] = []
    last = 0
    for match in _SUSPECT.finditer(text):
        index = match.start()
        if match[0] == "\r" and text[index + 1 : index + 2] == "\n":
            replacement = ""
        elif not hidden_at(text, index):
            continue
        else:
            replacement = "\\r" if match[0] == "\r" else _escape(match[0])
        out += (text[last:index], replacement)
        last = index + 1
    return "".join(out) + text[last:] if out else text


def visible_line(text: str) -> str:
    r"""As :func:`visible`, on one line: line feeds become ``\n``, tabs ``\t``."""
    return visible(text.replace("\r\n", "\n")).replace("\n", "\\n").replace("\t", "\\t")
