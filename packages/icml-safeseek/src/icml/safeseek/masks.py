"""Differentiable on-off gates for the units of a model (paper, section 3; STE, hard concrete)."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.models.fingerprint import fingerprint
from icml.safeseek.circuit import Circuit
from icml.safeseek.units import CircuitSpec, Kind, Site, unit_counts, unit_factors

__all__ = ["BETA", "GAMMA", "ZETA", "GateSet", "Mode", "Relaxation", "hard_concrete", "straight"]

Mode = Literal["main", "circuit", "off"]
"""``main``: what stays runs; ``circuit``: the circuit alone runs; ``off``: the model as it is."""
Relaxation = Literal["ste", "hard_concrete"]

# Louizos et al. 2018, section 4.1: temperature, and the interval that the sigmoid is stretched to.
BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1


class _Straight(torch.autograd.Function):
    """1 where s > 0.5, else 0; the gradient goes through as if it were s."""

    @staticmethod
    def forward(ctx: Any, soft: Tensor) -> Tensor:
        # s + (m - s) would round: a gate that is on must be exactly 1
        return (soft > 0.5).to(soft.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


def straight(logits: Tensor, tau: float = 1.0) -> Tensor:
    """Return hard gates with the straight-through gradient: m = 1[s > 0.5], dm/dz := ds/dz.

    Args:
        logits: z, any shape; s = sigmoid(z / tau). s = 0.5 is off.
        tau: Temperature, > 0.

    Returns:
        0 or 1 exactly, in the shape of ``logits``.

    Example:
        >>> straight(torch.tensor([-1.0, 0.0, 1.0])).tolist()
        [0.0, 0.0, 1.0]
    """
    return cast("Tensor", _Straight.apply(torch.sigmoid(logits / tau)))


def hard_concrete(logits: Tensor, noise: Tensor) -> Tensor:
    """Return gates from the hard concrete law, which has mass at 0 and 1 (Louizos et al. 2018).

    Args:
        logits: log alpha, any shape.
        noise: Uniform numbers in (0, 1), of that shape.

    Returns:
        Gates in [0, 1] of that shape; they are not 0 with the probability
        sigmoid(logits - BETA * log(-GAMMA / ZETA)).
    """
    s = torch.sigmoid((noise.logit() + logits) / BETA)
    return (s * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


class GateSet(nn.Module):
    """A learnable gate for each unit of a model; the model itself is never edited.

    With one mask the circuit is what the mask leaves out (m and 1 - m); with two, ``main`` and
    ``circuit`` each have a mask of their own, as in the authors' backdoor scripts. In training
    mode gates are relaxed and gradients reach them; in eval mode they are 0 or 1.

    Example:
        >>> from icml.core.models.tiny import causal_lm
        >>> model = causal_lm(9, d=8, layers=1, heads=2)
        >>> gates = GateSet(model, CircuitSpec(["head"]))
        >>> with gates.apply(model, "main"):
        ...     logits = model(torch.tensor([[4, 5]])).logits
        >>> logits.sum().backward()
        >>> gates.logits.grad.shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        model: Any,
        spec: CircuitSpec,
        *,
        relaxation: Relaxation = "ste",
        masks: Literal[1, 2] = 1,
        init: float | Mapping[Kind, float] = 1.0,
        tau: float = 1.0,
    ) -> None:
        """Make a gate for each unit, all with the same logit.

        Args:
            model: A decoder of one of `icml.core.models.blocks.FAMILIES`; it is not kept.
            spec: Which units get a gate.
            relaxation: ``ste`` (the paper's) or ``hard_concrete``.
            masks: 1, or 2 independent ones.
            init: First logit of the gates, one for all or one a kind.
            tau: Temperature of the straight-through estimator, > 0; hard concrete has its own.

        Raises:
            UserError: If the model's family is unknown or a setting is out of range.
        """
        super().__init__()
        if relaxation not in get_args(Relaxation):
            raise UserError(f"relaxation must be ste or hard_concrete, got {relaxation!r}")
        if not 0 < tau < math.inf:
            raise UserError(f"tau must be a number above 0, got {tau}")
        self.counts = unit_counts(model, spec)
        self.relaxation, self.tau = relaxation, tau
        starts = init if isinstance(init, Mapping) else dict.fromkeys(spec.granularity, init)
        missing = [kind for kind in spec.granularity if kind not in starts]
        if missing:
            raise UserError(f"init must hold a logit for {', '.join(missing)}, got {dict(starts)}")
        first = torch.cat(
            [torch.full((count,), float(starts[s.kind])) for s, count in self.counts.items()]
        )
        device = next(model.parameters()).device
        self.logits = nn.Parameter(first.expand(masks, -1).clone().to(device))
        self.noise: Tensor
        self.register_buffer("noise", torch.full_like(self.logits, 0.5), persistent=False)

    def draw(self, generator: torch.Generator) -> None:
        """Draw the noise of the hard concrete gates anew; before that they are at their median.

        Args:
            generator: On the CPU, so that runs agree on every device.
        """
        noise = torch.rand(self.noise.shape, generator=generator)
        tiny = torch.finfo(noise.dtype).eps
        self.noise.copy_(noise.clamp(tiny, 1 - tiny))

    def values(self, mode: Mode) -> dict[Site, Tensor]:
        """Return the factors ``(units,)`` of each site, 1 for a unit that is on.

        In training mode they carry gradients to `logits`; in eval mode they are hard.
        """
        return self.by_site(self._flat(mode))

    def soft(self, mode: Mode = "main") -> Tensor:
        """Return the probability that each unit is on, ``(units of all sites,)``, with gradients.

        sigmoid(z / tau) for the straight-through gates, which aren't random; for hard concrete
        ones the probability that the gate isn't 0 (in a complement: that m isn't 1).
        """
        row = self._row(mode)
        if self.relaxation == "ste":
            on = torch.sigmoid(self.logits[row] / self.tau)
            return 1 - on if self._inverted(mode) else on
        shift = BETA * math.log(-GAMMA / ZETA)
        if self._inverted(mode):  # 1 - m has the same law with the logit's sign turned
            return torch.sigmoid(-self.logits[row] - shift)
        return torch.sigmoid(self.logits[row] - shift)

    def l0(self, mode: Mode = "main") -> Tensor:
        """Return the expected number of units that are on, a scalar with gradients."""
        return self.soft(mode).sum()

    def hard(self, mode: Mode = "main") -> dict[Site, Tensor]:
        """Return which units are on, booleans ``(units,)`` for each site."""
        on = torch.sigmoid(self.logits.detach()[self._row(mode)] / self.tau) > 0.5
        return self.by_site(~on if self._inverted(mode) else on)

    @contextmanager
    def apply(self, model: Any, mode: Mode = "main") -> Generator[None]:
        """Gate a model in a ``with`` block; ``off`` leaves it as it is.

        Args:
            model: The model the gates were made for, or one of the same shape.
            mode: See `Mode`.

        Raises:
            UserError: If the mode is another.
        """
        if mode == "off":
            yield
            return
        with unit_factors(model, self.values(mode)):
            yield

    def circuit(self, model: Any, notes: Mapping[str, Any] | None = None) -> Circuit:
        """Return the circuit as it is now: the units that ``main`` leaves out."""
        left_out = {site: ~on for site, on in self.hard("main").items()}
        return Circuit(left_out, fingerprint(model), notes or {})

    def by_site(self, flat: Tensor) -> dict[Site, Tensor]:
        """Split a tensor ``(units of all sites,)`` by sites."""
        return dict(zip(self.counts, flat.split(list(self.counts.values())), strict=True))

    def _flat(self, mode: Mode) -> Tensor:
        row = self._row(mode)
        logits = self.logits[row]
        if not self.training:
            logits = logits.detach()
        if self.training and self.relaxation == "hard_concrete":
            gates = hard_concrete(logits, self.noise[row])
        else:
            gates = straight(logits, self.tau)
        return 1 - gates if self._inverted(mode) else gates

    def _row(self, mode: Mode) -> int:
        if mode not in ("main", "circuit"):
            raise UserError(f"mode must be main, circuit or off, got {mode!r}")
        return 0 if mode == "main" or len(self.logits) == 1 else 1

    def _inverted(self, mode: Mode) -> bool:
        return mode == "circuit" and len(self.logits) == 1
