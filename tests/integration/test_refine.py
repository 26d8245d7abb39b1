"""Refining over a real repository: real writer, real secrets scanner, scripted model."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pygit2
import pytest
from pygit2.enums import ConfigLevel

from harnessctl.commands.refine import RefineOutcome, refine
from harnessctl.commands.rollback import rollback
from harnessctl.commands.sessions import find_session
from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError, RefusedError, UsageError
from harnessctl.domain.trajectory import Trajectory
from harnessctl.layers.l3_durable.rules.secrets import scan
from harnessctl.layers.l3_durable.store import HarnessStore, open_store
from harnessctl.models.scripted import open_script
from harnessctl.refine import propose
from harnessctl.refine.redact import local_redactor
from harnessctl.refine.secrecy import Secrecy
from tests.conftest import Git
from tests.fakes.history import Hand
from tests.fakes.refining import edit, reply
from tests.fakes.trajectories import OUTPUT, SESSION, build, session, write

BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
SECRETS = {
    "GitHub token": "ghp_" + "aB3dE6gH9" * 4,
    "API key": "sk-" + "proj9abcDEF" * 4,
    "AWS key": "AKIA" + "Q7ZX2MNB4VCL5KJH",
    "private key": f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----",
}


@pytest.fixture(autouse=True)
def git_home(home: Path) -> None:
    """libgit2 looks up the home folder once a process; tests change it."""
    pygit2.settings.search_path[ConfigLevel.GLOBAL] = str(home)
    pygit2.settings.search_path[ConfigLevel.XDG] = str(home / "config/git")
    pygit2.settings.search_path[ConfigLevel.SYSTEM] = str(home / "nowhere")


@pytest.fixture
def store(repo: Git) -> HarnessStore:
    """A repository with a harness that a person started."""
    found = open_store(repo.root, read_environment())
    found.initialise()
    return open_store(repo.root, read_environment())


Refine = Callable[..., Any]


@pytest.fixture
def run(store: HarnessStore, tmp_path: Path) -> Refine:
    """``await run(reply, …, trajectory=…)``: refine with a model that plays the replies."""

    async def call(*replies: str, trajectory: Trajectory | None = None) -> RefineOutcome:
        script = tmp_path / "script.jsonl"
        lines = [json.dumps({"for": "refine", "content": text}) for text in replies]
        script.write_text("\n".join(lines) + "\n")
        sessions = store.state_dir / "sessions"
        if not (sessions / SESSION).exists():
            write(trajectory or session(), sessions)
        return await refine(
            find_session(store.state_dir, ""),
            harness=open_store(store.root, read_environment()),
            client=open_script(script),
            secrecy=Secrecy(scan, store.checks.allow),
            redactor=local_redactor(read_environment(), "engine.example.org"),
            keep_in=store.state_dir / "refine",
        )

    return call


def proposals(git: Git) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/harness/proposals").splitlines()


def objects(git: Git) -> bytes:
    """Every object of the repository, reachable or not."""
    return subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=git.root, capture_output=True, check=True
    ).stdout


def written(folder: Path, *, but: Path) -> bytes:
    """Every file below ``folder`` except those below ``but``."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_relative_to(but))
    return b"".join(p.read_bytes() for p in files)


async def test_a_proposal_is_a_ref_whose_record_git_alone_can_read(run: Refine, repo: Git) -> None:
    landed = repo("rev-parse", "refs/heads/harness")
    outcome = await run(reply(edit()))
    update = outcome.record.id
    assert outcome.to_json()["entries"] == ["memory/count-files"]
    assert proposals(repo) == [f"refs/harness/proposals/{update}"]
    assert repo("rev-parse", "refs/heads/harness") == landed
    assert repo("rev-parse", f"refs/harness/proposals/{update}^") == landed
    (path,) = [
        p for p in repo("ls-tree", "-r", "--name-only", outcome.commit).splitlines() if p.endswith(".json")
    ]
    record = json.loads(repo("cat-file", "blob", f"{outcome.commit}:{path}"))
    (evidence,) = record["evidence"]
    assert evidence["session"] == SESSION
    assert evidence["head"] == {"n": 8, "hash": session().events[-1].hash}
    assert evidence["events"] == [OUTPUT]
    assert evidence["quotes"] == ["tracked: app.py"]
    assert evidence["excerpt"] == [{"n": OUTPUT, "text": "tracked: app.py\n", "cut": False}]
    assert record["risk"] == {"level": "low", "reasons": []}
    assert record["actor"]["kind"] == "agent"
    text = repo("cat-file", "blob", f"{outcome.commit}:.harness/memory/count-files.md")
    assert "owner: agent" in text
    assert "origin: agent" in text
    author = repo("log", "-1", "--format=%an|%cn|%(trailers:key=Harness-Session,valueonly)", outcome.commit)
    assert author.split("|")[:2] == ["harnessctl agent", "Ada Reviewer"]
    assert SESSION in author


async def test_the_user_is_not_named_in_the_record(run: Refine, repo: Git, home: Path) -> None:
    text = f"tracked: app.py in {home}/code on engine\n"
    outcome = await run(reply(edit()), trajectory=session(text))
    data = objects(repo)
    assert b"tracked: app.py in ~/code on [host]" in data
    assert str(home).encode() not in data
    assert outcome.record is not None


async def test_no_edits_write_nothing(run: Refine, repo: Git) -> None:
    before = objects(repo)
    outcome = await run(reply())
    assert outcome.record is None
    assert proposals(repo) == []
    assert objects(repo) == before


@pytest.mark.parametrize(
    "bad",
    [
        reply(edit(evidence=None, events=[99])),
        reply(edit(evidence=[{"session": "s1", "event": OUTPUT, "quote": "tracked: nothing"}])),
        reply(edit(kind="skill", name="x", files={"scripts/../../../memory/y.md": "z"})),
    ],
    ids=["missing event", "wrong quote", "path"],
)
async def test_an_ill_founded_reply_is_mended_once_or_kept(
    run: Refine, repo: Git, store: HarnessStore, bad: str
) -> None:
    with pytest.raises(HarnessError, match="also not after one repair") as caught:
        await run(bad, bad)
    assert caught.value.id == "bad_refiner_reply"
    (kept,) = (store.state_dir / "refine").iterdir()
    assert str(kept) in caught.value.hint
    assert json.loads(kept.read_text())["attempts"][1]["reply"] == bad
    assert proposals(repo) == []
    await run(bad, reply(edit()))
    assert len(proposals(repo)) == 1


async def test_what_the_writer_refuses_is_mended(run: Refine, repo: Git) -> None:
    bad = reply(edit(kind="skill", name="x", files={f"references/{'a' * 3000}.md": "too long a path"}))
    outcome = await run(bad, reply(edit()))
    assert outcome.usage.calls == 2
    assert [change.id for change in outcome.record.entries] == ["memory/count-files"]
    assert len(proposals(repo)) == 1


async def test_the_same_is_not_proposed_twice(run: Refine, repo: Git) -> None:
    first = await run(reply(edit()))
    again = await run(reply(edit()))
    assert again.record is None
    assert f"{first.record.id} proposes the same" in again.notes[0]


async def test_a_rejected_update_needs_new_evidence(run: Refine, repo: Git, store: HarnessStore) -> None:
    first = await run(reply(edit()))
    open_store(store.root, read_environment()).reject(first.record.id, "no")
    again = await run(reply(edit()))
    assert again.record is None
    assert "rejected" in again.notes[0]


async def test_without_identity_nothing_is_asked_or_written(
    run: Refine, repo: Git, home: Path, store: HarnessStore
) -> None:
    (home / ".gitconfig").write_text("")
    before = objects(repo)
    with pytest.raises(UsageError) as caught:
        await run()
    assert caught.value.id == "no_identity"
    assert objects(repo) == before


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("cited", [[OUTPUT], [6], [1, OUTPUT]])
async def test_a_secret_in_a_cited_event_is_in_nothing_written_afterwards(
    run: Refine, repo: Git, store: HarnessStore, capfd: Any, kind: str, cited: list[int]
) -> None:
    value = SECRETS[kind]
    trajectory = session(f"HOME=/x\nGH={value}\n")
    logs = store.state_dir / "sessions"
    with pytest.raises(RefusedError) as caught:
        await run(reply(edit(evidence=None, events=cited)), trajectory=trajectory)
    error = caught.value
    assert f"{SESSION}#{cited[-1]}" in error.message
    assert kind in error.message
    assert error.exit_code == 6
    out, err = capfd.readouterr()
    said = f"{error.message}{error.hint}{error!r}{out}{err}".encode()
    for part in value.split("\n"):
        if not part.startswith("-----"):
            assert part.encode() not in objects(repo) + written(store.state_dir, but=logs) + said
    assert proposals(repo) == []


@pytest.mark.parametrize("kind", SECRETS)
async def test_a_failed_reply_that_holds_a_secret_is_kept_masked(
    run: Refine, store: HarnessStore, kind: str
) -> None:
    value = SECRETS[kind]
    with pytest.raises(HarnessError) as caught:
        await run(f"It printed {value}.", json.dumps({"edits": [value]}))
    kept = written(store.state_dir / "refine", but=store.state_dir / "none").decode()
    inner = value.split("\n")[len(value.split("\n")) // 2]
    assert inner not in kept + caught.value.message + caught.value.hint
    assert kept.count("[secret") == 2


async def test_an_allowed_value_passes(repo: Git, store: HarnessStore, tmp_path: Path) -> None:
    value = SECRETS["GitHub token"]
    digest = scan(value)[0].digest
    found = open_store(repo.root, read_environment(), allow=[digest])
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"for": "refine", "content": reply(edit())}) + "\n")
    write(session(f"tracked: app.py {value}\n"), store.state_dir / "sessions")
    outcome = await refine(
        store.state_dir / "sessions" / SESSION,
        harness=found,
        client=open_script(script),
        secrecy=Secrecy(scan, found.checks.allow),
        redactor=local_redactor(read_environment(), ""),
        keep_in=store.state_dir / "refine",
    )
    assert outcome.record is not None


async def test_without_its_own_guard_the_writer_still_refuses(
    run: Refine, repo: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two guards in a row: the refiner's names the event, the writer's keeps objects clean."""
    monkeypatch.setattr(propose, "refuse_secrets", lambda *_: None)
    value = SECRETS["GitHub token"]
    with pytest.raises(RefusedError) as caught:
        await run(reply(edit(evidence=None, events=[OUTPUT])), trajectory=session(f"T={value}\n"))
    assert SESSION not in caught.value.message
    assert value.encode() not in objects(repo)


async def test_without_both_guards_the_value_would_be_in_an_object(
    run: Refine, repo: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the search above would find a value that is there."""
    from harnessctl.layers.l3_durable.checking.validation import Checks

    monkeypatch.setattr(propose, "refuse_secrets", lambda *_: None)
    monkeypatch.setattr(Checks, "refuse_secrets", lambda *_: None)
    monkeypatch.setattr(Checks, "lint", lambda *_: ())  # which knows secrets too
    value = SECRETS["GitHub token"]
    await run(reply(edit(evidence=None, events=[OUTPUT])), trajectory=session(f"T={value}\n"))
    assert value.encode() in objects(repo)


@pytest.mark.parametrize("how", ["rollback", "only", "revert"])
async def test_what_was_taken_back_needs_new_evidence(
    run: Refine, repo: Git, store: HarnessStore, tmp_path: Path, how: str
) -> None:
    base = store.landed_tip()
    first = await run(reply(edit()))
    landed = open_store(store.root, read_environment()).accept(first.record.id)
    if how == "revert":
        with Hand(repo, tmp_path / "hand") as hand:
            hand("revert", "--no-edit", landed.commit)
    else:
        rev = base if how == "rollback" else first.record.id
        rollback(open_store(store.root, read_environment()), rev, only=how == "only")
    again = await run(reply(edit()))
    assert again.record is None
    assert "taken back" in again.notes[0]
    other = await run(reply(edit(content="Use `git ls-files -z`.")))
    assert other.record is not None, "other content may be proposed"
    shutil.rmtree(store.state_dir / "sessions")
    name = "01JDXYZ0000000000000000009"
    steps = [(str(e.type), {**e.data, **({"session": name} if e.n == 0 else {})}) for e in session().events]
    new = build(steps, name)
    fresh = await run(reply(edit()), trajectory=new)
    assert fresh.record is not None, "and the same, on evidence from another session"
