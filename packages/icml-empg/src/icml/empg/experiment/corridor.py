"""KeyDoor for a table of logits: all episodes of a batch at once, and exact success rates.

The states are those of the text environment (`icml.empg.keydoor`), numbered: what a policy without
memory sees. Tests play both side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icml.core.models.tabular import draw
from icml.empg.keydoor import ACTIONS, HANDS, LASTS, PLACES, SIGHTS, Task, searching_action

__all__ = ["STATES", "Corridor", "Episodes", "noisy_search", "state_words"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_SIZES = (len(HANDS), len(SIGHTS), len(SIGHTS), len(PLACES), len(LASTS))
STATES = int(np.prod(_SIZES))
"""Number of states: a hand, two sights, a place and the last action."""

LEFT, RIGHT, TAKE, OPEN = range(len(ACTIONS))
NOTHING = LASTS.index("after-nothing")
HERE, UNSEEN = SIGHTS.index("here"), SIGHTS.index("unseen")


class Episodes(NamedTuple):
    """A batch of episodes, a column each; T turns, n episodes."""

    states: Indices
    """``(T, n)``."""
    actions: Indices
    """``(T, n)``."""
    alive: NDArray[np.bool_]
    """``(T, n)``: the episode was still going on when this turn began."""
    success: Floats
    """``(n,)``: 1 where the door opened."""


def state_words(state: int) -> tuple[str, ...]:
    """Return the words of an observation: hand, key, door, place and last action."""
    hand, key, door, place, last = (int(i) for i in np.unravel_index(state, _SIZES))
    return (HANDS[hand], f"key-{SIGHTS[key]}", f"door-{SIGHTS[door]}", PLACES[place], LASTS[last])


def noisy_search(noise: float | Callable[[str], float]) -> Floats:
    """Return the logits of a policy that searches from wall to wall, but often acts at random.

    Args:
        noise: Chance, above 0, of an action drawn evenly from all; or a function that gives it for where
            what is looked for is (one of `SIGHTS`).

    Returns:
        ``(STATES, actions)``.
    """
    chances = np.empty((STATES, len(ACTIONS)))
    for row, (hand, key, door, place, last) in zip(
        chances, product(HANDS, SIGHTS, SIGHTS, PLACES, LASTS), strict=True
    ):
        sight = door if hand == "key-in-hand" else key
        random = noise(sight) if callable(noise) else noise
        row[:] = random / len(ACTIONS)
        row[ACTIONS.index(searching_action(hand, sight, place, last))] += 1 - random
    return np.log(chances)


@dataclass(frozen=True)
class Corridor:
    """KeyDoor's rules on arrays."""

    cells: int = 9
    """Length of the corridor."""
    max_steps: int = 14
    """Turns after which an episode is cut off."""
    view: int = 2
    """Cells seen to either side."""

    def tasks(self) -> Indices:
        """Return every task: ``(tasks, 3)`` with agent, key and door."""
        return np.array(list(permutations(range(self.cells), 3)))

    def draw_tasks(self, n: int, rng: np.random.Generator) -> Indices:
        """Draw ``n`` tasks, each equally likely: ``(n, 3)``."""
        everything = self._every_task
        return everything[rng.integers(len(everything), size=n)]

    def state(self, agent: Indices, task: Indices, held: Indices, last: Indices) -> Indices:
        """Return the number of what is seen; arguments broadcast, ``task`` with a last axis of 3."""
        key = np.where(held == 1, UNSEEN, self._sight(task[..., 1], agent))
        door = self._sight(task[..., 2], agent)
        place = np.where(agent == 0, 0, np.where(agent == self.cells - 1, 1, 2))
        index = held
        for part, size in zip((key, door, place, last), _SIZES[1:], strict=True):
            index = index * size + part
        return index

    def move(
        self, agent: Indices, task: Indices, held: Indices, action: Indices
    ) -> tuple[Indices, Indices, NDArray[np.bool_]]:
        """Return where the agent is then, what it holds, and whether the door opened."""
        opened = (action == OPEN) & (held == 1) & (agent == task[..., 2])
        held = np.where((action == TAKE) & (agent == task[..., 1]), 1, held)
        step = np.where(action == LEFT, -1, np.where(action == RIGHT, 1, 0))
        return np.clip(agent + step, 0, self.cells - 1), held, opened

    def roll(self, probabilities: Floats, tasks: Indices, rng: np.random.Generator) -> Episodes:
        """Play one episode of each task.

        Args:
            probabilities: ``(STATES, actions)`` of the policy.
            tasks: ``(n, 3)``.
            rng: Source of all randomness; moves by ``n`` numbers a turn, whatever happens.
        """
        n = len(tasks)
        agent, held, last = tasks[:, 0], np.zeros(n, np.int64), np.full(n, NOTHING)
        alive, success = np.ones(n, bool), np.zeros(n)
        turns = []
        for _ in range(self.max_steps):
            states = self.state(agent, tasks, held, last)
            actions = draw(probabilities[states], rng)
            turns.append((states, actions, alive))
            agent, held, opened = self.move(agent, tasks, held, actions)
            last, success = actions, success + (opened & alive)
            alive = alive & ~opened
        states, actions, living = (np.stack(column) for column in zip(*turns, strict=True))
        return Episodes(states, actions, living, success)

    def success_rate(self, probabilities: Floats) -> float:
        """Return the exact chance of success, averaged over all tasks.

        Backwards over the turns: with t of them left, a situation is worth
        ``sum_a pi(a) (opened + (1 - opened) V_{t-1}(next))``.

        Args:
            probabilities: ``(STATES, actions)``.
        """
        seen, successor, opened = self._situations
        chances = probabilities[seen]
        value = np.zeros(seen.shape)
        for _ in range(self.max_steps):
            # Worth of each action; the last action decides how likely it is, not where it leads.
            after = np.where(opened, 1.0, value.ravel()[successor])
            value = np.einsum("sla,sa->sl", chances, after)
        return float(value[self._starts, NOTHING].mean())

    def _sight(self, cell: Indices, agent: Indices) -> Indices:
        side = np.where(cell < agent, SIGHTS.index("left"), SIGHTS.index("right"))
        side = np.where(np.abs(cell - agent) > self.view, UNSEEN, side)
        return np.where(cell == agent, HERE, side)

    @cached_property
    def _every_task(self) -> Indices:
        return self.tasks()

    @cached_property
    def _places(self) -> tuple[int, int, int]:
        return len(self._every_task), self.cells, 2

    @cached_property
    def _starts(self) -> Indices:
        """Where each task starts, among the flat places (task, cell, hand)."""
        n = len(self._every_task)
        where = (np.arange(n), self._every_task[:, 0], np.zeros(n, np.int64))
        return np.ravel_multi_index(where, self._places)

    @cached_property
    def _situations(self) -> tuple[Indices, Indices, NDArray[np.bool_]]:
        """Every place (task, cell, hand), flat: what is seen there and where actions lead.

        Returns:
            States ``(places, lasts)``; for each action the flat index of the next place and last
            action, and whether the door opened, both ``(places, actions)``.
        """
        row, agent, held = (x.reshape(-1, 1) for x in np.indices(self._places))
        task = self._every_task[row]
        seen = self.state(agent, task, held, np.arange(len(LASTS)))
        action = np.arange(len(ACTIONS))
        cell, hand, opened = self.move(agent, task, held, action)
        then = np.broadcast_arrays(row, cell, hand, action)
        return seen, np.ravel_multi_index(then, (*self._places, len(LASTS))), opened


def task_array(tasks: list[Task]) -> Indices:
    """Stack tasks of the text environment: ``(n, 3)``."""
    return np.array(tasks, dtype=np.int64).reshape(-1, 3)
