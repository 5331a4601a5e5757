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

from icml.empg.keydoor import ACTIONS, HANDS, LASTS, PLACES, SIGHTS, searching_action

__all__ = ["STATES", "Corridor", "Episodes", "Table", "noisy_search", "state_words"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_SIZES = (len(HANDS), len(SIGHTS), len(SIGHTS), len(PLACES), len(LASTS))
STATES = int(np.prod(_SIZES))
"""Number of states: a hand, two sights, a place and the last action."""

LEFT, RIGHT, TAKE, OPEN = range(len(ACTIONS))
NOTHING = LASTS.index("after-nothing")
UNSEEN = SIGHTS.index("unseen")


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
        noise: Chance, above 0, of an action drawn evenly from all; or a function that gives it for
            where what is looked for is (one of `SIGHTS`).

    Returns:
        ``(STATES, actions)``.
    """
    chances = np.empty((STATES, len(ACTIONS)))
    for row, (hand, key, door, place, last) in zip(
        chances, product(HANDS, SIGHTS, SIGHTS, PLACES, LASTS), strict=True
    ):
        sight = door if hand == "key-in-hand" else key
        random = noise if isinstance(noise, int | float) else noise(sight)
        row[:] = random / len(ACTIONS)
        row[ACTIONS.index(searching_action(hand, sight, place, last))] += 1 - random
    return np.log(chances)


class Table(NamedTuple):
    """The worlds as a graph: what is seen at each place, and where each action leads.

    A world is a pair of cells for key and door: tasks that start in different cells share it, which
    is what makes exact success rates cheap. A place is a world, a cell and a hand, in one number.
    """

    start: Indices
    """``(tasks,)``: the place where each task begins."""
    states: Indices
    """``(places, lasts)``: what is seen there after each last action."""
    after: Indices
    """``(places, actions)``: the next place."""
    opened: NDArray[np.bool_]
    """``(places, actions)``: whether the action opens the door."""


@dataclass(frozen=True)
class Corridor:
    """KeyDoor's rules on arrays."""

    cells: int = 9
    """Length of the corridor."""
    max_steps: int = 14
    """Turns after which an episode is cut off."""
    view: int = 2
    """Cells seen to either side."""

    @cached_property
    def tasks(self) -> Indices:
        """Every task: ``(tasks, 3)`` with the cells of agent, key and door."""
        return np.array(list(permutations(range(self.cells), 3)))

    def roll(self, probabilities: Floats, tasks: Indices, rng: np.random.Generator) -> Episodes:
        """Play one episode of each task.

        Args:
            probabilities: ``(STATES, actions)`` of the policy.
            tasks: ``(n,)`` rows of `tasks`.
            rng: Source of all randomness; moves by ``n`` numbers a turn, whatever happens.
        """
        table, thresholds = self.table, probabilities.cumsum(1)[:, :-1]
        place, last = table.start[tasks], np.full(len(tasks), NOTHING)
        alive, success = np.ones(len(tasks), bool), np.zeros(len(tasks))
        turns = []
        for _ in range(self.max_steps):
            states = table.states[place, last]
            actions = (thresholds[states] <= rng.random((len(tasks), 1))).sum(1)
            turns.append((states, actions, alive))
            won = table.opened[place, actions] & alive
            place, last = table.after[place, actions], actions
            success, alive = success + won, alive & ~won
        states, actions, living = (np.stack(column) for column in zip(*turns, strict=True))
        return Episodes(states, actions, living, success)

    def success_rate(self, probabilities: Floats) -> float:
        """Return the exact chance of success, averaged over all tasks.

        Backwards over the turns: with t of them left, a situation is worth
        ``sum_a pi(a) (opened + (1 - opened) V_{t-1}(next))``.

        Args:
            probabilities: ``(STATES, actions)``.
        """
        table = self.table
        chances = probabilities[table.states]
        value = np.zeros(table.states.shape)
        for _ in range(self.max_steps):
            # Worth of each action; the last action decides how likely it is, not where it leads.
            worth = np.where(table.opened, 1.0, value[table.after, np.arange(len(ACTIONS))])
            value = np.einsum("pla,pa->pl", chances, worth)
        return float(value[table.start, NOTHING].mean())

    @cached_property
    def table(self) -> Table:
        """Every place of every world."""
        shape = (self.cells, self.cells, self.cells, 2)
        key, door, agent, held = (x.reshape(-1, 1) for x in np.indices(shape))
        action = np.arange(len(ACTIONS))
        step = np.select([action == LEFT, action == RIGHT], [-1, 1], 0)
        cell = np.clip(agent + step, 0, self.cells - 1)
        hand = np.where((action == TAKE) & (agent == key), 1, held)
        after = np.ravel_multi_index(np.broadcast_arrays(key, door, cell, hand), shape)
        opened = (action == OPEN) & (held == 1) & (agent == door)
        at, key_at, door_at = self.tasks.T
        start = np.ravel_multi_index((key_at, door_at, at, np.zeros_like(at)), shape)
        return Table(start, self._states(agent, key, door, held), after, opened)

    def _states(self, agent: Indices, key: Indices, door: Indices, held: Indices) -> Indices:
        key = np.where(held == 1, UNSEEN, self._sight(key, agent))
        place = np.select([agent == 0, agent == self.cells - 1], [0, 1], 2)
        state = held
        for part, size in zip((key, self._sight(door, agent), place), _SIZES[1:], strict=False):
            state = state * size + part
        return state * len(LASTS) + np.arange(len(LASTS))

    def _sight(self, cell: Indices, agent: Indices) -> Indices:
        side = np.where(cell < agent, SIGHTS.index("left"), SIGHTS.index("right"))
        side = np.where(np.abs(cell - agent) > self.view, UNSEEN, side)
        return np.where(cell == agent, SIGHTS.index("here"), side)
