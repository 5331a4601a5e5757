"""What ``icml wzllm train`` prints during DAPO: a line a log of TRL's."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

__all__ = ["StepLines"]

HEADS = (
    f"{'step':>11}{'proved':>9}{'tokens':>9}{'groups drawn':>14}{'dead':>7}{'given up':>10}{'s':>8}"
)


class StepLines(TrainerCallback):
    """Prints the fraction of proofs, their length, and what dynamic sampling did."""

    def __init__(self) -> None:
        """Start the clock."""
        self._last = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print the heads of the columns."""
        self._last = time.perf_counter()
        if state.is_world_process_zero:
            print(HEADS, flush=True)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print the line of a training step, and nothing for the last summary."""
        logs = kwargs["logs"]
        if not state.is_world_process_zero or "dapo/dead" not in logs:
            return
        now = time.perf_counter()
        print(
            f"{state.global_step:>5}/{state.max_steps:<5}{logs['rewards/proof/mean']:>9.3f}"
            f"{logs['completions/mean_length']:>9.1f}{logs['dapo/generated']:>9.1f}"
            f"{logs['dapo/dead']:>7.1f}{logs['dapo/given_up']:>10.1f}{now - self._last:>8.1f}",
            flush=True,
        )
        self._last = now
