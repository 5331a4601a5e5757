"""What a prover is asked and what it may answer; nothing of it is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from icml.wzllm.lean.sketch import SubGoal
    from icml.wzllm.statement import Identity

__all__ = ["Attempt", "Candidate", "Kind", "Proposed", "Prover", "refusals"]

Kind = Literal["certificate", "answer", "term"]


class Candidate(NamedTuple):
    """A proposed proof, as text."""

    kind: Kind
    """``certificate``: the text of a certificate's file. ``answer``: a line as models are trained
    to write, or ``c-finite``. Both are for an identity. ``term``: a Lean term, for a sub-goal."""
    text: str


class Proposed(NamedTuple):
    """What a prover proposes for one goal, the best first."""

    candidates: tuple[Candidate, ...]
    why_none: str = ""
    """Where there are none: why."""
    status: Literal["open", "not hypergeometric", "timeout"] = "open"
    """Where there are none: what a statement counts as that nobody proves."""


class Prover(Protocol):
    """Proposes proofs of identities and of sub-goals."""

    name: str
    """For records."""

    def propose(self, goals: Sequence[Identity | SubGoal], n: int, seed: int) -> Sequence[Proposed]:
        """Propose proofs.

        Args:
            goals: Statements and obligations.
            n: How many proposals for each are looked at; more are not.
            seed: Decides all draws.

        Returns:
            As many entries as there are goals.
        """
        ...


class Attempt(NamedTuple):
    """A proposal and what became of it."""

    prover: str
    goal: str
    """``statement``, or the name of the obligation."""
    text: str
    """Its first characters."""
    accepted: bool
    reason: str
    """Why it was refused; "" if it wasn't."""


def refusals(attempts: Sequence[Attempt]) -> list[tuple[str, int]]:
    """Count why proposals were refused, the most frequent reason first."""
    return Counter(a.reason for a in attempts if not a.accepted).most_common()
