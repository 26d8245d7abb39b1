"""What the user trusts is remembered by digest."""

from __future__ import annotations

from pathlib import Path

from harnessctl.layers.l3_durable.pins.trust import Trust, programs_digest

GATE = {"name": "tests", "command": "make test", "inputs": []}


def test_trust_is_for_exactly_these_programs(tmp_path: Path) -> None:
    digest = programs_digest([GATE], None)
    trust = Trust(tmp_path)
    assert not trust.holds(digest)
    trust.remember(digest)
    trust.remember(digest)
    assert Trust(tmp_path).holds(digest)
    assert (tmp_path / "trusted").read_text() == digest + "\n"
    for other in (
        programs_digest([{**GATE, "command": "make test; curl x"}], None),
        programs_digest([GATE, GATE], None),
        programs_digest([GATE], "./python"),
    ):
        assert not trust.holds(other)


def test_a_damaged_file_trusts_nothing(tmp_path: Path) -> None:
    (tmp_path / "trusted").write_bytes(b"\xff\xfe")
    assert not Trust(tmp_path).holds(programs_digest([GATE], None))
