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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.places.names import PROPOSALS
from harnessctl.layers.l3_durable.store import HarnessStore
from tests.conftest import Git
from tests.fakes.careless import blind
from tests.fakes.harness import add, fsck_is_clean, propose, store_of, text_of

BUILDING = ("checked", "blobs", "tree", "commit", "written")
LANDING = (*BUILDING, "before moved", "moved")
#: (what is done, the point at which the process is killed); "anywhere": after a random time.
CASES = (
    *(("accept", p) for p in (*LANDING, "before cleaned", "cleaned", "anywhere")),
    *(("accept and pin", p) for p in ("before locked", "locked", "anywhere")),
    *(("propose", p) for p in ("written", "before proposed", "proposed", "anywhere")),
    *(("reject", p) for p in ("written", "before moved", "moved", "before cleaned", "cleaned")),
    *(("add", p) for p in ("written", "before moved", "moved", "anywhere")),
)
DECIDED = {UpdateState.LANDED, UpdateState.REJECTED}


class Rounds:
    """One repository under fire.

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

    def store(self) -> HarnessStore:
        """A store as a new process would open it."""
        return self.change(store_of(self.git))

    def run(self, number: int) -> None:
        """One round."""
        what, point = self.cases[number % len(self.cases)]
        name, text = f"r{number}", f"text of round {number}"
        update = "" if what in ("propose", "add") else propose(self.store(), name, text).id
        status = killed(lambda: self.act(what, name, text, update, point), point)
        if status == -signal.SIGKILL:
            self.hits[f"{what}: {point}"] += 1
        elif status != 0 or point != "anywhere":
            self.wrong.append(f"round {number} ({what}, {point}) ended with {status}")
        self.look(number, name, text, update, what, point)

    def act(self, what: str, name: str, text: str, update: str, point: str) -> None:
        """What the process does that is going to be killed."""
        store = self.store()
        store.writer.reached = lambda p: os.kill(os.getpid(), signal.SIGKILL) if p == point else None
        if what == "add":
            add(store, name, text)
        elif what == "propose":
            propose(store, name, text)
        elif what == "reject":
            store.reject(update, "no")
        else:
            store.accept(update, pin=what == "accept and pin")

    def look(self, number: int, name: str, text: str, update: str, what: str, point: str) -> None:
        """Compare what is there with what may be there, then go on with it."""
        store = self.store()
        mine = [(u.id, u.state) for u in store.updates() if f"memory/{name}" in u.entries or u.id == update]
        open_now = [p.id for p in store.proposals() if f"memory/{name}" in [c.id for c in p.record.entries]]
        here = text_of(self.git, name) is not None
        said = f"round {number} ({what}, {point}): {mine}, open {open_now}, entry there: {here}"
        landed = bool(mine) and mine[0][1] is UpdateState.LANDED
        if len({u for u, _ in mine}) > 1 or (update and len(mine) != 1):
            self.wrong.append(f"lost, or twice: {said}")
        if landed != here or (landed and open_now) or (mine and mine[0][1] not in DECIDED and not open_now):
            self.wrong.append(f"both, or half: {said}")
        if what in ("accept", "add") and point in ("moved", "before cleaned", "cleaned") and not landed:
            self.wrong.append(f"moved but not landed: {said}")
        if open_now:
            store.accept(open_now[0])
            here = True
        if here:
            self.texts[name] = text
        lock = store.lock
        if lock is not None and store.pin().commit != lock.commit:
            self.wrong.append(f"the lock names what is not landed: {said}")
        add(self.store(), f"after-{name}", "goes on")
        self.texts[f"after-{name}"] = "goes on"

    def end(self, others: dict[str, str]) -> None:
        """What must hold for everything that was ever acknowledged."""
        for name, text in (self.texts | others).items():
            if (text_of(self.git, name) or "").strip() != text:
                self.wrong.append(f"lost: {name}")
        left = [str(p) for p in (self.git.root / ".git").rglob("*.lock")]
        if left:
            self.wrong.append(f"lock files left: {left}")
        states = {u.id: u.state for u in self.store().updates()}
        refs = self.git("for-each-ref", "--format=%(refname)", PROPOSALS).split()
        self.wrong += [f"no state: {ref}" for ref in refs if not states.get(ref.removeprefix(PROPOSALS))]
        if not fsck_is_clean(self.git):
            self.wrong.append("git fsck finds damage")


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
    cases = [case for case in CASES if not (careless and case[1] == "anywhere")]
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
