"""EMPG (arXiv:2509.09265): weight each step of an agent by the entropy of its tokens."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-empg")
__all__ = [
    "ClarityBonusWarning",
    "EMPGConfig",
    "EMPGMixin",
    "EMPGParams",
    "EMPGResult",
    "EMPGTrainer",
    "Effect",
    "EntropyStats",
    "Segments",
    "UpdateReport",
    "__version__",
    "empg_modulate",
    "empg_token_advantages",
    "entropy_stats",
    "scatter_to_tokens",
    "score_norm_sq",
    "step_entropies",
    "steps_from_mask",
    "steps_from_segments",
    "update_report",
]

if TYPE_CHECKING:
    from icml.empg.diagnostics import UpdateReport, score_norm_sq, update_report
    from icml.empg.effect import ClarityBonusWarning, Effect
    from icml.empg.entropy import EntropyStats, entropy_stats
    from icml.empg.modulation import EMPGResult, empg_modulate, empg_token_advantages
    from icml.empg.params import EMPGParams
    from icml.empg.segments import (
        Segments,
        scatter_to_tokens,
        step_entropies,
        steps_from_mask,
        steps_from_segments,
    )
    from icml.empg.trainer import EMPGConfig, EMPGMixin, EMPGTrainer
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "diagnostics": ["UpdateReport", "score_norm_sq", "update_report"],
            "effect": ["ClarityBonusWarning", "Effect"],
            "entropy": ["EntropyStats", "entropy_stats"],
            "modulation": ["EMPGResult", "empg_modulate", "empg_token_advantages"],
            "params": ["EMPGParams"],
            "segments": [
                "Segments",
                "scatter_to_tokens",
                "step_entropies",
                "steps_from_mask",
                "steps_from_segments",
            ],
            "trainer": ["EMPGConfig", "EMPGMixin", "EMPGTrainer"],
        },
    )
