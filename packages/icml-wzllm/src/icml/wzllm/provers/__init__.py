"""Who proposes: the symbolic search, a language model, or both. Who judges is never one of them."""

from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "Attempt",
    "Candidate",
    "HybridProver",
    "Proposed",
    "Prover",
    "SymbolicProver",
    "TransformersProver",
    "prover_from_text",
]

if TYPE_CHECKING:
    from icml.wzllm.provers.model import TransformersProver
    from icml.wzllm.provers.named import prover_from_text
    from icml.wzllm.provers.protocol import Attempt, Candidate, Proposed, Prover
    from icml.wzllm.provers.symbolic import HybridProver, SymbolicProver
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "model": ["TransformersProver"],
            "named": ["prover_from_text"],
            "protocol": ["Attempt", "Candidate", "Proposed", "Prover"],
            "symbolic": ["HybridProver", "SymbolicProver"],
        },
    )
