"""Tool lists of skills and subagents, in the three forms that are in use.

``tools: Read, Bash(git:*)`` (commas), ``allowed-tools: Read Bash(git add:*)`` (spaces) and a YAML list; of
474 public subagent files 204 have the first and 11 the last form. What stands in parentheses belongs to
its tool, spaces and commas included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: One tool: no white space, comma or parenthesis outside of one level of parentheses.
_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?[^\s,()]*|\([^()]*\)")


def tool_list(value: Any) -> tuple[str, ...]:
    """The tools named by a frontmatter value, in the order written."""
    if isinstance(value, str):
        return tuple(_TOOL.findall(value))
    if isinstance(value, list | tuple):
        return tuple(str(each).strip() for each in value if str(each).strip())
    return ()


def widened(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """In which ways the frontmatter ``after`` allows more than ``before``, in words.

    A subagent without ``tools`` may use all of them; taking the key away widens.
    """
    said: list[str] = []
    for key in ("tools", "allowed-tools"):
        said += _wider_list(key, before, after)
    fewer = set(tool_list(before.get("disallowedTools"))) - set(tool_list(after.get("disallowedTools")))
    if fewer:
        said.append(f"'disallowedTools' no longer names {', '.join(sorted(fewer))}")
    return tuple(said) + asks_for(after, before)


def asks_for(meta: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """What ``meta`` asks for beyond ``before`` that widens by itself: hooks, servers, no permissions."""
    old = before or {}
    said = [f"'{key}' runs programs" for key in ("hooks", "mcpServers") if meta.get(key) and key not in old]
    mode = meta.get("permissionMode")
    if mode == "bypassPermissions" and old.get("permissionMode") != mode:
        said.append("'permissionMode: bypassPermissions' skips every permission")
    return tuple(said)


def _wider_list(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = tool_list(before.get(key)), tool_list(after.get(key))
    if not old:
        return []
    if not new or "*" in new:
        return [f"'{key}' no longer limits the tools"] if "*" not in old else []
    more = sorted(set(new) - set(old))
    return [f"'{key}' adds {', '.join(more)}"] if more else []
