"""A softmax policy with one row of logits a state, in numpy: thousands of updates a second.

Whatever a neural network adds to a method (generalisation, an optimizer's interplay with
depth) is absent here, which is what an experiment on the *advantages* wants: it runs many seeds at
many learning rates in the time a small network takes for one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["TabularPolicy"]

Floats = NDArray[np.float64]
Indices = NDArray[np.integer]

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8
"""Adam's constants: the paper's and torch's defaults."""


class TabularPolicy:
    """``pi(a | s) = softmax(logits[s])[a]``, trained by ascent on weighted log-probabilities.

    Example:
        >>> policy = TabularPolicy(np.zeros((1, 2)), learning_rate=1.0, optimizer="sgd")
        >>> policy.score_step(np.array([0]), np.array([1]), np.array([0.5]))
        >>> policy.logits  # 0.5 (e_1 - (1/2, 1/2))
        array([[-0.25,  0.25]])
    """

    def __init__(
        self,
        logits: Floats,
        *,
        learning_rate: float,
        optimizer: Literal["adam", "sgd"] = "adam",
    ) -> None:
        """Start from ``logits``, which are copied.

        Args:
            logits: ``(states, actions)``, finite.
            learning_rate: Step size, above 0.
            optimizer: "adam" without weight decay, or "sgd" without momentum.

        Raises:
            ValueError: If an argument is out of range.
        """
        logits = np.array(logits, dtype=np.float64)
        if logits.ndim != 2 or 0 in logits.shape or not np.isfinite(logits).all():
            raise ValueError(
                f"logits must be a finite (states, actions) array, got shape {logits.shape}"
            )
        if not 0 < learning_rate < np.inf:
            raise ValueError(f"learning_rate must be positive and finite, got {learning_rate}")
        if optimizer not in ("adam", "sgd"):
            raise ValueError(f"optimizer must be 'adam' or 'sgd', got {optimizer!r}")
        self.logits = logits
        """``(states, actions)``."""
        self._learning_rate = learning_rate
        self._adam = optimizer == "adam"
        self._mean, self._square = np.zeros_like(logits), np.zeros_like(logits)
        self._steps = 0

    def probabilities(self) -> Floats:
        """Return ``(states, actions)``, each row adding up to 1."""
        weights = np.exp(self.logits - self.logits.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    def entropies(self) -> Floats:
        """Return the entropy of each state's distribution: ``(states,)``, in nats."""
        p = self.probabilities()
        return -(p * np.log(np.where(p > 0, p, 1.0))).sum(1)

    def sample(self, states: Indices, rng: np.random.Generator) -> Indices:
        """Draw an action in each state; the generator moves by one number a state.

        Args:
            states: ``(n,)``.
            rng: Source of all randomness.

        Returns:
            ``(n,)`` int64.
        """
        return draw(self.probabilities()[states], rng)

    def gradient(self, states: Indices, actions: Indices, weights: Floats) -> Floats:
        """Return the gradient of ``sum_i weights[i] log pi(actions[i] | states[i])``.

        Args:
            states: ``(n,)``; a state may occur many times.
            actions: ``(n,)``.
            weights: ``(n,)``: advantages over the number of samples, say.

        Returns:
            ``(states, actions)``: row s is the sum of ``weights[i] (e_a - pi(. | s))``.
        """
        n, width = self.logits.shape
        taken = np.bincount(states * width + actions, weights, n * width).reshape(n, width)
        return taken - taken.sum(1, keepdims=True) * self.probabilities()

    def score_step(self, states: Indices, actions: Indices, weights: Floats) -> None:
        """Take one step of the optimizer up that `gradient`.

        Raises:
            ValueError: If the arguments are not 1-D of one length, or an index is out of range.
        """
        shapes = {np.shape(x) for x in (states, actions, weights)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ValueError(
                f"states, actions and weights must be (n,), got shapes {sorted(shapes)}"
            )
        for name, indices, size in zip(
            ("states", "actions"), (states, actions), self.logits.shape, strict=True
        ):
            if len(indices) and not 0 <= indices.min() <= indices.max() < size:
                raise ValueError(
                    f"{name} must be in [0, {size}), got {indices.min()} to {indices.max()}"
                )
        self._ascend(self.gradient(states, actions, weights))

    def _ascend(self, gradient: Floats) -> None:
        if not self._adam:
            self.logits += self._learning_rate * gradient
            return
        self._steps += 1
        self._mean += (1 - BETA_1) * (gradient - self._mean)
        self._square += (1 - BETA_2) * (gradient**2 - self._square)
        mean = self._mean / (1 - BETA_1**self._steps)
        square = self._square / (1 - BETA_2**self._steps)
        self.logits += self._learning_rate * mean / (np.sqrt(square) + EPS)


def draw(probabilities: Floats, rng: np.random.Generator) -> Indices:
    """Draw an index from each row of ``(n, choices)`` by its inverse cumulative distribution."""
    uniforms = rng.random((len(probabilities), 1))
    # Without the last column, whose sum may be 1 - 1e-16, the result is always a valid index.
    return (probabilities.cumsum(1)[:, :-1] <= uniforms).sum(1)
