"""Something else where a file of ours is expected: every reader and writer of one says so, and none waits.

A kernel's cells have the user's rights, and so can put a pipe, a device or a file of any size there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.doctor import doctor
from harnessctl.commands.drafts import SEEN, seen_in
from harnessctl.commands.export import original_bytes
from harnessctl.commands.late_result import _has_result
from harnessctl.commands.session_tree import family_of
from harnessctl.commands.sessions import find_session, list_sessions, newest_session, show_session
from harnessctl.config import read_environment, user_config
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.event import EventType
from harnessctl.hooks.survey import owner_of
from harnessctl.layers.l2_execution.registration import Registration
from harnessctl.layers.l3_durable.pins.trust import Trust
from harnessctl.layers.l3_durable.places.operations import FILE, Operations
from harnessctl.layers.l3_durable.places.sealed import SealedLines, read_key
from harnessctl.models.local import _require_gguf
from harnessctl.models.local_process import open_log as open_server_log
from harnessctl.models.local_weights import QWEN, _intact, _stamp
from harnessctl.models.script import read_script
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.log import (
    LOG_NAME,
    LONGEST,
    DamagedLogError,
    header_of_log,
    read_blob,
    read_log,
    read_trajectory,
)
from harnessctl.rlm.occupancy import is_written, lock_path, occupied
from harnessctl.rlm.proposing import STATE_NAME, pick_up
from harnessctl.rlm.recall_index import Index
from harnessctl.rlm.recorder import Recorder, StorageError
from harnessctl.rlm.result import RESULT_NAME, artifact, write_whole
from tests.conftest import Git
from tests.fakes.harness import started, store_of
from tests.fakes.odd_files import NOT_PLAIN, ODD

pytestmark = pytest.mark.timeout(30)

OLD, NEW = "01JDXYZ0000000000000000001", "01JDXYZ0000000000000000002"
KEY = "0" * 64


def record(sessions: Path, session: str) -> Path:
    recorder = Recorder.create(sessions / session, SystemClock())
    recorder.append(EventType.HEADER, {"session": session, "model": {"provider": "p", "name": "m"}})
    recorder.append(EventType.TASK, {"text": "t"})
    recorder.close()
    return sessions / session


def _held(folder: Path) -> None:
    with occupied(folder, folder, NEW):
        pass


def _weights(folder: Path) -> bool:
    (weights := folder / "w.gguf").touch()
    os.truncate(weights, QWEN.size)
    return _intact(weights, QWEN, lambda *_: pytest.fail("checked anew, as it must be"))


#: A file, what reads it, and what that gives: a value, or the error of a file that cannot be read.
READERS: dict[str, tuple[str, Callable[[Path], Any], Any]] = {
    "log": (LOG_NAME, lambda p: bool(read_trajectory(p).damage), True),
    "log's header": (LOG_NAME, header_of_log, {}),
    "log's lock": (LOG_NAME, lambda p: is_written(p / LOG_NAME), False),
    "log, to go on": (LOG_NAME, lambda p: Recorder.open(p, SystemClock()), DamagedLogError),
    "family": (LOG_NAME, lambda p: list(family_of(p)) == [p], True),
    "blob": (f"blobs/{KEY}", lambda p: read_blob(p, KEY), DamagedLogError),
    "proposals": (STATE_NAME, lambda p: pick_up(p, pytest.fail), ()),
    "result": (RESULT_NAME, _has_result, False),
    "registration": ("kernel.json", Registration.read, None),
    "settings": (
        ".config/harnessctl/config.toml",
        lambda p: user_config(read_environment({"HOME": str(p)})),
        UsageError,
    ),
    "script": ("script", lambda p: read_script(p / "script"), UsageError),
    "weights": ("w.gguf", lambda p: _require_gguf(p / "w.gguf"), UsageError),
    "operations": (FILE, lambda p: list(Operations(p).read()), HarnessError),
    "verdicts": ("verdicts", lambda p: list(SealedLines(p / "verdicts", b"k").read()), []),
    "key": ("key", lambda p: len(read_key(p / "key")), 32),
    "trusted": ("trusted", lambda p: Trust(p).holds("x"), False),
    "draft": (SEEN, seen_in, ""),
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnessctl.models.script.PATIENCE_S", 0.2)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_takes_it_for_a_file_that_cannot_be_read(tmp_path: Path, reader: str, odd: str) -> None:
    name, read, wanted = READERS[reader]
    if not name.endswith(LOG_NAME):
        record(tmp_path.parent, tmp_path.name)
    (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    ODD[odd](path)
    if isinstance(wanted, type):
        with pytest.raises(wanted) as raised:
            read(tmp_path)
        assert str(path) in str(raised.value)
        assert raised.value.hint
    else:
        assert read(tmp_path) == wanted


#: A file, what writes it, and whether it is ours alone, so that what stands there goes.
WRITERS: dict[str, tuple[str, Callable[[Path], Any], bool]] = {
    "operations": (FILE, lambda p: Operations(p).moved("x", None, None), False),
    "trusted": ("trusted", lambda p: Trust(p).remember("x"), False),
    "work tree's lock": ("occupied/x", _held, False),
    "server's log": ("server.log", lambda p: open_server_log(p / "server.log"), False),
    "space": (".spare", lambda p: Recorder.open(p, SystemClock()).close(), True),
    "result": (f".{RESULT_NAME}.{os.getpid()}", lambda p: write_whole(p / RESULT_NAME, b"x"), True),
    "registration": ("kernel.partial", lambda p: Registration(1, 1, 1, 1, "").write(p), True),
    "blob": (
        f"blobs/.partial-{os.getpid()}",
        lambda p: Recorder.open(p, SystemClock()).blob([b"x"]),
        True,
    ),
}


@pytest.mark.parametrize("odd", NOT_PLAIN)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_writes_into_nothing_else(
    tmp_path: Path, writer: str, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, write, ours = WRITERS[writer]
    record(tmp_path.parent, tmp_path.name)
    path = lock_path(tmp_path, tmp_path) if name == "occupied/x" else tmp_path / name
    path.parent.mkdir(exist_ok=True)
    ODD[odd](path)
    if ours and odd != "folder":
        write(tmp_path)
    else:
        with pytest.raises((HarnessError, OSError), match=r"Is a directory|no plain file"):
            write(tmp_path)


def test_what_is_kept_between_calls_is_done_without(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "verdicts")
    SealedLines(tmp_path / "verdicts", b"k").append([b"{}"])
    os.mkfifo(tmp_path / "w.checked")
    assert _stamp(tmp_path / "w.gguf") == tmp_path / "w.checked"
    os.mkfifo(tmp_path / "pre-commit")
    owner_of(tmp_path / "pre-commit")
    os.mkfifo(tmp_path / "x")
    with pytest.raises(OSError, match="no plain file"):
        artifact(tmp_path, "x")


@pytest.mark.parametrize("name", ["recall.sqlite", "recall.sqlite-journal"])
@pytest.mark.parametrize("odd", ODD)
def test_a_search_does_without_its_index(tmp_path: Path, odd: str, name: str) -> None:
    events = read_trajectory(record(tmp_path, NEW)).events
    ODD[odd](tmp_path / NEW / name)
    index = Index(tmp_path / NEW)
    assert [hit.n for hit in index.search(events, len(events), "t", 3)] == [1]
    index.catch_up(events, len(events), 10)
    index.close()


def test_an_empty_file_may_be_the_null_device(tmp_path: Path) -> None:
    (config := tmp_path / ".config/harnessctl/config.toml").parent.mkdir(parents=True)
    config.symlink_to(os.devnull)
    assert user_config(read_environment({"HOME": str(tmp_path)})) == {}
    assert read_script(Path(os.devnull)).replies == ()


@pytest.mark.parametrize("odd", ODD)
def test_the_list_names_the_session_and_so_does_what_takes_the_newest(tmp_path: Path, odd: str) -> None:
    record(tmp_path / "sessions", OLD)
    log = record(tmp_path / "sessions", NEW) / LOG_NAME
    log.unlink()
    ODD[odd](log)
    os.utime(log.parent, (0, 0))
    if not log.is_symlink():
        os.utime(log, (0, 0))
    listed = list_sessions(tmp_path, str)
    assert [(one.id, one.reason) for one in listed][-1] == (OLD, "no_end")
    assert [(one.id, one.reason) for one in listed if one.id == NEW] == [(NEW, "damaged")]
    for take in (lambda: find_session(tmp_path, ""), lambda: show_session(tmp_path, NEW, str)):
        with pytest.raises(DamagedLogError) as raised:
            take()
        assert str(log) in raised.value.message
        assert raised.value.hint
    assert newest_session(tmp_path) == log.parent
    assert find_session(tmp_path, OLD).name == OLD
    if odd != "sparse":  # as it stands, that one can be copied
        with pytest.raises(DamagedLogError):
            next(original_bytes(log.parent))


def test_a_damaged_newest_session_is_not_passed_over(tmp_path: Path) -> None:
    """Going on with another session than meant costs more than one more word."""
    record(tmp_path / "sessions", OLD)
    log = record(tmp_path / "sessions", NEW) / LOG_NAME
    log.write_bytes(b"lost\n" + log.read_bytes())
    with pytest.raises(DamagedLogError, match=NEW) as raised:
        find_session(tmp_path, "")
    assert "harnessctl sessions list" in raised.value.hint
    log.write_bytes(b"")  # killed before its header: nothing is lost with it, and it may be a child
    assert find_session(tmp_path, "").name == OLD


def test_a_log_of_any_size_is_read_up_to_its_damage(tmp_path: Path) -> None:
    folder = record(tmp_path / "sessions", NEW)
    whole = (folder / LOG_NAME).read_bytes()
    os.truncate(folder / LOG_NAME, 10**13)
    content = read_log(folder / LOG_NAME)
    assert [event.type for event in content.events] == [EventType.HEADER, EventType.TASK]
    assert content.size == len(whole)
    assert (
        content.damage == f"line 3 (byte {len(whole)}): longer than any record, in a file of {10**13} bytes"
    )
    assert [e.type for e in show_session(tmp_path, NEW, str).events] == [EventType.HEADER, EventType.TASK]
    with pytest.raises(DamagedLogError, match=str(10**13)):
        Recorder.open(folder, SystemClock())
    assert (folder / LOG_NAME).stat().st_size == 10**13, "nothing was changed"
    os.truncate(folder / LOG_NAME, len(whole) + LONGEST)
    Recorder.open(folder, SystemClock()).close()
    assert not read_trajectory(folder).damage


def test_a_record_that_no_reader_takes_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harnessctl.rlm.recorder.LONGEST", 1_000)
    recorder = Recorder.open(record(tmp_path, NEW), SystemClock())
    with pytest.raises(StorageError, match="1000 are read") as raised:
        recorder.append(EventType.TASK, {"text": "x" * 1_000})
    assert "free some space" not in raised.value.hint
    recorder.append(EventType.TASK, {"text": "x"})
    recorder.close()
    assert len(read_trajectory(tmp_path / NEW).events) == 3


@pytest.mark.parametrize("odd", ODD)
def test_doctor_names_it_and_goes_on(repo: Git, odd: str) -> None:
    started(repo)
    sessions = store_of(repo).state_dir / "sessions"
    log = record(sessions, NEW) / LOG_NAME
    log.unlink()
    ODD[odd](log)
    torn = record(sessions, OLD) / LOG_NAME
    torn.write_bytes(torn.read_bytes() + b"{")
    found = {one.repair.id: one.repair.what for one in doctor(store_of(repo)).found}
    assert str(log) in found["damaged_log"]
    assert str(torn) in found["torn_log"]


@pytest.mark.parametrize("odd", ODD)
def test_doctor_goes_on_without_the_operations(repo: Git, odd: str) -> None:
    store = started(repo)
    (path := store.state_dir / FILE).unlink(missing_ok=True)
    ODD[odd](path)
    torn = record(store.state_dir / "sessions", OLD) / LOG_NAME
    torn.write_bytes(torn.read_bytes() + b"{")
    found = {one.repair.id: one.repair.what for one in doctor(store_of(repo)).found}
    assert str(path) in found["read_failed"]
    assert "torn_log" in found


def test_what_is_wrong_with_a_session_s_place_is_not_always_a_full_disk(tmp_path: Path) -> None:
    for error, words in ((OSError(28, "No space left on device"), "free some"), (OSError(13, "no"), "mend")):
        assert words in StorageError(tmp_path, error).hint
    recorder = Recorder.open(record(tmp_path, NEW), SystemClock())
    with (tmp_path / NEW / LOG_NAME).open("ab") as file:
        file.write(json.dumps({}).encode())
    with pytest.raises(StorageError, match="something else changed") as raised:
        recorder.append(EventType.TASK, {"text": "x"})
    assert "space" not in raised.value.hint
    recorder.close()
