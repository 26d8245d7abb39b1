"""Prints docs/configuration.md from the table of settings."""

from __future__ import annotations

from harnessctl.config import describe_keys

HEAD = """\
# Configuration

Made by `python docs/configuration.py`; do not edit. Highest first: flags, environment, your own
`$XDG_CONFIG_HOME/harnessctl/config.toml` (by default `~/.config/harnessctl/config.toml`), git configuration
`harness.*`, the pin's `.harness/harness.toml`. In both files a dotted name is a key in a table: `run.model`
is `model` under `[run]`.

A repository never sets endpoints or the names of keys, and a Python inside the clone only when you trust
it (`run --trust`). Keys themselves are read from your environment by the provider's usual name
(`OPENAI_API_KEY`, …); a `.env` file is never read.

`harness.toml` is changed like code. In-tree it lies in the work tree; in branch mode on the harness branch:
`git worktree add ../harness harness`, edit and commit there, `git worktree remove ../harness`, then
`harnessctl pin`. In both files numbers and `true` or `false` stand without quotes. A value of the wrong form
is refused by `check` and by runs; `doctor` names each, wherever it is set.

Of `harness.toml`, `review` and `secrets` count as they are at the landed tip. What `secrets.allow` lists in
your own file and in the landed policy is allowed together.

A variable `HARNESSCTL_…`, a key of your own file or one of git's `harness.*` that nothing reads is no error:
`run`, `status` and `doctor` name it, with what was perhaps meant. In `harness.toml` `check` refuses it
(HRN216), and a run says so.

| setting | environment | your `config.toml` | git | `harness.toml` |
|---|---|---|---|---|
"""

TAIL = """
## The kernel and the model's replies
`run --python PATH` or `run --kernel NAME` (an installed Jupyter kernel with a Python of its own) says what
cells run on. `run --protocol tool|fence` outranks what is known of the model: `tool` offers it one tool,
`fence` asks for one fenced block.

## The prompt
`prompt.tokens` (2000) bounds what the system prompt shows of the harness; `harnessctl prompt --explain` says
where each entry went. `prompt.files_tokens` (1500) bounds what it shows of the work tree's own AGENTS.md and
CLAUDE.md; 0 leaves them unread, as `run --no-repository-files` does once.

## Gates
```toml
[[gates]]
name = "tests"
command = "pytest -q"
inputs = ["tests/**"]   # changed by the run, the gate proves nothing: exit 4
timeout_s = 600
attempts = 1            # how often a failure goes back to the model
```
Gates and budgets are the pin's, so an agent that edits `harness.toml` changes nothing in its own run.

## What a team reads
`review.require_shared`, read at the landed tip, lets runs read only what is on the remote: a lock may name
nothing else, unpinned runs follow the remote-tracking branch, and a landing moves no lock before
`harnessctl sync` has shared it.

## In the repository's own git configuration
`init` writes `harness.mode` and `harness.branch`; the first verb that keeps something outside the repository
writes `harness.repositoryId`, before any `init` too. Sessions, locks and caches lie below
`$XDG_STATE_HOME/harnessctl/<repository id>/` (by default `~/.local/state`), weights below
`$XDG_CACHE_HOME/harnessctl/`.
"""

if __name__ == "__main__":
    print(HEAD + "\n".join(describe_keys()) + "\n" + TAIL, end="")
