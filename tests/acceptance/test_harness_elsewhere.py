"""``harness`` in cells where things lie differently: a sandbox, in-tree mode, another revision, a child."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.acceptance.test_harness_in_cells import USE, WISH, add_skill, proposals, texts
from tests.conftest import Git

pytestmark = pytest.mark.kernel


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_in_a_sandbox(harnessctl: Run, script: Script, logs: Logs, repo: Git, tmp_path: Path) -> None:
    harnessctl("init", cwd=repo.root)
    add_skill(harnessctl, repo, tmp_path / "release-audit")
    write = "open(harness.path('skills/release-audit') + '/SKILL.md', 'w')"
    model = script({"code": USE}, {"code": WISH}, {"code": write}, {"content": "ok"})
    result = harnessctl("run", "--model", model, "--sandbox", "--json", "x", cwd=repo.root).json()
    used, wished, wrote = texts(logs)
    assert "counted" in used
    assert "as pinned True" in used
    assert "Proposed: create memory/x." in wished
    assert "OSError" in wrote or "PermissionError" in wrote
    assert result["changed_skills"] == []
    assert (len(result["proposals"]), result["moved"]) == (1, [])
    assert len(proposals(repo)) == 1


def test_in_tree(harnessctl: Run, script: Script, repo: Git) -> None:
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.commit("a harness")
    model = script({"code": WISH}, {"content": "ok"})
    result = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root).json()
    (made,) = result["proposals"]
    assert made["refused"] == ""
    assert repo("rev-parse", f"{made['commit']}~1") == repo("rev-parse", "HEAD")
    assert result["moved"] == []
    assert repo("status", "--porcelain") == ""


def test_without_a_harness_the_cell_hears_so(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    model = script({"code": WISH}, {"content": "ok"})
    result = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root).json()
    assert "has no harness" in texts(logs)[0]
    assert result["proposals"] == []


def test_at_another_revision_the_proposal_stands_on_it(harnessctl: Run, script: Script, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    old = repo("rev-parse", "harness")
    harnessctl("add", "memory/later", cwd=repo.root, input="---\ndescription: later\n---\nx\n")
    model = script({"code": WISH}, {"content": "ok"})
    result = harnessctl("run", "--model", model, "--at", old, "--json", "x", cwd=repo.root).json()
    (made,) = result["proposals"]
    assert repo("rev-parse", f"{made['commit']}~1") == old
    harnessctl("review", "accept", made["update"], cwd=repo.root)
    names = repo("ls-tree", "-r", "--name-only", "harness", ".harness/memory/").split()
    assert names == [".harness/memory/later.md", ".harness/memory/x.md"]


CHILD = """\
answer = await rlm("learn something", name="bob")
print(answer)
"""


def test_what_a_child_proposes_stands_in_its_parents_result(
    harnessctl: Run, script: Script, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    child = [{"for": "bob", "code": WISH}, {"for": "bob", "content": "learned"}]
    model = script({"code": CHILD}, {"content": "ok"}, *child)
    result = harnessctl("run", "--model", model, "--json", "x", cwd=repo.root).json()
    (made,) = result["proposals"]
    assert (made["entry"], made["refused"]) == ("memory/x", "")
    assert made["session"] != result["session"]
    assert result["moved"] == []
    record = json.loads(harnessctl("show", made["update"], "--json", cwd=repo.root).out)
    assert made["session"] in json.dumps(record)
