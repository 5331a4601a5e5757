"""The border: what every statistic asks of its input."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray


def sample(values: ArrayLike, name: str, *, least: int = 1) -> NDArray[np.float64]:
    """Return ``values`` as a 1-D float64 array of at least ``least`` finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got shape {array.shape}")
    return finite(array, name, least=least)


def finite(array: NDArray[np.float64], name: str, *, least: int = 1) -> NDArray[np.float64]:
    """Return ``array`` if it has at least ``least`` rows and every number in it is finite."""
    if len(array) < least:
        raise ValueError(f"{name} must hold at least {least} value(s), got {len(array)}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
    return array


def pair(
    a: ArrayLike, b: ArrayLike, *, least: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``a`` and ``b`` as two samples of one length."""
    first, second = sample(a, "a", least=least), sample(b, "b", least=least)
    if len(first) != len(second):
        raise ValueError(f"a and b must be paired, got {len(first)} and {len(second)} values")
    return first, second


def count(value: SupportsIndex, name: str, *, least: int = 0, most: int | None = None) -> int:
    """Return ``value`` as an int between ``least`` and ``most``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, got {value!r}") from None
    if number < least or (most is not None and number > most):
        wanted = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name} must be {wanted}, got {number}")
    return number


def confidence(level: float) -> float:
    """Return ``level`` if it is a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1 (0.95, not 95), got {level}")
    return level
