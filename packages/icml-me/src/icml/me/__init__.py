"""ME (arXiv:2605.00419): exact token-level ensembles of language models, one forward a token."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "AlignmentReport",
    "Ensemble",
    "EnsembleStats",
    "EquivalenceReport",
    "GenerateResult",
    "__version__",
    "compare_members",
    "me_generate",
    "verify_equivalence",
]

__version__ = version("icml-me")

if TYPE_CHECKING:
    from icml.me.alignment.levels import AlignmentReport, compare_members
    from icml.me.custom_generate import me_generate
    from icml.me.ensemble import Ensemble
    from icml.me.equivalence import EquivalenceReport, verify_equivalence
    from icml.me.result import EnsembleStats, GenerateResult
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "alignment.levels": ["AlignmentReport", "compare_members"],
            "custom_generate": ["me_generate"],
            "ensemble": ["Ensemble"],
            "equivalence": ["EquivalenceReport", "verify_equivalence"],
            "result": ["EnsembleStats", "GenerateResult"],
        },
    )
