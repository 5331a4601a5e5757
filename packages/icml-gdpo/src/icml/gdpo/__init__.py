"""GDPO (arXiv:2601.05242): normalise each reward within its group before summing."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

if TYPE_CHECKING:
    from icml.gdpo.advantages import GDPOResult as GDPOResult
    from icml.gdpo.advantages import gdpo_advantages as gdpo_advantages
    from icml.gdpo.advantages import grpo_advantages as grpo_advantages
    from icml.gdpo.diagnostics import Report as Report
    from icml.gdpo.diagnostics import diagnose as diagnose
    from icml.gdpo.diagnostics import distinct_advantages as distinct_advantages
    from icml.gdpo.diagnostics import reward_shares as reward_shares
    from icml.gdpo.enumeration import distinct_counts as distinct_counts
    from icml.gdpo.enumeration import distinct_table as distinct_table
    from icml.gdpo.rewards import ConditionedReward as ConditionedReward
    from icml.gdpo.schedule import WeightSchedule as WeightSchedule
    from icml.gdpo.trainer import GDPOConfig as GDPOConfig
    from icml.gdpo.trainer import GDPOMixin as GDPOMixin
    from icml.gdpo.trainer import GDPOTrainer as GDPOTrainer

__getattr__, __dir__ = exports(
    __name__,
    {
        "advantages": ["GDPOResult", "gdpo_advantages", "grpo_advantages"],
        "diagnostics": ["Report", "diagnose", "distinct_advantages", "reward_shares"],
        "enumeration": ["distinct_counts", "distinct_table"],
        "rewards": ["ConditionedReward"],
        "schedule": ["WeightSchedule"],
        "trainer": ["GDPOConfig", "GDPOMixin", "GDPOTrainer"],
    },
)
__version__ = version("icml-gdpo")
__all__ = [
    "ConditionedReward",
    "GDPOConfig",
    "GDPOMixin",
    "GDPOResult",
    "GDPOTrainer",
    "Report",
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
