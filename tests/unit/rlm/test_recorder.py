"""The event log on disk: appends, chain, torn tails, short writes, blobs."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harnessctl.domain.errors import ConflictError, NotFoundError
from harnessctl.domain.event import Event, EventType
from harnessctl.rlm import recorder as recording
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.log import LOG_NAME, DamagedLogError, parse_log, read_blob, read_trajectory
from harnessctl.rlm.occupancy import is_written
from harnessctl.rlm.recorder import MOST_ASIDE, Recorder, StorageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "session"


def write(folder: Path, count: int = 4) -> Path:
    recorder = Recorder.create(folder, SystemClock())
    recorder.append(EventType.HEADER, {"session": "S", "schema": 1})
    for i in range(1, count):
        recorder.append(EventType.OUTPUT, {"cell": i, "text": f"line {i}, \ud800 and é"}, turn=i)
    recorder.close()
    return folder / LOG_NAME


def test_lines_are_canonical_records_in_a_chain(folder: Path) -> None:
    path = write(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    events = [Event.from_line(line) for line in lines]
    assert [e.n for e in events] == [0, 1, 2, 3]
    assert [e.to_line() for e in events] == lines
    assert all(e.hash == e.expected_hash() for e in events)
    assert [e.prev for e in events[1:]] == [e.hash for e in events[:-1]]
    assert read_trajectory(folder).events == tuple(events)
    assert not read_trajectory(folder).damage


def test_the_files_are_private(folder: Path) -> None:
    path = write(folder)
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_tail_loses_one_record_and_is_moved_aside(folder: Path, cut: int) -> None:
    """log-01: half a record at the end; what is appended later stays readable."""
    path = write(folder)
    whole = path.read_bytes()
    kept = whole[: whole[:-1].rfind(b"\n") + 1]
    torn = whole[len(kept) : -cut - 1] if cut > 1 else whole[len(kept) : -2]
    path.write_bytes(kept + torn)
    recorder = Recorder.open(folder, SystemClock())
    recorder.append(EventType.TASK, {"text": "go on"})
    recorder.close()
    now = path.read_bytes()
    assert now.startswith(kept)
    trajectory = read_trajectory(folder)
    assert not trajectory.damage
    assert [e.type for e in trajectory.events[3:]] == [EventType.REPAIR, EventType.TASK]
    repair = trajectory.events[3].data
    assert (repair["what"], repair["bytes"]) == ("torn_tail", len(torn))
    assert (folder / repair["file"]).read_bytes() == torn


def test_of_a_tail_of_any_size_the_beginning_is_kept(folder: Path) -> None:
    """A cell can make its own log a sparse file, whose zeros would take real space."""
    write(folder)
    recorder = Recorder.open(folder, SystemClock())
    os.truncate(folder / "log.jsonl", 10**12)
    with pytest.raises(StorageError):
        recorder.append(EventType.TASK, {"text": "go on"})
    recorder.relieve()
    recorder.append(EventType.TASK, {"text": "go on"})
    recorder.close()
    assert not read_trajectory(folder).damage
    (aside,) = folder.glob("torn-*")
    assert aside.stat().st_size == MOST_ASIDE


def test_opening_again_repairs_nothing_twice(folder: Path) -> None:
    path = write(folder)
    with path.open("ab") as file:
        file.write(b'{"data":{"text":"tor')
    Recorder.open(folder, SystemClock()).close()
    once = path.read_bytes()
    Recorder.open(folder, SystemClock()).close()
    assert path.read_bytes() == once


def test_a_kill_between_setting_aside_and_saying_so_is_said_at_the_next_opening(folder: Path) -> None:
    write(folder)
    (folder / "torn-1234").write_bytes(b"half")
    Recorder.open(folder, SystemClock()).close()
    last = read_trajectory(folder).events[-1]
    assert (last.type, last.data["file"], last.data["bytes"]) == (EventType.REPAIR, "torn-1234", 4)


def test_a_record_that_only_lacks_its_line_end_is_kept(folder: Path) -> None:
    path = write(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    Recorder.open(folder, SystemClock()).close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [lines[0], lines[1].replace(b"line 1", b"line X"), *lines[2:]], "line 2"),
        (lambda lines: [lines[0], b"garbage\n", *lines[2:]], "line 2 (byte"),
        (lambda lines: [lines[0], *lines[2:]], "numbered 2, expected 1"),
        (lambda lines: [*lines[:3], b'{"data":{"te' + lines[3]], "line 4"),
    ],
    ids=["edited", "garbage", "removed", "glued"],
)
def test_damage_before_the_end_is_an_error_and_changes_nothing(folder: Path, change, said: str) -> None:  # type: ignore[no-untyped-def]
    path = write(folder)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    before = path.read_bytes()
    with pytest.raises(DamagedLogError, match="line") as caught:
        Recorder.open(folder, SystemClock())
    assert said in caught.value.message
    assert path.read_bytes() == before
    assert said in read_trajectory(folder).damage[0]
    with path.open("ab"):
        pass  # the failed opening left no lock and no handle behind


def test_an_edit_with_a_recomputed_hash_breaks_the_next_link(folder: Path) -> None:
    path = write(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    old = Event.from_line(lines[1])
    forged = Event.make(n=1, t=old.t, type=old.type, turn=1, data={"text": "forged"}, prev=old.prev)
    content = parse_log(lines[0] + forged.to_line() + b"".join(lines[2:]))
    assert "does not follow" in content.damage
    assert len(content.events) == 2


def test_one_writer_at_a_time(folder: Path) -> None:
    recorder = Recorder.create(folder, SystemClock())
    with pytest.raises(ConflictError):
        Recorder.open(folder, SystemClock())
    with pytest.raises(ConflictError):
        Recorder.create(folder, SystemClock())
    recorder.close()
    recorder.close()
    Recorder.open(folder, SystemClock()).close()


def test_reading_where_there_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_trajectory(tmp_path / "none")


def test_blobs_are_named_by_their_digest_and_checked(folder: Path) -> None:
    recorder = Recorder.create(folder, SystemClock())
    name = recorder.blob([b"one ", b"two"])
    assert read_blob(folder, name) == b"one two"
    (folder / "blobs" / name).write_bytes(b"other")
    with pytest.raises(DamagedLogError):
        read_blob(folder, name)
    assert [p.name for p in (folder / "blobs").iterdir()] == [name]
    recorder.close()


SHORT = """
import resource, signal, sys
from pathlib import Path
from harnessctl.domain.event import EventType
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.recorder import MOST_ASIDE, Recorder, StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
recorder = Recorder.create(Path(sys.argv[1]), SystemClock())
recorder.append(EventType.HEADER, {"session": "S"})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
kinds = []
for text in ("x" * 2000, "y"):
    try:
        recorder.append(EventType.TASK, {"text": text})
        kinds.append("written")
    except StorageError as error:
        kinds.append(error.message)
print(*kinds, sep="\\n")
"""


def test_a_short_write_is_noticed_and_leaves_a_whole_log(folder: Path) -> None:
    """A full disk takes a part of the bytes and says nothing; a file size limit does the same."""
    done = subprocess.run([sys.executable, "-c", SHORT, str(folder)], capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert "bytes were taken" in first, done.stderr
    assert second == "written"
    trajectory = read_trajectory(folder)
    assert [e.data.get("text") for e in trajectory.events] == [None, "y"]
    assert not trajectory.damage


def test_without_counting_the_bytes_a_short_write_ruins_the_log(folder: Path) -> None:
    """The guard's own test: a recorder that trusts ``write`` glues the next record to the torn one."""

    class Trusting(Recorder):
        def _write(self, line: bytes) -> None:
            os.write(self._fd, line)

        def _refuse_strangers(self) -> None:
            """It would see the short file."""

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = Trusting.create(folder, SystemClock())
    recorder.append(EventType.HEADER, {"session": "S"})
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
        recorder.append(EventType.TASK, {"text": "x" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    recorder.append(EventType.TASK, {"text": "y"})
    recorder.close()
    assert read_trajectory(folder).damage


def test_a_failed_write_is_a_storage_error(folder: Path) -> None:
    recorder = Recorder.create(folder, SystemClock())
    os.close(recorder._fd)
    with pytest.raises(StorageError) as caught:
        recorder.append(EventType.TASK, {"text": "x"})
    assert caught.value.id == "storage"
    recorder._fd = -1


def test_every_line_is_json_that_any_reader_takes(folder: Path) -> None:
    for line in write(folder).read_text(encoding="ascii").splitlines():
        assert set(json.loads(line)) == {"n", "t", "type", "turn", "data", "prev", "hash"}


def hold_shared(path: Path, seconds: float) -> threading.Thread:
    """Somebody who asks whether the log is being written, slowly."""
    file = path.open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)

    def let_go() -> None:
        time.sleep(seconds)
        file.close()

    thread = threading.Thread(target=let_go)
    thread.start()
    return thread


def test_who_asks_whether_it_is_written_keeps_no_writer_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sessions list`` in one terminal, ``sessions resume`` in another."""
    path = write(folder)
    assert recording.ASKING_S >= 0.5
    monkeypatch.setattr(recording, "ASKING_S", 10.0)
    asking = hold_shared(path, 0.2)
    Recorder.open(folder, SystemClock()).close()
    asking.join()
    monkeypatch.setattr(recording, "ASKING_S", 0.0)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(ConflictError):
            Recorder.open(folder, SystemClock())


def test_who_writes_keeps_others_out(folder: Path) -> None:
    write(folder)
    first = Recorder.open(folder, SystemClock())
    assert is_written(folder / "log.jsonl")
    with pytest.raises(ConflictError) as caught:
        Recorder.open(folder, SystemClock())
    assert caught.value.id == "session_running"
    first.close()
    assert not is_written(folder / "log.jsonl")
