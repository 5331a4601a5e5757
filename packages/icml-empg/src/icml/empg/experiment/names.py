"""What the arms of the experiment are called, for those who don't need torch."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "grpo": "GRPO",
    "empg": "EMPG",
    "scaling": "scaling only",
    "bonus": "bonus only",
}
"""What tables and figures call the arms of `icml.empg.experiment.arms.ARMS`."""
