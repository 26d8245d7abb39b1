"""Cases met in the field, told to the installed command; each test carries the case's id."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harnessctl.domain.ids import new_ulid, record_path
from tests.acceptance.conftest import Run
from tests.conftest import Git
from tests.fakes.harness import Make

GOOD = "---\ndescription: How to build\n---\nRun make.\n"


def rules(harnessctl: Run, git: Git, *args: str, code: int) -> dict[str, str]:
    """Rule -> path of what a check finds."""
    found = harnessctl("check", *args, "--json", cwd=git.root, code=code).json()
    return {finding["rule"]: finding["path"] for finding in found}


def commit(git: Git) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "commit", "-qm", "x"], cwd=git.root, capture_output=True, text=True, check=False
    )


@pytest.fixture
def in_tree(repo: Git) -> Git:
    """A repository with one good entry beside the code."""
    repo.commit("harness", **{".harness/memory/good.md": GOOD})
    return repo


def listed(harnessctl: Run, git: Git, code: int = 0) -> dict[str, str]:
    found = harnessctl("list", "--json", cwd=git.root, code=code).json()
    return {entry["id"]: entry["description"] for entry in found}


def test_files_01_crlf_reads_the_same_everywhere(harnessctl: Run, in_tree: Git) -> None:
    data = b"---\r\nname: crlf-skill\r\ndescription: d\r\n---\r\nBody\r\n"
    in_tree.write(".harness/skills/crlf-skill/SKILL.md", data)
    assert set(rules(harnessctl, in_tree, code=0)) == {"HRN203"}
    in_tree.commit("crlf")
    assert set(rules(harnessctl, in_tree, "--rev", "HEAD", code=0)) == {"HRN203"}
    assert listed(harnessctl, in_tree)["skills/crlf-skill"] == "d"


def test_files_02_byte_order_mark(harnessctl: Run, in_tree: Git) -> None:
    data = b"\xef\xbb\xbf---\nname: bom-skill\ndescription: d\n---\nB\n"
    in_tree.write(".harness/skills/bom-skill/SKILL.md", data)
    assert set(rules(harnessctl, in_tree, code=0)) == {"HRN202"}
    in_tree.commit("bom")
    assert listed(harnessctl, in_tree)["skills/bom-skill"] == "d"


def test_files_03_unquoted_colon(harnessctl: Run, in_tree: Git) -> None:
    text = "---\nname: repro\ndescription: This is a description with a colon: in the middle.\n---\n"
    in_tree.write(".harness/skills/repro/SKILL.md", text)
    done = harnessctl("check", cwd=in_tree.root, code=1)
    assert ".harness/skills/repro/SKILL.md:3:48: error HRN103" in done.out
    assert 'hint: quote the value: description: "…"' in done.out
    in_tree.commit("bad")
    assert set(listed(harnessctl, in_tree, code=1)) == {"memory/good"}, (
        "the rest is shown, and the exit says so"
    )


def test_files_05_a_byte_that_is_not_utf8(harnessctl: Run, in_tree: Git) -> None:
    in_tree.write(".harness/memory/pref.md", b"User prefers caf\xe9 mode")
    done = harnessctl("check", cwd=in_tree.root, code=1)
    assert ".harness/memory/pref.md:1:17: error HRN101: not UTF-8: byte 0xe9 at byte offset 16" in done.out
    in_tree.commit("bad")
    assert set(listed(harnessctl, in_tree, code=1)) == {"memory/good"}


def test_files_07_skill_md_in_lower_case(harnessctl: Run, in_tree: Git) -> None:
    """Read from git's names: a file system that folds case must not decide."""
    blob = in_tree("hash-object", "-w", "--stdin", input=b"---\nname: x\ndescription: d\n---\n")
    in_tree("update-index", "--add", "--cacheinfo", f"100644,{blob},.harness/skills/x/skill.md")
    assert rules(harnessctl, in_tree, "--staged", code=1) == {"HRN113": ".harness/skills/x/skill.md"}
    in_tree("update-index", "--add", "--cacheinfo", f"100644,{blob},.harness/skills/x/SKILL.md")
    done = harnessctl("check", "--staged", cwd=in_tree.root, code=1)
    assert "differ only by case" in done.out


def test_files_09_what_is_too_big_is_refused_before_it_is_stored(
    harnessctl: Run, in_tree: Git, make_repo: Make
) -> None:
    """An entry of 50 MB and a record whose one line takes 2 MiB: named in every reader, never written."""
    big = GOOD + "x" * 50_000_000
    in_tree.write(".harness/memory/big.md", big)
    record = f".harness/{record_path(new_ulid())}"
    in_tree.write(record, json.dumps({"schema": 1, "summary": "s" * 2**21}))
    found = harnessctl("check", "--json", cwd=in_tree.root, code=1).json()
    assert {f["path"] for f in found if f["rule"] == "HRN111"} == {".harness/memory/big.md", record}
    branch = make_repo("branch")
    harnessctl("init", cwd=branch.root)
    objects = branch("count-objects")
    refused = harnessctl("add", "memory/big", "-", cwd=branch.root, input=big, code=1)
    assert "memory/big.md" in refused.err
    assert branch("count-objects") == objects


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_git_01_hooks_path(harnessctl: Run, in_tree: Git, tmp_path: Path, scope: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    in_tree("config", scope, "core.hooksPath", str(elsewhere))
    done = harnessctl("hooks", "install", cwd=in_tree.root, code=1)
    assert "core.hooksPath" in done.err
    assert "harnessctl check --staged" in done.err
    assert "CI" in done.err
    assert harnessctl("hooks", "status", "--json", cwd=in_tree.root, code=1).json()["installed"] is False
    assert not elsewhere.exists()
    assert not (in_tree.root / ".git/hooks/pre-commit").exists()
    in_tree.write(".harness/memory/bad.md", "broken")
    in_tree("add", "-A")
    assert commit(in_tree).returncode == 0, "nothing stops it, as was said"
    in_tree("reset", "-q", "--soft", "HEAD^")

    in_tree("config", scope, "core.hooksPath", "")
    assert "empty value" in harnessctl("hooks", "install", cwd=in_tree.root, code=1).err
    for setting, asked in ((".git/hooks", []), (str(elsewhere), ["--into-hooks-path"])):
        in_tree("config", scope, "core.hooksPath", setting)
        assert "--no-verify" in harnessctl("hooks", "install", *asked, cwd=in_tree.root).err
        where = in_tree.root / in_tree("rev-parse", "--git-path", "hooks")
        assert (where / "pre-commit").exists()
        stopped = commit(in_tree)
        assert stopped.returncode == 1
        assert ".harness/memory/bad.md" in stopped.stdout + stopped.stderr


def test_git_08_a_linked_work_tree(harnessctl: Run, in_tree: Git, tmp_path: Path) -> None:
    in_tree("worktree", "add", "-q", str(tmp_path / "linked"))
    harnessctl("hooks", "install", cwd=tmp_path / "linked")
    assert harnessctl("hooks", "status", "--json", cwd=in_tree.root).json()["installed"] is True
    (tmp_path / "linked/.harness/memory/good.md").write_text("broken")
    harnessctl("check", cwd=tmp_path / "linked", code=1)


def test_git_12_a_nested_repository(harnessctl: Run, in_tree: Git) -> None:
    inner = in_tree.root / ".harness/skills/x"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=inner, check=True)
    without_commit = harnessctl("check", cwd=in_tree.root, code=1)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=inner, check=True)
    in_tree("-c", "advice.addEmbeddedRepo=false", "add", "-A")
    staged = harnessctl("check", "--staged", cwd=in_tree.root, code=1)
    assert staged.out == without_commit.out
    assert ".harness/skills/x: error HRN110: is a nested repository (gitlink)" in staged.out


def test_security_01_a_token_never_reaches_an_object(harnessctl: Run, in_tree: Git) -> None:
    harnessctl("hooks", "install", cwd=in_tree.root)
    secrets = ["ghp_" + "a1B2" * 9, "sk-" + "Ab1" * 16, "AKIA" + "ABCDEFGH23456789"]
    pem = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEow" * 10 + "\n-----END RSA " + "PRIVATE KEY-----"
    before = in_tree("rev-parse", "HEAD")
    for secret in [*secrets, pem]:
        in_tree.write(".harness/memory/good.md", f"{GOOD}env | grep -i token\nTOKEN {secret}\n")
        in_tree("add", "-A")
        done = commit(in_tree)
        assert done.returncode == 1
        assert ".harness/memory/good.md:6:7: error HRN206" in done.stdout + done.stderr
        for form in ("json", "github", "sarif", "gitlab"):
            printed = harnessctl("check", "--staged", "--format", form, cwd=in_tree.root, code=1)
            for part in secret.split("\n"):
                assert part not in printed.out + printed.err + done.stdout + done.stderr
    assert in_tree("rev-parse", "HEAD") == before


def test_an_allowed_digest_lets_a_harmless_string_pass(harnessctl: Run, in_tree: Git) -> None:
    in_tree.write(".harness/memory/good.md", f"{GOOD}ghp_{'a' * 36}\n")
    (finding,) = harnessctl("check", "--json", cwd=in_tree.root, code=1).json()
    digest = finding["hint"].rpartition(" ")[2]
    in_tree.write(".harness/harness.toml", f"[secrets]\nallow = {json.dumps([digest])}\n")
    harnessctl("check", cwd=in_tree.root)
