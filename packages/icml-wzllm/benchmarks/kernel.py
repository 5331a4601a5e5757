"""What a check costs with the compiled base, and with the base pasted into the file instead.

Writes ``kernel.json`` beside itself::

    python packages/icml-wzllm/benchmarks/kernel.py

Times are the best of three, in one run; only their ratio means anything on another machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from icml.wzllm.certify import certify
from icml.wzllm.kernel import WheelKernel
from icml.wzllm.kernel.base import core_text, lean_path
from icml.wzllm.kernel.wheel_lean import run_lean
from icml.wzllm.lean import LeanProof, print_proof
from icml.wzllm.statement import Identity

STATEMENTS = {
    "row sum": "sum(k,0,n,binomial(n,k)) = 2^n",
    "binomial theorem": "sum(k,0,n,binomial(n,k)*x^k) = (1+x)^n",
    "sum of squares": "sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)",
    "Vandermonde": "sum(k,0,n,binomial(n,k)*binomial(m,k)) = binomial(n+m,n)",
}
REPEATS = 3


def main() -> None:
    """Measure and write the file."""
    kernel = WheelKernel()
    compiling = kernel.prepare()
    rows = [measure(kernel, name, text) for name, text in STATEMENTS.items()]
    result = {
        "compile_seconds": round(compiling, 2) or "was in the cache",
        "rows": rows,
        "largest_ratio": max(row["ratio"] for row in rows),
        "largest_rss_mb": max(row["max_rss_mb"] for row in rows),
    }
    text = json.dumps(result, indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n")
    print(text)


def measure(kernel: WheelKernel, name: str, text: str) -> dict[str, Any]:
    """Check one proof in both ways, taking turns."""
    identity = Identity.parse(text)
    certificate = certify(identity).certificate
    assert certificate is not None
    proof = print_proof(certificate, identity)
    verdicts, pasted = [], []
    for _ in range(REPEATS):
        verdicts.append(kernel.check(proof.text, proof.theorem, proof.statement, 300))
        pasted.append(seconds_with_base_pasted(proof))
    assert all(verdict.accepted for verdict in verdicts)
    compiled = min(verdict.seconds for verdict in verdicts)
    return {
        "identity": name,
        "seconds_compiled": round(compiled, 3),
        "seconds_pasted": round(min(pasted), 3),
        "ratio": round(compiled / min(pasted), 3),
        "max_rss_mb": round(max(verdict.max_rss_mb or 0.0 for verdict in verdicts), 1),
    }


def seconds_with_base_pasted(proof: LeanProof) -> float:
    """Check the base and the proof as one file."""
    with lean_path(b"") as folder:
        text = f"{core_text()}\nset_option maxRecDepth 100000\n{proof.text}"
        result = run_lean(
            ["--stdin", "--json"],
            lean_path=folder,
            text=text,
            timeout_s=600,
            memory_mb=1024,
            foreign=False,
        )
    assert (result.exit, result.stdout) == (0, ""), result.stdout[:500]
    return result.seconds


if __name__ == "__main__":
    main()
