"""``harnessctl prompt``: what a run would say to the model, and an account of every entry."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git

KINDS = {"memory": 200, "skills": 50, "subagents": 20}
BODY = "Run `make part-{n}`; with a stale cache remove build/cache and run it again.\n" * 6


def ids() -> list[str]:
    """270 entries."""
    return [f"{kind}/{kind[0]}{n:03}" for kind, count in KINDS.items() for n in range(count)]


def fill(repo: Git) -> None:
    """Put them on the harness branch in one commit, as git itself would."""
    lines = ["commit refs/heads/harness\ncommitter B <b@example.com> 1700000000 +0000\ndata 1\nx\n"]
    lines.append(f"from {repo('rev-parse', 'refs/heads/harness')}\n")
    for number, entry in enumerate(ids()):
        kind, _, name = entry.partition("/")
        path = f".harness/{entry}/SKILL.md" if kind == "skills" else f".harness/{entry}.md"
        named = f"name: {name}\n" if kind == "skills" else ""
        text = f"---\n{named}description: How to build part {number} of {name}\n---\n{BODY.format(n=number)}"
        lines.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
    done = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(done, cwd=repo.root, input="".join(lines).encode(), check=True)


@pytest.fixture
def full(harnessctl: Run, repo: Git) -> Git:
    harnessctl("init", cwd=repo.root)
    fill(repo)
    harnessctl("pin", cwd=repo.root)
    return repo


def test_all_270_entries_are_accounted_for(harnessctl: Run, full: Git) -> None:
    shown = harnessctl("prompt", "--json", cwd=full.root).json()
    assert [e["id"] for e in shown["entries"]] == sorted(ids())
    places = Counter(e["place"] for e in shown["entries"])
    assert places["line"] > 100
    assert places["search"] > 0
    assert all(e["why"] for e in shown["entries"])
    assert shown["tokens"]["harness"] <= 2000
    text = shown["text"]
    listed = [e["id"] for e in shown["entries"] if e["place"] == "line"]
    assert all(f"\n- {entry}: " in text for entry in listed)
    hidden = Counter(e["id"].partition("/")[0] for e in shown["entries"] if e["place"] == "search")
    assert f"Not listed here: {hidden['memory']} memories" in text


def test_explain_is_a_table_with_totals(harnessctl: Run, full: Git) -> None:
    out = harnessctl("prompt", "--explain", cwd=full.root).out
    rows = [line.split("\t") for line in out.splitlines() if "\t" in line]
    assert len(rows) == 270
    assert ["skills/s000", "line"] in [row[:2] for row in rows]
    assert {row[1] for row in rows} == {"line", "search"}
    assert "of 2,000: 270 entries, 0 in full" in out
    assert "base prompt: about" in out
    assert "always stand" not in out
    tokens = harnessctl("prompt", "--json", cwd=full.root).json()["tokens"]
    assert f"in all: about {tokens['total']:,} tokens" in out
    assert tokens.pop("total") == sum(tokens.values()) - tokens["budget"]


def test_the_same_snapshot_gives_the_same_bytes(harnessctl: Run, full: Git) -> None:
    outs = {
        harnessctl("prompt", cwd=full.root, env={"PYTHONHASHSEED": str(seed)}).out for seed in (0, 1, 12345)
    }
    assert len(outs) == 1


@pytest.mark.kernel
def test_every_one_can_be_read_from_a_cell(
    harnessctl: Run, script: Script, logs: Logs, full: Git, tmp_path: Path
) -> None:
    wanted = ids()
    random.Random(4).shuffle(wanted)
    (full.root / "wanted.json").write_text(json.dumps(wanted))
    code = (
        "wanted = json.load(open('wanted.json'))\n"
        "texts = {name: harness.show(name) for name in wanted}\n"
        "print(len(texts), all('stale cache' in text for text in texts.values()))\n"
        "print(len(harness.list()), len(harness.list('skills')), harness.search('part 137 m137')[0])"
    )
    harnessctl("run", "--model", script({"code": code}, {"content": "ok"}), "x", cwd=full.root)
    (result,) = [e["data"]["text"] for e in logs.newest() if e["type"] == "result"]
    assert "270 True" in result
    assert "270 50 memory/m137: How to build part 137 of m137" in result


def test_it_is_what_a_run_sends(harnessctl: Run, script: Script, logs: Logs, full: Git) -> None:
    full.write("AGENTS.md", "Use make.\n")
    model = script({"content": "ok"})
    shown = harnessctl("prompt", "--json", "--model", model, cwd=full.root).json()
    harnessctl("run", "--model", model, "x", cwd=full.root)
    first = next(e for e in logs.newest() if e["type"] == "request")["data"]["append"]
    assert first[0] == {"role": "system", "content": shown["text"]}
    assert shown["tokens"]["repository files"] > 0


def test_a_revision_a_budget_and_no_model(harnessctl: Run, full: Git) -> None:
    harnessctl("add", "memory/new", cwd=full.root, input="---\ndescription: new one\n---\nBody\n")
    assert "memory/new" not in harnessctl("prompt", "--tokens", "9000", cwd=full.root).out
    done = harnessctl("prompt", "--at", "harness", "--tokens", "90000", cwd=full.root)
    assert '<entry id="memory/new"' in done.out
    assert "shown as for a model that calls tools: no model is configured" in done.err
    small = harnessctl("prompt", "--explain", "--tokens", "0", cwd=full.root).out
    assert "0 in full, 0 as a line, 270 by search only; heading and closing line always stand" in small


def test_an_empty_harness_and_none(harnessctl: Run, repo: Git) -> None:
    assert "# Harness" not in harnessctl("prompt", cwd=repo.root).out
    harnessctl("init", cwd=repo.root)
    out = harnessctl("prompt", "--explain", cwd=repo.root).out
    assert "session: about" in out
    assert "\t" not in out


def test_what_does_not_load_is_named(harnessctl: Run, repo: Git) -> None:
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.write(".harness/memory/bad.md", "---\nno: description\n---\n")
    repo.commit("a broken entry")
    done = harnessctl("prompt", cwd=repo.root, code=1)
    assert "does not load: .harness/memory/bad.md: HRN" in done.err
    assert done.out


def test_a_program_that_the_clone_names_is_not_run(harnessctl: Run, repo: Git) -> None:
    repo.write("bin/python", "#!/bin/sh\ntouch ran\n").chmod(0o755)
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.write(".harness/harness.toml", 'schema = 1\n[run]\npython = "bin/python"\n')
    repo.commit("a program")
    done = harnessctl("prompt", cwd=repo.root)
    assert "not tried: bin/python" in done.err
    assert not (repo.root / "ran").exists()
