"""What ``icml gdpo train`` prints while it trains: a line a log of TRL's."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import TrainerCallback


class StepLines(TrainerCallback):
    """Prints the mean of each reward, its share of the advantages, and the distinct advantages."""

    def __init__(self, rewards: Sequence[str]) -> None:
        """Remember the names of the rewards."""
        self.rewards = list(rewards)
        self._last = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print the heads of the columns."""
        self._last = time.perf_counter()
        if state.is_world_process_zero:
            print(step_heads(self.rewards), flush=True)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print the line of a training step, and nothing for evaluations and the last summary."""
        logs = kwargs["logs"]
        if state.is_world_process_zero and "gdpo/distinct" in logs:
            now = time.perf_counter()
            line = step_line(logs, self.rewards, seconds=now - self._last)
            print(f"{state.global_step:>5}/{state.max_steps:<5}{line}", flush=True)
            self._last = now


def step_heads(rewards: Sequence[str]) -> str:
    """Return the heads of the columns of :func:`step_line`."""
    names = "".join(f"  {name[:14]:>14}" for name in rewards)
    return f"{'step':>11}{names}  {'distinct (GRPO)':>15}  {'s':>6}   reward: mean (share)"


def step_line(logs: Mapping[str, Any], rewards: Sequence[str], *, seconds: float) -> str:
    """Return a line: each reward's mean and share, distinct advantages, seconds.

    Args:
        logs: What TRL logs.
        rewards: Names of the rewards.
        seconds: Since the line before.
    """
    cells = ""
    for name in rewards:
        mean, share = logs[f"rewards/{name}/mean"], logs[f"gdpo/share/{name}"]
        shown = "none" if mean is None else f"{mean:.3f}"
        cells += f"  {f'{shown} ({share:.0%})':>14}"
    counts = f"{logs['gdpo/distinct']:.2f} ({logs['gdpo/distinct_if_grpo']:.2f})"
    return f"{cells}  {counts:>15}  {seconds:>6.1f}"


def peak_memory_mb() -> int | None:
    """Return the largest resident memory of this process so far, in 10**6 bytes."""
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6)
