"""``harness.lock``: the pin, committed with the code so that old code runs with the harness of its day."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from pathlib import Path

from harnessctl.config import parse_toml
from harnessctl.domain.errors import ConflictError, HarnessError, UsageError
from harnessctl.domain.pin import Lock
from harnessctl.domain.snapshot import SCHEMA_VERSION

LOCK_NAME = "harness.lock"
#: Bytes; a lock has about 400, one with the markers of a merge three times that.
MAX_LOCK = 16 * 1024

_MARKER = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)", re.MULTILINE)
_COMMIT = re.compile(r'^commit = "([0-9a-f]{40})"$', re.MULTILINE)
_OID = re.compile(r"[0-9a-f]{40}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_HEAD = "# The harness that runs read. Moved by `harnessctl pin`; commit it with the code.\n"


def render_lock(lock: Lock) -> bytes:
    """The file's bytes."""
    fields = (
        ("branch", lock.branch),
        ("commit", lock.commit),
        ("tree", lock.tree),
        ("entries", lock.entries),
    )
    lines = "".join(f'{key} = "{_escape(value)}"\n' for key, value in fields)
    return (f"{_HEAD}schema = {lock.schema}\n{lines}").encode()


def parse_lock(data: bytes) -> Lock:
    """Read the file's bytes.

    :raises ConflictError: ``lock_conflict``: merge conflict markers stand in it.
    :raises UsageError: ``bad_lock``.
    """
    if has_markers(data):
        raise ConflictError(
            f"{LOCK_NAME} holds conflict markers of a merge",
            id="lock_conflict",
            hint="harnessctl pin --resolve",
        )
    try:
        found = parse_toml(data, LOCK_NAME)
    except UsageError as error:
        raise UsageError(error.message, id="bad_lock", hint="harnessctl pin REV writes it anew") from error
    schema = found.get("schema")
    texts = [found.get(key) for key in ("branch", "commit", "tree", "entries")]
    if schema != SCHEMA_VERSION:
        raise _other_schema(schema)
    branch, commit, tree, entries = (t if isinstance(t, str) else "" for t in texts)
    if not (branch and _OID.match(commit) and _OID.match(tree) and _DIGEST.match(entries)):
        raise UsageError(
            f"{LOCK_NAME} lacks one of branch, commit, tree, entries, or one is malformed",
            id="bad_lock",
            hint="harnessctl pin REV writes it anew",
        )
    return Lock(SCHEMA_VERSION, branch, commit, tree, entries)


def _other_schema(schema: object) -> UsageError:
    """What to do about a lock of no schema, or of one that this version does not know."""
    anew = "harnessctl pin REV writes it anew"
    if schema is None:
        return UsageError(f"{LOCK_NAME} names no schema: it is empty or cut short", id="bad_lock", hint=anew)
    later = type(schema) is int and schema > SCHEMA_VERSION
    return UsageError(
        f"{LOCK_NAME} has schema {schema!r}; this version reads {SCHEMA_VERSION}",
        id="bad_lock",
        hint=f"it needs a newer harnessctl; with this one, {anew}" if later else anew,
    )


def read_lock(path: Path, *, tolerant: bool = False) -> Lock | None:
    """The lock at ``path``, None when there is none; errors as :func:`parse_lock`.

    :param tolerant: None for an unreadable one too; for finding the mode, not for pinning.
    """
    try:
        return parse_lock(_read(path))
    except FileNotFoundError:
        return None
    except HarnessError:
        if tolerant:
            return None
        raise
    except OSError as error:
        if tolerant:
            return None
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            id="bad_lock",
            hint="mend its rights; where it is none of yours, harnessctl pin REV writes one in its place",
        ) from error


def _read(path: Path) -> bytes:
    """The file's bytes, of which no more are read than a lock can have; errors as :func:`raw_lock`."""
    data = _plain(path, MAX_LOCK + 1)
    if len(data) > MAX_LOCK:
        raise UsageError(
            f"{path} is too large for a lock", id="bad_lock", hint="harnessctl pin REV writes it anew"
        )
    return data


def raw_lock(path: Path) -> bytes | None:
    """The bytes at ``path``, be they a lock or not; None when nothing is there.

    :raises UsageError: ``bad_lock``: no plain file lies there; a pipe is not waited for.
    :raises OSError: it cannot be read.
    """
    try:
        return _plain(path)
    except FileNotFoundError:
        return None


def _plain(path: Path, most: int = -1) -> bytes:
    """The first ``most`` bytes of a plain file, by default all."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UsageError(
                f"{path} is no plain file", id="bad_lock", hint="remove it; harnessctl pin writes one"
            )
        with open(handle, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write ``path`` through a temporary file in the same folder, with fsync and rename.

    A reader sees the old file or the new one, never a half.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def has_markers(data: bytes) -> bool:
    """Whether a line of ``data`` is a conflict marker of a merge."""
    return _MARKER.search(data.decode("utf-8", "replace")) is not None


def conflicting_commits(data: bytes) -> tuple[str, ...]:
    """The commits named in a lock with conflict markers, in order of appearance, each once."""
    return tuple(dict.fromkeys(_COMMIT.findall(data.decode("utf-8", "replace"))))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
