"""Who writes a commit: author and committer, found as git finds them, before any other work.

git falls back to the login and host name when nothing is configured; a commit that says who let an
update in must not guess, so that is refused here, with the two settings named.
"""

from __future__ import annotations

import email.utils
import re
import time
from datetime import datetime

from harnessctl.config import Environment
from harnessctl.domain.errors import UsageError
from harnessctl.layers.l3_durable.git.repository import Person, Repository, fit_for_a_commit

AGENT_NAME = "harnessctl agent"
AGENT_EMAIL = "agent@harnessctl.invalid"

_RAW_DATE = re.compile(r"@?(\d{1,12})(?: ([+-])(\d\d)(\d\d))?\Z")
_CRUFT = " \t\n.,:;<>\"\\'"


def author(repository: Repository, environment: Environment) -> Person:
    """The person who writes (``GIT_AUTHOR_*``, ``author.*``, ``user.*``); errors as :func:`committer`."""
    return _person(repository, environment, "author")


def committer(repository: Repository, environment: Environment) -> Person:
    """The person who commits (``GIT_COMMITTER_*``, ``committer.*``, ``user.*``).

    :raises UsageError: ``no_identity``: a name or address is missing, or set but empty.
    """
    return _person(repository, environment, "committer")


def agent(repository: Repository) -> Person:
    """The author of what an agent proposes: ``harness.agentName``, ``harness.agentEmail``.

    :raises UsageError: ``no_identity``: one is set to what git would leave nothing of.
    """
    now = int(time.time())
    name = _agents(repository, "harness.agentName", AGENT_NAME)
    return Person(name, _agents(repository, "harness.agentEmail", AGENT_EMAIL), now, _local_offset(now))


def _agents(repository: Repository, key: str, default: str) -> str:
    stated = repository.config(key)
    if not stated:
        return default
    fit = fit_for_a_commit(stated)
    if fit.strip(_CRUFT):
        return fit
    raise UsageError(
        f"git's {key} is {stated!r}, of which a commit can take nothing",
        id="no_identity",
        hint=f"git config {key} with a word of letters, or unset it for the default, {default!r}",
    )


def _person(repository: Repository, environment: Environment, role: str) -> Person:
    prefix = f"GIT_{role.upper()}_"
    variables = environment.variables
    name = _value(repository, environment, role, "name", (f"{prefix}NAME",))
    address = _value(repository, environment, role, "email", (f"{prefix}EMAIL", "EMAIL"))
    seconds, offset = _when(variables.get(f"{prefix}DATE", ""), f"{prefix}DATE")
    return Person(name, address, seconds, offset)


def _value(
    repository: Repository, environment: Environment, role: str, part: str, variables: tuple[str, ...]
) -> str:
    first = environment.variables.get(variables[0])
    if first is not None:
        return _checked(first, f"the environment sets {variables[0]} to", part)
    stated = repository.config(f"{role}.{part}") or repository.config(f"user.{part}")
    if stated is None and len(variables) > 1:
        stated = environment.variables.get(variables[1])
    if stated is None:
        raise UsageError(
            f"git has no user.{part}, so the commit would not say who made it",
            id="no_identity",
            hint='set both: git config user.name "Your Name"; git config user.email you@example.com',
        )
    return _checked(stated, f"git's user.{part} is", part)


def _checked(value: str, said: str, part: str) -> str:
    fit = fit_for_a_commit(value)
    if fit.strip(_CRUFT):
        return fit
    raise UsageError(
        f"{said} an empty value, and a commit needs a {part} (user.name and user.email)",
        id="no_identity",
        hint="unset the variable or give it a value; then set git's user.name and user.email",
    )


def _when(text: str, variable: str) -> tuple[int, int]:
    """Seconds and offset in minutes of a date as git writes it, ISO 8601 or RFC 2822; now for ""."""
    if not text:
        now = int(time.time())
        return now, _local_offset(now)
    raw = _RAW_DATE.match(text.strip())
    if raw:
        minutes = int(raw[3] or 0) * 60 + int(raw[4] or 0)
        return int(raw[1]), -minutes if raw[2] == "-" else minutes
    for read in (datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            found = read(text.strip())
        except ValueError:
            continue
        found = found if found.tzinfo else found.astimezone()
        offset = found.utcoffset()
        return int(found.timestamp()), int(offset.total_seconds() // 60) if offset else 0
    raise UsageError(
        f"{variable} is not a date that can be read: {text!r}",
        id="bad_date",
        hint="write it as git does: '1700000000 +0200', or 2024-01-31T12:00:00+02:00",
    )


def _local_offset(seconds: int) -> int:
    return time.localtime(seconds).tm_gmtoff // 60
