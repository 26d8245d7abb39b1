"""Rules on files by name and by first bytes: what nobody can review, and what runs by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnessctl.domain.finding import Finding
from harnessctl.layers.l3_durable.rules import lint_rules as rules
from harnessctl.layers.l3_durable.rules.names import fold
from harnessctl.layers.l3_durable.rules.registry import found

#: What may be binary: it is shown, not run.
_SHOWN = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|%PDF-|\x00\x00\x01\x00|wOF[F2]|\x00\x01\x00\x00\x00|OTTO",
    re.DOTALL,
)
_MAGIC: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("a pickle", re.compile(rb"\x80[\x02-\x05](?=.*\.\Z)", re.DOTALL)),
    (
        "an archive",  # zip, gzip, bzip2, xz, 7z, rar, zstd, tar
        re.compile(
            rb"PK[\x03\x05\x07]|\x1f\x8b|BZh[1-9]|\xfd7zXZ\x00|7z\xbc\xaf\x27\x1c|Rar!\x1a|\x28\xb5\x2f\xfd"
            rb"|.{257}ustar",
            re.DOTALL,
        ),
    ),
    (
        "a program",  # ELF, PE, Mach-O in both byte orders, Java or fat Mach-O, WebAssembly
        re.compile(
            rb"\x7fELF|MZ[^ -~]|\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe|\x00asm"
        ),
    ),
)
#: Names whose content is loaded by running it, whatever the bytes look like.
_OPAQUE_NAME = re.compile(
    r"\.(?:pkl|pickle|joblib|dill|pt|pth\.tar|ckpt|npy|npz|h5|zip|tar|t?gz|t?bz2|t?xz|7z|rar|zst|whl|egg|jar|exe|wasm)\Z",
    re.IGNORECASE,
)
_SELF_RUNNING = re.compile(
    r"(?:sitecustomize|usercustomize)\.py\Z|.*\.(?:pth|py[co]|so|pyd|dll|dylib)\Z|pyvenv\.cfg\Z"
    r"|\.(?:gitattributes|gitmodules|gitconfig|lfsconfig|envrc)\Z",
    re.IGNORECASE,
)
#: Letters that read as those of "git" in most fonts.
_CONFUSABLE = str.maketrans({"\u0456": "i", "\u0131": "i", "\u0261": "g", "\u0442": "t", "\u03b9": "i"})


def check_name(path: str) -> Iterator[Finding]:
    """HRN208 and HRN211 on the names in ``path``."""
    segments = path.split("/")
    if any(map(_is_git, segments)):
        yield found(rules.GIT_LOOKALIKE, path, "a name in the path is '.git' to some system")
    if _SELF_RUNNING.match(segments[-1]) or "__pycache__" in segments:
        yield found(rules.SELF_RUNNING, path, "Python or git run or obey a file of this name by themselves")


def _is_git(segment: str) -> bool:
    name = fold(segment.split(":")[0]).translate(_CONFUSABLE).rstrip(". ")
    return name == ".git" or re.fullmatch(r"git~[0-9]", name) is not None


def is_text(data: bytes) -> bool:
    """Whether ``data`` is UTF-8 text without NUL."""
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_content(path: str, data: bytes) -> Iterator[Finding]:
    """HRN207 on a file of a skill that nobody can review."""
    kind = next((name for name, magic in _MAGIC if magic.match(data)), "")
    if not kind and _OPAQUE_NAME.search(path):
        kind = "by its name data that is unpacked or loaded by running it"
    if not kind and not is_text(data):
        if _SHOWN.match(data) and "/assets/" in path:
            return
        kind = "an image, font or document outside assets/" if _SHOWN.match(data) else "binary data"
    if kind:
        yield found(rules.OPAQUE, path, f"is {kind}")
