"""``review show``: one proposal with its change, evidence and risk."""

from __future__ import annotations

from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.review.case import ReviewCase, open_case


def review_show(store: HarnessStore, prefix: str) -> ReviewCase:
    """The proposal whose id starts with ``prefix``.

    To print: id, author, ``record.summary``, ``record.why``, expected outcome and how to see it, risk
    with reasons, ``proposal.conflicts``, then for each evidence its session, events, quotes and excerpt,
    then the patch (``case.patch`` as text, or ``case.files`` line by line).

    :raises NotFoundError: ``no_proposal``.
    :raises UsageError: ``ambiguous_revision``.
    """
    return open_case(store, prefix)
