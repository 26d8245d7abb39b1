"""Short ways to a real harness in a real repository."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from harnessctl.config import read_environment
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.ids import EntryId
from harnessctl.domain.update import EntryEdit, Evidence, ExcerptEvent
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal
from harnessctl.layers.l3_durable.store import HarnessStore, open_store
from tests.conftest import Git

SESSION = "01KA0000000000000000000000"
EVIDENCE = Evidence(
    SESSION, 50, "ab" * 32, (38, 39, 41), ("tracked: 3",), (ExcerptEvent(38, "tracked: 3", False),)
)


def note(name: str, text: str, **keys: str) -> EntryFile:
    """A memory file."""
    head = "".join(f"{key}: {value}\n" for key, value in {"description": f"about {name}", **keys}.items())
    return EntryFile(f"memory/{name}.md", 0o100644, f"---\n{head}---\n{text}\n".encode())


def store_of(git: Git) -> HarnessStore:
    """A fresh store, as a new process would open it."""
    return open_store(git.root, read_environment())


def started(git: Git) -> HarnessStore:
    """The store of a repository in which ``init`` was run."""
    store = store_of(git)
    store.initialise()
    return store


def add(store: HarnessStore, name: str, text: str, **keys: str) -> Landed:
    """A person adds a memory."""
    return store.add(Addition(EntryId.parse(f"memory/{name}"), (note(name, text, **keys),)))


def propose(store: HarnessStore, name: str, text: str, base: str = "", **keys: str) -> Proposal:
    """An agent proposes a memory; an empty text proposes to delete it."""
    files = (note(name, text, **keys),) if text else ()
    edit = EntryEdit(EntryId.parse(f"memory/{name}"), "update" if text else "delete", files)
    return store.propose(
        [edit], Draft(f"learn {name}", "seen twice", model="m/x", evidence=(EVIDENCE,)), base
    )


def land(store: HarnessStore, name: str, text: str, **keys: str) -> Landed:
    """An agent's memory, proposed and accepted."""
    return store.accept(propose(store, name, text, **keys).id)


def text_of(git: Git, name: str, ref: str = "refs/heads/harness") -> str | None:
    """Body of a memory at ``ref`` as git's command line reads it, None when it is not there."""
    found = git("show", f"{ref}:.harness/memory/{name}.md", check=False)
    return found.rpartition("---\n")[2] if found else None


def fsck_is_clean(git: Git) -> bool:
    """Whether ``git fsck --strict`` exits 0 and prints nothing but dangling objects, to either stream."""
    command = ["git", "fsck", "--strict"]
    done = subprocess.run(command, cwd=git.root, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).splitlines()
    clean = done.returncode == 0 and all(line.startswith("dangling ") for line in said)
    if not clean:
        print("git fsck:", done.returncode, *said, sep="\n")
    return clean


Make = Callable[..., Git]
