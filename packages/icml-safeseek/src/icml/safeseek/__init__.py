"""SafeSeek: find the circuit that carries a behaviour, cut it out, or train around it."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "Circuit", "CircuitDataset", "CircuitSpec", "GateSet", "SafetyCircuitCallback", "SearchConfig",
    "Site", "__version__", "ablate", "alignment_objective", "backdoor_objective",
    "behaviour_objective", "circuit_map", "evaluate_circuit", "export_ablated", "find_circuit",
]  # fmt: skip

__version__ = version("icml-safeseek")

if TYPE_CHECKING:
    from icml.safeseek.ablation import ablate, export_ablated
    from icml.safeseek.circuit import Circuit
    from icml.safeseek.data import CircuitDataset
    from icml.safeseek.evaluation import evaluate_circuit
    from icml.safeseek.masks import GateSet
    from icml.safeseek.objectives import (
        alignment_objective,
        backdoor_objective,
        behaviour_objective,
    )
    from icml.safeseek.picture import circuit_map
    from icml.safeseek.search import SearchConfig, find_circuit
    from icml.safeseek.tuning import SafetyCircuitCallback
    from icml.safeseek.units import CircuitSpec, Site
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "ablation": ["ablate", "export_ablated"],
            "circuit": ["Circuit"],
            "data": ["CircuitDataset"],
            "evaluation": ["evaluate_circuit"],
            "masks": ["GateSet"],
            "objectives": ["alignment_objective", "backdoor_objective", "behaviour_objective"],
            "picture": ["circuit_map"],
            "search": ["SearchConfig", "find_circuit"],
            "tuning": ["SafetyCircuitCallback"],
            "units": ["CircuitSpec", "Site"],
        },
    )
