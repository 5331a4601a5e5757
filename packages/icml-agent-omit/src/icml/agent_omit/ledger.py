"""Where an episode's tokens go, turn by turn, and what leaving parts of it out saves.

An episode is a task and, for each turn, an observation and an output: a thought and the rest of it,
the action. The prompt of turn t holds the task, the observations 1 to t and the outputs 1 to t - 1,
so the prompts of an episode grow with the square of its turns; that sum is what is paid for, and
what omission lowers. All numbers are tokens of whichever tokenizer did the counting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["NOTHING", "Ledger", "Omissions", "TurnSizes", "TurnTokens", "ledger_of"]


class TurnSizes(NamedTuple):
    """The tokens of one turn as it was played, nothing left out."""

    observation: int
    """The message in which the observation arrives, with what frames it."""
    thought: int
    """What an emptied thought would save: the tags around it belong to the action."""
    action: int
    """The rest of the output, commands included."""
    placeholder: int = 0
    """The message that stays where the observation was left out."""
    private: int = 0
    """More of the thought, which no later prompt shows: chat templates strip thoughts, and
    providers keep reasoning to themselves. An empty thought saves it too."""


@dataclass(frozen=True)
class Omissions:
    """What is left out of an episode; turns and observations are counted from 1."""

    thoughts: frozenset[int] = frozenset()
    """Turns whose thought is empty."""
    gone: Mapping[int, int] = field(default_factory=dict)
    """For an observation, the first turn whose prompt has its placeholder instead. One more than
    the number of turns: only the final context lacks it."""

    def hidden(self, observation: int, turn: int) -> bool:
        """Return whether an observation is absent from the prompt of a turn."""
        return observation in self.gone and turn >= self.gone[observation]


NOTHING = Omissions()


class TurnTokens(NamedTuple):
    """What one turn costs."""

    task: int
    observations: int
    """Placeholders are counted here."""
    thoughts: int
    """Of the turns before."""
    actions: int
    """Of the turns before."""
    thought: int
    """Of this turn."""
    action: int
    """Of this turn."""

    @property
    def prompt(self) -> int:
        """Tokens that the policy reads."""
        return self.task + self.observations + self.thoughts + self.actions

    @property
    def output(self) -> int:
        """Tokens that it writes."""
        return self.thought + self.action


@dataclass(frozen=True)
class Ledger:
    """The tokens of an episode."""

    turns: tuple[TurnTokens, ...]
    final: int
    """The context after the last output."""

    @property
    def prompt(self) -> int:
        """Sum of the turns' prompts, which a provider bills as input."""
        return sum(turn.prompt for turn in self.turns)

    @property
    def output(self) -> int:
        """Sum of the turns' outputs."""
        return sum(turn.output for turn in self.turns)

    @property
    def total(self) -> int:
        """Prompts and outputs."""
        return self.prompt + self.output

    def split(self) -> dict[str, int]:
        """Return what the total is made of: ``task``, ``observation``, ``thought``, ``action``."""
        return {
            "task": sum(turn.task for turn in self.turns),
            "observation": sum(turn.observations for turn in self.turns),
            "thought": sum(turn.thoughts + turn.thought for turn in self.turns),
            "action": sum(turn.actions + turn.action for turn in self.turns),
        }


def ledger_of(task: int, turns: Sequence[TurnSizes], omissions: Omissions = NOTHING) -> Ledger:
    """Count what an episode costs when parts of it are left out.

    Args:
        task: Tokens of what stands before the first observation.
        turns: The episode's turns.
        omissions: What is left out.

    Raises:
        ValueError: If a number of tokens is negative, or something is left out that isn't there
            or is not read before it goes.

    Example:
        >>> turns = [TurnSizes(size, 5, 2, placeholder=1) for size in (10, 20, 30)]
        >>> ledger_of(8, turns).prompt
        145
        >>> ledger_of(8, turns, Omissions(gone={1: 2})).prompt
        127
    """
    _check(task, turns, omissions)
    leaving: dict[int, list[int]] = defaultdict(list)
    for observation, turn in omissions.gone.items():
        leaving[turn].append(observation)
    rows: list[TurnTokens] = []
    observations = thoughts = actions = 0
    for number, size in enumerate(turns, 1):
        observations += size.observation - _saved(turns, leaving[number])
        shown, private = (0, 0) if number in omissions.thoughts else (size.thought, size.private)
        written = shown + private
        rows.append(TurnTokens(task, observations, thoughts, actions, written, size.action))
        thoughts += shown
        actions += size.action
    observations -= _saved(turns, leaving[len(turns) + 1])
    return Ledger(tuple(rows), task + observations + thoughts + actions)


def _saved(turns: Sequence[TurnSizes], leaving: Sequence[int]) -> int:
    sizes = [turns[observation - 1] for observation in leaving]
    return sum(size.observation - size.placeholder for size in sizes)


def _check(task: int, turns: Sequence[TurnSizes], omissions: Omissions) -> None:
    if min([task, *(number for turn in turns for number in turn)]) < 0:
        raise ValueError(f"numbers of tokens can't be negative, got {task=} and {list(turns)}")
    known = range(1, len(turns) + 1)
    strange = [turn for turn in omissions.thoughts if turn not in known]
    if strange:
        raise ValueError(f"there are {len(turns)} turns, none is {min(strange)}")
    for observation, turn in omissions.gone.items():
        if observation not in known or turn <= observation:
            raise ValueError(
                f"observation {observation} of {len(turns)} can't be gone from turn {turn} on: it "
                "is read in its own turn"
            )
