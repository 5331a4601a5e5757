"""The columns of ``icml wzllm train`` during DAPO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["HEADS", "cells"]

HEADS = f"{'proved':>9}{'tokens':>9}{'groups drawn':>14}{'dead':>7}{'given up':>10}"


def cells(logs: Mapping[str, Any]) -> str | None:
    """Return the fraction of proofs, their length, and what dynamic sampling did."""
    if "dapo/dead" not in logs:
        return None
    return (
        f"{logs['rewards/proof/mean']:>9.3f}{logs['completions/mean_length']:>9.1f}"
        f"{logs['dapo/generated']:>14.1f}{logs['dapo/dead']:>7.1f}{logs['dapo/given_up']:>10.1f}"
    )
