"""Temperature, top-k and top-p, where they are applied, and which settings have ME's law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from icml.core.errors import UserError
from icml.core.models.steps import warp

Method = Literal["me", "ce", "single"]
"""Draw one member a token; average all members; use one member alone."""
WarpPlace = Literal["per_model", "after_mix"]


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn from logits."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the most probable token."""
    top_k: int = 0
    """Tokens to keep, 0 for all."""
    top_p: float = 1.0
    """Probability to keep, in (0, 1]."""
    place: WarpPlace = "per_model"
    """Warp each member's law, then mix; or mix, then warp."""

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"temperature must be >= 0, got {self.temperature}")
        if self.top_k < 0 or self.top_k != int(self.top_k):
            raise UserError(f"top_k must be a whole number of tokens, 0 for all, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.place not in ("per_model", "after_mix"):
            raise UserError(f"warp must be 'per_model' or 'after_mix', got {self.place!r}")

    @property
    def identity(self) -> bool:
        """Whether the members' laws are left as they are."""
        return self.temperature == 1 and self.top_k == 0 and self.top_p == 1

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the law to draw from, ``(..., vocabulary)`` as the logits."""
        if self.temperature == 0:
            return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(torch.float32)
        return warp(logits, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)


def check_equivalent(method: Method, sampling: Sampling) -> None:
    """Refuse settings under which the method has not the law of the ensemble.

    Drawing a member and then a token from its law gives exactly the mean of the members' laws
    (Sec. 2: P is a mixture). A warp of that mean is not the mean of the warps, since it isn't
    linear.

    Raises:
        UserError: In one sentence, with what to do instead.
    """
    if method not in ("me", "ce", "single"):
        raise UserError(f"method must be 'me', 'ce' or 'single', got {method!r}")
    if method == "me" and sampling.temperature == 0:
        raise UserError(
            "temperature 0 in ME would take the favourite of a random member, not that of the "
            "ensemble: use method='ce' with warp='after_mix', or a temperature > 0"
        )
    if method == "me" and sampling.place == "after_mix" and not sampling.identity:
        raise UserError(
            "ME can't warp after mixing, since it never computes the mixture, and temperature, "
            "top-k and top-p are not linear: use warp='per_model', or method='ce'"
        )
    if method == "ce" and sampling.temperature == 0 and sampling.place == "per_model":
        raise UserError(
            "temperature 0 per model would draw among the members' favourites at random: use "
            "warp='after_mix' for the favourite of the ensemble"
        )


def mix(laws: list[Tensor], weights: Tensor) -> Tensor:
    """Return the members' mean law, P = sum_i lambda_i M_i (Sec. 2).

    Args:
        laws: One ``(batch, vocabulary)`` of probabilities a member.
        weights: ``(batch, members)`` or ``(1, members)``.

    Example:
        >>> laws = [torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.1, 0.3, 0.6]])]
        >>> mix(laws, torch.tensor([[0.25, 0.75]]))
        tensor([[0.2500, 0.2750, 0.4750]])
    """
    columns = weights.to(device=laws[0].device, dtype=laws[0].dtype).unbind(1)
    total = torch.zeros_like(laws[0])
    for weight, law in zip(columns, laws, strict=True):
        total.addcmul_(weight.unsqueeze(1), law)
    return total
