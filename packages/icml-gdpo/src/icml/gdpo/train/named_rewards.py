"""Reward functions that a recipe names: built-in ones, imported ones, and conditions on them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from icml.core.errors import UserError
from icml.gdpo.rewards import ConditionedReward, RewardFunction
from icml.gdpo.train import text_rewards
from icml.gdpo.train.recipe import Recipe, RewardPart

_BUILT_IN: dict[str, Callable[..., list[float]]] = {
    "answer": text_rewards.answer,
    "format": text_rewards.format,
    "integer": text_rewards.integer,
}


def reward_functions(recipe: Recipe, *, allow_import: bool) -> list[RewardFunction]:
    """Return the reward functions of a recipe, in its order.

    Raises:
        UserError: If one must be imported and may not or can't be, or if two have one name.
    """
    if recipe.imported and not allow_import:
        raise UserError(
            f"the recipe imports {', '.join(recipe.imported)}, which runs that code: "
            "add --allow-import if you trust it"
        )
    # One function object a name: conditions on the same reward then share its evaluation.
    found: dict[str, RewardFunction] = {name: _import(name) for name in recipe.imported}
    rewards = [_reward(part, {**_BUILT_IN, **found}) for part in recipe.rewards]
    names = [part.reward.rpartition(":")[2] for part in recipe.rewards]
    if len(set(names)) < len(names):
        raise UserError(f"two rewards of one name can't be told apart in the log: {names}")
    return rewards


def _reward(part: RewardPart, named: dict[str, RewardFunction]) -> RewardFunction:
    if part.at_most is not None:
        reward: RewardFunction = partial(text_rewards.length, at_most=part.at_most)
    else:
        reward = named[part.reward]
    if part.on is None or part.at_least is None:
        return reward
    return ConditionedReward(reward, on=named[part.on], at_least=part.at_least)


def _import(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    # A script's folder is on the path, a command's is not; the user's own rewards lie there.
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"can't import the reward {path}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(function):
        raise UserError(f"the reward {path} is not a function but a {type(function).__name__}")
    return function
