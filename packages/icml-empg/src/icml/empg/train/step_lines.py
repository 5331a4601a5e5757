"""What ``icml empg train`` prints while it trains: a line a log of TRL's."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

HEADS = f"{'step':>11}{'reward':>9}{'tokens':>9}{'entropy (nats)':>17}{'g':>15}{'bonus':>8}{'s':>8}"


class StepLines(TrainerCallback):
    """Prints reward, length, the ranges of step entropy and weight, and the bonus's share."""

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
        if not state.is_world_process_zero or "empg/h_max" not in logs:
            return
        now = time.perf_counter()
        entropy = f"{logs['empg/h_min']:.3f} to {logs['empg/h_max']:.3f}"
        weight = f"{logs['empg/g_min']:.2f} to {logs['empg/g_max']:.2f}"
        length = logs["completions/mean_length"]
        print(
            f"{state.global_step:>5}/{state.max_steps:<5}{logs['reward']:>9.3f}{length:>9.1f}"
            f"{entropy:>17}{weight:>15}{logs['empg/bonus_share']:>8.1%}{now - self._last:>8.1f}",
            flush=True,
        )
        self._last = now
