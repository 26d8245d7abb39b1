"""One of several writers on the same few entries; run as a program.

``python crowd.py REPOSITORY WRITER UPDATES [blind]`` makes so many updates, a person's additions and an
agent's proposals in turn, and prints one JSON line for each: what became of it.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from harnessctl.domain.errors import ConflictError
from harnessctl.layers.l3_durable.store import HarnessStore
from tests.conftest import Git
from tests.fakes.careless import blind
from tests.fakes.harness import add, propose, store_of

#: Entries that all writers change.
ENTRIES = 12
#: Lines of one update's text; a text made of two updates shows.
LINES = 6


def text(writer: int, number: int) -> str:
    """What one update writes."""
    return "\n".join([f"writer {writer} update {number}"] * LINES)


def update(store: HarnessStore, writer: int, number: int) -> tuple[str, str]:
    """Make one update: its id, and ``landed`` or ``conflict``."""
    name = f"shared{random.randrange(ENTRIES)}"
    if number % 2:
        record = add(store, name, text(writer, number), owner="agent").record
        assert record is not None
        return record.id, "landed"
    proposal = propose(store, name, text(writer, number))
    try:
        store.accept(proposal.id)
    except ConflictError as error:
        if error.id != "conflict":
            raise
        return proposal.id, "conflict"
    return proposal.id, "landed"


def main() -> None:
    """Run the program."""
    store = store_of(Git(Path(sys.argv[1])))
    store = blind(store) if sys.argv[4:] == ["blind"] else store
    writer = int(sys.argv[2])
    for number in range(int(sys.argv[3])):
        print(json.dumps(update(store, writer, number)), flush=True)


if __name__ == "__main__":
    main()
