"""Fixed rules that decide what to leave out, to compare a trained agent with.

A rule answers two questions, about a turn's thought and about an observation, so it can drive an
agent as it acts, and be applied to an episode that was recorded (`omissions`). None looks at text.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from icml.agent_omit.ledger import Omissions

__all__ = [
    "Both",
    "KeepLast",
    "LeaveOut",
    "NoThought",
    "OmissionRule",
    "Oracle",
    "Random",
    "omissions",
]


class OmissionRule(Protocol):
    """Says what to leave out. Turns and observations count from 1; observation k is new in turn k.

    ``turns`` is how many turns the episode has; an agent that acts gives its limit.
    """

    @property
    def name(self) -> str:
        """A few words for tables."""
        ...

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return whether the thought of a turn is left out."""
        ...

    def gone_from(self, observation: int, *, episode: int = 0) -> int | None:
        """Return the first turn, a later one, whose prompt lacks an observation; None: it stays."""
        ...


@dataclass(frozen=True)
class NoThought:
    """Leaves out every thought, or all but the first and the last."""

    middle: bool = False
    """Keep the first thought, where plans are made, and the last."""

    @property
    def name(self) -> str:
        """For tables."""
        return "no middle thoughts" if self.middle else "no thoughts"

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return whether the thought of a turn is left out."""
        return not self.middle or 1 < turn < turns

    def gone_from(self, observation: int, *, episode: int = 0) -> None:
        """Return None: observations stay."""


@dataclass(frozen=True)
class KeepLast:
    """Shows the newest observations and a placeholder for each older one."""

    count: int
    """How many are shown, the newest among them."""

    def __post_init__(self) -> None:
        """Check the number."""
        if self.count < 1:
            raise ValueError(f"the newest observation must be shown: count >= 1, got {self.count}")

    @property
    def name(self) -> str:
        """For tables."""
        what = "observation" if self.count == 1 else f"{self.count} observations"
        return f"keep the last {what}"

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return False: thoughts stay."""
        return False

    def gone_from(self, observation: int, *, episode: int = 0) -> int:
        """Return the turn in which so many newer ones have come."""
        return observation + self.count


@dataclass(frozen=True)
class Random:
    """Leaves out each thought, and each observation once it was read, with one probability."""

    probability: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the probability."""
        if not 0 <= self.probability <= 1:
            raise ValueError(f"the probability must be in [0, 1], got {self.probability}")

    @property
    def name(self) -> str:
        """For tables."""
        return f"random {self.probability:g}"

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return a coin's answer, the same each time it is asked."""
        return self._coin("thought", turn, episode)

    def gone_from(self, observation: int, *, episode: int = 0) -> int | None:
        """Return the next turn or None, as a coin falls."""
        return observation + 1 if self._coin("observation", observation, episode) else None

    def _coin(self, what: str, number: int, episode: int) -> bool:
        # A string seeds by its hash digest, equal in every process.
        draw = random.Random(f"{self.seed} {episode} {what} {number}").random()
        return draw < self.probability


@dataclass(frozen=True)
class Oracle:
    """Leaves out all that is known to be of no use: every other rule is measured against it."""

    thoughts: Collection[int]
    """Turns whose thought is needed."""
    observations: Collection[int]
    """Observations that are needed after their own turn; they stay to the end."""

    @property
    def name(self) -> str:
        """For tables."""
        return "oracle"

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return whether the thought of a turn is of no use."""
        return turn not in self.thoughts

    def gone_from(self, observation: int, *, episode: int = 0) -> int | None:
        """Return the next turn for what is of no further use."""
        return None if observation in self.observations else observation + 1


@dataclass(frozen=True)
class LeaveOut:
    """Leaves out what is named and nothing else: a counterfactual, when it is one element."""

    thoughts: Collection[int] = ()
    """Turns whose thought is empty."""
    observations: Collection[int] = ()
    """Observations that are gone once they were read."""

    @property
    def name(self) -> str:
        """For tables."""
        thoughts = ", ".join(f"thought {turn}" for turn in sorted(self.thoughts))
        observations = ", ".join(f"observation {number}" for number in sorted(self.observations))
        return f"without {', '.join(filter(None, (thoughts, observations))) or 'nothing'}"

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return whether the turn is named."""
        return turn in self.thoughts

    def gone_from(self, observation: int, *, episode: int = 0) -> int | None:
        """Return the next turn for what is named."""
        return observation + 1 if observation in self.observations else None


@dataclass(frozen=True)
class Both:
    """Leaves out what either of two rules does."""

    first: OmissionRule
    second: OmissionRule

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.first.name}, {self.second.name}"

    def omits_thought(self, turn: int, *, turns: int, episode: int = 0) -> bool:
        """Return whether one of the rules leaves the thought out."""
        rules = (self.first, self.second)
        return any(rule.omits_thought(turn, turns=turns, episode=episode) for rule in rules)

    def gone_from(self, observation: int, *, episode: int = 0) -> int | None:
        """Return the earlier of the two turns."""
        rules = (self.first, self.second)
        found = [rule.gone_from(observation, episode=episode) for rule in rules]
        return min((turn for turn in found if turn is not None), default=None)


def omissions(rule: OmissionRule, turns: int, *, episode: int = 0) -> Omissions:
    """Return what a rule leaves out of an episode that was recorded.

    Args:
        rule: The rule.
        turns: Number of the episode's turns.
        episode: Tells episodes apart for rules that draw.

    Example:
        >>> dict(omissions(KeepLast(2), 4).gone)
        {1: 3, 2: 4, 3: 5}
    """
    numbers = range(1, turns + 1)
    empty = (n for n in numbers if rule.omits_thought(n, turns=turns, episode=episode))
    gone = ((n, rule.gone_from(n, episode=episode)) for n in numbers)
    # Beyond the final context, turn ``turns + 1``, nothing is shown.
    inside = {n: turn for n, turn in gone if turn is not None and turn <= turns + 1}
    return Omissions(frozenset(empty), inside)
