"""What the command answers to words that are nearly right, and what it never says again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harnessctl.cli.failure import MOST_REPORTS, REPORT_BYTES, report_internal
from harnessctl.layers.l3_durable.files.lock import LOCK_NAME
from tests.acceptance.conftest import COMMAND, Logs, Run, Script, outside_pytest
from tests.conftest import Git
from tests.fakes.harness import Make, add, propose, started, store_of
from tests.fakes.history import Hand, land, learned, update_of
from tests.fakes.terminal import pseudo_terminal

TOKEN = "ghp_" + "k3Jx8Qw2ZpLm" * 3


# -- words that are nearly right ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("lits",), "did you mean 'list'?"),
        (("review", "acept"), "Did you mean 'accept'?"),
        (("show", "memory/bulid"), "did you mean 'memory/build'?"),
        (("blame", "memory/bulid", "--at", "harness"), "did you mean 'memory/build'?"),
        (("remove", "memory/bulid"), "did you mean 'memory/build'?"),
        (("list", "--kind", "promts"), "did you mean 'prompts'?"),
        (("list", "--kind", "x"), "memory, prompts, skills, subagents"),
        (("log", "--state", "foo"), "open, conflict, landed, rejected, taken_back, unrecorded"),
        (("log", "--state", "landet"), "did you mean 'landed'?"),
    ],
    ids=str,
)
def test_the_right_word_is_named(harnessctl: Run, repo: Git, args: tuple[str, ...], said: str) -> None:
    add(started(repo), "build", "make")
    harnessctl("pin", cwd=repo.root)
    done = harnessctl(*args, cwd=repo.root, code=None)
    assert done.code in (1, 2)
    assert said in done.err
    if args[0] != "review":
        assert said in harnessctl(*args, "--json", cwd=repo.root, code=done.code).json()["error"]["hint"]


def test_what_has_landed_since_the_pin_is_said_to_have(harnessctl: Run, repo: Git) -> None:
    store = started(repo)
    add(store, "dep", "x")
    harnessctl("pin", cwd=repo.root)
    add(store, "zed", "quux")
    for verb in ("show", "blame"):
        said = harnessctl(verb, "memory/zed", cwd=repo.root, code=1).err
        assert f"it has landed since: harnessctl {verb} memory/zed --at harness" in said
    searched = harnessctl("search", "quux", cwd=repo.root)
    assert "memory/zed landed since the pin: say --at harness" in searched.err
    assert "memory/zed" in harnessctl("search", "quux", "--at", "harness", cwd=repo.root).out
    assert "landed since" not in harnessctl("search", "nowhere", cwd=repo.root).err


def test_kinds_in_both_numbers_and_states_with_a_dash(harnessctl: Run, repo: Git) -> None:
    store = started(repo)
    store.accept(propose(store, "a", "one").id, pin=True)
    for word in ("memory", "prompt", "prompts", "skills", "Subagent"):
        listed = harnessctl("list", "--kind", word, "--json", cwd=repo.root).json()
        assert [entry["id"] for entry in listed] == (["memory/a"] if word == "memory" else [])
    assert harnessctl("log", "--state", "taken-back", "--json", cwd=repo.root).json() == []
    assert len(harnessctl("log", "--state", "landed", "--json", cwd=repo.root).json()) == 1


def test_review_says_what_became_of_a_decided_proposal(harnessctl: Run, repo: Git) -> None:
    store = started(repo)
    landed, rejected, back, waiting = (learned(store, name, "x") for name in "abcd")
    commit = store.accept(landed.id).commit
    store.reject(rejected.id, "no")
    store.accept(back.id)
    harnessctl("rollback", "--only", back.id, cwd=repo.root)
    for proposal, said in ((landed, "it landed"), (rejected, "it was rejected"), (back, "was taken back")):
        for verb in ("show", "accept", "reject", "rebase"):
            done = harnessctl("review", verb, proposal.id[:22], cwd=repo.root, code=1)
            assert said in done.err
            assert f"harnessctl show {proposal.id}" in done.err
    assert (
        f"{commit[:12]} by Ada Reviewer" in harnessctl("review", "show", landed.id, cwd=repo.root, code=1).err
    )
    assert (
        harnessctl("review", "show", landed.id, "--json", cwd=repo.root, code=1).json()["error"]["id"]
        == "decided"
    )
    assert "no open proposal '01AAA'" in harnessctl("review", "show", "01AAA", cwd=repo.root, code=1).err
    assert waiting.id in harnessctl("review", "show", waiting.id, cwd=repo.root).out


def test_risk_is_told_with_its_reason(harnessctl: Run, repo: Git, tmp_path: Path) -> None:
    from harnessctl.domain.entry import EntryFile
    from harnessctl.domain.ids import EntryId
    from harnessctl.domain.update import EntryEdit, Risk
    from harnessctl.layers.l3_durable.landing.proposals import Draft
    from tests.fakes.harness import EVIDENCE

    store = started(repo)
    file = EntryFile("prompts/p.md", 0o100644, b"---\ndescription: d\n---\nx\n")
    draft = Draft("a note", "seen", model="m/x", evidence=(EVIDENCE,), risk=Risk("review", ("HRN701",)))
    waiting = store.propose([EntryEdit(EntryId.parse("prompts/p"), "create", (file,))], draft)
    shown = harnessctl("review", "show", waiting.id, cwd=repo.root).out
    assert "risk     review\n         HRN701: a prompt note enters every request of every session" in shown


# -- commits by hand, locks with markers ---------------------------------------------------------------


def test_commits_by_hand_to_policy_and_records_are_listed(harnessctl: Run, repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    one = update_of(land(store, "a", "one"))
    with Hand(repo, tmp_path / "hand") as hand:
        policy = hand.commit("tighten", **{".harness/harness.toml": "schema = 1\n[budgets]\nturns = 5\n"})
        (record,) = (hand.root / ".harness/updates").rglob("*.json")
        record.write_text(record.read_text() + "\n")
        changed = hand.commit("touch a record")
        foreign = hand.commit("a stranger", **{".harness/updates/2026-01/notes.json": "{}"})
        month = f".harness/updates/2001-02/{'0' * 26}.json"
        broken = hand.commit("a record that is none", **{month: "{}"})
        hand.commit("beside the harness", **{"README.md": "x"})
    rows = harnessctl("log", "--json", cwd=repo.root).json()
    told = {row["commit"]: row["state"] for row in rows if not row["update"]}
    assert told == dict.fromkeys((policy, changed, foreign, broken), "unrecorded")
    assert [row["update"] for row in rows if row["update"]] == [one]
    found = harnessctl("log", "--state", "unrecorded", "--json", cwd=repo.root).json()
    assert len(found) == 4


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("<<<<<<< HEAD\n{lock}=======\n{lock}>>>>>>> other\n", 0, ""),
        ("{lock}=======\n>>>>>>> other\n", 0, ""),
        ("<<<<<<< HEAD\n=======\n>>>>>>> other\n", 2, "harnessctl pin REV writes it anew"),
        ('<<<<<<< HEAD\ncommit = "{none}"\n=======\n>>>>>>> other\n', 1, "choose one: harnessctl pin REV"),
        ("{lock}", 1, "harnessctl status"),
    ],
    ids=["whole", "half", "empty", "not landed", "no markers"],
)
def test_markers_without_a_merge_come_to_an_end(
    harnessctl: Run, repo: Git, text: str, code: int, said: str
) -> None:
    """No two messages that send to each other: after what the last hint names, the lock is whole."""
    land(started(repo), "a", "one")
    harnessctl("pin", cwd=repo.root)
    lock = repo.root / LOCK_NAME
    whole = lock.read_text()
    lock.write_text(text.format(lock=whole, none="0" * 40))
    if "<<<" in text or ">>>" in text:
        assert "pin --resolve" in harnessctl("list", cwd=repo.root, code=1).err
    done = harnessctl("pin", "--resolve", cwd=repo.root, code=code)
    if code:
        assert said in done.err
        assert "--resolve" not in done.err.partition("hint:")[2]
        harnessctl("pin", "harness", cwd=repo.root)
    assert lock.read_text() == whole
    harnessctl("list", cwd=repo.root)


# -- one way to say it ---------------------------------------------------------------------------------


def test_hooks_and_export_answer_in_json(harnessctl: Run, script: Script, repo: Git, tmp_path: Path) -> None:
    done = harnessctl("hooks", "install", "--json", cwd=repo.root)
    assert done.json()["hooks"] == ["pre-commit", "pre-merge-commit", "commit-msg", "pre-push"]
    assert Path(done.json()["folder"]).name == "hooks"
    again = harnessctl("hooks", "uninstall", "--json", cwd=repo.root).json()
    assert again["hooks"] == done.json()["hooks"]
    harnessctl("run", "--model", script({"content": "Done."}), "x", cwd=repo.root)
    for form in ("jsonl", "html"):
        target = tmp_path / f"out.{form}"
        options = ("--format", form, "-o", target, "--json")
        told = harnessctl("sessions", "export", *options, cwd=repo.root).json()
        assert (told["format"], told["path"], told["masked"]) == (form, str(target), True)
        assert told["bytes"] == target.stat().st_size > 0
    assert (
        "--output"
        in harnessctl("sessions", "export", "--json", cwd=repo.root, code=2).json()["error"]["hint"]
    )


def test_at_head_is_said_once(harnessctl: Run, script: Script, repo: Git) -> None:
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.commit("harness", **{".harness/memory/a.md": "---\ndescription: d\n---\nx\n"})
    assert harnessctl("status", cwd=repo.root).out.count("at HEAD") == 1
    done = harnessctl("run", "--model", script({"content": "Done."}), "x", cwd=repo.root)
    assert done.err.count("at HEAD") == 1


def test_refine_wants_a_session_before_a_model(harnessctl: Run, script: Script, repo: Git) -> None:
    started(repo)
    for options in ((), ("--model", "openai/x"), ("01AAA",)):
        assert (
            harnessctl("refine", *options, "--json", cwd=repo.root, code=1).json()["error"]["id"]
            == "no_session"
        )
    harnessctl("run", "--model", script({"for": "root", "content": "Done."}), "x", cwd=repo.root)
    assert harnessctl("refine", "--json", cwd=repo.root, code=2).json()["error"]["id"] == "no_model"


def test_in_tree_before_the_first_commit_says_what_to_commit(
    harnessctl: Run, script: Script, tmp_path: Path
) -> None:
    repo = Git(tmp_path / "unborn")
    repo.root.mkdir()
    repo("init", "-q")
    harnessctl("init", "--in-tree", cwd=repo.root)
    harnessctl("run", "--model", script({"for": "root", "content": "Done."}), "x", cwd=repo.root)
    for verb in ("refine", "pin", "rollback x"):
        done = harnessctl(*verb.split(), "--json", cwd=repo.root, code=1)
        assert done.json()["error"]["id"] == "not_committed", verb
        assert "git add .harness" in done.json()["error"]["hint"]


def test_init_in_a_bare_repository_sends_to_a_clone(harnessctl: Run, make_repo: Make) -> None:
    done = harnessctl("init", cwd=make_repo("origin.git", bare=True).root)
    assert "next: in a clone that has a work tree, harnessctl run" in done.out


def test_refine_says_what_it_does(harnessctl: Run, script: Script, repo: Git, logs: Logs) -> None:
    """Plain lines in a pipe, one line that changes on a terminal, nothing with --json."""
    started(repo)
    harnessctl("run", "--model", script({"for": "root", "content": "Done."}), "x", cwd=repo.root)
    empty = json.dumps({"summary": "", "rationale": "nothing", "edits": []})
    replies = ({"for": "refine", "content": "no JSON"}, {"for": "refine", "content": empty})
    done = harnessctl("refine", "--model", script(*replies), cwd=repo.root)
    lines = done.err.splitlines()
    assert lines[0].startswith(f"reads session {logs.newest()[0]['data']['session']}: ")
    assert lines[1].startswith("asks scripted/")
    assert "once more, to mend its reply (reply: " in lines[2]
    assert harnessctl("refine", "--model", script(*replies), "--json", cwd=repo.root).err == ""
    with pseudo_terminal() as (ours, theirs):
        env = {**outside_pytest(), "TERM": "xterm"}
        command = [COMMAND, "refine", "--model", script(*replies)]
        subprocess.run(command, cwd=repo.root, env=env, stderr=theirs, timeout=120, check=True)
        shown = os.read(ours, 100_000).decode()
    assert "asks scripted/" in shown
    assert "\x1b[" in shown, "one line that is written over"


# -- what is never said again ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ("show", f"memory/{TOKEN}"),
        ("show", TOKEN),
        (TOKEN,),
        ("run", "--modle", TOKEN),
        ("log", "--state", TOKEN),
        ("list", "--at", TOKEN),
        ("-C", f"/nowhere/{TOKEN}", "list"),
        ("add", "memory/a", f"/nowhere/{TOKEN}"),
        ("list", f"--kind={TOKEN}"),
        ("log", "-n", TOKEN),
    ],
    ids=lambda args: " ".join(args).replace(TOKEN, "TOKEN"),
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_token_in_an_argument_is_not_repeated(
    harnessctl: Run, repo: Git, args: tuple[str, ...], form: tuple[str, ...]
) -> None:
    started(repo)
    done = harnessctl(*args, *form, cwd=repo.root, code=None)
    assert done.code in (1, 2)
    assert TOKEN not in done.out + done.err
    assert done.out + done.err


def test_the_hint_on_a_secret_names_the_file(harnessctl: Run, repo: Git) -> None:
    started(repo)
    text = f"---\ndescription: d\n---\n{TOKEN}\n"
    done = harnessctl("add", "memory/a", "-", input=text, cwd=repo.root, code=6)
    assert ".harness/harness.toml under [secrets] allow: sha256:" in done.err
    assert TOKEN not in done.err


def test_crash_reports_stay_few_and_short(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = home / "state/harnessctl/crashes"
    for _ in range(MOST_REPORTS + 5):
        assert report_internal(ValueError("x" * 1_000_000), ["list"], as_json=False) == 3
    reports = sorted(folder.glob("*.txt"))
    assert len(reports) == MOST_REPORTS
    assert all(path.stat().st_size <= REPORT_BYTES for path in reports)
    newest = reports[-1].read_text()
    assert newest.startswith("harnessctl ")
    assert "bytes left out" in newest
    assert str(reports[-1]) in capsys.readouterr().err


def test_doctor_names_a_left_over_lock_of_the_configuration(harnessctl: Run, repo: Git) -> None:
    started(repo)
    lock = repo.root / ".git/config.lock"
    lock.touch()
    assert harnessctl("doctor", cwd=repo.root).out == "nothing is wrong\n"
    os.utime(lock, (1, 1))
    assert "config.lock" in harnessctl("doctor", cwd=repo.root, code=1).out
    harnessctl("doctor", "--fix", cwd=repo.root)
    assert not lock.exists()
    assert store_of(repo).mode is not None


def test_doctor_names_every_setting_of_the_wrong_form(
    harnessctl: Run, repo: Git, script: Script, logs: Logs
) -> None:
    """Also those that another source outranks: what hides them today may be unset tomorrow."""
    started(repo)
    environment = {**os.environ, "HARNESSCTL_TURNS": "many"}
    config = logs.state.parent / "config/harnessctl/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[run]\nmodel = 3\n[budgets]\nturns = -1\n")
    repo("config", "harness.window", "wide")
    environment["XDG_CONFIG_HOME"] = str(config.parents[1])
    found = harnessctl("doctor", "--json", cwd=repo.root, env=environment, code=1).json()
    assert {one["what"].partition(":")[0] for one in found} == {
        "config.toml",
        "HARNESSCTL_TURNS=many",
        "git config",
    }
    assert [one["id"] for one in found] == ["bad_config"] * 4
    for one in found:
        where = {
            "c": "harnessctl/config.toml",
            "H": "HARNESSCTL_TURNS",
            "g": "git config harness.window VALUE",
        }
        assert where[one["what"][0]] in one["remedy"], one
    model = script({"content": "Done."})
    refused = harnessctl("run", "--json", "--model", model, "x", cwd=repo.root, env=environment, code=2)
    assert refused.json()["error"]["hint"] in {one["remedy"] for one in found}


def test_a_diff_needs_no_setting_but_its_own(harnessctl: Run, repo: Git) -> None:
    store = started(repo)
    add(store, "tabs", "Use tabs.")
    environment = {**os.environ, "HARNESSCTL_TURNS": "many"}
    assert "memory/tabs" in harnessctl("diff", "harness~1", "harness", cwd=repo.root, env=environment).out
    environment |= {"HARNESSCTL_PROMPT_TOKENS": "-1"}
    refused = harnessctl("diff", "harness~1", "harness", cwd=repo.root, env=environment, code=2)
    assert "HARNESSCTL_PROMPT_TOKENS=-1" in refused.err


def test_a_config_that_is_no_toml_is_a_finding_among_others(harnessctl: Run, repo: Git, logs: Logs) -> None:
    started(repo)
    config = logs.state.parent / "config/harnessctl/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[[[\n")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(config.parents[1]), "HARNESSCTL_TURNS": "0"}
    found = harnessctl("doctor", "--json", cwd=repo.root, env=environment, code=1).json()
    assert {one["id"] for one in found} == {"bad_config"}
    assert str(config) in found[0]["what"]
    assert "at least 1" in found[1]["what"]
    assert "the pin cannot be read" in found[2]["what"], "a policy of the user's may forbid it"
    refused = harnessctl("list", "--json", cwd=repo.root, env=environment, code=2).json()
    assert str(config) in refused["error"]["message"]


def test_status_names_settings_of_the_wrong_form_and_slips(harnessctl: Run, repo: Git) -> None:
    started(repo)
    repo("config", "harness.turns", "abc")
    repo("config", "harness.apiBase", "http://127.0.0.1:1")
    repo("config", "harness.requireShared", "maybe")
    environment = {**os.environ, "HARNESSCTL_WINDOW": "wide", "HARNESSCTL_TURN": "3"}
    done = harnessctl("status", cwd=repo.root, env=environment)
    assert "wrong: git config: budgets.turns: a whole number is wanted" in done.out
    assert "wrong: HARNESSCTL_WINDOW=wide: a whole number is wanted" in done.out
    assert "wrong: git config: review.require_shared: true or false is wanted" in done.out
    assert "'HARNESSCTL_TURN' is read by nothing. did you mean 'HARNESSCTL_TURNS'?" in done.err
    assert "set model.api_base in config.toml, or in HARNESSCTL_API_BASE" in done.err


def test_status_without_a_harness_names_what_keeps_runs_from_beginning(harnessctl: Run, repo: Git) -> None:
    repo("config", "harness.mode", "branches")
    done = harnessctl("status", cwd=repo.root, env={**os.environ, "HARNESSCTL_TURNS": "many"})
    assert "no harness here" in done.out
    assert "wrong: git configuration harness.mode is 'branches'" in done.out
    assert "wrong: HARNESSCTL_TURNS=many: a whole number is wanted" in done.out


@pytest.mark.parametrize(
    ("model", "error"),
    [("/", "bad_model"), ("openai/", "bad_model"), ("/gpt-4o", "bad_model"), ("foo/bar", "unknown_model")],
)
def test_a_name_of_no_model_is_refused_at_once(
    harnessctl: Run, repo: Git, logs: Logs, model: str, error: str
) -> None:
    refused = harnessctl("run", "--json", "--model", model, "x", cwd=repo.root, code=2).json()
    assert refused["error"]["id"] == error
    assert not list(logs.state.glob("harnessctl/*/sessions/*"))


def test_a_rejected_update_is_shown_as_one(harnessctl: Run, repo: Git) -> None:
    store = started(repo)
    update = learned(store, "tabs", "Use tabs.").id
    harnessctl("review", "reject", update, "--why", "We use spaces.", cwd=repo.root)
    shown = harnessctl("show", update, cwd=repo.root)
    assert f"update {update}  (rejected)" in shown.out
    assert "We use spaces." in shown.out
    assert "not kept" in shown.err


def test_status_before_the_first_commit_says_so(harnessctl: Run, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "new"], check=True)
    harnessctl("init", "--in-tree", cwd=tmp_path / "new")
    assert "nothing is committed yet: runs read nothing" in harnessctl("status", cwd=tmp_path / "new").out


@pytest.mark.parametrize("how", ["branch", "in-tree", "in-tree, not set up here", "none"])
@pytest.mark.parametrize(("name", "text"), [("HEAD", "garbage\n"), ("refs/heads/main", "")])
def test_doctor_names_a_damaged_head_and_goes_on(
    harnessctl: Run, repo: Git, how: str, name: str, text: str
) -> None:
    if how != "none":
        harnessctl("init", *([] if how == "branch" else ["--in-tree"]), cwd=repo.root)
        repo("add", "-A")
        repo("commit", "-q", "-m", "harness")
    if how == "in-tree, not set up here":
        repo("config", "--remove-section", "harness")
    repo.write(f".git/{name}", text)
    (repo.root / ".git/packed-refs.lock").touch()
    os.utime(repo.root / ".git/packed-refs.lock", (1, 1))
    head, *others = harnessctl("doctor", "--json", cwd=repo.root, code=1).json()
    lost = ["lost_harness"] if (how, name) == ("in-tree", "refs/heads/main") else []
    assert [head["id"], *(one["id"] for one in others)] == ["bad_head", "stale_lock", *lost]
    assert f"{repo.root / '.git' / name} is damaged" in head["what"]
    assert f".git/logs/{name} lists where it was" in head["remedy"]
