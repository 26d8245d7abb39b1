"""What a loopback server would put on the bill for a tree of sessions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.fakes.killing import until
from tests.fakes.openai_server import Answer, Say, Seen

_NAME = re.compile(r"You are ([a-z0-9-]+), started by another session")
#: A cell that starts eight children and prints each one's answer, or why there is none.
START_EIGHT = """
hs = [rlm(f"task {i}", name=f"n{i}") for i in range(8)]
for h in hs:
    try:
        print(await h)
    except ChildError as error:
        print(error)
"""


class Till:
    """A server's answers, and what it would put on the bill, by who asked, in the order of asking."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, int, int]] = []

    def who(self, seen: Seen) -> str:
        found = _NAME.search(str(seen.messages[0]["content"]))
        return f"root/{found[1]}" if found else "root"

    def answer(self, seen: Seen, say: Say) -> Say:
        assert say.usage is not None
        self.counted.append((self.who(seen), say.usage[0], say.usage[1]))
        return say

    def of(self, node: str) -> tuple[int, int, int]:
        """Prompt tokens, completion tokens, calls."""
        rows = [row for row in self.counted if row[0] == node]
        return sum(r[1] for r in rows), sum(r[2] for r in rows), len(rows)


def spender(till: Till, factor: float, started: Path) -> Callable[[Seen], Answer]:
    """A root that starts eight children, which ask again and again; no answer of theirs ever comes.

    :param factor: what it says was used, in parts of what we would estimate.
    :param started: a file that the root makes when all children are started; nobody spends before that.
    """
    begin = START_EIGHT.replace("for h in hs:", f"open({str(started)!r}, 'w').close()\nfor h in hs:")

    def choose(seen: Seen) -> Answer:
        who = till.who(seen)
        usage = (int(sum(len(str(m)) for m in seen.messages) / 3.5 * factor), 100, 0)
        if who == "root":
            first = till.of("root")[2] == 0
            return till.answer(seen, Say("-", code=begin if first else None, usage=usage))
        assert until(started.exists)
        # A call that is answered and never run: no kernel is needed to go on for ever.
        return till.answer(seen, Say("-", calls=(("shell", "{}"),), usage=usage, delay_s=0.02))

    return choose
