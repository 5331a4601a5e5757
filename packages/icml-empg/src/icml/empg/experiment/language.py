"""A small language model on KeyDoor, in the loop over text environments.

A turn is one prompt and one response of words, each a token::

    <bos> hands-empty key-left door-unseen no-wall after-nothing |   ->   so-left left

The thoughts before the action are trained like it, and count in the turn's entropy. Demonstrations
for the warm start act at random more often than not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from icml.core.models.tiny import SPECIAL_TOKENS
from icml.core.rl.rollout import EnvTask, History
from icml.core.rl.sft import Pair
from icml.empg.experiment.agent import AgentTraining, train_agent, warm_start
from icml.empg.keydoor import ACTIONS, WORDS, KeyDoor, searching_action

__all__ = ["LanguageTraining", "train_language", "warm_start"]

PLANS = tuple(f"so-{action}" for action in ACTIONS)
SYNONYMS = 6
MUSINGS = tuple(f"musing-{i}" for i in range(SYNONYMS))

train_language = train_agent


@dataclass(frozen=True)
class LanguageTraining(AgentTraining):
    """KeyDoor for a language model."""

    vocabulary: ClassVar[tuple[str, ...]] = (*SPECIAL_TOKENS, "|", *WORDS, *PLANS, *MUSINGS)

    max_steps: int = 14
    """Turns after which an episode is cut off."""
    noise: float = 0.55
    """Chance that a demonstration has a random plan or, by itself, a random action."""
    cells: int = 9
    """Length of the corridor."""
    thoughts: int = 1
    """Words before the action: musings, which an uncertain demonstrator draws from six synonyms,
    and last the plan."""

    @property
    def context(self) -> int:
        """Longest prompt and response together, in tokens."""
        return 8 + self.thoughts

    @property
    def max_new_tokens(self) -> int:
        """The thoughts and the action."""
        return self.thoughts + 1

    def environment(self, task: EnvTask) -> KeyDoor:
        """Build the corridor."""
        return KeyDoor(cells=self.cells, max_steps=self.max_steps)

    def render(self, history: History) -> list[int]:
        """Return the prompt of a turn: what is seen now; 7 tokens."""
        return self.encode(["<bos>", *history.observations[-1].text.split(), "|"])

    def parse(self, text: str) -> str:
        """Return the last word, which must be an action."""
        *_, last = ["", *text.split()]
        if last not in ACTIONS:
            raise ValueError(f"the last word must be one of {', '.join(ACTIONS)}, got {last!r}")
        return last

    def demonstrations(self) -> list[Pair]:
        """Return the turns of 150 noisy episodes.

        The demonstrator walks well enough to be everywhere (4 of 5 actions are those of the
        search), but what it writes down is often something else.
        """
        return _demonstrations(self)

    def respond(self, wanted: str, sure: bool, rng: random.Random) -> list[int]:
        """Return a noisy response of one who wants to take an action."""
        musings = [rng.choice(MUSINGS[:1] if sure else MUSINGS) for _ in range(self.thoughts - 1)]
        action = wanted if rng.random() > self.noise else rng.choice(ACTIONS)
        plan = action if rng.random() > self.noise else rng.choice(ACTIONS)
        return self.encode([*musings, f"so-{plan}", action])


@cache
def _demonstrations(setting: LanguageTraining) -> list[Pair]:
    rng = random.Random(0)
    turns: list[Pair] = []
    for seed in range(150):
        env = setting.environment(EnvTask(seed))
        observation, done = env.reset(seed), False
        while not done:
            words = observation.text.split()
            wanted, sure = _search(words)
            prompt = setting.render(History([observation]))
            turns.append((prompt, setting.respond(wanted, sure, rng)))
            acted = wanted if rng.random() > 0.2 else rng.choice(ACTIONS)
            observation, _, done, _ = env.step(acted)
    return turns


def _search(words: Sequence[str]) -> tuple[str, bool]:
    """Return what the search does, and whether it sees what it looks for."""
    hand, key, door, place, last = words
    sight = (door if hand == "key-in-hand" else key).partition("-")[2]
    return searching_action(hand, sight, place, last), sight != "unseen"
