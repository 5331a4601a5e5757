"""The columns of ``icml empg train``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADS = f"{'reward':>9}{'tokens':>9}{'entropy (nats)':>17}{'g':>15}{'bonus':>8}"


def cells(logs: Mapping[str, Any]) -> str | None:
    """Return reward, length, the ranges of step entropy and weight, and the bonus's share."""
    if "empg/h_max" not in logs:
        return None
    entropy = f"{logs['empg/h_min']:.3f} to {logs['empg/h_max']:.3f}"
    weight = f"{logs['empg/g_min']:.2f} to {logs['empg/g_max']:.2f}"
    return (
        f"{logs['reward']:>9.3f}{logs['completions/mean_length']:>9.1f}"
        f"{entropy:>17}{weight:>15}{logs['empg/bonus_share']:>8.1%}"
    )
