"""How large a circuit is in parameters: kinds of units differ in weight, which counts hide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from icml.safeseek.circuit import Circuit
from icml.safeseek.tuning import site_slices
from icml.safeseek.units import Kind, linear_features

__all__ = ["ParameterShare", "parameter_shares"]


class ParameterShare(NamedTuple):
    """Entries of weights and biases that are a circuit's own, and that all gated units own."""

    own: int
    gated: int

    @property
    def share(self) -> float:
        """``own`` over ``gated``."""
        return self.own / self.gated


def parameter_shares(model: Any, circuit: Circuit) -> dict[str, ParameterShare]:
    """Return a circuit's part of the gated weights, for each kind of unit and for ``all``.

    Which entries are a unit's own is as in `icml.safeseek.tuning.unit_slices`: keys and values that
    query heads share count where all of those heads are in the circuit. Each kind has the weights
    of that kind's units as its denominator; ``all`` counts an entry that two kinds own once. What
    has no gate (embeddings, norms, blocks left out) is in no denominator.

    Args:
        model: The circuit's model, or one of its shape.
        circuit: Its units.

    Raises:
        UserError: If the model has another shape.
    """
    circuit.check_layout(model)
    every = {site: torch.ones_like(member) for site, member in circuit.units.items()}
    kinds: dict[str, Kind | None] = {**{kind: kind for kind in circuit.kinds}, "all": None}
    return {
        name: ParameterShare(*(_entries(model, units, kind) for units in (circuit.units, every)))
        for name, kind in kinds.items()
    }


def _entries(model: Any, units: Mapping[Any, Tensor], kind: Kind | None) -> int:
    """Count the entries that units own, without a mask of the weights' size."""
    marked: dict[int, tuple[Any, dict[str, Tensor]]] = {}
    for site, member in units.items():
        if kind in (None, site.kind):
            for module, side, index in site_slices(model, site, member):
                sides = marked.setdefault(id(module), (module, {}))[1]
                sides[side] = sides[side] | index if side in sides else index
    total = 0
    for module, sides in marked.values():
        inputs, outputs = linear_features(module)
        rows, columns = (int(sides[s].sum()) if s in sides else 0 for s in ("rows", "columns"))
        total += rows * inputs + columns * outputs - rows * columns
        total += rows if module.bias is not None else 0
    return total
