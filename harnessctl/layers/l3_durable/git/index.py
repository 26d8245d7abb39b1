"""The index as git sees it at this moment, and what a commit made from it would stand on.

During ``git commit FILE`` and ``git commit -a`` git hands the hook another index in
``GIT_INDEX_FILE``, so everything here keeps what git told the hook (and nothing else it inherited).
The index is listed by git itself: libgit2 cannot read split or sparse ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.layers.l3_durable.git.cli import run_git
from harnessctl.layers.l3_durable.git.repository import Repository, TreeFile

#: Blob id of the empty file; also what git shows for a path that is only announced (``git add -N``).
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

_GITHEAD = re.compile(r"GITHEAD_([0-9a-f]{40})\Z")


def staged_files(cwd: Path, variables: Mapping[str, str]) -> tuple[TreeFile, ...]:
    """Files below ``.harness/`` in the index, paths relative to it.

    :param cwd: a folder of the work tree.
    :param variables: the hook's environment.
    :raises HarnessError: ``unmerged``: the index holds a conflict.
    """
    listed = run_git(
        ["ls-files", "--stage", "-z", "--", f":(top){HARNESS_DIR}"], cwd, variables, in_hook=True
    )
    files = []
    for row in listed.split(b"\0"):
        if not row:
            continue
        head, _, raw = row.partition(b"\t")
        mode, oid, stage = head.decode("ascii").split(" ")
        path = raw.decode("utf-8", "surrogateescape")
        if stage != "0":
            raise HarnessError(
                f"{path} is in conflict", id="unmerged", hint="resolve the conflict and `git add` the file"
            )
        # A gitlink at .harness itself has no path below it.
        below = path.removeprefix(HARNESS_DIR).removeprefix("/")
        files.append(TreeFile(below, int(mode, 8), oid))
    if any(f.oid == EMPTY_BLOB for f in files):
        announced = set(_announced(cwd, variables))
        files = [f for f in files if f.path not in announced]
    return tuple(files)


def _announced(cwd: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Paths below ``.harness/`` that `git add -N` put into the index without content."""
    # Asked about a submodule, git would run `git status` in it under the submodule's own configuration.
    args = ["diff-files", "--ignore-submodules=all", "--name-only", "--diff-filter=A", "-z"]
    args += ["--", f":(top){HARNESS_DIR}"]
    for raw in run_git(args, cwd, variables, in_hook=True).split(b"\0"):
        if raw:
            yield raw.decode("utf-8", "surrogateescape").removeprefix(f"{HARNESS_DIR}/")


def parents_of_next_commit(repository: Repository, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Commits that a commit made now would have as parents.

    A merge that git commits by itself has not written ``MERGE_HEAD`` yet when it runs
    pre-merge-commit; it names the other side in ``GITHEAD_<id>`` then.
    """
    head = repository.head_commit
    found = [head] if head else []
    try:
        lines = (repository.git_dir / "MERGE_HEAD").read_text("ascii").split()
    except OSError:
        lines = [match[1] for match in map(_GITHEAD.match, variables) if match]
    return tuple(dict.fromkeys([*found, *(line for line in lines if repository.has(line))]))
