"""KeyDoor: a small text environment with a sparse reward and steps of very different certainty.

A corridor with a key and a door at unknown cells. The agent sees two cells to either side, and
gets 1 for opening the door with the key, else nothing. With the key underfoot the right action is
plain; with nothing in view all that is left is to search.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from icml.core.envs.protocol import EnvStateError, Observation, StepResult

__all__ = ["ACTIONS", "WORDS", "KeyDoor", "Task", "task_of"]

ACTIONS = ("left", "right", "take", "open")
"""What the agent may do; anything else is a turn in which nothing happens."""
HANDS = ("hands-empty", "key-in-hand")
SIGHTS = ("left", "right", "here", "unseen")
PLACES = ("wall-left", "wall-right", "no-wall")
LASTS = (*(f"after-{action}" for action in ACTIONS), "after-nothing")

WORDS = (
    *HANDS, *(f"key-{sight}" for sight in SIGHTS), *(f"door-{sight}" for sight in SIGHTS),
    *PLACES, *LASTS, *ACTIONS,
)  # fmt: skip
"""Every word of the observations, and the actions."""

GOAL = "Open the door with the key."


class Task(NamedTuple):
    """Where everything is at the start: three different cells."""

    agent: int
    key: int
    door: int

    @property
    def fewest_turns(self) -> int:
        """Turns that suffice for one who knows the cells: walk, take, walk, open."""
        return abs(self.agent - self.key) + 1 + abs(self.key - self.door) + 1


def task_of(seed: int, cells: int) -> Task:
    """Return the task of a seed; all triples of different cells are equally likely."""
    return Task(*random.Random(seed).sample(range(cells), 3))


class KeyDoor:
    """The environment, as `icml.core.envs.protocol.TextEnv` asks.

    An observation is five words, e.g. ``"hands-empty key-left door-unseen no-wall after-nothing"``:
    they are the whole state that a policy without memory can know.

    Example:
        >>> env = KeyDoor()
        >>> env.reset(seed=0).text
        'hands-empty key-right door-unseen no-wall after-nothing'
        >>> env.step("left").observation.text
        'hands-empty key-unseen door-unseen no-wall after-left'
    """

    def __init__(self, *, cells: int = 9, max_steps: int = 14, view: int = 2) -> None:
        """Build a corridor.

        Args:
            cells: Its length, at least 3.
            max_steps: Turns after which an episode is cut off, at least 1.
            view: Cells that the agent sees to either side, at least 0.

        Raises:
            ValueError: If a number is too small.
        """
        least_of = {"cells": (cells, 3), "max_steps": (max_steps, 1), "view": (view, 0)}
        for name, (value, least) in least_of.items():
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        self.cells, self.max_steps, self.view = cells, max_steps, view
        self.id = f"KeyDoor-{cells}-{max_steps}-{view}"
        self._running = False
        self._done = False

    def reset(self, seed: int) -> Observation:
        """Begin the episode of ``seed``."""
        agent, key, door = task_of(seed, self.cells)
        self._key, self._door = key, door
        self._agent, self._held, self._last = agent, False, "after-nothing"
        self._steps, self._done, self._running = 0, False, True
        return self._observe()

    def step(self, action: str) -> StepResult:
        """Take one turn.

        Args:
            action: One of `ACTIONS`; white space around it does not matter. Anything else leaves
                the world as it is, costs the turn, and is told in ``info``.

        Raises:
            EnvStateError: Before `reset` and after the end of the episode.
        """
        self._refuse_unless_running()
        action = action.strip()
        known = action in ACTIONS
        self._steps += 1
        self._last = f"after-{action}" if known else "after-nothing"
        success = self._act(action)
        self._done = success or self._steps >= self.max_steps
        info: dict[str, Any] = {
            "success": success,
            "truncated": self._done and not success,
            "steps": self._steps,
        } | ({} if known else {"invalid_action": True})
        return StepResult(self._observe(), float(success), self._done, info)

    def close(self) -> None:
        """End the episode; there is nothing to free."""
        self._running = False

    def expert_actions(self) -> list[str]:
        """Return the shortest plan from here to the open door, of one who knows the cells."""
        self._refuse_unless_running()
        to_door = [*_walk(self._key, self._door), "open"]
        if self._held:
            return [*_walk(self._agent, self._door), "open"]
        return [*_walk(self._agent, self._key), "take", *to_door]

    def state_key(self) -> tuple[int, int, int, bool, str]:
        """Return the whole state but for the turn."""
        return self._agent, self._key, self._door, self._held, self._last

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state, for `restore`."""
        return dict(vars(self))

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a state that `snapshot` gave."""
        vars(self).update(snapshot)

    def _act(self, action: str) -> bool:
        """Change the world; return whether the door opened."""
        if action == "left":
            self._agent = max(0, self._agent - 1)
        elif action == "right":
            self._agent = min(self.cells - 1, self._agent + 1)
        elif action == "take":
            self._held = self._held or self._agent == self._key
        return action == "open" and self._held and self._agent == self._door

    def _observe(self) -> Observation:
        key = "unseen" if self._held else self._sight(self._key)
        door = self._sight(self._door)
        words = (HANDS[self._held], f"key-{key}", f"door-{door}", self._place(), self._last)
        return Observation(" ".join(words), () if self._done else ACTIONS, GOAL)

    def _sight(self, cell: int) -> str:
        if cell == self._agent:
            return "here"
        if abs(cell - self._agent) > self.view:
            return "unseen"
        return "left" if cell < self._agent else "right"

    def _place(self) -> str:
        return {0: "wall-left", self.cells - 1: "wall-right"}.get(self._agent, "no-wall")

    def _refuse_unless_running(self) -> None:
        if not self._running:
            raise EnvStateError(f"{self.id} has no episode: call reset(seed) first")
        if self._done:
            raise EnvStateError(f"the episode of {self.id} is over: call reset(seed)")


def _walk(start: int, end: int) -> list[str]:
    return ["right" if end > start else "left"] * abs(end - start)


def searching_action(hand: str, sight: str, place: str, last: str) -> str:
    """Return the action of a policy without memory that searches by walking from wall to wall.

    Args:
        hand: One of `HANDS`.
        sight: One of `SIGHTS`: where what is looked for is, the key or with it the door.
        place: One of `PLACES`.
        last: One of `LASTS`.
    """
    if sight == "here":
        return "open" if hand == "key-in-hand" else "take"
    if sight != "unseen":
        return sight
    if place != "no-wall":
        return "right" if place == "wall-left" else "left"
    return "right" if last == "after-right" else "left"
