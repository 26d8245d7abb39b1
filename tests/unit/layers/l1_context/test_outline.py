from __future__ import annotations

from harnessctl.domain.event import Event, EventType
from harnessctl.layers.l1_context.outline import outline


def test_a_child_is_told_by_name_state_and_reason() -> None:
    told = ({"name": "alice", "state": "started"}, {"name": "alice", "state": "failed", "reason": "turns"})
    events = [Event(n, "", EventType.CHILD, 1, data, "", "") for n, data in enumerate(told, start=5)]
    assert outline(events).splitlines() == ["#5 child: alice started", "#6 child: alice failed turns"]
