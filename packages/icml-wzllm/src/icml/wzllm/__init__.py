"""WZ-LLM (arXiv:2605.04472): identities certified, refuted, or proved in a real Lean kernel."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-wzllm")
__all__ = [
    "Attempt",
    "BadStatement",
    "CFiniteCertificate",
    "Candidate",
    "Certificate",
    "Counterexample",
    "HybridProver",
    "Identity",
    "Proof",
    "Proposed",
    "Prover",
    "Report",
    "Status",
    "SymbolicProver",
    "TransformersProver",
    "__version__",
    "check_small_values",
    "evaluate",
    "parse",
    "prove",
    "read_certificate",
    "suite",
    "verify",
]

if TYPE_CHECKING:
    from icml.wzllm.certificate import Certificate
    from icml.wzllm.certificate_files import read_certificate
    from icml.wzllm.cfinite_certificate import CFiniteCertificate
    from icml.wzllm.finite import Counterexample, check_small_values
    from icml.wzllm.identities import suite
    from icml.wzllm.parser import parse
    from icml.wzllm.proofs import Proof, Status, prove
    from icml.wzllm.provers import (
        Attempt,
        Candidate,
        HybridProver,
        Proposed,
        Prover,
        SymbolicProver,
        TransformersProver,
    )
    from icml.wzllm.statement import BadStatement, Identity
    from icml.wzllm.values import evaluate
    from icml.wzllm.verification import Report, verify
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "certificate": ["Certificate"],
            "certificate_files": ["read_certificate"],
            "cfinite_certificate": ["CFiniteCertificate"],
            "values": ["evaluate"],
            "finite": ["Counterexample", "check_small_values"],
            "parser": ["parse"],
            "proofs": ["Proof", "Status", "prove"],
            "provers": [
                "Attempt",
                "Candidate",
                "HybridProver",
                "Proposed",
                "Prover",
                "SymbolicProver",
                "TransformersProver",
            ],
            "statement": ["BadStatement", "Identity"],
            "identities": ["suite"],
            "verification": ["Report", "verify"],
        },
    )
