"""Plain model calls from a cell: ``llm(prompt)`` and ``llm.batch([...])``."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from .host import Host, HostError


class Llm:
    """The session's model, asked without tools and without the conversation.

    Each call counts against the run's budget. Use it for what needs reading, not deciding: classify,
    extract, summarise pieces that a cell holds in variables.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    def __call__(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        """The model's answer to ``prompt``.

        :raises HostError: no answer, or no budget for one.
        """
        return str(self._host.call("llm.call", **_what(prompt, system, max_tokens))["text"])

    def batch(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int | None = None,
        keep_errors: bool = False,
    ) -> list[Any]:
        """Answers to ``prompts`` in their order, asked several at a time.

        :param keep_errors: put the :class:`HostError` of a failed call in its place; by default the first
            one is raised, and the calls that are not answered yet are taken back.
        """
        if isinstance(prompts, str):
            raise TypeError("a list of prompts is wanted; llm(prompt) takes one")
        wanted = [_what(prompt, system, max_tokens) for prompt in prompts]
        asked: list[Future[Any]] = []
        try:
            asked += (self._host.submit("llm.call", **what) for what in wanted)
            return [_answer(future, keep_errors) for future in asked]
        finally:
            for future in asked:
                future.cancel()

    def __repr__(self) -> str:
        return "<llm(prompt, system='', max_tokens=None) -> text; llm.batch(prompts) -> texts>"


def _what(prompt: str, system: str, max_tokens: int | None) -> dict[str, Any]:
    if not isinstance(prompt, str) or not prompt.strip():
        raise TypeError(f"a prompt is text, not {prompt!r}")
    return {"prompt": prompt, "system": system, "max_tokens": max_tokens}


def _answer(future: Future[Any], keep_errors: bool) -> Any:
    try:
        return str(future.result()["text"])
    except HostError as error:
        if keep_errors:
            return error
        raise
