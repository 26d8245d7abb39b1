"""``verify``: each answer, and that each of its checks finds what was planted for it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harnessctl.commands.verify import Answer, Verified, verify
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.ids import record_path
from harnessctl.domain.update import ExcerptEvent
from harnessctl.layers.l3_durable.store import HarnessStore
from tests.conftest import Git
from tests.fakes.harness import Make, add, started, store_of
from tests.fakes.history import Hand, evidence, here, land, learned, log, log_file, update_of
from tests.fakes.trajectories import OUTPUT, SESSION, session, write


def only(store: HarnessStore, update: str) -> Verified:
    (found,) = verify(store, update, here()).answers
    return found


def test_ok_when_everything_stands(repo: Git) -> None:
    store = started(repo)
    landed = land(store, "a", "one")
    assert only(store, update_of(landed)) == Verified(update_of(landed), "landed", Answer.OK)
    assert only(store, landed.commit[:10]).answer is Answer.OK
    waiting = learned(store, "b", "two")
    assert only(store, waiting.id).answer is Answer.OK
    assert not verify(store, None, here()).failed


def test_a_changed_byte_in_the_log_is_a_mismatch_that_names_the_event(repo: Git) -> None:
    store = started(repo)
    trajectory = log(store)
    landed = land(store, "a", "one", trajectory)
    path = log_file(store, trajectory)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = 0
    for n, line in enumerate(lines):
        at = start + line.index(b'"t":"') + 8
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = only(store, update_of(landed))
        assert found.answer is Answer.MISMATCH
        assert found.problems[0].startswith(f"{trajectory.session}#{n}: ")
        start += len(line)
    path.write_bytes(whole)
    assert only(store, update_of(landed)).answer is Answer.OK


def test_a_log_written_anew_with_whole_hashes_does_not_have_the_records_head(repo: Git) -> None:
    store = started(repo)
    trajectory = log(store)
    landed = land(store, "a", "one", trajectory)
    prev, data = "0" * 64, b""
    for event in trajectory.events:
        told = {**event.data, "text": "tracked: app.py, or so"} if event.n == OUTPUT else event.data
        made = Event.make(n=event.n, t=event.t, type=event.type, turn=event.turn, data=told, prev=prev)
        prev, data = made.hash, data + made.to_line()
    log_file(store, trajectory).write_bytes(data)
    found = only(store, update_of(landed))
    assert found.answer is Answer.MISMATCH
    assert found.problems == (
        f"{trajectory.session}#{trajectory.head[0]}: its hash is not the head of the chain in the record",
    )


def test_events_after_the_head_and_a_half_written_line_take_nothing_away(repo: Git) -> None:
    store = started(repo)
    trajectory = log(store)
    landed = land(store, "a", "one", trajectory)
    last = trajectory.events[-1]
    more = Event.make(n=last.n + 1, t=last.t, type=EventType.CHECKPOINT, turn=0, data={}, prev=last.hash)
    with log_file(store, trajectory).open("ab") as file:
        file.write(more.to_line() + b'{"data":{')
    assert only(store, update_of(landed)).answer is Answer.OK


def test_a_log_cut_off_before_the_head_is_a_mismatch(repo: Git) -> None:
    store = started(repo)
    trajectory = log(store)
    landed = land(store, "a", "one", trajectory)
    path = log_file(store, trajectory)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    found = only(store, update_of(landed))
    assert found.answer is Answer.MISMATCH
    assert "ends before the head" in found.problems[0]


def test_without_the_log_there_is_the_excerpt_or_nothing(repo: Git, make_repo: Make, tmp_path: Path) -> None:
    store = started(repo)
    shown = land(store, "a", "one")
    bare_evidence = replace(evidence(log(store)), excerpt=(), quotes=())
    bare = store.accept(learned(store, "b", "two", cited=bare_evidence).id)
    mine = add(store, "c", "a person's")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "harness", repo.root, clone], check=True)
    fresh = store_of(Git(clone))
    answers = {one.update: one for one in verify(fresh, None, here()).answers}
    assert answers[update_of(shown)].answer is Answer.EXCERPT_ONLY
    assert "not on this machine" in answers[update_of(shown)].note
    assert answers[update_of(bare)].answer is Answer.NO_LOG
    assert answers[update_of(mine)].answer is Answer.OK
    assert answers[update_of(mine)].note


@pytest.mark.parametrize("field", ["before", "after"])
@pytest.mark.parametrize("how", ["amended", "changed later"])
def test_a_planted_wrong_digest_is_found(repo: Git, tmp_path: Path, field: str, how: str) -> None:
    store = started(repo)
    land(store, "a", "one")
    landed = land(store, "a", "two")
    path = f".harness/{record_path(update_of(landed))}"
    with Hand(repo, tmp_path / "hand") as hand:
        record = json.loads((hand.root / path).read_text())
        record["entries"][0][field] = "sha256:" + "0" * 64
        hand.write(path, json.dumps(record, sort_keys=True, indent=2) + "\n")
        hand("add", "-A")
        hand("commit", "-q", "--no-edit", *(["--amend"] if how == "amended" else ["-m", "x"]))
    found = only(store_of(repo), update_of(landed))
    assert found.answer is Answer.MISMATCH
    wanted = f"entries[memory/a].{field}" if how == "amended" else "record: it was changed after"
    assert found.problems[0].startswith(wanted)
    assert verify(store_of(repo), None, here()).failed


def test_an_entry_changed_in_the_same_commit_does_not_match(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    landed = land(store, "a", "one")
    with Hand(repo, tmp_path / "hand") as hand:
        entry = hand.root / ".harness/memory/a.md"
        entry.write_text(entry.read_text().replace("one", "ONE"))
        hand("commit", "-q", "-a", "--amend", "--no-edit")
    found = only(store_of(repo), update_of(landed))
    assert found.problems[0].startswith("entries[memory/a].after: ")


def test_a_squash_of_several_updates_of_an_entry_still_stands(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    landed = [land(store, "a", text) for text in ("one", "two", "three")]
    with Hand(repo, tmp_path / "hand") as hand:
        hand("reset", "-q", "--soft", "HEAD~3")
        hand("commit", "-q", "-m", "x")
    for one in landed:
        assert only(store_of(repo), update_of(one)).answer is Answer.OK


def test_a_malformed_and_an_unreadable_record_are_named(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    landed = land(store, "a", "one")
    other = land(store, "b", "two")
    with Hand(repo, tmp_path / "hand") as hand:
        hand.write(f".harness/{record_path(update_of(other))}", "{")
        hand("commit", "-q", "-a", "--amend", "--no-edit")
        path = f".harness/{record_path(update_of(landed))}"
        record = json.loads((hand.root / path).read_text()) | {"surprise": 1}
        hand.write(path, json.dumps(record))
        hand("commit", "-q", "-a", "-m", "x")
    answers = {one.update: one for one in verify(store_of(repo), None, here()).answers}
    assert answers[update_of(other)].answer is Answer.MISMATCH
    assert answers[update_of(landed)].answer is Answer.MISMATCH


def planted(store: HarnessStore, **changes: object) -> Verified:
    """An update whose evidence says something else than the log."""
    cited = replace(evidence(log(store)), **changes)  # type: ignore[arg-type]
    return only(store, store.accept(learned(store, "p", "x", cited=cited).id).commit)


def test_made_up_evidence_is_found(repo: Git) -> None:
    store = started(repo)
    assert planted(store, quotes=("tracked: nothing",)).problems == (
        "quotes[0]: it stands in none of the cited events",
    )


def test_made_up_events_and_excerpts_are_found(repo: Git) -> None:
    store = started(repo)
    found = planted(store, events=(OUTPUT, 99), quotes=())
    assert [p.partition("#")[2] for p in found.problems] == ["99: there is no such event"]


def test_made_up_excerpts_are_found(repo: Git) -> None:
    store = started(repo)
    found = planted(store, excerpt=(ExcerptEvent(OUTPUT, "tracked: all\n", False),))
    assert found.problems[0].endswith(f"#{OUTPUT}: the excerpt is not what the event says")


def test_a_quote_that_the_whole_excerpt_lacks_is_found_without_a_log(repo: Git) -> None:
    store = started(repo)
    write(session(), store.state_dir / "elsewhere")
    cited = replace(evidence(session()), quotes=("tracked: nothing",))
    landed = store.accept(learned(store, "p", "x", cited=cited).id)
    found = only(store, update_of(landed))
    assert (found.answer, found.problems) == (Answer.MISMATCH, ("quotes[0]: not in the excerpt",))
    assert SESSION in cited.session


def test_redacted_quotes_and_excerpts_stand(repo: Git, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "zelda")
    store = started(repo)
    output = f"tracked: {home}/work/app.py by zelda on engine.example.org\n"
    for quote in (f"{home}/work/app.py", "work/app.py by zelda", "elda on engine", "tracked: "):
        cited = evidence(log(store, output), quote)
        assert "zelda" not in cited.excerpt[0].text
        landed = store.accept(learned(store, f"n{abs(hash(quote))}", "x", cited=cited).id)
        assert only(store, update_of(landed)).answer is Answer.OK, quote
