"""Antithetic variates: estimate an integral from points and their mirror images.

The method of this example: for a function that rises (or falls) throughout, f(u) and f(1 - u)
are negatively correlated, so their mean varies less than that of two independent values.
A real package has its paper's mathematics here, as pure functions, under the paper's name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _check_uniforms(uniforms: Array) -> None:
    if uniforms.ndim != 2 or uniforms.shape[1] == 0:
        raise ValueError(
            f"uniforms must be 2-D (estimates, points) with points >= 1, got {uniforms.shape}"
        )
    if not np.all((uniforms >= 0) & (uniforms <= 1)):
        raise ValueError("uniforms must lie between 0 and 1: draw them with Generator.random")


def plain_estimates(function: Callable[[Array], Array], uniforms: Array) -> Array:
    """Estimate the integral of ``function`` over [0, 1] by the mean of its values.

    Args:
        function: Takes and returns an array of any one shape, element by element.
        uniforms: Independent draws from [0, 1], shape ``(estimates, points)``.

    Returns:
        One estimate a row, shape ``(estimates,)``.

    Raises:
        ValueError: If ``uniforms`` isn't 2-D, has no points or leaves [0, 1].

    Example:
        >>> plain_estimates(np.square, np.array([[0.0, 0.5]])).tolist()
        [0.125]
    """
    _check_uniforms(uniforms)
    return function(uniforms).mean(axis=1)


def antithetic_estimates(function: Callable[[Array], Array], uniforms: Array) -> Array:
    """Estimate the integral of ``function`` over [0, 1] from points and their mirror images.

    Each estimate is ``mean_i (f(u_i) + f(1 - u_i)) / 2`` and so costs two values a point.

    Args:
        function: Takes and returns an array of any one shape, element by element.
        uniforms: Independent draws from [0, 1], shape ``(estimates, points)``.

    Returns:
        One estimate a row, shape ``(estimates,)``.

    Raises:
        ValueError: If ``uniforms`` isn't 2-D, has no points or leaves [0, 1].

    Example:
        >>> antithetic_estimates(np.square, np.array([[0.0, 0.5]])).tolist()
        [0.375]
    """
    _check_uniforms(uniforms)
    return ((function(uniforms) + function(1 - uniforms)) / 2).mean(axis=1)
