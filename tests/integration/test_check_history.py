"""Commits that exist: merges, ranges, pushes to a server; agents' commits by every door."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.check import CheckRequest, check
from harnessctl.commands.hooks import install_hooks
from harnessctl.config import read_environment
from harnessctl.domain.finding import Severity
from harnessctl.domain.ids import new_ulid, record_path
from harnessctl.domain.update import Actor, EntryChange, Record, RecordType
from harnessctl.layers.l3_durable.checking.checker import Checker
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.rules.load import check_load

GOOD = "---\ndescription: How to build\nowner: human\n---\nRun make.\n"
BAD = "---\ndescription: Use it so: carefully\n---\n"
AGENT = {"GIT_AUTHOR_NAME": "harnessctl agent", "GIT_AUTHOR_EMAIL": "agent@harnessctl.invalid"}


def errors(root: Path, **request: Any) -> set[str]:
    """Ids of the rules that refuse."""
    report = check(CheckRequest(**request), root, read_environment(), ())
    return {f.rule for f in report.findings if f.severity is Severity.ERROR}


@pytest.fixture
def base(repo: Any) -> Any:
    """A repository with one entry that others may depend on."""
    repo.commit("harness", **{".harness/memory/x.md": GOOD, ".harness/memory/y.md": GOOD})
    return repo


def _two_branches(git: Any, one: dict[str, str | None], other: dict[str, str | None]) -> None:
    """Branches ``main`` and ``other`` from the same commit, each with its own change, each valid."""
    git("branch", "other")
    for branch, files in (("main", one), ("other", other)):
        git("checkout", "-q", branch)
        for path, text in files.items():
            if text is None:
                git("rm", "-q", path)
            else:
                git.write(path, text)
        git("add", "-A")
        git("commit", "-qm", branch)
        assert errors(git.root, rev="HEAD") == set()
    git("checkout", "-q", "main")


NEEDS_X = "---\ndescription: d\ndepends_on: memory/x\n---\n"
SKILL = "---\nname: audit\ndescription: d\n---\n"

MERGES = [
    ("HRN121", {".harness/memory/z.md": NEEDS_X}, {".harness/memory/x.md": None}),
    (
        "HRN120",
        {".harness/skills/audit/references/a.md": "x"},
        {".harness/skills/audit/references/A.md": "x"},
    ),
]


@pytest.mark.parametrize(("rule", "one", "other"), MERGES)
def test_two_valid_branches_whose_merge_is_not(
    base: Any, rule: str, one: dict[str, str | None], other: dict[str, str | None]
) -> None:
    """git-04: refused at the merge, in CI, and by the reader."""
    base.commit("skill", **{".harness/skills/audit/SKILL.md": SKILL})
    _two_branches(base, one, other)
    install_hooks(base.root, sys.executable)
    before = base("rev-parse", "HEAD")
    done = subprocess.run(
        ["git", "merge", "-m", "m", "other"], cwd=base.root, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, "pre-merge-commit"
    assert rule in done.stdout + done.stderr
    assert base("rev-parse", "HEAD") == before
    base("merge", "--abort", check=False)
    base("merge", "-q", "--no-verify", "-m", "m", "other")
    assert rule in errors(base.root, range=f"{before}..HEAD"), "CI"
    checker = Checker(Repository.open(base.root))
    report = check_load(checker.items(base("rev-parse", "HEAD")))
    assert rule in {f.rule for f in report.findings}, "the reader"
    assert report.broken


def test_lint_of_a_merge_judges_what_the_merge_made(base: Any) -> None:
    """What came unchanged from one side was judged there; old warnings do not come up at every merge."""
    base.write(".harness/notes.txt", "x")
    _two_branches(base, {"a.txt": "1"}, {"b.txt": "2"})
    base("merge", "-q", "--no-commit", "--no-ff", "other", check=False)
    report = check(CheckRequest(staged=True), base.root, read_environment(), ())
    assert report.findings == ()


def test_a_range_judges_net_changes_and_each_commit_for_secrets(base: Any) -> None:
    start = base("rev-parse", "HEAD")
    token = "ghp_" + "a" * 36
    base.commit("with a secret", **{".harness/memory/x.md": GOOD + token + "\n", ".harness/memory/y.md": BAD})
    base.commit("mended", **{".harness/memory/x.md": GOOD, ".harness/memory/y.md": GOOD + "More.\n"})
    report = check(CheckRequest(range=f"{start}..HEAD"), base.root, read_environment(), ())
    assert [f.rule for f in report.findings] == ["HRN206"], (
        "the bad file was mended, the secret is in history"
    )
    assert base("rev-parse", "HEAD~1")[:12] in report.findings[0].message
    assert token not in str(report)


def test_a_range_of_a_diverged_branch_counts_from_the_fork(base: Any) -> None:
    """What the other side changed meanwhile is no deletion of ours."""
    base.write("harness-start", "x")
    _two_branches(base, {".harness/memory/new.md": GOOD}, {".harness/memory/other.md": GOOD})
    report = check(CheckRequest(range="main..other"), base.root, read_environment(), ())
    assert report.findings == ()
    assert report.touched == 1


def test_a_first_commit_has_no_parent(make_repo: Callable[..., Any]) -> None:
    git = make_repo("fresh", commit=False)
    git.write(".harness/memory/x.md", BAD)
    git("add", "-A")
    assert errors(git.root, staged=True) == {"HRN103"}
    git("commit", "-qm", "x")
    assert errors(git.root, range="..HEAD") == {"HRN103"}


def test_a_nested_repository_is_refused_by_name(base: Any) -> None:
    inner = base.root / ".harness/skills/inner"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=inner, check=True)
    assert errors(base.root) == {"HRN110"}, "without a commit, as it lies in the work tree"
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=inner, check=True)
    base("-c", "advice.addEmbeddedRepo=false", "add", "-A")
    assert errors(base.root, staged=True) == {"HRN110"}
    base("commit", "-qm", "x")
    assert errors(base.root, rev="HEAD") == {"HRN110"}


def test_a_link_in_the_folders_place_is_refused(repo: Any) -> None:
    (repo.root / ".harness").symlink_to("elsewhere")
    repo("add", "-A")
    assert errors(repo.root, staged=True) == {"HRN109"}
    assert errors(repo.root) == {"HRN109"}
    repo("commit", "-qm", "x")
    assert errors(repo.root, rev="HEAD") == {"HRN109"}


def test_announced_files_are_not_judged(base: Any) -> None:
    base.write(".harness/memory/later.md", "")
    base("add", "-N", ".harness/memory/later.md")
    assert errors(base.root, staged=True) == set()
    base("add", ".harness/memory/later.md")
    assert errors(base.root, staged=True) == {"HRN102"}


# -- agents, by every door -------------------------------------------------------------------------

OWN = "---\ndescription: d\nowner: agent\norigin: agent\n---\n"


def _record(base: str, *entries: str) -> tuple[str, bytes]:
    changes = tuple(EntryChange(entry, "update", None, None) for entry in entries)
    record = Record(RecordType.UPDATE, new_ulid(), Actor("agent", "a"), base, "s", entries=changes)
    return ".harness/" + record_path(record.id), record.to_bytes()


AGENTS = {
    "HRN301": {".harness/memory/x.md": None},
    "HRN302": {".harness/memory/x.md": None, ".harness/memory/z.md": GOOD},
    "HRN303": {".harness/memory/x.md": GOOD + "More.\n"},
    "HRN304": {".harness/memory/x.md": GOOD.replace("human", "agent")},
    "HRN305": {".harness/memory/z.md": OWN.replace("origin: agent", "origin: human")},
    "HRN306": {".harness/memory/z.md": OWN.replace("owner", "status: verified\nowner")},
    "HRN307": {".harness/harness.toml": "schema = 1\n"},
    "HRN308": {"record": "changed"},
}


BY_RECORD = [rule for rule in AGENTS if rule not in ("HRN307", "HRN308")]


@pytest.mark.parametrize(
    ("rule", "known_by"), [*((r, "author") for r in AGENTS), *((r, "record") for r in BY_RECORD)]
)
def test_what_an_agents_commit_may_not_do(
    base: Any, rule: str, known_by: str, monkeypatch: pytest.MonkeyPatch, make_repo: Callable[..., Any]
) -> None:
    """An agent is known by the author, or, where a forge squashed its commits, by what its record names."""
    old_path, old_data = _record(base("rev-parse", "HEAD"))
    base.write(old_path, old_data)
    base.commit("a record")
    start = base("rev-parse", "HEAD")
    for path, text in AGENTS[rule].items():
        if text is None:
            base("rm", "-q", path)
        elif path == "record":
            base.write(old_path, old_data.replace(b'"s"', b'"t"'))
        else:
            base.write(path, text)
    base("add", "-A")
    assert rule not in errors(base.root, staged=True), "a person may"
    if known_by == "record":
        base.write(*_record(start, "memory/x", "memory/z"))
        base("add", "-A")
    else:
        for name, value in AGENT.items():
            monkeypatch.setenv(name, value)
    assert rule in errors(base.root, staged=True), "hook"
    base("commit", "-qm", "x")
    for name in AGENT:
        monkeypatch.delenv(name, raising=False)
    assert rule in errors(base.root, range=f"{start}..HEAD"), "range"
    line = f"{start} {base('rev-parse', 'HEAD')} refs/heads/main"
    remote = make_repo("remote", bare=True)
    base("push", "-q", str(remote.root), f"{start}:refs/heads/main")
    base("push", "-q", str(remote.root), "HEAD:refs/heads/other")
    remote("update-ref", "-d", "refs/heads/other")
    assert rule in errors(remote.root, pushed=(line,)), "server"


def test_a_process_that_says_it_is_an_agent_is_one(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base.write(".harness/memory/x.md", GOOD + "More.\n")
    base("add", "-A")
    assert errors(base.root, staged=True) == set()
    monkeypatch.setenv("HARNESSCTL_ACTOR", "agent")
    assert errors(base.root, staged=True) == {"HRN303", "HRN309"}


# -- a server's pre-receive ------------------------------------------------------------------------


@pytest.fixture
def server(make_repo: Callable[..., Any]) -> Any:
    """A bare repository whose pre-receive is the command itself."""
    remote = make_repo("server", bare=True)
    hook = remote.root / "hooks/pre-receive"
    python = shlex.quote(sys.executable)
    hook.write_text(f"#!/bin/sh\nexec {python} -P -m harnessctl.cli.main check --stdin-refs\n")
    hook.chmod(0o755)
    return remote


@contextmanager
def _daemon(base_path: Path) -> Iterator[str]:
    """git's own daemon on a loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", f"--port={port}"]
    command += ["--listen=127.0.0.1", f"--base-path={base_path}", str(base_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    try:
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "git daemon has ended"
            time.sleep(0.05)
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.communicate()


def _push(git: Any, url: str, *refs: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "push", url, *refs], cwd=git.root, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("transport", ["file", "daemon"])
def test_pre_receive_refuses_a_bad_entry_and_passes_a_good_one(
    base: Any, server: Any, transport: str
) -> None:
    def tell(url: str) -> None:
        assert _push(base, url, "main").returncode == 0
        base.commit("bad", **{".harness/memory/x.md": BAD})
        refused = _push(base, url, "main", "main:refs/heads/new-branch")
        assert refused.returncode != 0
        assert ".harness/memory/x.md:2:23: error HRN103" in refused.stderr
        assert server("for-each-ref", "--format=%(refname)") == "refs/heads/main"
        base.commit("good", **{".harness/memory/x.md": GOOD + "More.\n"})
        assert _push(base, url, "main").returncode == 0
        assert server("rev-parse", "main") == base("rev-parse", "main")
        assert _push(base, url, "main:refs/heads/third").returncode == 0
        assert _push(base, url, ":refs/heads/third").returncode == 0

    if transport == "file":
        tell(f"file://{server.root}")
    else:
        with _daemon(server.root.parent) as url:
            tell(f"{url}/server")


def test_the_harness_branch_only_grows_on_the_server(base: Any, server: Any) -> None:
    url = f"file://{server.root}"
    assert _push(base, url, "main:refs/heads/harness").returncode == 0
    rewound = _push(base, url, "+main~1:refs/heads/harness")
    assert rewound.returncode != 0
    assert "HRN403" in rewound.stderr
    assert "HRN403" in _push(base, url, ":refs/heads/harness").stderr


def test_json_is_one_array(base: Any) -> None:
    base.write(".harness/memory/x.md", BAD)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harnessctl.cli.main", "check", "--json"],
        cwd=base.root,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)
    assert finding["rule"] == "HRN103"
    assert (finding["line"], finding["column"]) == (2, 23)
