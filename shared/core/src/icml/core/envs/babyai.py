"""BabyAI (arXiv 1810.08272) in text: the grid worlds of ``minigrid``, seen and acted on in words.

The agent sees the 7 by 7 cells in front of it. What it is told has a line for each thing in view,
nearest first, then the wall ahead and what it carries::

    a red ball 2 steps ahead 1 step left
    a locked blue door 4 steps right
    wall 3 steps ahead
    you carry nothing

The words are few and separated by white space alone (`WORDS`), so a word tokenizer reads them.
Needs the extra ``icml-core[babyai]``.
"""

from __future__ import annotations

import copy
import difflib
import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from icml.core.envs.protocol import EnvStateError, Observation, StepResult
from icml.core.errors import UserError, require

__all__ = ["ACTIONS", "WORDS", "BabyAI"]

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
"""In the order of minigrid's action numbers."""

_WORDS = """
a ahead carry go is key ball box door left locked closed open nothing right step steps that wall you
no action 1 2 3 4 5 6 red green blue purple yellow grey
turn forward pick up drop toggle done
, after and behind front in next of on put the then to your object
"""
WORDS = tuple(_WORDS.split())
"""Every word of the tasks, of what the agent is told, and of the actions."""

_AHEAD, _SIDE = 6, 3  # the agent's row and column in its own view; it looks towards row 0
_UNSEEN = ("unseen", "empty", "wall", "floor", "agent")


class BabyAI:
    """One BabyAI level as a `TextEnv`.

    The reward is minigrid's: 1 - 0.9 steps / max_steps at success, else 0.

    Example:
        >>> env = BabyAI("GoToLocal")
        >>> env.reset(seed=0).task
        'go to the green ball'
        >>> env.step("turn left").info["steps"]
        1
    """

    def __init__(self, level: str, *, max_steps: int = 64) -> None:
        """Build the level; nothing of it is decided before `reset`.

        Args:
            level: Name between ``BabyAI-`` and the version, such as ``GoToLocal``.
            max_steps: An episode is over after this many steps. (minigrid's own limit varies
                with the size of the maze and of the task; it is 64 for one room of 8 by 8.)

        Raises:
            UserError: If there is no such level or ``max_steps`` is below 1.
            MissingExtra: If minigrid is not installed.
        """
        if max_steps < 1:
            raise UserError(f"max_steps must be at least 1, got {max_steps}")
        gymnasium = require("gymnasium", extra="icml-core[babyai]")
        require("minigrid", extra="icml-core[babyai]")  # registers the levels
        name = _registered(level, gymnasium.registry)
        with redirect_stdout(io.StringIO()):
            self._env = gymnasium.make(name, max_steps=max_steps).unwrapped
        self.id = f"babyai/{level}"
        self.max_steps = max_steps
        self._steps = 0
        self._state = "new"

    def reset(self, seed: int) -> Observation:
        """Begin the episode that ``seed`` determines."""
        if self._state == "closed":
            raise EnvStateError(f"{self.id} is closed")
        with redirect_stdout(io.StringIO()):  # minigrid prints each draw that it rejects
            view, _ = self._env.reset(seed=seed)
        self._steps, self._state, self._view = 0, "running", view
        return self._observation()

    def step(self, action: str) -> StepResult:
        """Take one of `ACTIONS`; see `TextEnv.step`."""
        self._check_running()
        self._steps += 1
        info: dict[str, Any] = {"success": False, "truncated": False, "steps": self._steps}
        reward, over = 0.0, False
        if action in ACTIONS:
            self._view, reward, over, *_ = self._env.step(ACTIONS.index(action))
            info["success"] = bool(over and reward > 0)
        else:
            self._env.step_count += 1  # what the reward and minigrid's limit count
            info["invalid_action"] = True
        info["truncated"] = not over and self._steps >= self.max_steps
        if over or info["truncated"]:
            self._state = "over"
        observation = self._observation("" if action in ACTIONS else "that is no action\n")
        return StepResult(observation, float(reward), self._state == "over", info)

    def close(self) -> None:
        """Free the level."""
        if self._state != "closed":
            self._env.close()
            self._state = "closed"

    def expert_actions(self) -> list[str]:
        """Return what minigrid's ``BabyAIBot`` would do from here until the episode is over.

        The episode itself stays as it is. The bot plans anew from the present state and is no
        oracle: it may need more steps than there are, or be lost after a strange beginning.

        Raises:
            EnvStateError: If no episode is running.
            RuntimeError: If the bot finds no way.
        """
        self._check_running()
        bots = require("minigrid.utils.baby_ai_bot", extra="icml-core[babyai]")
        env = copy.deepcopy(self._env)
        actions: list[str] = []
        try:
            bot, over, action = bots.BabyAIBot(env), False, None
            while not over and self._steps + len(actions) < self.max_steps:
                action = bot.replan(action)
                actions.append(ACTIONS[int(action)])
                over = env.step(action)[2]
        except (AssertionError, bots.DisappearedBoxError) as error:
            raise RuntimeError(f"BabyAIBot finds no way in {self.id}: {error!r}") from error
        return actions

    def _check_running(self) -> None:
        if self._state != "running":
            wanted = {"new": "call reset first", "over": "call reset", "closed": "it is closed"}
            raise EnvStateError(f"{self.id} has no running episode: {wanted[self._state]}")

    def _observation(self, answer: str = "") -> Observation:
        lines = describe(self._view["image"], self._env.carrying)
        actions = ACTIONS if self._state == "running" else ()
        return Observation(
            answer + "\n".join(lines), actions, self._view["mission"].replace(",", " ,")
        )


def describe(image: np.ndarray, carried: Any) -> list[str]:
    """Put a view into words, a line for each thing in it.

    Args:
        image: ``(7, 7, 3)`` integers: kind, colour and state of the cell that is so many columns
            from the left and rows from the far end.
        carried: minigrid's object in the agent's hands, or None.
    """
    constants = require("minigrid.core.constants", extra="icml-core[babyai]")
    states = {number: name for name, number in constants.STATE_TO_IDX.items()}
    things, walls = [], []
    for (column, row), kind in np.ndenumerate(image[:, :, 0]):
        name, ahead, side = constants.IDX_TO_OBJECT[kind], _AHEAD - int(row), int(column) - _SIDE
        if name == "wall" and side == 0:
            walls.append(ahead)
        if name in _UNSEEN or (ahead, side) == (0, 0):  # there minigrid draws what is carried
            continue
        _, colour, state = image[column, row].tolist()
        door = f"{states[state]} " if name == "door" else ""
        thing = f"{door}{constants.IDX_TO_COLOR[colour]} {name}"
        things.append((ahead + abs(side), side, ahead, f"a {thing} {_where(ahead, side)}"))
    lines = [clause for *_, clause in sorted(things)]
    lines += [f"wall {_steps(min(walls))} ahead"] if walls else []
    held = f"a {carried.color} {carried.type}" if carried else "nothing"
    return [*lines, f"you carry {held}"]


def _where(ahead: int, side: int) -> str:
    parts = [f"{_steps(ahead)} ahead"] if ahead else []
    parts += [f"{_steps(abs(side))} {'left' if side < 0 else 'right'}"] if side else []
    return " ".join(parts)


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _registered(level: str, registry: Any) -> str:
    """Return the id that gymnasium knows a level by."""
    levels = {name[7:].rsplit("-", 1)[0]: name for name in registry if name.startswith("BabyAI-")}
    if level not in levels:
        near = difflib.get_close_matches(level, levels, n=3, cutoff=0.3)
        raise UserError(f"no BabyAI level {level!r}; the nearest names are {', '.join(near)}")
    return levels[level]
