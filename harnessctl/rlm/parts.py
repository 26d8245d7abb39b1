"""What one session works with, from its opening over its turns to its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from harnessctl.domain.limits import Limits
from harnessctl.models.port import ModelClient
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.children import Children
from harnessctl.rlm.compaction_wish import CompactionWish
from harnessctl.rlm.door import Door
from harnessctl.rlm.gates import Gates
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.kernels import Kernels
from harnessctl.rlm.ports import Clock, PinWatch, Watcher
from harnessctl.rlm.post import Letters
from harnessctl.rlm.proposing import Proposing
from harnessctl.rlm.protocol import Protocol
from harnessctl.rlm.recall import Recall
from harnessctl.rlm.skill_copies import SkillCopies


@dataclass(frozen=True)
class TurnParts:
    """The parts of one session.

    :ivar deadline: moment of :class:`Clock` at which the session must end, None without one.
    :ivar door: answers what cells ask of the host.
    :ivar proposing: what cells wish to be remembered, None where nothing can be proposed.
    :ivar copies: of pinned skills, on disk.
    :ivar gates: what an answer must pass, None when there is nothing.
    :ivar consumer: who asks the model: ``root`` or a child's name.
    :ivar compaction: whether a cell asked for one.
    :ivar recall: the session's history, for its cells.
    :ivar node: what usage is booked on: the names from the root down, ``root/alice``.
    :ivar children: None where there can be none.
    :ivar letters: to and from other sessions, None where there are no others.
    :ivar eager: start the kernel before a cell needs it.
    """

    journal: Journal
    model: ModelClient
    kernels: Kernels
    budget: Budget
    limits: Limits
    interrupts: Interrupts
    watcher: Watcher
    clock: Clock
    protocol: Protocol
    inbox: Inbox
    pin: PinWatch
    door: Door
    proposing: Proposing | None = None
    copies: SkillCopies | None = None
    consumer: str = "root"
    node: str = "root"
    children: Children | None = None
    letters: Letters | None = None
    eager: bool = True
    params: tuple[tuple[str, float], ...] = ()
    max_output: int | None = None
    deadline: float | None = None
    gates: Gates | None = None
    compaction: CompactionWish = field(default_factory=CompactionWish)
    recall: Recall | None = None
