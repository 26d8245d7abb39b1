"""No command of ours runs a program that a repository, the user's git settings or the environment name."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.cli import main
from harnessctl.cli.failure import report_error
from harnessctl.cli.main import run
from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.git import cli
from harnessctl.layers.l3_durable.git.worktree import GitWorkTree
from tests.conftest import Git
from tests.fakes.harness import add, note, propose, started, store_of
from tests.fakes.hostile import ATTRIBUTES, HOOKS, KEYS, VARIABLES, Evil
from tests.fakes.refining import edit, reply
from tests.fakes.trajectories import session, write

DOCUMENT = Path(__file__).parents[2] / "docs/design/hostile-repositories.md"


@pytest.fixture
def evil(tmp_path: Path) -> Evil:
    return Evil(tmp_path / "evil")


def infest(git: Git, evil: Evil) -> None:
    """Put everything a repository can hold into it; the work tree is dirty, and a submodule is in it."""
    git.commit("notes", **{"notes.md": "one\n"})
    git.commit("attributes", **{".gitattributes": ATTRIBUTES})
    inner = Git(git.root / ".harness")
    inner.root.mkdir()
    inner("init", "-q")
    inner("commit", "-q", "--allow-empty", "-m", "x")
    git("-c", "advice.addEmbeddedRepo=false", "add", "-f", ".harness")
    git("remote", "add", "origin", str(git.root.parent / "origin.git"))
    common = git.root / ".git"
    (common / "info").mkdir(exist_ok=True)
    (common / "info/attributes").write_text(ATTRIBUTES)
    evil.hooks(common / "hooks", "hook")
    evil.config(common / "config.worktree", {"core.fsmonitor": evil.program("worktree core.fsmonitor")})
    evil.config(inner.root / ".git/config", evil.everything())
    evil.config(inner.root / ".git/config", {"core.fsmonitor": evil.program("submodule core.fsmonitor")})
    evil.hooks(inner.root / ".git/hooks", "submodule hook")
    evil.config(common / "config", evil.everything())
    git.write("notes.md", "two\n")
    git.write("app.py", "print('changed')\n")
    git.write("new.txt", "untracked\n")


def infest_home(home: Path, evil: Evil, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in the user's configuration, in that of XDG, and in the environment."""
    evil.config(home / ".gitconfig", evil.everything())
    folder = home / "config/git"
    folder.mkdir(parents=True)
    evil.config(folder / "config", evil.everything())
    (folder / "attributes").write_text(ATTRIBUTES)
    for name, value in evil.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(evil.folder / "path"), prepend=":")
    for name in ("git-remote-evil", "evil", "less", "man"):
        evil.program(f"PATH {name}", evil.folder / "path", name)


#: For `edit` and `review edit`: what `VISUAL` names is the user's own and does run.
EDITOR = """#!/bin/sh
echo 'One more line.' >> "$1"
"""
Verb = tuple[Callable[[], list[str]], int, str]


def verbs(git: Git, tmp_path: Path) -> list[Verb]:
    """Every verb, in an order in which each has something to do; its exit code and error's id."""
    script = tmp_path / "script.jsonl"
    lines = [{"for": "refine", "content": reply(edit())}, {"content": "done"}, {"content": "more done"}]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = f"scripted:{script}"
    file, out = tmp_path / "a.md", tmp_path / "session.jsonl"
    file.write_bytes(note("a", "one").data)

    def waiting(number: int) -> str:
        return store_of(git).proposals()[number].id

    def behind() -> str:
        store = store_of(git)
        return propose(store, "c", "three", base=store.resolve("harness~1")).id

    def landed() -> str:
        return next(u.id for u in store_of(git).updates() if u.state is UpdateState.LANDED)

    def make_log() -> list[str]:
        write(session(), store_of(git).state_dir / "sessions")
        propose(store_of(git), "b", "two")
        return ["sessions", "list"]

    def plain(*argv: str, code: int = 0, error: str = "") -> Verb:
        return (lambda: list(argv)), code, error

    return [
        plain("init"),
        plain("add", "memory/a", str(file)),
        plain("add", "memory/gone", str(file)),
        plain("remove", "memory/gone"),
        plain("edit", "memory/a"),
        plain("pin", "harness"),
        plain("list"),
        plain("show", "memory/a"),
        plain("show", "memory/a", "--evidence"),
        plain("show", "memory/a", "--at", "harness~1"),
        plain("search", "one"),
        plain("prompt"),
        plain("prompt", "--explain"),
        plain("status"),
        # The nested repository in the place of the harness is no entry.
        plain("check", code=1),
        plain("check", ".harness", code=1),
        plain("check", "--staged", code=1),
        plain("check", "--rev", "harness"),
        plain("check", "--range", "harness~1..harness"),
        plain("log"),
        plain("log", "memory/a"),
        plain("diff", "harness~1", "harness"),
        (make_log, 0, ""),
        plain("sessions", "show"),
        plain("sessions", "export", "-o", str(out)),
        plain("refine", "--model", model),
        plain("review", "list"),
        (lambda: ["review", "show", waiting(0)], 0, ""),
        (lambda: ["review", "edit", waiting(0)], 0, ""),
        (lambda: ["review", "accept", waiting(0)], 0, ""),
        (lambda: ["review", "reject", waiting(0)], 0, ""),
        (lambda: ["show", landed()], 0, ""),
        (lambda: ["show", landed(), "--evidence"], 0, ""),
        plain("pin", "harness"),
        plain("pin"),
        plain("blame", "memory/a"),
        plain("verify", "--all"),
        plain("run", "say done", "--model", model),
        plain("sessions", "resume", "--task", "say more", "--model", model),
        plain("sessions", "prune", "--keep", "1", "--yes"),
        (lambda: ["rollback", store_of(git).resolve("harness~2")], 0, ""),
        (lambda: ["review", "rebase", behind()], 0, ""),
        # `remote.origin.vcs` names a transport that is not allowed.
        (lambda: ["review", "pr", waiting(0)], 1, "push_refused"),
        plain("sync", code=1, error="git_failed"),
        plain("hooks", "status", code=1),
        plain("hooks", "install", code=1, error="hooks_path"),
        plain("hooks", "install", "--into-hooks-path", code=1, error="foreign_hook"),
        plain("hooks", "install", "--into-hooks-path", "--chain"),
        plain("hooks", "uninstall"),
        plain("doctor", code=1),  # the log made by hand can be read by others
        plain("doctor", "--fix"),
    ]


def command_words() -> set[str]:
    """Every verb of the command line, with its second word where it has one."""
    found = set()
    for name in (name for section in main.SECTIONS.values() for name in section):
        command = main.VerbGroup().get_command(None, name)  # type: ignore[arg-type]
        below = getattr(command, "commands", None)
        found |= {f"{name} {second}" for second in below} if below else {name}
    return found


def test_the_network_is_reached_without_what_the_repository_names(
    repo: Git,
    make_repo: Callable[..., Git],
    evil: Evil,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare = make_repo("origin.git", bare=True)
    store = started(repo)
    waiting = propose(store, "a", "one")
    infest(repo, evil)
    repo("config", "--unset", "remote.origin.vcs")
    monkeypatch.chdir(repo.root)
    evil.ran()
    codes = [run(["sync"]), run(["review", "pr", waiting.id]), run(["sync"])]
    assert (codes, evil.ran()) == ([0, 0, 0], set()), capsys.readouterr().err
    assert bare("rev-parse", "harness") == store.landed_tip()


@pytest.mark.parametrize("where", ["repository", "repository, home and environment"])
def test_no_verb_runs_a_program_that_configuration_names(
    repo: Git,
    home: Path,
    tmp_path: Path,
    evil: Evil,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    infest(repo, evil)
    if where != "repository":
        infest_home(home, evil, monkeypatch)
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(tempfile, "tempdir", str(home))  # doctor looks there, and others use the real one
    monkeypatch.chdir(repo.root)
    errors: list[str] = []

    def report(error: HarnessError, *, as_json: bool) -> int:
        errors.append(error.id)
        return report_error(error, as_json=as_json)

    monkeypatch.setattr(main, "report_error", report)
    evil.ran()
    words, otherwise = set(), []
    for verb, code, error in verbs(repo, tmp_path):
        argv = verb()
        words |= {argv[0], " ".join(argv[:2])}
        errors.clear()
        ended = run(argv)
        said = capsys.readouterr()
        if (ended, "".join(errors), ran := evil.ran()) != (code, error, set()):
            otherwise.append((argv, ended, errors[:], ran, said.err))
    assert otherwise == []
    assert command_words() <= words
    tree = GitWorkTree(repo.root, tmp_path / "keep", read_environment().variables)
    assert tree.changes(tree.tree_hash(), tree.tree_hash()) == ()
    assert evil.ran() == set()


def test_without_the_switches_the_same_would_run_them(
    repo: Git, tmp_path: Path, evil: Evil, monkeypatch: pytest.MonkeyPatch
) -> None:
    infest(repo, evil)
    evil.ran()
    monkeypatch.setattr(cli, "SAFE", ())
    GitWorkTree(repo.root, tmp_path / "keep", read_environment().variables).tree_hash()
    assert {"worktree core.fsmonitor", "submodule core.fsmonitor"} <= evil.ran()


def test_an_inherited_variable_would_run_one_without_the_filter(
    repo: Git, tmp_path: Path, evil: Evil, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {**read_environment().variables, **evil.environment()}
    monkeypatch.setattr(cli, "SAFE", ())
    GitWorkTree(repo.root, tmp_path / "keep", variables).tree_hash()
    assert evil.ran() == set()
    monkeypatch.setattr(cli, "safe_environment", lambda variables, **_: dict(variables))
    GitWorkTree(repo.root, tmp_path / "other", variables).tree_hash()
    assert evil.ran()


#: Key -> what makes git itself run it: without this, the programs might simply not work.
TRIGGERS = {
    "alias.evil": ["git evil"],
    "core.askPass": ["printf 'protocol=https\\nhost=x.invalid\\n\\n' | git credential fill"],
    "core.editor": ["git commit -q --allow-empty"],
    "core.fsmonitor": ["git status"],
    "core.gitProxy": ["git ls-remote git://x.invalid/y"],
    "core.hooksPath": ["git commit -q --allow-empty -m x"],
    "core.sshCommand": ["git ls-remote ssh://x.invalid/y"],
    "credential.helper": ["printf 'protocol=https\\nhost=x.invalid\\n\\n' | git credential fill"],
    "credential.https://example.com.helper": [
        "printf 'protocol=https\\nhost=example.com\\n\\n' | git credential fill"
    ],
    "diff.evil.command": ["git diff"],
    "diff.evil.textconv": ["git diff"],
    "diff.external": ["git diff"],
    "difftool.evil.cmd": ["git difftool -y -t evil"],
    "filter.evil.clean": ["git add notes.md"],
    "filter.evil.smudge": ["rm notes.md", "git checkout -q -- notes.md"],
    "gpg.program": ["git commit -q -S --allow-empty -m x"],
    "include.path": ["git status"],
    "includeIf.gitdir:/**.path": ["git status"],
    "merge.evil.driver": [
        "git commit -qam ours",
        "git checkout -q -b side HEAD~1",
        "echo three > notes.md; git commit -qam theirs",
        "git merge -q main",
    ],
    "remote.evil.vcs": ["git ls-remote evil"],
    "remote.origin.receivepack": ["git push -q origin main"],
    "remote.origin.uploadpack": ["git ls-remote origin"],
    "sequence.editor": ["git stash", "git rebase -q -i HEAD~1"],
    "tar.evil.command": ["git archive --format=evil HEAD"],
    "trailer.evil.cmd": ["echo | git interpret-trailers --trailer evil=1"],
    "trailer.evil.command": ["echo | git interpret-trailers --trailer evil=1"],
}


@pytest.mark.parametrize("key", TRIGGERS)
def test_git_itself_does_run_it(
    repo: Git, make_repo: Callable[..., Git], evil: Evil, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(repo.root.parent / "origin.git"))
    repo.commit("more", **{".gitattributes": "*.md filter=evil diff=evil merge=evil\n", "notes.md": "one\n"})
    repo.write("notes.md", "two\n")
    settings = {key: evil.value(key)}
    if key == "remote.evil.vcs":
        settings["remote.evil.url"] = "x"
        monkeypatch.setenv("PATH", str(evil.folder / "path"), prepend=":")
        evil.program(key, evil.folder / "path", "git-remote-evil")
    evil.config(repo.root / ".git/config", settings)
    for command in TRIGGERS[key]:
        subprocess.run(
            ["/bin/sh", "-c", command], cwd=repo.root, capture_output=True, timeout=120, check=False
        )
    assert {name for name in evil.ran() if key in name or name.startswith("included")}


def test_the_document_lists_what_is_tested() -> None:
    text = DOCUMENT.read_text()
    for title, names in (
        ("Configuration keys", KEYS),
        ("Hooks", HOOKS),
        ("Environment variables", VARIABLES),
    ):
        listed = text.partition(f"### {title}\n")[2].partition("```\n")[2].partition("```")[0].split("\n")
        assert [line for line in listed if line] == list(names), title
    assert list(KEYS) == sorted(set(KEYS), key=str.lower)


def test_a_link_to_another_persons_file_is_shown_not_followed(repo: Git, tmp_path: Path) -> None:
    """A work tree with links is hashed by what the links say."""
    outside = tmp_path / "outside"
    outside.write_text("before")
    (repo.root / "link").symlink_to(outside)
    tree = GitWorkTree(repo.root, tmp_path / "keep", read_environment().variables)
    before = tree.tree_hash()
    outside.write_text("after")
    assert tree.tree_hash() == before


def test_entries_are_stored_and_shown_byte_for_byte_whatever_attributes_say(repo: Git, evil: Evil) -> None:
    store = started(repo)
    repo.write(".gitattributes", ATTRIBUTES)
    (repo.root / ".git/info").mkdir(exist_ok=True)
    (repo.root / ".git/info/attributes").write_text(ATTRIBUTES)
    evil.config(repo.root / ".git/config", {k: evil.value(k) for k in KEYS if k.startswith("filter.")})
    landed = add(store, "a", "$Id$ one")
    again = store_of(repo).content(landed.commit)
    assert again.read("memory/a.md") == note("a", "$Id$ one", owner="human", origin="human").data
    assert evil.ran() == set()
