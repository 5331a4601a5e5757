"""Majority among votes that may abstain: judges, graders, several samples of one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal, TypeVar

from icml.core.errors import UserError

Vote = TypeVar("Vote", bound=Hashable)
TieRule = Literal["first", "worst"]
"""Of the votes that tie for the most: the one cast first, or the one named first in an order."""


def majority(
    votes: Sequence[Vote | None], *, tie_rule: TieRule = "first", order: Sequence[Vote] = ()
) -> Vote | None:
    """Return the vote that was cast most often; None abstains and never wins.

    Args:
        votes: In the order in which they were cast.
        tie_rule: Which of several that tie for the most wins.
        order: For ``worst``: all possible votes, the worst first.

    Returns:
        The winner, or None if every vote abstains.

    Raises:
        UserError: If the rule is unknown, or ``worst`` comes without an order that names each
            vote once.

    Example:
        >>> majority(["yes", None, "no", "no"])
        'no'
        >>> majority(["yes", "no"], tie_rule="worst", order=["no", "yes"])
        'no'
    """
    if tie_rule not in ("first", "worst"):
        raise UserError(f"tie_rule must be 'first' or 'worst', got {tie_rule!r}")
    counted = Counter(vote for vote in votes if vote is not None)
    if tie_rule == "worst":
        missing = [vote for vote in counted if vote not in order]
        if missing or not order or len(set(order)) < len(order):
            raise UserError(
                "tie_rule='worst' needs an order that names each possible vote once, worst "
                f"first: got {list(order)!r} for votes {list(counted)!r}"
            )
    if not counted:
        return None
    most = max(counted.values())
    tied = [vote for vote, count in counted.items() if count == most]
    return tied[0] if tie_rule == "first" else min(tied, key=list(order).index)
