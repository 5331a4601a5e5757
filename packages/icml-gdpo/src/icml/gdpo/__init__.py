"""GDPO (arXiv:2601.05242): normalise each reward within its group before summing."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-gdpo")
__all__ = [
    "ConditionedReward",
    "Diagnosis",
    "GDPOConfig",
    "GDPOMixin",
    "GDPOResult",
    "GDPOTrainer",
    "WeightSchedule",
    "__version__",
    "diagnose",
    "distinct_advantages",
    "distinct_counts",
    "distinct_table",
    "gdpo_advantages",
    "grpo_advantages",
    "reward_shares",
]

if TYPE_CHECKING:
    from icml.gdpo.advantages import GDPOResult, gdpo_advantages, grpo_advantages
    from icml.gdpo.diagnostics import Diagnosis, diagnose, distinct_advantages, reward_shares
    from icml.gdpo.enumeration import distinct_counts, distinct_table
    from icml.gdpo.rewards import ConditionedReward
    from icml.gdpo.schedule import WeightSchedule
    from icml.gdpo.trainer import GDPOConfig, GDPOMixin, GDPOTrainer
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "advantages": ["GDPOResult", "gdpo_advantages", "grpo_advantages"],
            "diagnostics": ["Diagnosis", "diagnose", "distinct_advantages", "reward_shares"],
            "enumeration": ["distinct_counts", "distinct_table"],
            "rewards": ["ConditionedReward"],
            "schedule": ["WeightSchedule"],
            "trainer": ["GDPOConfig", "GDPOMixin", "GDPOTrainer"],
        },
    )
