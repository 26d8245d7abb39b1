"""The hook files that ``hooks install`` writes, for those without a hook framework.

Each is a short POSIX shell script. It leaves commits that touch no harness file alone before Python
is started, runs the hook that was there before it, and refuses, rather than passes, when harnessctl
itself cannot be found.
"""

from __future__ import annotations

import shlex

#: Third line of every hook of ours: how it is told from others, and its version.
MARK = "# harnessctl-hook: 1"
#: Suffix of a hook that was there first and is run first.
BEFORE = ".before-harnessctl"

_STAGED = """git diff --cached --quiet -- ':(top).harness' && exit 0
set -- check --staged"""
_MESSAGE = """grep -qi '^harness-' "$1" || exit 0
set -- check --commit-msg "$1\""""
_PUSH = "set -- check --stdin-refs"

#: What each hook does before it calls harnessctl; the order is the one they are listed in.
HOOKS = {
    "pre-commit": _STAGED,
    "pre-merge-commit": _STAGED,
    "commit-msg": _MESSAGE,
    "pre-push": _PUSH,
}

_HEAD = """#!/bin/sh
# Written by `harnessctl hooks install`; `harnessctl hooks uninstall` removes it.
{mark}
before="$0{suffix}"
"""

_BEFORE = """if [ -x "$before" ]; then
    "$before" "$@" || exit
fi
"""
# -P: a file of the repository must not stand in for a module that harnessctl imports.
_CALL = """if [ -x {python} ]; then
    exec {python} -P -m harnessctl.cli.main "$@"
elif command -v harnessctl >/dev/null 2>&1; then
    exec harnessctl "$@"
fi
"""

# Two hooks read the same lines here, so they are kept and given to each in turn.
_BEFORE_PUSH = """lines=$(cat; echo .)
lines=${lines%.}
if [ -x "$before" ]; then
    printf '%s' "$lines" | "$before" "$@" || exit
fi
"""
_CALL_PUSH = """if [ -x {python} ]; then
    printf '%s' "$lines" | {python} -P -m harnessctl.cli.main "$@"
    exit
elif command -v harnessctl >/dev/null 2>&1; then
    printf '%s' "$lines" | harnessctl "$@"
    exit
fi
"""

_TAIL = """echo 'harnessctl is not installed here, so .harness/ cannot be checked' >&2
echo 'hint: install it and run `harnessctl hooks install` again' >&2
exit 1
"""


def hook_script(hook: str, python: str) -> str:
    """The file for ``hook``.

    :param python: absolute path of the interpreter that has harnessctl.
    """
    head = _HEAD.format(mark=MARK, suffix=BEFORE)
    before, call = (_BEFORE_PUSH, _CALL_PUSH) if hook == "pre-push" else (_BEFORE, _CALL)
    return head + before + HOOKS[hook] + "\n" + call.format(python=shlex.quote(python)) + _TAIL
