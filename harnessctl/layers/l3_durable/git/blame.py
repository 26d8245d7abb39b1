"""Which commit each line of a file came in by, from git's own blame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pygit2

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.git.cli import run_git
from harnessctl.layers.l3_durable.git.repository import Repository

#: What a repository's configuration or attributes could change about the answer is set here.
_ARGS = (
    "--no-replace-objects",
    "-c",
    "blame.ignoreRevsFile=",
    "blame",
    "--porcelain",
    "--no-textconv",
    "--encoding=none",
)


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """One line.

    :ivar n: 1-based number in the file that was asked for.
    :ivar commit: full id of the commit that brought it.
    :ivar path: the file's path in that commit; another one when it was renamed since.
    :ivar then: its number in that commit's file.
    """

    n: int
    commit: str
    path: str
    then: int
    text: str


def blame_file(
    repository: Repository, variables: Mapping[str, str], commit: str, path: str
) -> tuple[BlamedLine, ...]:
    """Lines of the file ``path`` (from the root of the tree) at ``commit``.

    Where git cannot answer (it is not installed, or ``blame.ignoreRevsFile`` names a file that is not
    there, which no option overrules) libgit2 does, slower and without following renames.

    :param variables: the process environment.
    """
    cwd = repository.root or repository.git_dir
    try:
        return tuple(_read(run_git([*_ARGS, commit, "--", path], cwd, variables)))
    except HarnessError:
        return tuple(_by_libgit2(repository, commit, path))


def _by_libgit2(repository: Repository, commit: str, path: str) -> Iterator[BlamedLine]:
    data = repository.file(repository.commit(commit).tree, path) or b""
    texts = data.decode("utf-8", "replace").split("\n")
    for hunk in repository.raw.blame(path, newest_commit=pygit2.Oid(hex=commit)):
        for offset in range(hunk.lines_in_hunk):
            n = hunk.final_start_line_number + offset
            then = hunk.orig_start_line_number + offset
            yield BlamedLine(n, str(hunk.final_commit_id), path, then, texts[n - 1])


def _read(data: bytes) -> Iterator[BlamedLine]:
    """The lines of ``git blame --porcelain``: a head, keys at a commit's first line, a tab and the text."""
    paths: dict[str, str] = {}
    head: list[str] = []
    for raw in data.split(b"\n"):
        if raw.startswith(b"\t"):
            text = raw[1:].decode("utf-8", "replace")
            yield BlamedLine(int(head[2]), head[0], paths[head[0]], int(head[1]), text)
            head = []
        elif not head:
            head = raw.decode("ascii", "replace").split(" ")
        elif raw.startswith(b"filename "):
            paths[head[0]] = raw[len(b"filename ") :].decode("utf-8", "surrogateescape")
