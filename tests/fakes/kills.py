"""Rounds of ``kill -9`` against real stores while a second writer goes on; run as a program.

``python kills.py REPOSITORY ROUNDS [blind]`` prints one JSON object: how often each case was hit, and
what did not hold, in words. The facts are read with git's own command line where it can tell them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.update import RecordType, UpdateState
from harnessctl.layers.l3_durable.landing import proposals, reworking
from harnessctl.layers.l3_durable.landing.rollback import Wanted
from harnessctl.layers.l3_durable.places.names import PROPOSALS
from harnessctl.layers.l3_durable.store import HarnessStore
from tests.conftest import Git
from tests.fakes.careless import blind
from tests.fakes.harness import add, fsck_is_clean, propose, store_of, text_of

BUILDING = ("checked", "blobs", "tree", "commit", "written")
LANDING = (*BUILDING, "before moved", "moved")
#: (what is done, the point at which the process is killed); "anywhere": after a random time. `park` is a
#: rejection that waits for the next landing, `unpark` a landing that takes one along; `give` and `take`
#: are the two ways of `sync`, whose git would outlive a kill at any other place.
CASES = (
    *(("accept", p) for p in (*LANDING, "before cleaned", "cleaned", "anywhere")),
    *(("accept and pin", p) for p in ("before locked", "locked", "anywhere")),
    *(("propose", p) for p in ("written", "before proposed", "proposed", "anywhere")),
    *(("reject", p) for p in ("checked", "written", "before moved", "moved", "before cleaned", "cleaned")),
    *(("add", p) for p in ("blobs", "written", "before moved", "moved", "anywhere")),
    *(("rollback", p) for p in ("tree", "before moved", "moved", "before locked", "locked", "anywhere")),
    *(("rebase", p) for p in ("commit", "before moved", "moved", "anywhere")),
    *(("edit", p) for p in ("written", "before moved", "moved", "anywhere")),
    *(("park", p) for p in ("before parked", "parked", "before cleaned", "cleaned", "anywhere")),
    *(("unpark", p) for p in ("before moved", "moved", "before unparked", "unparked")),
    *(("give", p) for p in ("before moved", "moved")),
    *(("take", p) for p in ("before moved", "moved")),
)
#: Points from which on the deed is done, whatever is left to clean up.
DONE = {"moved", "proposed", "parked", "before unparked", "unparked"} | {
    *("before cleaned", "cleaned", "before locked", "locked")
}
OPEN, LANDED = UpdateState.OPEN, UpdateState.LANDED
REJECTED, TAKEN_BACK = UpdateState.REJECTED, UpdateState.TAKEN_BACK
#: What is done -> the update's state before and after; None: there is no such update.
STATES: dict[str, tuple[UpdateState | None, UpdateState | None]] = {
    "accept": (OPEN, LANDED),
    "accept and pin": (OPEN, LANDED),
    "propose": (None, OPEN),
    "reject": (OPEN, REJECTED),
    "add": (None, LANDED),
    "rollback": (LANDED, TAKEN_BACK),
    "rebase": (OPEN, OPEN),
    "edit": (OPEN, OPEN),
    "park": (OPEN, REJECTED),
    "unpark": (REJECTED, REJECTED),
    "give": (LANDED, LANDED),
    "take": (LANDED, LANDED),
}
#: How often a round is tried in which another writer can take away what it is about.
TRIES = 20


@dataclass(frozen=True)
class Deed:
    """What one process does, and where it is killed.

    :ivar update: the update it is about, "" while there is none.
    :ivar base: the landed tip before; what is taken, where the deed is to take it.
    """

    what: str
    point: str
    name: str
    update: str
    base: str

    @property
    def text(self) -> str:
        """What the entry says."""
        return f"text of {self.name}"


class Rounds:
    """One repository under fire, a bare remote of it, and another clone.

    :param change: what to do to each store before it is used.
    :param cases: which of :data:`CASES` are played, in turn.
    """

    def __init__(
        self,
        git: Git,
        change: Callable[[HarnessStore], HarnessStore],
        cases: Sequence[tuple[str, str]] = CASES,
    ) -> None:
        self.git = git
        self.change = change
        self.cases = cases
        self.wrong: list[str] = []
        self.hits: Counter[str] = Counter()
        self.texts: dict[str, str] = {}
        self.origin, self.clone = (Git(git.root.parent / name) for name in ("origin.git", "clone"))
        for place, bare in ((self.origin, ["--bare"]), (self.clone, [])):
            place.root.mkdir()
            place("init", "-q", "-b", "harness" if bare else "main", *bare)
        self.clone("commit", "-q", "--allow-empty", "-m", "first")
        for place in (self.git, self.clone):
            # Without a refspec git leaves the remote-tracking branch to us.
            place("config", "remote.origin.url", str(self.origin.root))

    def store(self, git: Git | None = None) -> HarnessStore:
        """A store as a new process would open it."""
        return self.change(store_of(git or self.git))

    def run(self, number: int) -> None:
        """One round."""
        what, point = self.cases[number % len(self.cases)]
        for attempt in range(TRIES):
            deed = self.prepare(what, point, f"r{number}-{attempt}")
            status = killed(lambda: self.act(deed), point)  # noqa: B023 - called at once
            # The second writer takes a waiting decision along whenever it is faster.
            if status != 0 or what != "unpark":
                break
        if status == -signal.SIGKILL:
            self.hits[f"{what}: {point}"] += 1
        elif status != 0 or point != "anywhere":
            self.wrong.append(f"round {number} ({what}, {point}) ended with {status}")
        self.look(deed)
        self.go_on(deed)

    def prepare(self, what: str, point: str, name: str) -> Deed:
        """Bring about what the process is going to change."""
        deed = Deed(what, point, name, "", "")
        if what not in ("propose", "add", "give", "take"):
            deed = replace(deed, update=propose(self.store(), name, deed.text).id)
        if what == "rebase":
            add(self.store(), f"before-{name}", "moves the tip")
        elif what == "rollback":
            self.store().accept(deed.update)
        elif what == "unpark":
            park(self.store(), deed.update)
        elif what in ("give", "take"):
            add(self.store(), name, deed.text)
        tip = self.store().sync().tip if what == "take" else self.store().landed_tip()
        return replace(deed, base=tip)

    def act(self, deed: Deed) -> None:
        """What the process does that is going to be killed."""
        store = self.store(self.clone if deed.what == "take" else None)
        store.writer.reached = lambda p: os.kill(os.getpid(), signal.SIGKILL) if p == deed.point else None
        if deed.what in ("give", "take"):
            store.sync()
        elif deed.what == "add":
            add(store, deed.name, deed.text)
        elif deed.what == "propose":
            propose(store, deed.name, deed.text)
        elif deed.what == "reject":
            store.reject(deed.update, "no")
        elif deed.what == "park":
            park(store, deed.update)
        elif deed.what == "unpark":
            add(store, f"with-{deed.name}", "lands")
        elif deed.what == "rollback":
            store.rollback(Wanted(store.resolve(deed.update), deed.update), only=True)
        elif deed.what == "rebase":
            store.rebase_proposal(deed.update)
        elif deed.what == "edit":
            edit(store, deed.update, deed.text)
        else:
            store.accept(deed.update, pin=deed.what == "accept and pin")

    def look(self, deed: Deed) -> None:
        """Compare what is there with what may be there."""
        store = self.store()
        touching = [u for u in store.updates() if f"memory/{deed.name}" in u.entries or u.id == deed.update]
        back = [u for u in touching if u.record is not None and u.record.type is RecordType.ROLLBACK]
        mine = [(u.id, u.state) for u in touching if u not in back]
        open_now = [p for p in store.proposals() if f"memory/{deed.name}" in [c.id for c in p.record.entries]]
        here = text_of(self.git, deed.name) is not None
        said = f"{deed}: {mine}, taken back by {len(back)}, open {len(open_now)}, entry there: {here}"
        state = mine[0][1] if mine else None
        before, after = STATES[deed.what]
        if len({u for u, _ in mine}) > 1 or (deed.update and len(mine) != 1):
            self.wrong.append(f"lost, or twice: {said}")
        both = (
            (state is LANDED) != here,
            bool(open_now) != (state is OPEN),
            bool(back) != (state is TAKEN_BACK),
        )
        if any(both) or state not in (before, after):
            self.wrong.append(f"both, or half: {said}")
        if deed.point in DONE and state is not after:
            self.wrong.append(f"moved but not {after}: {said}")
        if deed.point not in DONE and deed.point != "anywhere" and state is not before:
            self.wrong.append(f"not moved and {state} all the same: {said}")
        if deed.what == "unpark" and deed.point in DONE and text_of(self.git, f"with-{deed.name}") is None:
            self.wrong.append(f"moved but the entry beside it is not there: {said}")
        if deed.what in ("rebase", "edit"):
            self.look_at_rework(deed, open_now, said)
        if here:
            self.texts[deed.name] = deed.text

    def look_at_rework(self, deed: Deed, open_now: Sequence[proposals.Proposal], said: str) -> None:
        """The proposal is the old one or the new one."""
        text = text_of(self.git, deed.name, open_now[0].commit) if open_now else None
        reworked = {
            "rebase": bool(open_now) and self.git("merge-base", open_now[0].base, deed.base) == deed.base,
            "edit": text == f"{deed.text}, edited",
        }[deed.what]
        if text not in (deed.text, f"{deed.text}, edited"):
            self.wrong.append(f"both, or half: {said}, it says {text}")
        if deed.point != "anywhere" and reworked is not (deed.point in DONE):
            self.wrong.append(f"moved but not reworked, or the other way round: {said}")

    def go_on(self, deed: Deed) -> None:
        """The next of everything works."""
        store = self.store()
        for proposal in store.proposals():
            store.accept(proposal.id)
            for change in proposal.record.entries:
                name = change.id.removeprefix("memory/")
                self.texts[name] = text_of(self.git, name, proposal.commit) or ""
        lock = store.lock
        if lock is not None and store.pin().commit != lock.commit:
            self.wrong.append(f"the lock names what is not landed: {deed}")
        store = self.store()
        store.accept(propose(store, f"after-{deed.name}", "goes on").id)
        self.texts[f"after-{deed.name}"] = "goes on"
        if deed.what == "give":
            tip = self.store().sync().tip
            if (self.origin("rev-parse", "harness"), self.store().pushed(tip)) != (tip, True):
                self.wrong.append(f"not pushed: {deed}")
        if deed.what == "take":
            moved = self.clone("rev-parse", "-q", "--verify", "refs/heads/harness", check=False) == deed.base
            if moved is not (deed.point in DONE):
                self.wrong.append(f"moved but not taken, or the other way round: {deed}")
            if self.store(self.clone).sync().tip != self.origin("rev-parse", "harness"):
                self.wrong.append(f"not taken: {deed}")

    def end(self, others: dict[str, str]) -> None:
        """What must hold for everything that was ever acknowledged."""
        for name, text in (self.texts | others).items():
            if (text_of(self.git, name) or "").strip() != text:
                self.wrong.append(f"lost: {name}")
        for git in (self.git, self.clone, self.origin):
            left = [str(p) for p in git.root.rglob("*.lock") if p.name != "harness.lock" or ".git" in p.parts]
            if left:
                self.wrong.append(f"lock files left: {left}")
            if not fsck_is_clean(git):
                self.wrong.append(f"git fsck finds damage in {git.root.name}")
        states = {u.id: u.state for u in self.store().updates()}
        refs = self.git("for-each-ref", "--format=%(refname)", PROPOSALS).split()
        self.wrong += [f"no state: {ref}" for ref in refs if not states.get(ref.removeprefix(PROPOSALS))]


def park(store: HarnessStore, update: str) -> None:
    """Reject a proposal as it is done in-tree while the branch is checked out."""
    proposals.reject(store.writer, store.proposal(update), "no", store.history, waits=True)


def edit(store: HarnessStore, update: str, text: str) -> None:
    """Edit a proposal in review."""
    proposal = store.proposal(update)
    (file,) = reworking.proposed_files(store.writer, proposal)
    changed = file.data.replace(text.encode(), f"{text}, edited".encode())
    store.edit_proposal(proposal, [EntryFile(file.path, file.mode, changed)])


def killed(work: Callable[[], None], point: str) -> int:
    """How a process ended that does ``work``; at point "anywhere" it is killed after a random time."""
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if point == "anywhere":
        time.sleep(random.uniform(0.002, 0.12))
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def second_writer(git: Git, change: Callable[[HarnessStore], HarnessStore], log: Path, stop: Path) -> None:
    """Add entries until ``stop`` is there; each is noted in ``log`` once it has landed."""
    store, number = change(store_of(git)), 0
    while not stop.exists():
        add(store, f"other{number}", f"other text {number}")
        with log.open("a") as file:
            file.write(f"other{number}\n")
        number += 1
        time.sleep(random.uniform(0, 0.3))


def main() -> None:
    """Run the rounds; the report goes to standard output."""
    git, rounds = Git(Path(sys.argv[1])), int(sys.argv[2])
    careless = sys.argv[3:] == ["blind"]
    change = blind if careless else lambda store: store
    # A blind writer announces nothing, so nobody could take away the lock file of one that was killed
    # in the middle of a move; it is not killed there.
    plain = ("accept", "accept and pin", "propose", "reject", "add")
    cases = [(w, p) for w, p in CASES if not careless or (w in plain and p != "anywhere")]
    log, stop = git.root.parent / "others.log", git.root.parent / "stop"
    log.touch()
    other = os.fork()
    if other == 0:
        code = killed(lambda: second_writer(git, change, log, stop), "")
        os._exit(code % 256)
    under_fire = Rounds(git, change, cases)
    try:
        for number in range(rounds):
            try:
                under_fire.run(number)
            except Exception as error:
                under_fire.wrong.append(f"round {number} {cases[number % len(cases)]}: {error!r}")
    finally:
        stop.touch()
    if os.waitpid(other, 0)[1] != 0:
        under_fire.wrong.append("the second writer failed")
    others = {name: f"other text {name.removeprefix('other')}" for name in log.read_text().split()}
    under_fire.end(others)
    report = {"wrong": under_fire.wrong, "hits": under_fire.hits, "others": len(others)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
