"""What a package's ``train`` command prints while TRL trains: a line for each step that it logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

__all__ = ["SFT_HEADS", "StepLines", "sft_cells"]

SFT_HEADS = f"{'loss (nats)':>14}{'right':>8}"
"""Heads of `sft_cells`."""


class StepLines(TrainerCallback):
    """Prints step, a package's own cells and seconds; rank 0 alone does."""

    def __init__(
        self, heads: str, cells: Callable[[Mapping[str, Any]], str | None], *, after: str = ""
    ) -> None:
        """Say what stands in the columns.

        Args:
            heads: Heads of the cells' columns, as wide as the cells.
            cells: From what TRL logs to the cells of a training step, or None where the log is of
                something else (an evaluation, the last summary).
            after: Ends the line of heads.
        """
        self.heads = f"{'step':>11}{heads}{'s':>8}{after}"
        self._cells = cells
        self._last = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print the heads of the columns."""
        self._last = time.perf_counter()
        if state.is_world_process_zero:
            print(self.heads, flush=True)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print the line of a training step; its seconds are those since the line before."""
        if not state.is_world_process_zero or (cells := self._cells(kwargs["logs"])) is None:
            return
        now = time.perf_counter()
        step = f"{state.global_step:>5}/{state.max_steps:<5}"
        print(f"{step}{cells}{now - self._last:>8.1f}", flush=True)
        self._last = now


def sft_cells(logs: Mapping[str, Any]) -> str | None:
    """Return of ``SFTTrainer`` the loss, and the share of tokens that the model would choose."""
    if "loss" not in logs:
        return None
    return f"{logs['loss']:>14.4f}{logs.get('mean_token_accuracy', float('nan')):>8.1%}"
