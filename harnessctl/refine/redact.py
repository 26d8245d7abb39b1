"""Redaction: home folders, user and host names leave what others will read.

Excerpts and quotes travel with the record to every clone, so what names this machine or its user
is replaced before it is written. Secrets are not redacted here: a cited event that holds one stops
the proposal (:mod:`harnessctl.refine.secrecy`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from harnessctl.config import Environment

#: Names that tell nobody who or where: replacing them would only make text harder to read.
_COMMON = (
    "admin agent app build builder ci codespace debian default dev developer docker fedora git guest "
    "harness home host jenkins linux local localhost mac macbook main node nobody owner python root "
    "runner server shell test tester ubuntu user users vagrant work worker workspace www"
)
COMMON_NAMES = frozenset(_COMMON.split())
#: A name shorter than this would match inside too many ordinary texts.
SHORTEST_NAME = 3

#: What stands for a home folder, a user's name, a host's name.
MARKS = ("~", "[user]", "[host]")

#: Folders of other users: Linux, macOS, and Windows drives as WSL mounts them.
_OTHER_HOME = re.compile(r"(?P<base>/home/|/Users/)(?P<name>[^/\s:'\"<>|`\\]+)")


@dataclass(frozen=True)
class Redactor:
    """Replaces home folders by ``~``, user names by ``[user]`` and host names by ``[host]``.

    :ivar homes: absolute paths of the user's home, as written and as resolved.
    """

    homes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        """``text`` without them. Redacting twice changes nothing more."""
        for home in sorted(self.homes, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.~-]){re.escape(home)}(?![\w-]|\.\w)", "~", text)
        text = _OTHER_HOME.sub(_other_home, text)
        for names, mark in ((self.hosts, "[host]"), (self.users, "[user]")):
            for name in sorted(names, key=len, reverse=True):
                text = re.sub(rf"(?<![\w\[]){re.escape(name)}(?![\w\]])", mark, text, flags=re.IGNORECASE)
        return text


def _other_home(found: re.Match[str]) -> str:
    name = found["name"]
    return found[0] if name == "[user]" else f"{found['base']}[user]"


def redactor(homes: Iterable[PurePath], users: Iterable[str], hosts: Iterable[str]) -> Redactor:
    """A redactor that knows these; empty, short and common names are left alone.

    A host's short name (before the first dot) is redacted beside its full one.
    """
    hosts = [name for host in hosts for name in (host, host.partition(".")[0])]
    return Redactor(
        homes=tuple(sorted({str(home) for home in homes if len(home.parts) > 1})),
        users=tuple(sorted({name for name in users if _names_somebody(name)})),
        hosts=tuple(sorted({name for name in hosts if _names_somebody(name)})),
    )


def _names_somebody(name: str) -> bool:
    return len(name) >= SHORTEST_NAME and name.lower() not in COMMON_NAMES


def local_redactor(environment: Environment, host: str) -> Redactor:
    """A redactor for this user on this machine.

    :param host: the machine's name, as ``platform.node()`` gives it.
    """
    home, variables = environment.home, environment.variables
    return redactor(
        homes=(home, home.resolve()),
        users=(home.name, variables.get("USER", ""), variables.get("LOGNAME", "")),
        hosts=(host,),
    )
