from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.layers.l3_durable.files.tree import FILE, TreeItem
from harnessctl.layers.l3_durable.rules.load import MemoryVerdicts, check_load
from harnessctl.layers.l3_durable.rules.names import clashes, fold, place
from harnessctl.layers.l3_durable.rules.verdict import Verdict

GOOD = b"---\ndescription: d\n---\nBody\n"
SKILL = b"---\nname: audit\ndescription: d\n---\n"


def item(path: str, data: bytes = GOOD, mode: int = FILE) -> TreeItem:
    return TreeItem(path, mode, hashlib.sha1(data).hexdigest(), lambda: data)


class Counting:
    """Content that counts how often it is read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.reads = data, 0

    def __call__(self) -> bytes:
        self.reads += 1
        return self.data


def test_broken_entries_are_named_and_the_rest_loads() -> None:
    report = check_load([item("memory/good.md"), item("memory/bad.md", b"caf\xe9"), item("memory/Other.md")])
    assert list(report.entries) == ["memory/good"]
    assert set(report.broken) == {"memory/bad", "memory/Other.md"}
    assert [f.rule for f in report.broken["memory/bad"]] == ["HRN101"]
    assert report.findings == tuple(
        sorted((f for group in report.broken.values() for f in group), key=lambda f: (f.path, f.line))
    )


def test_an_entry_is_what_git_holds() -> None:
    report = check_load([item("skills/audit/scripts/a.py", b"pass"), item("skills/audit/SKILL.md", SKILL)])
    entry = report.entries["skills/audit"]
    assert [f.path for f in entry.files] == ["skills/audit/SKILL.md", "skills/audit/scripts/a.py"]
    assert (entry.description, entry.meta["name"], entry.main.data) == ("d", "audit", SKILL)


def test_entries_are_read_when_asked_for_and_once() -> None:
    content = Counting(GOOD)
    verdicts = MemoryVerdicts()
    items = [TreeItem("memory/x.md", FILE, "a" * 40, content)]
    check_load(items, verdicts=verdicts)
    assert content.reads == 1
    report = check_load(items, verdicts=verdicts)
    assert content.reads == 1, "a kept verdict needs no reading"
    assert report.entries["memory/x"] is report.entries["memory/x"]
    assert content.reads == 2


def test_what_is_too_large_is_not_read() -> None:
    content = Counting(b"")
    big = TreeItem("memory/x.md", FILE, "a" * 40, content, -1, lambda: 50_000_000)
    report = check_load([big])
    assert [f.rule for f in report.findings] == ["HRN111"]
    assert content.reads == 0


def test_a_broken_skill_is_named_by_its_id_whichever_file_breaks_it() -> None:
    link = item("skills/audit/assets/x", b"/etc/passwd", 0o120000)
    report = check_load([item("skills/audit/SKILL.md", SKILL), link])
    assert set(report.broken) == {"skills/audit"}
    assert not report.entries


def test_what_depends_on_a_broken_entry_is_not_broken_by_it() -> None:
    needs = item("memory/needs.md", b"---\ndescription: d\ndepends_on: memory/bad\n---\n")
    report = check_load([needs, item("memory/bad.md", b"x")])
    assert set(report.broken) == {"memory/bad"}


def test_both_names_of_a_clash_are_in_its_message() -> None:
    report = check_load([item("skills/audit/SKILL.md", SKILL), item("skills/audit/skill.md")])
    (finding,) = report.findings
    assert (finding.rule, finding.path) == ("HRN120", ".harness/skills/audit/skill.md")
    assert ".harness/skills/audit/SKILL.md" in finding.message


@pytest.mark.parametrize("path", ["skills/x/skill.md", "skills/x/Skill.md"])
def test_skill_md_is_refused_by_its_name_on_every_system(path: str) -> None:
    report = check_load([item(path, SKILL)])
    (finding,) = report.findings
    assert (finding.rule, finding.path) == ("HRN113", f".harness/{path}")
    assert "SKILL.md" in finding.message


def test_messages_do_not_repeat_secrets() -> None:
    token = "ghp_" + "a" * 36
    report = check_load([item("memory/x.md", f"---\ndescription: d\ndepends_on: [{token}]\n---\n".encode())])
    (finding,) = report.findings
    assert token not in finding.message
    assert "[secret: GitHub token]" in finding.message


def test_names_that_are_not_utf8_are_judged() -> None:
    report = check_load(
        [item("memory/caf\udce9.md"), item("skills/audit/SKILL.md", SKILL), item("skills/audit/\udcff")]
    )
    assert {f.rule for f in report.findings} == {"HRN107"}


NAMES = st.text(st.sampled_from("aAbßéE\u0301ıİ./-\u200c\udce9ﬁk\u212a"), min_size=1, max_size=8)


@given(st.lists(NAMES, max_size=6, unique=True))
def test_clashes_are_all_pairs_that_fold_together(paths: list[str]) -> None:
    files = [p for p in paths if "//" not in p and p.strip("/") == p]
    found = {f.path for f in clashes(files)}

    def folded(path: str) -> set[tuple[str, str]]:
        parts = path.split("/")
        names = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        return {(fold(name), name) for name in names}

    every = {pair for path in files for pair in folded(path)}
    expected = len({f for f, _ in every}) != len(every)
    assert bool(found) == expected


@given(st.text(st.characters(codec=None) | st.sampled_from("/.-_"), max_size=40))
def test_any_path_has_a_place(path: str) -> None:
    where = place(path)
    assert where.role in ("main", "file", "record", "policy", "stray", "bad")
    assert (where.role == "bad") == bool(where.problem)


KINDS = st.sampled_from(
    ["memory/x.md", "prompts/x.md", "skills/x/SKILL.md", "subagents/x.md", "harness.toml", "updates/x"]
)


@given(st.dictionaries(KINDS | NAMES, st.binary(max_size=80), max_size=4))
def test_any_tree_is_judged(files: dict[str, bytes]) -> None:
    report = check_load([item(path, data) for path, data in files.items()])
    list(report.entries.values())
    assert all(f.rule.startswith("HRN1") for f in report.findings)


def test_kept_verdicts_change_nothing() -> None:
    """The same tree with a fresh cache, a warm one and none."""
    items = [
        item("memory/a.md"),
        item("memory/b.md", b"x"),
        item("memory/c.md", b"---\ndescription: d\ndepends_on: memory/q\n---\n"),
    ]
    warm = MemoryVerdicts()
    plain = check_load(items)
    first, second = (check_load(items, verdicts=warm) for _ in range(2))
    assert plain.findings == first.findings == second.findings


def test_the_same_bytes_under_two_kinds_are_judged_apart() -> None:
    verdicts = MemoryVerdicts()
    check_load([item("memory/a.md")], verdicts=verdicts)
    lying = Verdict()
    verdicts.put(item("prompts/a.md").oid, "prompt", lying)
    assert verdicts.get(item("memory/a.md").oid, "memory") is not lying
