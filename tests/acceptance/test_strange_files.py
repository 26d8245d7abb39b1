"""Pipes and the like in place of git's files: named at once, by all verbs that would read them and by doctor.

What waits within libgit2 can only be killed from outside: each call has a limit of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import ExitCode
from tests.acceptance.conftest import Done, Logs, Run, Script
from tests.conftest import Git
from tests.fakes.harness import add, propose, store_of

#: Seconds for a verb, and for a run.
SOON, RUN = 20, 60
PROPOSAL = ".git/refs/harness/proposals/01KA0000000000000000000000"
HARNESS = ".git/refs/heads/harness"
DONE = {"content": "Done."}

Put = Callable[[Path], None]


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_circle(path: Path) -> None:
    path.symlink_to(path.name)


def as_folder(path: Path) -> None:
    path.mkdir()


def as_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def put(path: Path, how: Put = as_pipe) -> None:
    """Put something else in the place of a file."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    how(path)


def refused(done: Done) -> tuple[str, str, str]:
    """Id, message and hint of an error."""
    error = done.json()["error"]
    return error["id"], error["message"], error["hint"]


@pytest.fixture
def started(repo: Git, harnessctl: Run) -> Git:
    """A repository with a harness of two commits, its lock committed."""
    harnessctl("init", cwd=repo.root)
    add(store_of(repo), "build", "make all")
    harnessctl("pin", "harness", cwd=repo.root)
    repo.commit("pin")
    return repo


def object_file(git: Git, rev: str) -> str:
    """Where an object lies that is in no pack."""
    oid = git("rev-parse", rev)
    return f".git/objects/{oid[:2]}/{oid[2:]}"


def test_the_null_device_is_an_empty_file(harnessctl: Run, started: Git) -> None:
    """git takes it for one: a way to switch rules off."""
    for name in ("exclude", "attributes"):
        put(started.root / ".git/info" / name, lambda path: path.symlink_to("/dev/null"))
    harnessctl("list", cwd=started.root)
    harnessctl("doctor", cwd=started.root)


def test_what_looks_like_a_bare_repository_hides_no_pipe_further_up(harnessctl: Run, started: Git) -> None:
    (started.root / "sub/objects").mkdir(parents=True)
    (started.root / "sub/HEAD").touch()
    put(started.root / ".git/config")
    refusal = refused(harnessctl("list", "--json", cwd=started.root / "sub", code=1, timeout=SOON))
    assert refusal[0] == "not_a_file"


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        (".git", "list"),
        (".git/HEAD", "list"),
        (".git/config", "list"),
        (".git/commondir", "status"),
        (".git/packed-refs", "review list"),
        (".git/shallow", "log"),
        (".git/index", "check --staged"),
        (".git/objects/info/alternates", "list"),
        (".git/objects/pack/pack-x.idx", "list"),
        (HARNESS, "list"),
        (HARNESS, "status"),
        (HARNESS, "check"),
        (HARNESS, "sync"),
        (".git/refs/heads/main", "check --staged"),
        (".git/refs/heads/main", "check --rev main"),
        (".git/refs/remotes/origin/harness", "pin"),
        (PROPOSAL, "review list"),
        (PROPOSAL, "log"),
        ("harness:.harness/memory/build.md", "list"),
        ("harness~1", "log"),
        ("harness~1", "pin harness~1"),
    ],
)
def test_a_pipe_is_named_by_who_would_read_it(harnessctl: Run, started: Git, name: str, verb: str) -> None:
    started("config", "remote.origin.url", "nowhere")
    path = started.root / (name if name.startswith(".git") else object_file(started, name))
    shutil.rmtree(path) if name == ".git" else put(path)
    if name == ".git":
        put(path)
    done = harnessctl(*verb.split(), "--json", cwd=started.root, code=ExitCode.FAILED, timeout=SOON)
    assert refused(done)[:2] == ("not_a_file", f"{path} is a pipe, and a file of git belongs there")
    found = harnessctl("doctor", "--json", cwd=started.root, code=ExitCode.FAILED, timeout=SOON).json()
    assert [(one["id"], str(path) in one["what"]) for one in found] == [("not_a_file", True)]
    assert "remove it" in found[0]["remedy"]


@pytest.mark.parametrize("how", [as_device, as_circle, as_socket, as_folder])
@pytest.mark.parametrize("name", [".git/packed-refs", ".git/objects/info/alternates", HARNESS, PROPOSAL])
def test_so_are_devices_sockets_folders_and_links_in_a_circle(
    harnessctl: Run, started: Git, name: str, how: Put
) -> None:
    path = started.root / name
    put(path, how)
    if how is as_folder and "/refs/" in name:  # refs may lie in it: there is no such ref
        (path / "x").mkdir()
        lost = ExitCode.FAILED if name == HARNESS else ExitCode.DONE
        harnessctl("review", "list", "--json", cwd=started.root, code=lost, timeout=SOON)
        return
    done = harnessctl("review", "list", "--json", cwd=started.root, code=ExitCode.FAILED, timeout=SOON)
    assert refused(done)[0] == "not_a_file"
    found = harnessctl("doctor", "--json", cwd=started.root, code=ExitCode.FAILED, timeout=SOON).json()
    assert [one["id"] for one in found] == ["not_a_file"]


def test_doctor_names_all_of_them_and_where_a_ref_was(harnessctl: Run, started: Git) -> None:
    tip = started("rev-parse", "harness")
    names = [".git/config", HARNESS, ".git/refs/tags/x", ".git/worktrees/w/HEAD", ".git/logs/HEAD"]
    started("worktree", "add", "-q", "--detach", str(started.root.parent / "w"))
    config = (started.root / ".git/config").read_bytes()
    for name in names:
        put(started.root / name)
    found = harnessctl("doctor", "--json", "--fix", cwd=started.root, code=1, timeout=SOON).json()
    assert sorted(one["what"].split(" ")[0] for one in found) == sorted(f"{started.root}/{n}" for n in names)
    (ref,) = (one for one in found if HARNESS in one["what"])
    assert f"{started.root}/.git/logs/refs/heads/harness lists what it named" in ref["remedy"]
    for name in names:
        (started.root / name).unlink()
    (started.root / ".git/config").write_bytes(config)
    (started.root / HARNESS).write_text(f"{tip}\n")
    assert "build" in harnessctl("list", cwd=started.root, timeout=SOON).out


@pytest.mark.parametrize("name", ["HEAD", "commondir", "index", "../../config", "../../refs/heads/harness"])
def test_a_linked_work_tree_is_looked_at_with_what_it_shares(
    harnessctl: Run, started: Git, name: str
) -> None:
    linked = started.root.parent / "w"
    started("worktree", "add", "-q", "--detach", str(linked))
    path = (started.root / ".git/worktrees/w" / name).resolve()
    put(path)
    done = harnessctl("list", "--json", cwd=linked, code=ExitCode.FAILED, timeout=SOON)
    id_, message, _ = refused(done)
    assert (id_, os.path.realpath(message.split(" ")[0])) == ("not_a_file", str(path))


def test_a_bare_repository_too(harnessctl: Run, started: Git) -> None:
    bare = started.root.parent / "bare.git"
    started("clone", "-q", "--bare", str(started.root), str(bare))
    assert "build" in harnessctl("list", cwd=bare, timeout=SOON).out
    put(bare / "HEAD")
    done = harnessctl("list", "--json", cwd=bare / "objects", code=ExitCode.FAILED, timeout=SOON)
    assert refused(done)[0] == "not_a_file"


def test_nothing_lands_on_a_reflog_that_is_a_pipe(harnessctl: Run, started: Git) -> None:
    proposal, tip = propose(store_of(started), "own", "text"), started("rev-parse", "harness")
    log = started.root / ".git/logs/refs/heads/harness"
    put(log)
    accept = ("review", "accept", proposal.id)
    done = harnessctl(*accept, "--json", cwd=started.root, code=ExitCode.FAILED, timeout=SOON)
    assert refused(done)[:2] == ("not_a_file", f"{log} is a pipe, and a file of git belongs there")
    assert started("rev-parse", "harness") == tip
    log.unlink()
    harnessctl(*accept, cwd=started.root, timeout=SOON)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("name", "status"),
    [
        (".git/HEAD", "success"),
        (".git/config", "success"),
        (".git/refs/heads/main", "success"),
        (".git/objects/info/alternates", "success"),
        (PROPOSAL, "success"),
        (".git/packed-refs", "failed"),
        (HARNESS, "failed"),
    ],
)
def test_a_run_in_which_a_cell_makes_one_ends_in_order(
    harnessctl: Run, script: Script, logs: Logs, started: Git, name: str, status: str
) -> None:
    """It ends at the next turn where it can no longer be told whether its pin was revoked."""
    code = f"import os, pathlib as p; f = p.Path({name!r}); f.parent.mkdir(parents=True, exist_ok=True)\n"
    code += "f.unlink(missing_ok=True); os.mkfifo(f)"
    model = script({"content": "I break it.", "code": code}, DONE)
    run = ("run", "--json", "--model", model, "x")
    result = harnessctl(*run, cwd=started.root, code=ExitCode.REFUSED, timeout=RUN).json()
    assert (result["status"], result["reason"]) == (status, "ref_moved")
    assert f"{started.root / name} is a pipe" in result["detail"]
    assert {move["after"] for move in result["moved"]} == {"unreadable"}
    assert ended(logs) == "ref_moved"
    (saved,) = logs.state.glob(f"harnessctl/*/sessions/{result['session']}/result.json")
    assert json.loads(saved.read_text()) == result


def ended(logs: Logs) -> Any:
    """The reason in the newest log's last record."""
    end = logs.newest()[-1]
    assert end["type"] == "end"
    return end["data"]["reason"]
