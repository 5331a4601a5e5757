"""Proofs and sketches as Lean text; :func:`icml.wzllm.lean.sketch.sketch` writes the latter."""

from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "LeanProof",
    "Sketch",
    "SubGoal",
    "Unprintable",
    "check_faithful",
    "print_proof",
]

if TYPE_CHECKING:
    from icml.wzllm.lean.printer import LeanProof, print_proof
    from icml.wzllm.lean.readback import check_faithful
    from icml.wzllm.lean.sketch import Sketch, SubGoal
    from icml.wzllm.lean.summand import Unprintable
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "printer": ["LeanProof", "print_proof"],
            "readback": ["check_faithful"],
            "sketch": ["Sketch", "SubGoal"],
            "summand": ["Unprintable"],
        },
    )
