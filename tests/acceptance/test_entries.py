"""A person's verbs on entries: add, edit, remove, search."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Run, outside_pytest
from tests.conftest import Git
from tests.fakes.harness import propose, store_of
from tests.fakes.history import learned
from tests.fakes.terminal import Terminal

TEXT = "---\n# a comment that stays\ndescription: 'how to build'\ntags: [make]\n---\nRun make.\n"


@pytest.fixture
def started(harnessctl: Run, repo: Git) -> Git:
    harnessctl("init", "--unpinned", cwd=repo.root)
    harnessctl("add", "memory/build", cwd=repo.root, input=TEXT)
    return repo


def editor(folder: Path, script: str) -> dict[str, str]:
    """An editor that changes the file as the shell ``script`` says; the file is ``$1``."""
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"EDITOR": str(path)}


def landed(git: Git, path: str) -> str:
    return git("show", f"refs/heads/harness:.harness/{path}")


def test_edit_changes_no_other_byte(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    before = landed(started, "memory/build.md")
    env = editor(tmp_path, "sed -i 's/Run make/Run make all/' \"$1\"")
    harnessctl("edit", "memory/build", cwd=started.root, env=env)
    assert landed(started, "memory/build.md") == before.replace("Run make", "Run make all")
    assert "# a comment that stays" in before


def test_edit_keeps_the_text_that_is_refused(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    env = editor(tmp_path, "printf -- '---\\ndescription: a: b\\n---\\nnew text\\n' > \"$1\"")
    refused = harnessctl("edit", "memory/build", cwd=started.root, env=env, code=1)
    assert "HRN" in refused.err
    kept = Path(
        next(word.rstrip(";") for word in refused.err.split() if word.startswith("/") and "drafts" in word)
    )
    assert "new text" in kept.read_text()
    mend = editor(tmp_path, "sed -i 's/a: b/a b/' \"$1\"")
    harnessctl("edit", "memory/build", cwd=started.root, env=mend)
    assert "new text" in landed(started, "memory/build.md")
    assert not kept.exists()


def test_edit_does_not_overwrite_what_came_meanwhile(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text(TEXT.replace("Run make.", "Somebody else's."))
    env = editor(tmp_path, f'{COMMAND} add memory/build {other} >/dev/null; echo mine >> "$1"')
    refused = harnessctl("edit", "memory/build", cwd=started.root, env=env, code=1)
    assert "changed by somebody else" in refused.err
    assert "Somebody else's." in landed(started, "memory/build.md")


def test_a_text_that_met_a_conflict_outlives_the_next_edit(
    harnessctl: Run, started: Git, tmp_path: Path
) -> None:
    other = tmp_path / "other.md"
    other.write_text(TEXT.replace("Run make.", "Somebody else's."))
    env = editor(tmp_path, f'{COMMAND} add memory/build {other} >/dev/null; echo mine >> "$1"')
    refused = harnessctl("edit", "memory/build", cwd=started.root, env=env, code=1)
    kept = Path(refused.err.partition("your text is kept in ")[2].strip())
    harnessctl("edit", "memory/build", cwd=started.root, env=editor(tmp_path, 'echo again >> "$1"'))
    assert landed(started, "memory/build.md").endswith("Somebody else's.\nagain")
    assert kept.read_text().endswith("Run make.\nmine\n")


def test_an_edit_of_a_new_entry_can_be_given_up(harnessctl: Run, started: Git) -> None:
    env = {"EDITOR": "true"}
    for _ in range(2):
        given_up = harnessctl("edit", "memory/new", cwd=started.root, env=env, code=1)
        assert "left as it was" in given_up.err
        assert "going on" not in given_up.err
        assert "kept" not in given_up.err


@pytest.mark.parametrize(("command", "code", "slug"), [("vim 'x", 2, "no_editor"), ("rm", 1, "draft_gone")])
def test_an_unusable_editor_is_the_users_mistake(
    harnessctl: Run, started: Git, command: str, code: int, slug: str
) -> None:
    refused = harnessctl(
        "edit", "memory/build", "--json", cwd=started.root, env={"EDITOR": command}, code=code
    )
    assert refused.json()["error"]["id"] == slug
    harnessctl("edit", "memory/build", cwd=started.root, env={"EDITOR": "sed -i s/make/make.all/"})


def test_at_a_terminal_the_hint_is_shown_before_the_question(started: Git, tmp_path: Path) -> None:
    env = editor(tmp_path, "printf -- '---\\ndescription: a: b\\n---\\n' > \"$1\"")
    terminal = Terminal([COMMAND, "edit", "memory/build"], started.root, **env)
    terminal.type("n\n")
    assert terminal.until_end() == 1
    before = " ".join(terminal.text.partition("edit again?")[0].split())
    assert "error: " in before
    assert "hint: " in before
    assert "your text is kept in" in before


def test_an_editor_draws_on_no_result(started: Git, tmp_path: Path) -> None:
    env = editor(tmp_path, 'echo drawn; echo more >> "$1"')
    done = subprocess.run(
        [COMMAND, "edit", "memory/build", "--json"],
        cwd=started.root,
        env={**outside_pytest(), **env},
        capture_output=True,
        text=True,
        start_new_session=True,  # without a controlling terminal
        check=True,
    )
    assert "update" in json.loads(done.stdout)
    assert "drawn" in done.stderr
    out = tmp_path / "out"
    line = f"exec {COMMAND} edit memory/build --json >{out} 2>/dev/null"
    terminal = Terminal(["sh", "-c", line], started.root, controlling=True, **env)
    assert terminal.until_end() == 0
    assert "drawn" in terminal.plain
    assert "update" in json.loads(out.read_text())


def edit_slowly(started: Git, tmp_path: Path, *verb: str) -> subprocess.Popen[bytes]:
    """An edit whose editor is open until ``tmp_path/go`` is there, and then adds a line."""
    slow = tmp_path / "slow"
    slow.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/open\nwhile ! [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
        'echo slow >> "$1"\n'
    )
    slow.chmod(0o755)
    environment = {**outside_pytest(), "EDITOR": str(slow)}
    process = subprocess.Popen([COMMAND, *verb], cwd=started.root, env=environment)
    end = time.monotonic() + 60
    while not (tmp_path / "open").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("reviewed", [False, True])
def test_a_text_that_an_editor_has_open_is_nobody_elses(
    harnessctl: Run, started: Git, tmp_path: Path, home: Path, reviewed: bool
) -> None:
    verb = ["edit", "memory/build"]
    if reviewed:
        waiting = learned(store_of(started), "learned", "one").id
        verb = ["review", "edit", waiting]
    process = edit_slowly(started, tmp_path, *verb)
    if not reviewed:  # which would set the open text aside
        harnessctl("add", "memory/build", cwd=started.root, input=TEXT.replace("make.", "make it."))
    quick = editor(tmp_path, 'echo quick >> "$1"')
    refused = harnessctl(*verb, "--json", cwd=started.root, env=quick, code=1).json()["error"]
    assert refused["id"] == "draft_open"
    assert "is being edited in another terminal" in refused["message"]
    (tmp_path / "go").touch()
    assert process.wait(60) == (0 if reviewed else 1)  # a conflict: the entry changed meanwhile
    if not reviewed:
        (kept,) = home.rglob("drafts/**/build.md")
        assert kept.read_text().endswith("slow\n")
    harnessctl(*verb, cwd=started.root, env=quick)
    assert not list(home.rglob("*lock"))


def test_a_killed_edit_holds_nothing(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    process = edit_slowly(started, tmp_path, "edit", "memory/build")
    process.kill()
    process.wait()
    harnessctl("edit", "memory/build", cwd=started.root, env=editor(tmp_path, 'echo quick >> "$1"'))
    (tmp_path / "go").touch()
    assert landed(started, "memory/build.md").endswith("quick")


def test_edit_begins_a_new_entry(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    env = editor(tmp_path, 'sed -i \'s/description: ""/description: new/\' "$1"')
    harnessctl("edit", "skills/release", cwd=started.root, env=env)
    assert "name: release" in landed(started, "skills/release/SKILL.md")


def test_remove_keeps_history_and_what_others_need(harnessctl: Run, started: Git) -> None:
    needs = "---\ndescription: after the build\ndepends_on: [memory/build]\n---\n"
    harnessctl("add", "memory/ship", cwd=started.root, input=needs)
    refused = harnessctl("remove", "memory/build", cwd=started.root, code=1)
    assert "without memory/build: .harness/memory/ship.md:3: HRN121" in refused.err
    assert "take memory/build out of depends_on there first" in refused.err
    harnessctl("remove", "memory/ship", cwd=started.root)
    harnessctl("remove", "memory/build", "--why", "obsolete", cwd=started.root)
    assert harnessctl("list", "--json", cwd=started.root).json() == []
    assert "memory/build" in harnessctl("log", "memory/build", cwd=started.root).out
    assert (
        harnessctl("remove", "memory/build", "--json", cwd=started.root, code=1).json()["error"]["id"]
        == "no_entry"
    )


def test_search_wants_every_word_and_puts_heads_first(harnessctl: Run, started: Git) -> None:
    harnessctl(
        "add", "memory/other", cwd=started.root, input="---\ndescription: else\n---\nHow to BUILD\nhere\n"
    )
    found = harnessctl("search", "how", "build", "--json", cwd=started.root).json()
    assert [hit["id"] for hit in found] == ["memory/build", "memory/other"]
    assert found[1]["line"] == "How to BUILD"
    assert harnessctl("search", "build", "nowhere", "--json", cwd=started.root).json() == []


def test_in_tree_they_write_files_to_commit(harnessctl: Run, repo: Git, tmp_path: Path) -> None:
    done = harnessctl("init", "--in-tree", cwd=repo.root)
    assert done.out.endswith("commit them:\n  .harness/harness.toml\n")
    done = harnessctl("add", "memory/build", cwd=repo.root, input=TEXT)
    assert done.out.startswith("added 01")
    listed = done.out.partition("commit them:\n  ")[2].rstrip("\n").split("\n  ")
    assert listed == repo("ls-files", "-o", ".harness/memory", ".harness/updates").split("\n")
    repo.commit("harness")
    said = harnessctl("status", cwd=repo.root).out
    assert "in use" not in said
    assert "lands there by your own git merge" in said
    env = editor(tmp_path, "sed -i 's/Run make/Run make all/' \"$1\"")
    assert "commit them" in harnessctl("edit", "memory/build", cwd=repo.root, env=env).out
    assert "make all" in (repo.root / ".harness/memory/build.md").read_text()
    for call in (["edit", "memory/build"], ["remove", "memory/build"]):
        refused = harnessctl(*call, "--json", cwd=repo.root, env=env, code=1).json()["error"]
        assert refused["id"] == "uncommitted"
        assert refused["message"].startswith(".harness/memory/build.md: ")
    repo.commit("edited")
    harnessctl("remove", "memory/build", cwd=repo.root)
    assert not (repo.root / ".harness/memory/build.md").exists()


@pytest.mark.parametrize("verb", ["edit", "remove"])
def test_agents_do_neither(harnessctl: Run, started: Git, tmp_path: Path, verb: str) -> None:
    env = editor(tmp_path, 'echo more >> "$1"') | {"HARNESSCTL_ACTOR": "agent"}
    before = started("rev-parse", "refs/heads/harness")
    harnessctl(verb, "memory/build", cwd=started.root, env=env, code=6)
    assert started("rev-parse", "refs/heads/harness") == before


def test_status_in_tree_on_another_branch_names_the_merge(harnessctl: Run, repo: Git) -> None:
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.commit("harness")
    repo("branch", "topic")
    harnessctl("add", "memory/build", cwd=repo.root, input=TEXT)
    repo.commit("more")
    repo("checkout", "-q", "topic")
    said = harnessctl("status", cwd=repo.root).out
    assert "1 landed update that the next run does not read: git merge main" in said
    repo("merge", "-q", "main")
    assert "does not read" not in harnessctl("status", cwd=repo.root).out


def test_edit_and_remove_name_their_update(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    env = editor(tmp_path, "sed -i 's/Run make/Run make all/' \"$1\"")
    calls = (("edited", ["edit", "memory/build"]), ("removed", ["remove", "memory/build"]))
    for word, call in calls:
        head, _, update = harnessctl(*call, cwd=started.root, env=env).out.partition("\n")[0].partition(" ")
        assert head == word
        newest = harnessctl("log", "--json", "-n", "1", cwd=started.root).json()
        assert update == newest[0]["update"]


@pytest.mark.parametrize("first", ["init", "add", "reject"])
def test_git_07_that_commits_are_not_signed_is_said_once(harnessctl: Run, repo: Git, first: str) -> None:
    verbs: dict[str, list[str]] = {"init": ["init"], "add": ["add", "memory/a"], "reject": []}
    for verb, arguments in verbs.items():
        if verb == first:
            repo("config", "commit.gpgsign", "yes")
        if verb == "reject":
            arguments = ["review", "reject", propose(store_of(repo), "b", "x").id]
        said = harnessctl(*arguments, cwd=repo.root, input=TEXT).err
        assert ("commit.gpgsign" in said) is (verb == first), verb
        assert ("harnessctl review pr" in said) is (verb == first), verb
    assert set(repo("log", "--format=%G?", "refs/heads/harness", "--").split()) == {"N"}
