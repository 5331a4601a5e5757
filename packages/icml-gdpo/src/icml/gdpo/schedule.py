"""Weights of the rewards that change over training: a pure function of the step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class WeightSchedule:
    """Weights that move in straight lines between the steps at which they are given.

    Before the first of these steps they are that step's, after the last one that one's. A jump is
    two neighbouring steps: ``{99: [1, 0], 100: [1, 1]}``. Being a function of the step alone, a
    schedule needs no checkpoint.

    Args:
        points: Maps optimizer steps, whole numbers >= 0, to one finite weight >= 0 for each
            reward, not all 0. The step may be a string, since JSON knows no other keys.

    Raises:
        ValueError: If there is no point, a step or a weight is out of its range, or two points
            have different numbers of weights.

    Example:
        >>> schedule = WeightSchedule({0: [1.0, 0.0], 100: [1.0, 0.5]})
        >>> schedule.at(50), schedule.at(1000)
        ((1.0, 0.25), (1.0, 0.5))
    """

    points: Mapping[Any, Sequence[float]]
    _steps: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _weights: tuple[tuple[float, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the points and put them in order."""
        if not isinstance(self.points, Mapping) or not self.points:
            raise ValueError(
                f"a weight schedule must map steps to weights, as {{0: [1, 0]}}, got {self.points}"
            )
        ordered = sorted((_step(step), _weights(step, w)) for step, w in self.points.items())
        steps, weights = zip(*ordered, strict=True)
        if len(set(steps)) < len(steps):
            raise ValueError(f"a weight schedule must give each step once, got {list(steps)}")
        if len({len(w) for w in weights}) > 1:
            raise ValueError(
                "a weight schedule must give as many weights at every step, got "
                + ", ".join(f"{len(w)} at {s}" for s, w in ordered)
            )
        object.__setattr__(self, "_steps", steps)
        object.__setattr__(self, "_weights", weights)

    @property
    def rewards(self) -> int:
        """How many rewards it weighs."""
        return len(self._weights[0])

    def at(self, step: int) -> tuple[float, ...]:
        """Return the weights at an optimizer step.

        Args:
            step: Optimizer steps done, >= 0.
        """
        after = bisect_right(self._steps, step)
        if after == 0:
            return self._weights[0]
        if after == len(self._steps):
            return self._weights[-1]
        start, end = self._steps[after - 1], self._steps[after]
        part = (step - start) / (end - start)
        pairs = zip(self._weights[after - 1], self._weights[after], strict=True)
        return tuple((1 - part) * low + part * high for low, high in pairs)


def _step(value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise ValueError(f"a step of a weight schedule must be a whole number >= 0, got {value!r}")
    return int(text)


def _weights(step: Any, values: Any) -> tuple[float, ...]:
    usable = isinstance(values, Sequence) and all(
        isinstance(v, int | float) and math.isfinite(v) and v >= 0 for v in values
    )
    if not usable or not any(values):
        raise ValueError(
            f"weights at step {step} must be a list of finite numbers >= 0, not all 0, got {values}"
        )
    return tuple(map(float, values))
