"""The columns of ``icml gdpo train``, and the memory that it took."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

AFTER = "   reward: mean (share)"
"""Ends the line of heads: what stands in a reward's column."""


def heads(rewards: Sequence[str]) -> str:
    """Return the heads of the columns of :func:`cells`."""
    names = "".join(f"  {name[:14]:>14}" for name in rewards)
    return f"{names}  {'distinct (GRPO)':>15}"


def cells(logs: Mapping[str, Any], rewards: Sequence[str]) -> str | None:
    """Return each reward's mean and share of the advantages, and the distinct advantages.

    Args:
        logs: What TRL logs.
        rewards: Names of the rewards.
    """
    if "gdpo/distinct" not in logs:
        return None
    done = ""
    for name in rewards:
        mean, share = logs[f"rewards/{name}/mean"], logs[f"gdpo/share/{name}"]
        shown = "none" if mean is None else f"{mean:.3f}"
        done += f"  {f'{shown} ({share:.0%})':>14}"
    counts = f"{logs['gdpo/distinct']:.2f} ({logs['gdpo/distinct_if_grpo']:.2f})"
    return f"{done}  {counts:>15}"


def peak_memory_mb() -> int | None:
    """Return the largest resident memory of this process so far, in 10**6 bytes."""
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6)
