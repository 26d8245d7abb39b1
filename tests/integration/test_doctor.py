"""``doctor``: it finds each thing planted for it, changes nothing unasked, and puts it right when asked."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessctl.commands.doctor import Health, doctor
from harnessctl.commands.pin import pin
from harnessctl.commands.status import status
from harnessctl.config import KERNEL_MARK
from harnessctl.domain.errors import HarnessError, RefusedError
from harnessctl.domain.ids import new_ulid
from harnessctl.layers.l2_execution.registration import Registration, start_time
from harnessctl.layers.l2_execution.sockets import short_folder
from harnessctl.layers.l3_durable.files.lock import render_lock
from harnessctl.layers.l3_durable.pins.pinning import lock_for
from harnessctl.layers.l3_durable.places.names import LIVE, PROPOSALS, RESCUE
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.log import read_trajectory
from harnessctl.rlm.recorder import Recorder
from tests.conftest import Git
from tests.fakes.harness import add, started, store_of
from tests.fakes.history import by_hand, land, learned, log, log_file


def ids(found: Health) -> list[str]:
    return [one.repair.id for one in found.found]


def check_and_fix(git: Git, wanted: str) -> Health:
    """Found, not changed, fixed when asked, gone."""
    refs = git("for-each-ref")
    assert ids(doctor(store_of(git))) == [wanted]
    assert ids(doctor(store_of(git))) == [wanted], "looking changes nothing"
    assert git("for-each-ref") == refs
    done = doctor(store_of(git), fix=True)
    assert not done.ill, done
    assert ids(doctor(store_of(git))) == []
    return done


@pytest.fixture
def store(repo: Git) -> HarnessStore:
    return started(repo)


def test_nothing_is_wrong_in_a_fresh_harness(repo: Git, store: HarnessStore) -> None:
    land(store, "a", "one")
    learned(store, "b", "waits")
    assert doctor(store_of(repo)).found == ()
    assert not doctor(store_of(repo), fix=True).ill


def test_a_pin_that_does_not_load_is_named(repo: Git, store: HarnessStore) -> None:
    add(store, "good", "text")
    by_hand(repo, ".harness/memory/bad.md", "---\nnonsense: [\n---\nx\n")
    store_of(repo).move_pin()
    (one,) = doctor(store_of(repo)).found
    assert one.repair.id == "broken_entry"
    assert ".harness/memory/bad.md" in one.repair.what
    assert "HRN103" in one.repair.what
    assert "harnessctl edit" in one.repair.remedy


def test_a_stale_lock_file_and_not_a_fresh_one(repo: Git, store: HarnessStore) -> None:
    lock = repo.root / ".git/refs/heads/harness.lock"
    lock.write_bytes(b"")
    assert ids(doctor(store)) == [], "somebody may be at work"
    os.utime(lock, (time.time() - 300,) * 2)
    check_and_fix(repo, "stale_lock")
    add(store_of(repo), "a", "lands again")


@pytest.mark.parametrize("name", ["refs/heads/harness", "packed-refs"])
def test_a_young_lock_file_is_named_and_left(repo: Git, store: HarnessStore, name: str) -> None:
    lock = repo.root / f".git/{name}.lock"
    lock.write_bytes(b"")
    os.utime(lock, (time.time() - 20,) * 2)
    found = doctor(store, fix=True)
    assert (ids(found), found.ill) == (["stale_lock"], True)
    assert re.search(r" [2-5]\d seconds old", found.found[0].repair.what)
    assert lock.exists()


def test_a_lock_file_from_the_future_is_said_so_and_removed(repo: Git, store: HarnessStore) -> None:
    """The clock was set back: it would take two hours to grow old."""
    lock = repo.root / ".git/refs/heads/harness.lock"
    lock.write_bytes(b"")
    os.utime(lock, (time.time() + 20,) * 2)
    found = doctor(store, fix=True)
    assert "seconds in the future" in found.found[0].repair.what
    assert lock.exists(), "a clock that is a little off: somebody may be at work"
    os.utime(lock, (time.time() + 7200,) * 2)
    said = check_and_fix(repo, "stale_lock").found[0].repair.what
    assert "has a time 120 minutes in the future" in said
    assert not lock.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody says who has a file open")
def test_a_lock_file_that_a_process_has_open_is_left(repo: Git, store: HarnessStore) -> None:
    lock = repo.root / ".git/refs/heads/harness.lock"
    with lock.open("wb"):
        os.utime(lock, (time.time() - 300,) * 2)
        found = doctor(store, fix=True)
        assert (ids(found), found.ill) == (["stale_lock"], True)
        assert f"process {os.getpid()} has it open" in found.found[0].repair.what
        assert lock.exists()
    check_and_fix(repo, "stale_lock")


def test_a_decided_proposals_ref_is_removed(repo: Git, store: HarnessStore) -> None:
    waiting = learned(store, "a", "one")
    store.accept(waiting.id)
    repo("update-ref", PROPOSALS + waiting.id, waiting.commit)
    assert not doctor(store_of(repo)).ill, "merged elsewhere, it looks like that too"
    check_and_fix(repo, "left_over_proposal")
    assert not repo("for-each-ref", "refs/harness")
    rejected = learned(store_of(repo), "b", "two")
    store_of(repo).reject(rejected.id)
    repo("update-ref", PROPOSALS + rejected.id, rejected.commit)
    check_and_fix(repo, "left_over_proposal")


def test_what_a_removal_would_lose_is_rescued(repo: Git, store: HarnessStore) -> None:
    waiting = learned(store, "a", "one")
    store.accept(waiting.id)
    other = repo("commit-tree", "-m", "x", "-p", waiting.base, f"{waiting.base}^{{tree}}")
    repo("update-ref", PROPOSALS + waiting.id, other)
    check_and_fix(repo, "bad_proposal")
    assert repo("rev-parse", RESCUE + waiting.id) == other


def test_live_refs_of_sessions_that_do_not_run(repo: Git, store: HarnessStore) -> None:
    landed = land(store, "a", "one")
    repo("update-ref", f"{LIVE}{new_ulid()}", landed.commit)
    running = new_ulid()
    recorder = Recorder.create(store.state_dir / "sessions" / running, SystemClock())
    repo("update-ref", f"{LIVE}{running}", landed.commit)
    try:
        check_and_fix(repo, "left_over_live")
        assert repo("for-each-ref", "--format=%(refname)", LIVE) == f"{LIVE}{running}"
    finally:
        recorder.close()


def test_a_damaged_log_is_named_and_left_alone(repo: Git, store: HarnessStore) -> None:
    path = log_file(store, log(store))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    found = doctor(store_of(repo), fix=True)
    assert (ids(found), found.ill) == (["damaged_log"], True)
    assert path.read_bytes() == bytes(data)
    assert str(path) in found.found[0].repair.what


def test_a_log_without_a_header_is_for_a_person(repo: Git, store: HarnessStore) -> None:
    path = log_file(store, log(store))
    path.write_bytes(b"")
    assert ids(doctor(store_of(repo))) == []  # made a moment ago, perhaps by a run that begins
    os.utime(path, (1, 1))
    recorder = Recorder.open(path.parent, SystemClock())
    assert ids(doctor(store_of(repo))) == []
    recorder.close()
    found = doctor(store_of(repo), fix=True)
    assert (ids(found), found.ill, path.read_bytes()) == (["no_header"], True, b"")
    path.write_bytes(b"garbage\n")
    found = doctor(store_of(repo))
    assert ids(found) == ["damaged_log"]
    assert found.found[0].repair.what.endswith("not a record; none of it can be read")


def test_a_torn_tail_is_set_aside(repo: Git, store: HarnessStore) -> None:
    path = log_file(store, log(store))
    with path.open("ab") as file:
        file.write(b'{"data": {"text": "to')
    check_and_fix(repo, "torn_log")
    assert read_trajectory(path.parent).damage == ()
    assert [p.read_bytes() for p in path.parent.glob("torn-*")] == [b'{"data": {"text": "to']


def test_state_that_others_can_read(repo: Git, store: HarnessStore) -> None:
    path = log_file(store, log(store))
    path.chmod(0o644)
    path.parent.chmod(0o755)
    check_and_fix(repo, "open_state")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_pin_that_cannot_be_read_is_for_a_person(repo: Git, store: HarnessStore) -> None:
    lock = repo.root / "harness.lock"
    lock.write_text("<<<<<<< ours\n" + lock.read_text())
    found = doctor(store_of(repo), fix=True)
    assert (ids(found), found.ill) == (["lock_conflict"], True)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    process = subprocess.Popen(command, env={**os.environ, KERNEL_MARK: "s"}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def register(store: HarnessStore, pid: int, started_at: float, sockets: str = "") -> Path:
    folder = log_file(store, log(store)).parent / "kernel"
    folder.mkdir(mode=0o700)
    Registration(pid, started_at, 2**22 + 5, 1.0, sockets).write(folder)
    (folder / "kernel.json").chmod(0o600)
    return folder


def test_a_kernel_that_outlived_its_session_is_ended(
    repo: Git, store: HarnessStore, sleeper: subprocess.Popen[bytes]
) -> None:
    register(store, sleeper.pid, start_time(sleeper.pid))
    check_and_fix(repo, "left_over_kernel")
    assert sleeper.wait(60) == -9


def test_a_stranger_with_the_same_number_is_left_alone(
    repo: Git, store: HarnessStore, sleeper: subprocess.Popen[bytes]
) -> None:
    folder = register(store, sleeper.pid, start_time(sleeper.pid) - 1000)
    check_and_fix(repo, "dead_kernel")
    assert sleeper.poll() is None
    assert not (folder / "kernel.json").exists()


def test_what_a_cell_registers_ends_no_other_process_and_removes_no_other_folder(
    repo: Git, store: HarnessStore, tmp_path: Path
) -> None:
    precious = tmp_path / "harnessctl-precious"
    (precious / "kept").mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        folder = register(store, stranger.pid, start_time(stranger.pid), str(precious))
        check_and_fix(repo, "dead_kernel")
        assert stranger.poll() is None
        stranger.kill()
    assert not (folder / "kernel.json").exists()
    assert (precious / "kept").is_dir()


def test_the_sockets_of_a_dead_kernel_go_with_its_registration(
    repo: Git, store: HarnessStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        sockets = short_folder((base,))
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(sockets / "k-1"))
        (sockets / "connection.json").touch()
        register(store, 2**22 + 6, 1.0, str(sockets))
        check_and_fix(repo, "dead_kernel")
        assert not sockets.exists()


def test_a_session_that_has_gone_on_meanwhile_keeps_its_kernel(
    repo: Git, store: HarnessStore, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = register(store, sleeper.pid, start_time(sleeper.pid))
    repo("update-ref", f"{LIVE}{folder.parent.name}", "harness")
    recorder = Recorder.open(folder.parent, SystemClock())
    monkeypatch.setattr("harnessctl.commands.doctor.is_written", lambda _: False)  # it had not, a moment ago
    found = doctor(store_of(repo), fix=True)
    recorder.close()
    assert {one.repair.id for one in found.found} == {"left_over_kernel", "left_over_live"}
    assert all("has gone on meanwhile" in one.failed for one in found.found)
    assert sleeper.poll() is None
    assert repo("rev-parse", f"{LIVE}{folder.parent.name}") == repo("rev-parse", "harness")


def test_what_cannot_be_done_is_said(repo: Git, store: HarnessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = repo.root / ".git/packed-refs.lock"
    lock.write_bytes(b"")
    os.utime(lock, (time.time() - 300,) * 2)

    def deny(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", deny)
    found = doctor(store_of(repo), fix=True)
    assert found.ill
    assert found.found[0].failed == "Permission denied"
    assert json.dumps(found.to_json())


def test_an_agent_may_look_and_not_touch(
    repo: Git, store: HarnessStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESSCTL_ACTOR", "agent")
    assert store.mode is not None
    assert doctor(store_of(repo)).found == ()
    with pytest.raises(RefusedError):
        doctor(store_of(repo), fix=True)


def test_without_a_harness_there_is_still_something_to_look_at(repo: Git) -> None:
    assert doctor(store_of(repo)).found == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hranes", "is 'hranes', and there is no such branch here"),
        ("main", "is 'main', which holds no .harness/"),
        ("ha..rness", "is 'ha..rness', which no branch can be called"),
    ],
)
def test_a_mistyped_branch_is_named(repo: Git, tmp_path: Path, name: str, why: str) -> None:
    started(repo)
    clone = tmp_path / "clone"
    repo("clone", "-q", str(repo.root), str(clone))
    git = Git(clone)
    assert doctor(store_of(git)).found == ()
    git("config", "harness.branch", name)
    health = doctor(store_of(git))
    (found,) = health.found
    assert health.ill is (name != "hranes"), "it may be meant: for all repositories, or for the next init"
    assert (found.repair.id, found.repair.what) == ("bad_config", f"git configuration harness.branch {why}")
    assert "--unset" in found.repair.remedy
    assert ("init" in found.repair.remedy) is (name == "hranes")
    assert [one.what for one in status(store_of(git)).wrong] == [found.repair.what]
    git("config", "harness.branch", "harness")
    assert status(store_of(git)).wrong == ()


def test_a_clone_of_one_branch_gets_its_harness_by_sync(repo: Git, tmp_path: Path) -> None:
    started(repo)
    repo.commit("lock")
    repo("clone", "-q", "--single-branch", "-b", "main", f"file://{repo.root}", str(tmp_path / "clone"))
    git = Git(tmp_path / "clone")
    (found,) = [one.repair for one in doctor(store_of(git)).found if one.repair.id == "lost_harness"]
    assert "harnessctl sync brings it" in found.remedy
    assert "reflog" not in found.remedy
    with pytest.raises(HarnessError) as caught:
        store_of(git).pin()
    assert "harnessctl sync" in caught.value.hint
    store_of(git).sync()
    assert doctor(store_of(git)).found == ()
    assert store_of(git).pin().commit == repo("rev-parse", "harness")


def test_a_branch_that_was_moved_off_its_harness(repo: Git, store: HarnessStore) -> None:
    pinned = store.landed_tip()
    repo("update-ref", "refs/heads/harness", "main")
    found = doctor(store_of(repo)).found
    assert [one.repair.id for one in found] == ["lost_harness"]
    assert "holds no .harness/" in found[0].repair.what
    assert "git reflog show harness" in found[0].repair.remedy
    assert pinned in found[0].repair.remedy
    assert [one.id for one in status(store_of(repo)).wrong] == ["lost_harness"]
    with pytest.raises(HarnessError) as caught:
        store_of(repo).initialise()
    assert (caught.value.id, "doctor" in caught.value.hint) == ("name_taken", True)
    repo("branch", "-D", "harness")
    found = doctor(store_of(repo)).found
    assert "there is no such branch" in found[0].repair.what
    repo("branch", "harness", pinned)
    assert doctor(store_of(repo)).found == ()
    assert status(store_of(repo)).wrong == ()


def test_a_pin_that_is_no_longer_on_the_branch(repo: Git, store: HarnessStore) -> None:
    first = store.landed_tip()
    landed = land(store, "a", "one")
    store.move_pin(landed.commit)
    repo("update-ref", "refs/heads/harness", first)
    found = doctor(store_of(repo)).found
    assert [one.repair.id for one in found] == ["pin_not_landed"]
    assert "git reflog show harness" in found[0].repair.remedy
    forward = f"git update-ref refs/heads/harness {landed.commit}"
    problem = status(store_of(repo)).problem
    assert forward in found[0].repair.remedy
    assert problem is not None
    assert forward in problem.hint
    repo(*forward.split()[1:])
    assert doctor(store_of(repo)).found == ()


def test_a_lock_that_names_a_proposal_is_no_reason_to_move_the_branch(repo: Git, store: HarnessStore) -> None:
    proposed = lock_for(store.place, learned(store, "a", "one").commit)
    (repo.root / "harness.lock").write_bytes(render_lock(proposed))
    problem = status(store_of(repo)).problem
    assert problem is not None
    assert problem.id == "pin_not_landed"
    assert "update-ref" not in problem.hint


def test_a_repository_without_a_harness_lost_none(repo: Git) -> None:
    assert doctor(store_of(repo)).found == ()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ('[budgets]\nturns = "x"\ntokens = -1\n', ["budgets.turns", "budgets.tokens"]),
        ('[[gates]]\nname = "g"\ncommand = 3\n', ["gate 1"]),
        ('[run]\nprotocol = "zz"\n', ["run.protocol"]),
    ],
)
def test_values_that_runs_refuse_are_named_and_not_pinned(
    repo: Git, store: HarnessStore, policy: str, words: list[str]
) -> None:
    by_hand(repo, ".harness/harness.toml", policy)
    found = doctor(store_of(repo)).found
    assert [one.repair.id for one in found] == ["broken_policy"] * len(words)
    for one, word in zip(found, words, strict=True):
        assert word in one.repair.what
        assert "git worktree add" in one.repair.remedy
    before = store_of(repo).lock
    with pytest.raises(HarnessError) as caught:
        pin(store_of(repo), "harness")
    assert caught.value.id == "broken_policy"
    assert store_of(repo).lock == before


@pytest.mark.parametrize("in_tree", [False, True])
def test_a_policy_that_cannot_be_read(repo: Git, in_tree: bool) -> None:
    store_of(repo).initialise(in_tree=in_tree)
    repo.commit("start")
    if not in_tree:
        repo("checkout", "-q", "harness")
    repo.write(".harness/harness.toml", "schema = 1\n[run\n")
    repo("commit", "-qam", "broken")
    repo("checkout", "-q", "main")
    found = doctor(store_of(repo)).found
    assert [one.repair.id for one in found] == ["broken_policy"]
    assert "not valid TOML" in found[0].repair.what
    assert ("git worktree add" in found[0].repair.remedy) is not in_tree
    assert [one.id for one in status(store_of(repo)).wrong] == ["broken_policy"]
