"""``harness`` in cells of real kernels, through the installed command: read, propose, import skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git

pytestmark = pytest.mark.kernel

LESSON = """\
print(harness.propose(
    "memory/count-files",
    description="git ls-files lists what is tracked",
    content="Use `git ls-files`.",
    why="os.listdir counted build output too",
    evidence="tracked: 2",
    expected_outcome="one cell instead of three",
    how_to_see="cells of the next run",
))
print(harness.show("memory/count-files"))
print(harness.search("tracked"))
"""


def texts(logs: Logs) -> list[str]:
    """What the model was shown of each cell."""
    return [e["data"]["text"] for e in logs.newest() if e["type"] == "result"]


SPOIL = """\
import pathlib
state = pathlib.Path(os.environ["IPYTHONDIR"]).parent
(state / "entries.json").write_text("[{")
harness.list()
"""


def test_the_next_kernel_has_what_a_cell_spoiled(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    harnessctl("add", "memory/build", input="---\ndescription: how\n---\nRun make.\n", cwd=repo.root)
    harnessctl("pin", cwd=repo.root)
    look = {"code": "print(harness.show('memory/build'))"}
    model = script({"code": SPOIL}, {"code": "os.kill(os.getpid(), 9)"}, look, {"content": "ok"})
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    spoiled, _, seen = texts(logs)
    assert "a cell has changed this file" in spoiled
    assert "Run make." in seen


def test_a_proposal_from_a_cell(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    model = script(
        {"content": "", "code": "print('tracked: 2')"},
        {"content": "", "code": LESSON},
        {"content": "done"},
    )
    done = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root)
    result = done.json()
    said = texts(logs)[1]
    assert "Proposed: create memory/count-files." in said
    assert "[proposed by this session, not accepted yet: create]" in said
    assert "memory/count-files (proposed: create): git ls-files lists what is tracked" in said
    (made,) = result["proposals"]
    assert (made["entry"], made["refused"]) == ("memory/count-files", "")
    assert result["moved"] == []
    assert result["reason"] == "no_gates"
    ref = f"refs/harness/proposals/{made['update']}"
    assert repo("rev-parse", ref) == made["commit"]
    assert repo("log", "-1", "--format=%an", ref) == "harnessctl agent"
    update = json.loads(harnessctl("show", made["update"], "--json", cwd=repo.root).out)
    assert update["state"] == "open"
    record = json.loads(repo("show", f"{ref}:.harness/updates/{record_place(repo, ref)}"))
    (evidence,) = record["evidence"]
    events = {e["n"]: e for e in logs.newest()}
    assert evidence["quotes"] == ["tracked: 2"]
    assert {events[n]["type"] for n in evidence["events"]} == {"result", "cell"}
    assert events[evidence["head"]["n"]]["hash"] == evidence["head"]["hash"]
    assert evidence["head"]["n"] > max(n for n, e in events.items() if e["type"] == "propose")
    assert record["why"] == "os.listdir counted build output too"
    assert "ok" in harnessctl("verify", made["update"], cwd=repo.root).out
    harnessctl("review", "accept", made["update"], "--pin", cwd=repo.root)
    assert "memory/count-files" in harnessctl("list", cwd=repo.root).out


def record_place(repo: Git, ref: str) -> str:
    """The newest record's path below updates/."""
    names = repo("ls-tree", "-r", "--name-only", ref, ".harness/updates/").splitlines()
    return max(names, key=lambda name: name.rpartition("/")[2]).removeprefix(".harness/updates/")


def test_the_run_names_what_was_proposed(harnessctl: Run, script: Script, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    code = 'harness.propose("memory/x", description="d", content="c", why="because")'
    done = harnessctl("run", "--model", script({"code": code}, {"content": "ok"}), "x", cwd=repo.root)
    assert "proposes to create memory/x: because" in done.err
    assert "proposed: memory/x: d (harnessctl review show 01" in done.err
    assert "proposes to create memory/x: because" in harnessctl("sessions", "show", cwd=repo.root).out


REFUSED = {
    "no reason": ('harness.propose("memory/x", description="d", content="c")', "why is needed"),
    "no text": (
        'harness.propose("memory/x", description="d", why="w")',
        "content needed: there is no memory/x yet",
    ),
    "bad name": ('harness.propose("memory/X Y", description="d", content="c", why="w")', "is not a name"),
    "a person's": ('harness.propose("memory/mine", content="c", why="w")', "belongs to a human"),
    "made up": (
        'harness.propose("memory/x", description="d", content="c", why="w", evidence="never" + " seen")',
        "the quote stands in nothing that this session saw",
    ),
    "not there": ('harness.propose("memory/x", action="delete", why="w")', "memory/x does not exist"),
    "frontmatter": (
        'harness.propose("memory/x", description="d", content="---\\nowner: human\\n---\\n", why="w")',
        "give the text only",
    ),
    "secret": (
        'harness.propose("memory/x", description="d", content="ghp_" + "q8R2w" * 7 + "z", why="w")',
        "holds what looks like a secret",
    ),
    "files": (
        'harness.propose("memory/x", description="d", content="c", why="w", files={"a.py": "x"})',
        "only a skill has files",
    ),
}


def test_a_cell_hears_at_once_what_cannot_be_proposed(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    harnessctl("add", "memory/mine", cwd=repo.root, input="---\ndescription: mine\nowner: human\n---\nx\n")
    harnessctl("pin", cwd=repo.root)
    lines: list[dict[str, Any]] = [{"code": code} for code, _ in REFUSED.values()]
    done = harnessctl("run", "--model", script(*lines, {"content": "ok"}), "--json", "x", cwd=repo.root)
    for (name, (_, words)), text in zip(REFUSED.items(), texts(logs), strict=True):
        assert words in text, name
        assert "HostError" in text, name
    assert done.json()["proposals"] == []
    assert repo("for-each-ref", "refs/harness/proposals") == ""


def test_several_wishes_for_one_entry_are_one_proposal(harnessctl: Run, script: Script, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    first = 'harness.propose("memory/x", description="d", content="first", why="one")'
    second = 'harness.propose("memory/x", content="second", why="two"); print(harness.show("memory/x"))'
    other = 'harness.propose("memory/gone", description="d", content="c", why="w")\n'
    other += 'harness.propose("memory/gone", action="delete", why="no use")'
    model = script({"code": first}, {"code": second}, {"code": other}, {"content": "ok"})
    result = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root).json()
    made, nothing = result["proposals"]
    assert repo("show", f"{made['commit']}:.harness/memory/x.md").endswith("second")
    assert (nothing["update"], nothing["refused"]) == (None, "")
    assert len(repo("for-each-ref", "refs/harness/proposals").splitlines()) == 1


WISH = 'harness.propose("memory/x", description="d", content="c", why="because")'


def test_what_waits_for_review_is_not_proposed_again(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    for _ in range(2):
        model = script({"code": WISH}, {"content": "ok"})
        harnessctl("run", "--model", model, "--json", "x", cwd=repo.root)
    assert "proposes the same and waits for review" in texts(logs)[0]
    assert len(repo("for-each-ref", "refs/harness/proposals").splitlines()) == 1


def test_what_was_taken_back_is_not_proposed_again_on_the_same_evidence(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    """The session that it stood on may not bring it up again; another that met the same may."""
    harnessctl("init", cwd=repo.root)
    drop = 'harness.propose("memory/x", action="delete", why="a person took it back")'
    later = ({"code": WISH}, {"code": drop}, {"code": WISH}, {"content": "ok again"})
    model = script({"code": WISH}, {"content": "ok"}, *later)
    result = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root).json()
    (made,) = result["proposals"]
    harnessctl("review", "accept", made["update"], cwd=repo.root)
    harnessctl("rollback", "--only", made["update"], cwd=repo.root)

    again = ["sessions", "resume", "--task", "again", "--model", model, "--json"]
    assert harnessctl(*again, cwd=repo.root).json()["session"] == result["session"]
    kept, _, refused = texts(logs)[-3:]
    assert "dropped, it would change nothing" in kept, "the session has had it all the time"
    words = f"update {made['update']} held the same and was taken back, on evidence from this session"
    assert words in refused
    assert repo("for-each-ref", "refs/harness/proposals") == ""

    cell = next(e["n"] for e in logs.newest() if e["type"] == "cell")
    cited = [{"session": "s1", "event": cell}]
    edit = {"action": "create", "kind": "memory", "name": "x", "description": "d", "content": "c"}
    reply = {"summary": "the same", "edits": [{**edit, "reason": "because", "evidence": cited}]}
    refiner = script({"for": "refine", "content": json.dumps(reply)})
    said = harnessctl("refine", result["session"], "--model", refiner, cwd=repo.root)
    assert words in said.out + said.err
    assert repo("for-each-ref", "refs/harness/proposals") == ""

    other = script({"code": WISH}, {"content": "ok"})
    (anew,) = harnessctl("run", "--model", other, "--json", "x", cwd=repo.root).json()["proposals"]
    assert anew["update"] != made["update"]
    assert repo("rev-parse", f"refs/harness/proposals/{anew['update']}") == anew["commit"]


def test_a_verified_claim_from_a_cell_is_a_hypothesis(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    code = 'print(harness.propose("memory/x", description="d", content="c", why="w", status="verified"))'
    model = script({"code": code}, {"content": "ok"})
    result = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root).json()
    assert "written as a hypothesis" in texts(logs)[0]
    text = repo("show", f"{result['proposals'][0]['commit']}:.harness/memory/x.md")
    assert "status: hypothesis" in text
    assert "owner: agent" in text


SKILL = "---\nname: release-audit\ndescription: Audit a release\n---\nCall `release_audit.audit()`.\n"


def add_skill(harnessctl: Run, repo: Git, folder: Path) -> None:
    """A Python-backed skill with a script and a reference."""
    files = {
        "SKILL.md": SKILL,
        "pyproject.toml": '[project]\nname = "release-audit"\nversion = "1"\n',
        "src/release_audit/__init__.py": "from .rules import RULE\ndef audit():\n    return RULE\n",
        "src/release_audit/rules.py": "RULE = 'as pinned'\n",
        "scripts/count.sh": "#!/bin/sh\necho counted\n",
        "references/y.md": "More to read.\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "scripts/count.sh").chmod(0o755)
    harnessctl("add", "skills/release-audit", folder, cwd=repo.root)
    harnessctl("pin", cwd=repo.root)


USE = """\
print(harness.show("skills/release-audit"))
print(harness.show("skills/release-audit", "references/y.md"))
place = harness.path("skills/release-audit")
!{place}/scripts/count.sh
import release_audit, stat
print(release_audit.audit(), release_audit.__file__.startswith(place))
print(oct(os.stat(place).st_mode & 0o777), oct(os.stat(place + "/SKILL.md").st_mode & 0o777))
"""
CHANGE = """\
import pathlib
place = pathlib.Path(harness.path("skills/release-audit"))
file = place / "src/release_audit/rules.py"
file.parent.chmod(0o700); file.chmod(0o600)
file.write_text("RULE = 'changed'\\n")
(file.parent / "__pycache__").mkdir(exist_ok=True)
"""
DIE = "os.kill(os.getpid(), 9)"
LOOK = "import release_audit; print(release_audit.audit())"


def test_a_skill_is_read_run_and_imported_from_a_copy(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, tmp_path: Path
) -> None:
    harnessctl("init", cwd=repo.root)
    add_skill(harnessctl, repo, tmp_path / "release-audit")
    repo.write("release_audit.py", "def audit():\n    return 'the repository'\n")
    harnessctl("run", "--model", script({"code": USE}, {"content": "ok"}), "x", cwd=repo.root)
    (text,) = texts(logs)
    assert "other files: pyproject.toml, references/y.md, scripts/count.sh, src/" in text
    assert "[Python-backed: import release_audit]" in text
    assert "More to read." in text
    assert "counted" in text
    assert "as pinned True" in text
    assert "0o555 0o444" in text
    assert not list(logs.state.glob("harnessctl/*/sessions/*/skills"))


def test_a_changed_copy_is_said_and_never_imported_by_the_next_kernel_or_session(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, tmp_path: Path
) -> None:
    harnessctl("init", cwd=repo.root)
    add_skill(harnessctl, repo, tmp_path / "release-audit")
    model = script({"code": CHANGE}, {"code": DIE}, {"code": LOOK}, {"code": CHANGE}, {"content": "ok"})
    done = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root)
    assert texts(logs)[2].count("as pinned") == 1
    files = ["src/release_audit/rules.py"]
    found = [(copy["entry"], copy["files"]) for copy in done.json()["changed_skills"]]
    assert found == [("skills/release-audit", files)] * 2
    said = [e["data"]["text"] for e in logs.newest() if e["data"].get("what") == "skill_copy"]
    assert len(said) == 2
    assert "skills/release-audit was changed during the session (src/release_audit/rules.py)" in said[0]
    requests = [e["data"]["append"] for e in logs.newest() if e["type"] == "request"]
    assert said[0] in json.dumps(requests)
    harnessctl("run", "--model", script({"code": LOOK}, {"content": "ok"}), "x", cwd=repo.root)
    assert "as pinned" in texts(logs)[0]


def test_the_user_is_told_of_a_changed_copy(
    harnessctl: Run, script: Script, repo: Git, tmp_path: Path
) -> None:
    harnessctl("init", cwd=repo.root)
    add_skill(harnessctl, repo, tmp_path / "release-audit")
    done = harnessctl("run", "--model", script({"code": CHANGE}, {"content": "ok"}), "x", cwd=repo.root)
    assert "the copy of skills/release-audit was changed: src/release_audit/rules.py" in done.err


WISH = 'harness.propose("memory/x", description="d", content="c", why="because")'


KILL_HOST = """\
import psutil, time
next(p for p in psutil.Process().parents() if "run" in p.cmdline()).kill()
time.sleep(30)
"""


def proposals(repo: Git) -> list[str]:
    """Refs of open proposals."""
    return repo("for-each-ref", "--format=%(refname)", "refs/harness/proposals").splitlines()


def test_a_crash_does_not_lose_a_wish(harnessctl: Run, script: Script, repo: Git) -> None:
    """The host is killed in the cell after it: the next run makes the proposal, and no second one."""
    harnessctl("init", cwd=repo.root)
    model = script({"code": WISH}, {"code": KILL_HOST}, {"content": "never"})
    harnessctl("run", "--model", model, "x", cwd=repo.root, code=-9)
    assert proposals(repo) == []
    done = harnessctl("run", "--model", script({"content": "ok"}), "y", cwd=repo.root)
    assert "what it wished for memory/x is now a proposal: harnessctl review show 01" in done.err
    assert len(proposals(repo)) == 1
    done = harnessctl("run", "--model", script({"content": "ok"}), "y", cwd=repo.root)
    assert "wished" not in done.err
    assert len(proposals(repo)) == 1


def test_a_resumed_session_still_sees_its_wish_and_proposes_it_once(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    look = "print(harness.list())"
    model = script({"code": WISH}, {"code": KILL_HOST}, {"code": look}, {"content": "ok"})
    harnessctl("run", "--model", model, "x", cwd=repo.root, code=-9)
    session = logs.newest()[0]["data"]["session"]
    harnessctl("sessions", "resume", session, cwd=repo.root)
    assert "memory/x (proposed: create): d" in texts(logs)[-1]
    assert len(proposals(repo)) == 1


def test_without_an_identity_a_wish_waits(harnessctl: Run, script: Script, repo: Git, home: Path) -> None:
    harnessctl("init", cwd=repo.root)
    config = (home / ".gitconfig").read_text()
    (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    done = harnessctl("run", "--model", script({"code": WISH}, {"content": "ok"}), "x", cwd=repo.root)
    assert "not proposed: memory/x" in done.err
    (home / ".gitconfig").write_text(config)
    harnessctl("run", "--model", script({"content": "ok"}), "y", cwd=repo.root)
    assert len(proposals(repo)) == 1
