"""The refiner's reply: find the JSON object, check it against the schema, give frozen values.

A reply may stand in a fence or between sentences, so every ``{`` is tried with the JSON decoder;
the one object that has ``edits`` is the reply. Nothing is repaired by guessing: what is wrong is
said with its place, and the model is asked once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harnessctl.domain.ids import Kind
from harnessctl.layers.l3_durable.files.schema import validate

#: Characters of a reply that are looked at, and places where an object is tried to begin.
MAX_REPLY = 512 * 1024
MAX_STARTS = 256

Action = Literal["create", "update", "delete"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a reply: path (``edits[0].name``, "" for the whole), a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or 'reply'}: {self.message}"


class ReplyRejectedError(Exception):
    """A reply that cannot become a proposal; ``problems`` say why, for the model and the user."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Citation:
    """One cited event. ``session`` as the model wrote it, "" where only a number was given.

    :ivar path: where it stands in the reply.
    """

    path: str
    session: str
    event: int
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit as the refiner wants it; None where a key was absent.

    :ivar path: where it stands in the reply.
    :ivar files: text by path below a skill's directory.
    """

    path: str
    action: Action
    kind: Kind
    name: str
    title: str | None
    description: str | None
    content: str | None
    files: Mapping[str, str]
    status: str | None
    expected_outcome: str
    how_to_see: str
    reason: str
    evidence: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that has the right form (CONTRACT 9). No edits is a good answer."""

    summary: str
    rationale: str
    edits: tuple[Edit, ...]

    def texts(self) -> Iterator[tuple[str, str]]:
        """(place, text) of everything that could reach a commit."""
        yield "summary", self.summary
        yield "rationale", self.rationale
        for edit in self.edits:
            for key in (
                "name",
                "title",
                "description",
                "content",
                "expected_outcome",
                "how_to_see",
                "reason",
            ):
                yield f"{edit.path}.{key}", getattr(edit, key) or ""
            for name, text in edit.files.items():
                yield f"{edit.path}.files", name
                yield f"{edit.path}.files.{name}", text


def parse_reply(text: str, *, cut: bool = False) -> Reply:
    """Read ``text``.

    :param cut: the provider ended the reply at its output limit.
    :raises ReplyRejectedError: no JSON object with ``edits``, more than one, or one that the
        ``refiner_reply`` schema refuses.
    """
    try:
        value = find_object(text)
    except ReplyRejectedError as error:
        if cut:
            raise _rejected("it was cut off at the output limit; answer shorter") from error
        raise
    return read_reply(value)


def read_reply(value: Mapping[str, Any]) -> Reply:
    """A reply from its JSON object.

    :raises ReplyRejectedError: the ``refiner_reply`` schema refuses it.
    """
    if not _is_unicode(value):
        raise _rejected("it holds half of a surrogate pair (\\ud800 to \\udfff), which is no character")
    problems = validate("refiner_reply", value)
    if problems:
        raise ReplyRejectedError(tuple(Problem(p.path, p.message) for p in problems))
    return Reply(
        summary=value.get("summary") or "",
        rationale=value.get("rationale") or "",
        edits=tuple(_edit(edit, f"edits[{i}]") for i, edit in enumerate(value["edits"])),
    )


class _DuplicateKey(ValueError):  # noqa: N818 - never leaves this module
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(next(key for key in keys if keys.count(key) > 1))
    return value


def find_object(text: str) -> dict[str, Any]:
    """The one JSON object with ``edits`` in ``text``.

    :raises ReplyRejectedError: none, several, or one with a key given twice.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    found: list[dict[str, Any]] = []
    trouble = "it holds no JSON object"
    at = text.find("{", 0, MAX_REPLY)
    for tried in range(MAX_STARTS):
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except _DuplicateKey as error:
            raise _rejected(f"the key '{error}' is given twice in one object") from None
        except (json.JSONDecodeError, RecursionError) as error:
            if tried == 0:
                trouble = f"the JSON object that begins at character {at} is broken: {_where(error)}"
            end = at + 1
        else:
            if "edits" in value:
                found.append(value)
            elif tried == 0:
                trouble = "its JSON object has no 'edits'"
        at = text.find("{", end, MAX_REPLY)
    if len(found) > 1:
        raise _rejected(f"it holds {len(found)} JSON objects with 'edits'; give exactly one")
    if not found:
        raise _rejected(trouble)
    return found[0]


def _is_unicode(value: Mapping[str, Any]) -> bool:
    try:
        json.dumps(dict(value), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _where(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno} column {error.colno}"
    return "nested too deeply"


def _rejected(message: str) -> ReplyRejectedError:
    return ReplyRejectedError((Problem("", message),))


def _edit(value: Mapping[str, Any], path: str) -> Edit:
    citations = [
        Citation(f"{path}.evidence[{i}]", str(c.get("session") or ""), int(c["event"]), c.get("quote") or "")
        for i, c in enumerate(value.get("evidence") or ())
    ]
    citations += [
        Citation(f"{path}.events[{i}]", "", int(n)) for i, n in enumerate(value.get("events") or ())
    ]
    return Edit(
        path=path,
        action=value["action"],
        kind=Kind(value["kind"]),
        name=value["name"],
        title=value.get("title"),
        description=value.get("description"),
        content=value.get("content"),
        files=dict(value.get("files") or {}),
        status=value.get("status"),
        expected_outcome=value.get("expected_outcome") or "",
        how_to_see=value.get("how_to_see") or "",
        reason=value.get("reason") or "",
        evidence=tuple(citations),
    )
