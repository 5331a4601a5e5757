"""The arms that are compared: what each does to the advantages of a batch of steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from torch import Tensor

from icml.empg.effect import ClarityBonusWarning
from icml.empg.modulation import EMPGResult, empg_modulate
from icml.empg.params import EMPGParams

__all__ = ["ARMS", "modulate", "step_advantages"]

ARMS: Mapping[str, EMPGParams | None] = {
    "grpo": None,
    "empg": EMPGParams(),
    "scaling": EMPGParams(zeta=0.0),
    "bonus": EMPGParams(k=0.0),
}
"""The paper's numbers, both halves of the method, and one at a time; None is plain GRPO."""


def modulate(
    advantages: Tensor, step_entropy: Tensor, next_step: Tensor, params: EMPGParams
) -> EMPGResult:
    """Call `icml.empg.modulation.empg_modulate` without its advice on zeta.

    The experiment shows what the bonus does at the paper's zeta, so it is not news here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClarityBonusWarning)
        return empg_modulate(advantages, step_entropy, next_step, params)


def step_advantages(
    arm: EMPGParams | None, advantages: Tensor, step_entropy: Tensor, next_step: Tensor
) -> Tensor:
    """Return ``(N,)``: GRPO's advantages as they are for None, else modulated."""
    if arm is None:
        return advantages
    return modulate(advantages, step_entropy, next_step, arm).advantages
