"""The prover's part of :func:`icml.wzllm.prove`: ask, judge, record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from icml.wzllm.certificate import Certificate
from icml.wzllm.proofs import Proof, Status
from icml.wzllm.provers.answers import judge_statement
from icml.wzllm.provers.protocol import Attempt, Prover
from icml.wzllm.provers.symbolic import stages
from icml.wzllm.worker import Worker

if TYPE_CHECKING:
    from icml.wzllm.kernel import Kernel

__all__ = ["certified", "completed", "provenance"]


def certified(
    proof: Proof, prover: Prover, worker: Worker, *, n: int, seed: int, budget_s: float
) -> Proof:
    """Ask a prover for certificates; the statement is certified if the judge accepts one."""
    judged = judge_statement(
        proof.identity, stages(prover), worker, n=n, seed=seed, budget_s=budget_s
    )
    proof = replace(proof, attempts=judged.attempts, reached="certificate")
    if judged.certificate is None:
        reached = "finite" if judged.status == "timeout" else "certificate"
        status = Status(judged.status)
        return replace(proof, status=status, detail=judged.why_none, reached=reached)
    proof = replace(proof, status=Status.CERTIFIED, detail="", prover=judged.prover)
    if isinstance(judged.certificate, Certificate):
        return replace(proof, certificate=judged.certificate, template="wz")
    return replace(proof, induction=judged.certificate, template="c-finite")


def completed(
    proof: Proof, prover: Prover, kernel: Kernel | None, *, n: int, seed: int, budget_s: float
) -> Proof:
    """Ask a prover for the obligations that the printer left open; the kernel judges.

    Returns:
        The proof: proved, or still certified with the open goals named.
    """
    from icml.wzllm.kernel import WheelKernel
    from icml.wzllm.lean.printer import LeanProof
    from icml.wzllm.lean.summand import Unprintable
    from icml.wzllm.provers.obligations import draft
    from icml.wzllm.provers.settling import settle

    if proof.certificate is None:
        return proof
    try:
        open_proof = draft(proof.certificate, proof.identity)
    except Unprintable:
        return proof  # its detail says what can't be printed
    judge = WheelKernel() if kernel is None else kernel
    done = settle(open_proof, stages(prover), judge, n=n, seed=seed, budget_s=budget_s)
    proof = replace(
        proof,
        attempts=(*proof.attempts, *done.attempts),
        open_goals=done.open_goals,
        verdict=done.verdict,
    )
    if done.text is None:
        return proof
    restated = "; ".join(open_proof.rewritings)
    detail = f"restated for the kernel: {restated}; " if restated else ""
    return replace(
        proof,
        status=Status.PROVED,
        reached="kernel",
        lean=done.text,
        printed=LeanProof(
            done.text, open_proof.theorem, open_proof.statement, open_proof.rewritings
        ),
        detail=f"{detail}obligations proved by {_authors(done.attempts)}",
    )


def _authors(attempts: tuple[Attempt, ...]) -> str:
    found = {attempt.goal: attempt.prover for attempt in attempts if attempt.accepted}
    return ", ".join(f"{prover} ({goal})" for goal, prover in found.items())


def provenance(proof: Proof) -> dict[str, Any]:
    """Return whose proof it is and what was refused, as JSON values."""
    return {
        "template": proof.template,
        "induction": None if proof.induction is None else proof.induction.to_json(),
        "prover": proof.prover,
        "attempts": [attempt._asdict() for attempt in proof.attempts],
        "open_goals": [
            {"name": goal.name, "context": goal.context, "statement": goal.statement}
            for goal in proof.open_goals
        ],
    }
