"""Reward functions for TRL that put one reward above another."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MethodType
from typing import Any, ClassVar, cast
from weakref import WeakValueDictionary

Rewards = Sequence[float | None]
RewardFunction = Callable[..., Rewards] | Callable[..., Awaitable[Rewards]]
"""TRL's signature: ``(prompts, completions, **columns)`` -> one number or None a completion."""


def ConditionedReward(
    reward_fn: RewardFunction, *, on: RewardFunction, at_least: float, otherwise: float = 0.0
) -> _Conditioned | _AsyncConditioned:
    """Let a reward count only where another one is high enough.

    ``r'[i] = reward[i] if gate[i] >= at_least else otherwise``. For an easy reward (length) that
    would drown a hard one (correctness): a weight only scales it, a condition orders the two.

    The result is a reward function for TRL: it passes all keyword arguments on, keeps the name
    of ``reward_fn``, and is asynchronous if ``reward_fn`` or ``on`` is. All rewards that are
    conditioned on the same function share one evaluation of it a batch, that is a call with the
    same lists; two calls with other lists are two evaluations even if their contents are equal.

    Where the gate is None or NaN, or ``reward_fn`` itself gives None, the result is None
    (missing): a reward that does not apply to a completion is not 0 for it.

    Args:
        reward_fn: The reward that counts under the condition. It sees all completions.
        on: The reward that decides.
        at_least: The smallest value of ``on`` that lets the reward count, in that reward's unit.
        otherwise: What the completion gets instead, in the unit of ``reward_fn``.

    Raises:
        TypeError: If ``reward_fn`` or ``on`` can't be called; when called, if what a function
            returns is no number.
        ValueError: If ``at_least`` or ``otherwise`` is not finite; when called, if a function
            returns another number of rewards than there are completions.

    Example:
        >>> def correct(prompts, completions, **columns):
        ...     return [float(c == "4") for c in completions]
        >>> def brief(prompts, completions, **columns):
        ...     return [float(len(c) < 3) for c in completions]
        >>> reward = ConditionedReward(brief, on=correct, at_least=1.0)
        >>> reward(prompts=["2+2"] * 3, completions=["4", "5", "four"])
        [1.0, 0.0, 0.0]
    """
    for name, function in (("reward_fn", reward_fn), ("on", on)):
        if not callable(function):
            raise TypeError(f"{name} must be a reward function, got {type(function).__name__}")
    for name, value in (("at_least", at_least), ("otherwise", otherwise)):
        if not math.isfinite(value):
            raise ValueError(f"{name} must be a finite number, got {value}")
    kind = _AsyncConditioned if _is_async(reward_fn) or _is_async(on) else _Conditioned
    return kind(reward_fn, on, at_least, otherwise)


class _Condition:
    """What the synchronous and the asynchronous reward have in common."""

    def __init__(
        self, reward_fn: RewardFunction, on: RewardFunction, at_least: float, otherwise: float
    ) -> None:
        self.__name__ = _name(reward_fn)
        self._arguments = (reward_fn, on, at_least, otherwise)
        self._reward_fn = reward_fn
        self._gate = _Gate.of(on)
        self._at_least = at_least
        self._otherwise = otherwise

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), self._arguments

    def _combine(self, gate: Rewards, rewards: Rewards, count: int) -> list[float | None]:
        _check_length(rewards, self.__name__, count)
        return [self._one(g, r) for g, r in zip(gate, rewards, strict=True)]

    def _one(self, gate: float | None, reward: float | None) -> float | None:
        _check_number(gate, _name(self._gate.function))
        _check_number(reward, self.__name__)
        if gate is None or reward is None or math.isnan(gate) or math.isnan(reward):
            return None
        return float(reward) if gate >= self._at_least else self._otherwise


class _Conditioned(_Condition):
    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        batch = {"prompts": prompts, "completions": completions, **columns}
        gate = self._gate.evaluate(batch)
        rewards = cast("Rewards", self._reward_fn(**batch))
        return self._combine(gate, rewards, len(completions))


class _AsyncConditioned(_Condition):
    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        batch = {"prompts": prompts, "completions": completions, **columns}
        gate, rewards = await asyncio.gather(
            self._gate.evaluate_async(batch), _call(self._reward_fn, batch)
        )
        return self._combine(gate, rewards, len(completions))


class _Gate:
    """The deciding reward with its latest batch; every condition on one function shares one."""

    # Weak values under plain numbers: nothing here keeps a function or a trainer alive.
    _shared: ClassVar[WeakValueDictionary[tuple[int, ...], _Gate]] = WeakValueDictionary()

    def __init__(self, function: RewardFunction) -> None:
        self.function = function
        self._batch: Mapping[str, Any] = {}
        self._snapshot: Any = None
        self._rewards: Rewards = ()
        self._task: asyncio.Future[Rewards] | None = None

    @classmethod
    def of(cls, function: RewardFunction) -> _Gate:
        """Return the gate of ``function``; a bound method is a new object each time."""
        method = isinstance(function, MethodType)
        key = (id(function.__self__), id(function.__func__)) if method else (id(function),)
        gate = cls._shared.get(key)
        if gate is None:
            gate = cls._shared[key] = cls(function)
        return gate

    def evaluate(self, batch: Mapping[str, Any]) -> Rewards:
        if not self._is_latest(batch):
            rewards = cast("Rewards", self.function(**batch))
            _check_length(rewards, _name(self.function), len(batch["completions"]))
            self._remember(batch)
            self._rewards = rewards
        return self._rewards

    async def evaluate_async(self, batch: Mapping[str, Any]) -> Rewards:
        if not _is_async(self.function):
            return self.evaluate(batch)
        if self._task is None or not self._is_latest(batch):
            self._remember(batch)
            self._task = asyncio.ensure_future(_call(self.function, batch))
        task = self._task
        try:
            # One waiting reward that is cancelled must not cancel the others' gate.
            rewards = await asyncio.shield(task)
        except Exception:
            if self._task is task:
                self._task = None  # the next call tries again
            raise
        _check_length(rewards, _name(self.function), len(batch["completions"]))
        return rewards

    def _is_latest(self, batch: Mapping[str, Any]) -> bool:
        """Compare by identity, and the completions by content: a list may be filled anew."""
        return (
            batch.keys() == self._batch.keys()
            and all(value is self._batch[name] for name, value in batch.items())
            and batch["completions"] == self._snapshot
        )

    def _remember(self, batch: Mapping[str, Any]) -> None:
        self._batch = dict(batch)
        self._snapshot = copy.deepcopy(batch["completions"])


async def _call(function: RewardFunction, batch: Mapping[str, Any]) -> Rewards:
    result = function(**batch)
    return await result if inspect.isawaitable(result) else cast("Rewards", result)


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_async(function: Callable[..., Any]) -> bool:
    """Tell whether TRL would await it: a coroutine function, or an object called like one."""
    inner = _unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(inner.__call__)


def _name(function: Callable[..., Any]) -> str:
    inner = _unwrap(function)
    return getattr(inner, "__name__", type(inner).__name__)


def _check_length(rewards: Rewards, name: str, count: int) -> None:
    if isinstance(rewards, str) or not hasattr(rewards, "__len__"):
        raise TypeError(
            f"reward function {name!r} returned {rewards!r}, not one number or None a completion"
        )
    if len(rewards) != count:
        raise ValueError(
            f"reward function {name!r} returned {len(rewards)} rewards for {count} completions"
        )


def _check_number(reward: object, name: str) -> None:
    # Not isinstance: numbers of numpy and tensors of one element are fine too.
    if reward is not None and not hasattr(reward, "__float__"):
        raise TypeError(
            f"reward function {name!r} returned {reward!r} among its rewards, "
            "not one number or None a completion"
        )
