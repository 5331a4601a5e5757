"""A training is stopped when its gradients are no numbers, before they reach a weight."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback

from icml.core.errors import UserError

__all__ = ["FiniteGradients"]


class FiniteGradients(TrainerCallback):
    """For `Trainer` of transformers and those of TRL, which go on with NaN and save it."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Check the gradients of all parameters.

        Raises:
            UserError: If one is NaN or infinite.
        """
        gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
        if not bool(torch.isfinite(torch.nn.utils.get_total_norm(gradients))):
            raise UserError(
                f"step {state.global_step + 1} has gradients that are no numbers: train with a "
                "lower learning rate in another folder, and look at the rows"
            )
