"""What a run tells the model of AGENTS.md and CLAUDE.md, through the installed command."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git


def test_a_run_reads_them_and_its_header_says_so(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    repo.write("AGENTS.md", "Use make.\n")
    repo.write("CLAUDE.md", "Be brief. @notes/style.md @.env\n")
    repo.write(".env", "KEY=material\n")
    repo.commit(
        "guidance", **{"notes/style.md": "No jargon.\n", "lib/AGENTS.md": "Deep.\n", ".gitignore": ".env\n"}
    )
    harnessctl("run", "--model", script({"content": "ok"}), "x", cwd=repo.root)
    said = logs.first_request()
    assert all(words in said for words in ("Use make.", "Be brief.", "No jargon.", "read: lib/AGENTS.md"))
    assert not any(words in said for words in ("material", "Deep."))
    header = logs.newest()[0]["data"]
    assert [(f["path"], f["cut"], f["by"]) for f in header["repository_files"]] == [
        ("AGENTS.md", False, None),
        ("CLAUDE.md", False, None),
        ("notes/style.md", False, "CLAUDE.md"),
    ]
    assert header["repository_files_left_out"] == [".env: git does not track it"]


def test_they_can_be_left_unread(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    repo.write("AGENTS.md", "Use make.\n")
    model = script({"content": "ok"})
    harnessctl("run", "--model", model, "--no-repository-files", "x", cwd=repo.root)
    assert "Use make." not in logs.first_request()
    assert logs.newest()[0]["data"]["repository_files"] == []
    harnessctl("run", "--model", model, "x", cwd=repo.root, env={"HARNESSCTL_PROMPT_FILES_TOKENS": "0"})
    assert "Use make." not in logs.first_request()
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    assert "Use make." in logs.first_request()


@pytest.mark.kernel
def test_left_unread_they_stay_so_after_a_resume(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    repo.write("AGENTS.md", "Use make.\n")
    model = script(
        {"content": "ok"},
        {"content": "ask", "code": "print(await rlm('look', name='helper'))"},
        {"for": "helper", "content": "seen"},
        {"content": "Done."},
    )
    harnessctl("run", "--model", model, "--no-repository-files", "x", cwd=repo.root)
    assert logs.newest()[0]["data"]["repository_files_tokens"] == 0
    session = logs.newest()[0]["data"]["session"]
    harnessctl("sessions", "resume", session, "--task", "more", cwd=repo.root)
    child = logs.newest()  # the youngest session
    assert child[0]["data"]["name"] == "helper"
    assert "Use make." not in logs.first_request()
