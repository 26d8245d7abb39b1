"""``messages``: what sessions of one tree write to each other, for code in cells."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from .host import Host


class Messages:
    """``send(to, text)`` to "parent", a child or a sibling; ``inbox()`` for what is unread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._late: list[Future[Any]] = []

    def send(self, to: str, text: str) -> dict[str, str]:
        """Send ``text``; the receipt: {"id", "state": "delivered" or "queued"}.

        :raises HostError: nobody is called ``to``, or it has ended.
        """
        receipt: dict[str, str] = self._host.call("messages.send", to=to, text=text)
        return receipt

    def inbox(self, timeout: float = 0) -> list[dict[str, str]]:
        """Unread messages, each once: [{"id", "from", "text"}].

        :param timeout: seconds to wait for one when there is none.
        """
        if timeout > 0 and not any(future.done() for future in self._late):
            self._host.call("messages.wait", timeout=timeout)
        self._late.append(self._host.submit("messages.inbox"))
        # An interrupt takes nothing back: what arrives all the same is for the next call.
        self._late[-1].exception()
        return [letter for future in self._settled() for letter in future.result()]

    def _settled(self) -> list[Future[Any]]:
        done = [future for future in self._late if future.done()]
        self._late = [future for future in self._late if not future.done()]
        failed = next((f for f in done if f.exception() is not None), None)
        if failed is not None:
            self._late += [f for f in done if f.exception() is None]
            failed.result()
        return done

    def __repr__(self) -> str:
        return '<messages: send(to, text), inbox(); to "parent", a child, a sibling>'
