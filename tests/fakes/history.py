"""A repository whose harness learned from real logs, and a person with git alone."""

from __future__ import annotations

from pathlib import Path

from harnessctl.config import read_environment
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.event import event_text
from harnessctl.domain.ids import EntryId, new_ulid
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import EntryEdit, Evidence, ExcerptEvent
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.refine.redact import Redactor, local_redactor
from tests.conftest import Git
from tests.fakes.harness import note
from tests.fakes.trajectories import OUTPUT, build, session, write

HOST = "engine.example.org"


def here() -> Redactor:
    """This machine's redactor."""
    return local_redactor(read_environment(), HOST)


def log(store: HarnessStore, output: str = "tracked: app.py\n", pin: str = "", id: str = "") -> Trajectory:  # noqa: A002
    """A session of its own with a whole log on disk; ``pin`` is the commit it read."""
    name = id or new_ulid()
    steps = [(str(e.type), dict(e.data)) for e in session(output).events]
    read = {"source": "tip", "branch": "harness", "entries": "", "commit": pin or None}
    steps[0] = ("header", {"schema": 1, "session": name, "parent": None, "pin": read})
    made = build(steps, name)
    folder = write(made, store.state_dir / "sessions")
    folder.chmod(0o700)  # as the recorder makes them
    (folder / "log.jsonl").chmod(0o600)
    return made


def log_file(store: HarnessStore, trajectory: Trajectory) -> Path:
    """The log's file."""
    return store.state_dir / "sessions" / trajectory.session / "log.jsonl"


def evidence(trajectory: Trajectory, quote: str = "tracked: app.py") -> Evidence:
    """Evidence as refining writes it: redacted quote and excerpt of the output event."""
    event = trajectory.event(OUTPUT)
    assert event is not None
    redacted = here().redact(event_text(event))
    return Evidence(
        trajectory.session,
        *trajectory.head,
        (OUTPUT,),
        (here().redact(quote),),
        (ExcerptEvent(OUTPUT, redacted, False),),
    )


def learned(
    store: HarnessStore,
    name: str,
    text: str,
    trajectory: Trajectory | None = None,
    *,
    base: str = "",
    cited: Evidence | None = None,
    model: str = "m/x",
) -> Proposal:
    """An agent proposes a memory on evidence that is really there; an empty text deletes it."""
    found = cited or evidence(trajectory or log(store))
    files: tuple[EntryFile, ...] = (note(name, text),) if text else ()
    edit = EntryEdit(EntryId.parse(f"memory/{name}"), "update" if text else "delete", files)
    draft = Draft(f"learn {name}: {text[:20]!r}", "seen", model=model, evidence=(found,))
    return store.propose([edit], draft, base)


def land(store: HarnessStore, name: str, text: str, trajectory: Trajectory | None = None) -> Landed:
    """The same, accepted."""
    return store.accept(learned(store, name, text, trajectory).id)


def update_of(landed: Landed) -> str:
    """Id of the update that was landed."""
    assert landed.record is not None
    return landed.record.id


class Hand:
    """A person with git alone, in a work tree of the harness branch that goes away again."""

    def __init__(self, git: Git, place: Path) -> None:
        self.git, self.place = git, place

    def __enter__(self) -> Git:
        self.git("worktree", "add", "-q", str(self.place), "harness")
        return Git(self.place)

    def __exit__(self, *_: object) -> None:
        self.git("worktree", "remove", "--force", str(self.place))


def by_hand(git: Git, path: str, text: str, message: str = "by hand") -> str:
    """A person's commit of one file on the harness branch, with git alone; the commit's id."""
    with Hand(git, git.root.parent / f"{git.root.name}-hand") as hand:
        return hand.commit(message, **{path: text})
