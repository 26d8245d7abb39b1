"""The transaction: nothing lost, nothing half, nothing written that may not be."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.commands.rollback import rollback
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, RefusedError
from harnessctl.domain.ids import EntryId
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.checking.validation import InvalidError
from harnessctl.layers.l3_durable.git import staging
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.places.names import PROPOSALS
from tests.conftest import Git
from tests.fakes.harness import add, fsck_is_clean, land, note, propose, started, store_of, text_of
from tests.fakes.history import by_hand

ROOT = Path(__file__).parents[2]

CHILD = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.conftest import Git
from tests.fakes.harness import *
{first}
store = store_of(Git(Path({repo!r})))
{code}
"""


def child(git: Git, code: str, first: str = "") -> subprocess.Popen[bytes]:
    """A process of its own that runs ``code`` with ``store``, and ``first`` before that is opened."""
    script = CHILD.format(root=str(ROOT), repo=str(git.root), code=code, first=first)
    return subprocess.Popen([sys.executable, "-W", "error", "-c", script], stderr=subprocess.PIPE)


def eight_writers(git: Git, before: str = "") -> tuple[int, int]:
    """Eight processes add 20 entries each; how many entries and records are there afterwards."""
    started(git)
    work = "for n in range(20): add(store, f'w{w}-{n}', f'text {n}')"
    running = [child(git, f"{before}w = {w}\n{work}") for w in range(8)]
    for process in running:
        _, said = process.communicate(timeout=240)
        assert (process.returncode, said.decode()) == (0, "")
    names = git("ls-tree", "-r", "--name-only", "refs/heads/harness").splitlines()
    return sum("/memory/" in n for n in names), sum("/updates/" in n for n in names)


@pytest.mark.slow
def test_eight_processes_adding_twenty_entries_each_lose_none(repo: Git) -> None:
    assert eight_writers(repo) == (160, 160)
    assert fsck_is_clean(repo)
    assert len(repo("rev-list", "refs/heads/harness", "--").splitlines()) == 161


@pytest.mark.slow
def test_without_compare_and_swap_the_same_loses_entries(repo: Git) -> None:
    entries, records = eight_writers(repo, "from tests.fakes.careless import blind\nblind(store)\n")
    assert entries < 160
    assert records < 160


STOP_ONCE = """
def reached(point):
    if point == "written":
        store.writer.reached = lambda _: None
        os.kill(os.getpid(), 19)
store.writer.reached = reached
"""


def test_a_writer_that_is_stopped_in_its_turn_stops_nobody_else(
    repo: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking turns is politeness: without the turn a landing is as safe, and what is lost is built again."""
    store = started(repo)
    stopped = child(repo, f"{STOP_ONCE}add(store, 'slow', 'x')", "import os")
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    monkeypatch.setattr("harnessctl.layers.l3_durable.landing.writer.TURN", 0.2)
    add(store, "quick", "y")
    os.kill(stopped.pid, signal.SIGCONT)
    _, said = stopped.communicate(timeout=60)
    assert stopped.returncode == 0, said.decode()
    assert [text_of(repo, n) for n in ("slow", "quick")] == ["x", "y"]


def test_two_accepts_of_one_proposal_land_it_once(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    running = [child(repo, f"store.accept({proposal.id!r})") for _ in range(4)]
    said = [process.communicate(timeout=60)[1].decode() for process in running]
    assert [p.returncode for p in running].count(0) == 1, said
    assert all("already_landed" in s or "landed already" in s or "no open proposal" in s for s in said if s)
    assert repo("rev-list", "--count", "refs/heads/harness", "--") == "2"


@pytest.mark.parametrize("first", ["accept", "reject"])
def test_accept_and_reject_never_both_hold(repo: Git, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """The later one has read the open proposal before the earlier one decided."""
    monkeypatch.setattr("harnessctl.layers.l3_durable.landing.writer.TURN", 0.1)
    one, other = started(repo), store_of(repo)
    proposal = propose(one, "a", "one")

    def reached(point: str) -> None:
        if point == "checked" and len(repo("for-each-ref", "refs/harness").split()):
            one.writer.reached = lambda _: None
            if first == "accept":
                other.accept(proposal.id)
            else:
                other.reject(proposal.id)

    one.writer.reached = reached
    late = one.reject if first == "accept" else one.accept
    with pytest.raises(ConflictError) as caught:
        late(proposal.id)
    assert caught.value.id == ("already_landed" if first == "accept" else "already_rejected")
    states = [(u.id, u.state) for u in store_of(repo).updates()]
    expected = UpdateState.LANDED if first == "accept" else UpdateState.REJECTED
    assert states == [(proposal.id, expected)]


def test_a_left_over_ref_of_a_rejected_proposal_is_not_open(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    store.reject(proposal.id)
    repo("update-ref", PROPOSALS + proposal.id, proposal.commit)
    again = store_of(repo)
    assert again.proposals() == ()
    assert [u.state for u in again.updates()] == [UpdateState.REJECTED]
    with pytest.raises(NotFoundError):
        again.accept(proposal.id)


def test_a_branch_that_somebody_deletes_meanwhile_is_said(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")

    def reached(point: str) -> None:
        if point == "written":
            repo("update-ref", "-d", "refs/heads/harness")

    store.writer.reached = reached
    with pytest.raises(NotFoundError) as caught:
        store.accept(proposal.id)
    assert caught.value.id == "not_initialised"
    assert repo("for-each-ref", "refs/heads/harness") == ""
    assert repo("for-each-ref", "--format=%(objectname)", "refs/harness/proposals") == proposal.commit


LAND_UNTIL = """
import itertools
for n in itertools.count():
    if Path({stop!r}).exists(): break
    land(store, f"n{{n}}", "x")
    Path({log!r}).write_text(str(n + 1))
"""


def test_landings_go_on_while_git_packs_and_prunes(repo: Git, tmp_path: Path) -> None:
    """The default expiry keeps what is younger than two weeks; `--prune=now` is as unsafe here as in git."""
    store = started(repo)
    log, stop = tmp_path / "landed", tmp_path / "stop"
    log.write_text("0")
    landing = child(repo, LAND_UNTIL.format(stop=str(stop), log=str(log)))
    packed = last = 0
    while landing.poll() is None and packed < 5:
        repo("gc", "-q", check=False)
        repo("pack-refs", "--all", "--prune", check=False)
        landed = int(log.read_text() or last)
        packed += landed > last
        last = landed
    stop.touch()
    _, said = landing.communicate(timeout=60)
    assert landing.returncode == 0, said.decode()
    assert packed == 5, "each time something had landed meanwhile"
    done = int(log.read_text())
    assert len([u for u in store_of(repo).updates() if u.state is UpdateState.LANDED]) == done >= 5
    assert repo("for-each-ref", "refs/harness") == ""
    assert fsck_is_clean(repo)
    assert store.landed_tip()


def test_a_torn_line_of_the_operations_log_hides_no_later_move(repo: Git) -> None:
    store = started(repo)
    with (store.state_dir / "operations.jsonl").open("a") as file:
        file.write('{"what": "refs/heads/harn')
    before = store.fence.capture()
    add(store, "a", "one")
    assert store.fence.unknown_moves(before, store.fence.capture()) == ()


def test_a_damaged_object_is_not_built_upon(repo: Git) -> None:
    """git does not sync loose objects by default: after a power cut one may be there, and empty."""
    store = started(repo)
    data = note("a", "one", owner="human", origin="human").data
    oid = repo("hash-object", "-w", "--stdin", input=data)
    loose = repo.root / ".git/objects" / oid[:2] / oid[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"")
    with pytest.raises(HarnessError) as caught:
        add(store, "a", "one")
    assert caught.value.id == "write_failed"
    assert text_of(repo, "a") is None
    loose.unlink()
    add(store, "a", "one")
    assert text_of(repo, "a") == "one"


def test_head_index_and_branch_are_untouched(repo: Git) -> None:
    def state() -> tuple[str, bytes, str, str]:
        index = (repo.root / ".git/index").read_bytes()
        return repo("rev-parse", "HEAD"), index, repo("symbolic-ref", "HEAD"), repo("stash", "list")

    before = state()
    store = started(repo)
    base = store.landed_tip()
    add(store, "a", "one")
    land(store, "b", "two")
    store.reject(propose(store, "c", "three").id, "no")
    rollback(store, base)
    assert state() == before
    assert repo("status", "--porcelain") == "?? harness.lock"
    assert fsck_is_clean(repo)


def test_git_14_a_writer_with_an_old_picture_overwrites_nothing(repo: Git) -> None:
    store = started(repo)
    land(store, "e", "first")
    old = store.landed_tip()
    late = propose(store, "e", "from the old picture", base=old)
    land(store, "e", "second")
    with pytest.raises(ConflictError) as caught:
        store_of(repo).accept(late.id)
    assert caught.value.id == "conflict"
    assert "memory/e" in caught.value.message
    assert text_of(repo, "e") == "second"
    again = store_of(repo)
    assert [(p.id, p.state) for p in again.proposals()] == [(late.id, UpdateState.CONFLICT)]
    assert {u.id: u.state for u in again.updates()}[late.id] is UpdateState.CONFLICT


def test_a_moved_base_merges_where_the_sides_changed_different_entries(repo: Git) -> None:
    store = started(repo)
    land(store, "a", "one")
    old = store.landed_tip()
    add(store, "c", "meanwhile")
    moved = store.accept(propose(store, "b", "two", base=old).id)
    assert [text_of(repo, n) for n in "abc"] == ["one", "two", "meanwhile"]
    assert repo("rev-parse", f"{moved.commit}^") != old
    assert repo("rev-list", "--count", "refs/heads/harness", "--") == "4"


def test_both_sides_making_the_same_change_is_no_conflict(repo: Git) -> None:
    store = started(repo)
    old = store.landed_tip()
    late = propose(store, "a", "same", base=old)
    land(store, "a", "same")
    store.accept(late.id)
    assert text_of(repo, "a") == "same"


def objects(git: Git) -> str:
    return git("count-objects", "-v")


def test_a_secret_is_refused_before_any_object_exists(repo: Git) -> None:
    store = started(repo)
    planted = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    before = objects(repo), repo("for-each-ref")
    with pytest.raises(RefusedError) as caught:
        add(store, "leak", f"token {planted}")
    assert caught.value.id == "secret_found"
    assert planted not in caught.value.message + caught.value.hint
    assert ".harness/memory/leak.md:4:" in caught.value.message
    with pytest.raises(RefusedError):
        propose(store, "leak", f"token {planted}")
    assert (objects(repo), repo("for-each-ref")) == before
    found = subprocess.run(["grep", "-rl", planted, repo.root, store.state_dir], capture_output=True)
    assert found.stdout == b""


def test_an_allowed_digest_lets_a_harmless_value_pass(repo: Git) -> None:
    planted = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    store = started(repo)
    with pytest.raises(RefusedError) as caught:
        add(store, "sample", planted)
    digest = caught.value.hint.rsplit(" ", 1)[1]
    from harnessctl.config import read_environment
    from harnessctl.layers.l3_durable.store import open_store

    add(open_store(repo.root, read_environment(), allow=[digest]), "sample", planted)
    assert text_of(repo, "sample") == planted


def test_a_broken_entry_is_refused_before_any_object_exists(repo: Git) -> None:
    store = started(repo)
    before = objects(repo)
    broken = EntryFile("memory/x.md", 0o100644, b"---\ndescription: a: b\n---\n")
    with pytest.raises(InvalidError) as caught:
        store.add(Addition(EntryId.parse("memory/x"), (broken,)))
    assert caught.value.findings[0].path == ".harness/memory/x.md"
    assert caught.value.findings[0].line == 2
    assert objects(repo) == before


@pytest.mark.parametrize("fresh", [False, True])
def test_an_entry_that_others_depend_on_cannot_be_deleted(repo: Git, fresh: bool) -> None:
    """Also where the base is known to be whole, and nothing but the touched entries is judged."""
    store = started(repo)
    land(store, "base", "x")
    land(store, "user", "y", depends_on="memory/base")
    if fresh:
        (store.state_dir / "verdicts").unlink()
        store = store_of(repo)
    with pytest.raises(InvalidError, match="memory/base"):
        propose(store, "base", "")
    with pytest.raises(InvalidError, match="memory/nowhere"):
        add(store, "z", "z", depends_on="memory/nowhere")
    add(store, "z", "z", depends_on="memory/user")


def test_names_that_clash_with_a_neighbour_are_refused_from_memory_too(repo: Git) -> None:
    store = started(repo)
    skill = EntryId.parse("skills/s")
    main = EntryFile("skills/s/SKILL.md", 0o100644, b"---\nname: s\ndescription: d\n---\n")

    def with_file(name: str) -> Addition:
        return Addition(
            skill,
            (
                *store.content(store.landed_tip()).entry(skill),
                main,
                EntryFile(f"skills/s/{name}", 0o100644, b"x"),
            ),
        )

    store.add(with_file("references/A.md"))
    with pytest.raises(InvalidError, match="differ only by case"):
        store.add(with_file("references/a.md"))


def test_lint_refuses_what_is_touched_and_its_warnings_are_told(repo: Git) -> None:
    store = started(repo)
    before = objects(repo)
    with pytest.raises(InvalidError) as caught:
        add(store, "hidden", "see\u202enothing")
    assert caught.value.findings[0].path == ".harness/memory/hidden.md"
    assert objects(repo) == before
    crlf = EntryFile("memory/crlf.md", 0o100644, b"---\r\ndescription: d\r\n---\r\n")
    landed = store.add(Addition(EntryId.parse("memory/crlf"), (crlf,)))
    assert [f.path for f in landed.warnings] == [".harness/memory/crlf.md"]
    assert b"owner: human\r\n" in store.content(landed.commit).entry(EntryId.parse("memory/crlf"))[0].data


def test_a_rollback_restores_what_lint_rules_that_grew_would_refuse(repo: Git) -> None:
    store = started(repo)
    old = by_hand(repo, ".harness/memory/a.md", note("a", "x\u202e", owner="agent").data.decode())
    land(store, "a", "one")
    rollback(store, old)
    assert text_of(repo, "a") == "x\u202e"


def test_a_broken_neighbour_made_by_hand_does_not_stop_other_landings(repo: Git) -> None:
    store = started(repo)
    by_hand(repo, ".harness/memory/bad.md", "no frontmatter\n")
    add(store, "good", "fine")
    assert text_of(repo, "good") == "fine"
    snapshot = store.snapshot_at(store.landed_tip())
    assert list(snapshot.entries) == ["memory/good"]
    assert [f.path for f in snapshot.broken] == [".harness/memory/bad.md"]


def test_a_ref_that_is_held_ends_in_words(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock file of another program is never removed, however old."""
    store = started(repo)
    monkeypatch.setattr("harnessctl.layers.l3_durable.landing.writer.STUCK", 0.3)
    lock = repo.root / ".git/refs/heads/harness.lock"
    lock.touch()
    for age in (0, 3600):
        os.utime(lock, (time.time() - age,) * 2)
        with pytest.raises(ConflictError) as caught:
            add(store, "a", "one")
        assert caught.value.id == "moved_ref"
        assert str(lock) in caught.value.message
    lock.unlink()
    add(store, "a", "one")


def test_moving_from_a_stale_value_is_refused(repo: Git) -> None:
    store = started(repo)
    first = store.landed_tip()
    add(store, "a", "one")
    second = store.landed_tip()
    refs = store.repository.refs
    for old, new in ((first, second), (None, second), (first, None)):
        with pytest.raises(LostRaceError):
            refs.move("refs/heads/harness", old, new, "x")
    assert refs.read("refs/heads/harness") == second


# -- fsync ---------------------------------------------------------------------------------------

FSYNC = {"x86_64": (0xC000003E, 74, 75), "aarch64": (0xC00000B7, 82, 83)}
WITHOUT_FSYNC = """
import ctypes, struct, errno
arch, fsync, fdatasync = {numbers}
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
rules = [op(0x20, 0, 0, 4), op(0x15, 0, 4, arch), op(0x20, 0, 0, 0),
         op(0x15, 1, 0, fsync), op(0x15, 0, 1, fdatasync),
         op(0x06, 0, 0, 0x00050000 | errno.EIO), op(0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(rules), len(rules) * 8)
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(rules), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
"""
HASTY = "from tests.fakes.careless import without_fsync\nwithout_fsync()\n"
NEVER = "from tests.fakes.careless import never_sync\nnever_sync()\n"
IMPATIENT = "import harnessctl.layers.l3_durable.landing.writer as w\nw.STUCK = 0.2\n"


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in FSYNC, reason="seccomp filters are Linux's"
)
@pytest.mark.parametrize("without", ["nothing", "objects", "both"])
def test_a_landing_reaches_the_disk_before_it_counts(repo: Git, without: str) -> None:
    """Where fsync fails, so does the landing; with both guards taken out it would not even notice."""
    started(repo)
    code = IMPATIENT + (HASTY if without != "nothing" else "")
    code += WITHOUT_FSYNC.format(numbers=FSYNC[platform.machine()]) + "add(store, 'a', 'one')"
    process = child(repo, code, NEVER if without == "both" else "")
    _, said = process.communicate(timeout=60)
    if without == "both":
        assert process.returncode == 0, said.decode()
        assert text_of(repo, "a") == "one"
    else:
        assert process.returncode == 1
        words = {
            "nothing": "cannot write into the repository",
            "objects": "could not be moved: could not fsync",
        }
        assert words[without] in said.decode()
        assert text_of(repo, "a") is None


@pytest.mark.parametrize("careful", [True, False])
def test_every_object_is_on_the_disk_before_the_branch_moves(
    repo: Git, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    store = started(repo)
    if not careful:
        monkeypatch.setattr(staging, "sync", lambda *_: None)
    tip = store.landed_tip()
    synced: set[str] = set()
    before_the_move: list[set[str]] = []

    def fsync(handle: int, real: Callable[[int], None] = os.fsync) -> None:
        real(handle)
        here = os.fstat(handle)
        synced.add(f"{here.st_dev}:{here.st_ino}")

    def reached(point: str) -> None:
        if point == "before moved":
            before_the_move.append(set(synced))

    monkeypatch.setattr(os, "fsync", fsync)
    store.writer.reached = reached
    landed = add(store, "a", "one")
    listed = repo("rev-list", "--objects", landed.commit, f"^{tip}").splitlines()
    paths = [repo.root / ".git/objects" / row[:2] / row[2:40] for row in listed]
    assert len(paths) == 8
    wanted = {f"{p.stat().st_dev}:{p.stat().st_ino}" for p in (*paths, *(p.parent for p in paths))}
    assert (wanted <= before_the_move[0]) is careful


# -- records -------------------------------------------------------------------------------------


def test_the_record_tells_without_harnessctl(repo: Git) -> None:
    store = started(repo)
    landed = land(store, "a", "one")
    assert landed.record is not None
    path = next(
        n for n in repo("ls-tree", "-r", "--name-only", landed.commit).splitlines() if "/updates/" in n
    )
    raw = repo("show", f"{landed.commit}:{path}")
    record = json.loads(raw)
    assert raw + "\n" == json.dumps(record, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    assert record["evidence"][0]["excerpt"][0]["text"] == "tracked: 3"
    assert record["entries"][0]["after"].startswith("sha256:")
    told = repo("log", "-1", "--format=%an | %cn | %(trailers:key=Harness-Accepted-By)", landed.commit, "--")
    assert told == "harnessctl agent | Ada Reviewer | Harness-Accepted-By: Ada Reviewer <ada@example.com>"


def test_a_record_digest_can_be_recomputed_with_git_alone(repo: Git) -> None:
    import hashlib

    store = started(repo)
    landed = land(store, "a", "one")
    assert landed.record is not None
    blob = subprocess.run(
        ["git", "show", f"{landed.commit}:.harness/memory/a.md"],
        cwd=repo.root,
        capture_output=True,
        check=True,
    ).stdout
    rows = [["memory/a.md", "100644", hashlib.sha256(blob).hexdigest()]]
    expected = "sha256:" + hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
    assert landed.record.entries[0].after == expected
    assert store.pin("harness").entries == expected


def test_a_proposal_made_past_the_door_is_refused(repo: Git, tmp_path: Path) -> None:
    """An agent with git can make the ref; what the door refuses is refused at landing too."""
    store = started(repo)
    add(store, "mine", "a person's")
    real = propose(store, "a", "one")
    claims_human = note("a", "one", owner="agent", origin="human").data.decode()
    claims_verified = note("a", "one", owner="agent", status="verified").data.decode()
    mine, moved = ".harness/memory/mine.md", ".harness/memory/moved.md"
    old = next(p for p in repo("ls-tree", "-r", "--name-only", real.base).split() if p.endswith(".json"))
    a_record = repo("show", f"{real.base}:{old}")
    forgeries: list[tuple[dict[str, str | None], str, str]] = [
        ({mine: None}, "overreach", "HRN301"),
        ({mine: None, moved: repo("show", f"{real.base}:{mine}") + "\n"}, "overreach", "HRN302"),
        ({mine: note("mine", "changed", owner="human").data.decode()}, "overreach", "HRN303"),
        ({mine: note("mine", "changed", owner="agent").data.decode()}, "overreach", "HRN304"),
        ({".harness/memory/a.md": claims_human}, "overreach", "HRN305"),
        ({".harness/memory/a.md": claims_verified}, "overreach", "HRN306"),
        ({".harness/harness.toml": "schema = 1\n# loosened\n"}, "overreach", "HRN307"),
        ({old: a_record.replace("mine", "yours")}, "overreach", "HRN308"),
        ({".harness/memory/a.md": note("a", "changed", owner="agent").data.decode()}, "bad_proposal", ""),
    ]
    for files, error, rule in forgeries:
        place = tmp_path / "forge"
        repo("worktree", "add", "-q", "--detach", str(place), real.commit)
        forge = Git(place)
        for path, text in files.items():
            forge.write(path, text) if text is not None else forge("rm", "-q", path)
        forge("add", "-A")
        forge("commit", "-q", "--amend", "-m", "forged")
        repo("update-ref", PROPOSALS + real.id, forge("rev-parse", "HEAD"))
        repo("worktree", "remove", "--force", str(place))
        with pytest.raises(RefusedError) as caught:
            store_of(repo).accept(real.id)
        assert (caught.value.id, rule in caught.value.message) == (error, True), caught.value.message
        assert text_of(repo, "mine") == "a person's"


def test_an_agent_may_not_touch_what_a_human_owns_nor_claim_verified(repo: Git) -> None:
    store = started(repo)
    add(store, "mine", "a person's")
    add(store, "stated", "x", owner="agent")
    for text in ("changed", ""):
        with pytest.raises(RefusedError) as caught:
            propose(store, "mine", text, owner="agent")
        assert caught.value.id == "not_owner"
    with pytest.raises(RefusedError) as caught:
        propose(store, "new", "text", status="verified")
    assert caught.value.id == "claims_verified"
    store.accept(propose(store, "stated", "y", owner="human", origin="human").id)
    entry = store.snapshot_at(store.landed_tip()).entries["memory/stated"]
    assert (entry.own("owner"), entry.own("origin")) == ("agent", "agent")


def test_a_full_failure_to_write_is_words(repo: Git) -> None:
    store = started(repo)
    if os.geteuid() == 0:
        (repo.root / ".git/objects").rename(repo.root / ".git/objects.away")
        (repo.root / ".git/objects").write_text("in the way")
    else:
        (repo.root / ".git/objects").chmod(0o500)
    with pytest.raises(HarnessError):
        add(store, "a", "one")


# -- what a person gave -----------------------------------------------------------------------------


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize("text", ["key = ghp_" + "a1B2" * 9, "bad \x01 character"])
def test_lines_are_those_of_the_text_as_it_was_given(repo: Git, in_tree: bool, text: str) -> None:
    """Two keys are put into the frontmatter, which moves every line below it."""
    store = store_of(repo)
    store.initialise(in_tree=in_tree)
    given = f"---\ndescription: x\n---\none\n{text}\n"
    with pytest.raises(HarnessError) as caught:
        store_of(repo).add(
            Addition(EntryId.parse("memory/a"), (EntryFile("memory/a.md", 0o100644, given.encode()),))
        )
    assert caught.value.id in ("secret_found", "invalid_entry")
    assert ".harness/memory/a.md:5:" in caught.value.message


def test_a_files_name_with_a_line_break_forges_no_line_of_an_error(repo: Git) -> None:
    head = b"---\nname: s\ndescription: d\n---\n"
    files = (
        EntryFile("skills/s/SKILL.md", 0o100644, head),
        EntryFile("skills/s/a\nerror: forged", 0o100644, b"x"),
    )
    with pytest.raises(HarnessError) as caught:
        started(repo).add(Addition(EntryId.parse("skills/s"), files))
    assert ".harness/skills/s/a\\nerror: forged" in caught.value.message
    assert "\n" not in caught.value.message
