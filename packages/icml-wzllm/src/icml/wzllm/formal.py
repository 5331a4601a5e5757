"""From a certificate to a proof that a Lean kernel accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from icml.core.errors import UserError
from icml.wzllm.proofs import Proof, Status, prove
from icml.wzllm.worker import Stopped, Worker

if TYPE_CHECKING:
    from icml.wzllm.certificate import Certificate
    from icml.wzllm.kernel import Kernel
    from icml.wzllm.lean.printer import LeanProof
    from icml.wzllm.statement import Identity

__all__ = ["Style", "checked_by_kernel", "sketch_text"]

Style = Literal["mathlib", "prelude"]


def checked_by_kernel(
    proof: Proof, worker: Worker, kernel: Kernel | None, max_order: int, budget_s: float
) -> Proof:
    """Print a certified proof for the kernel and have it checked.

    Returns:
        The proof: proved, or still certified with a detail that says what the kernel tier lacks.

    Raises:
        icml.core.errors.MissingExtra: If the kernel isn't installed.
    """
    from icml.wzllm.kernel import WheelKernel
    from icml.wzllm.lean.printer import Unprintable

    if proof.template == "c-finite":
        detail = "not printed for the kernel: a proof by bounded induction (C-finite)"
        return replace(proof, detail=detail)
    if proof.certificate is None:
        return replace(proof, detail="not printed: a statement without variables has no recurrence")
    try:
        certificate, printed = _printed(proof, worker, max_order, budget_s)
    except Stopped as stopped:
        return replace(proof, status=Status.TIMEOUT, detail=f"the search: {stopped}")
    except Unprintable as error:
        return replace(proof, detail=f"not printed for the kernel: {error}")
    judge = WheelKernel() if kernel is None else kernel
    verdict = judge.check(printed.text, printed.theorem, printed.statement, budget_s)
    proof = replace(
        proof, certificate=certificate, lean=printed.text, printed=printed, verdict=verdict
    )
    if verdict.accepted:
        restated = "; ".join(printed.rewritings)
        detail = f"restated for the kernel: {restated}" if restated else ""
        return replace(proof, status=Status.PROVED, reached="kernel", detail=detail)
    return replace(proof, detail=f"the kernel: {'; '.join(verdict.messages[:1])}")


def _printed(
    proof: Proof, worker: Worker, max_order: int, budget_s: float
) -> tuple[Certificate, LeanProof]:
    """Return the statement's certificate and the printed proof.

    Where a sum in closed form (order 0) can't be printed, a recurrence is looked for instead; where
    a denominator is in the way, the statement without it is certified and printed.
    """
    from icml.wzllm.lean.denominators import without_denominators
    from icml.wzllm.lean.printer import Unprintable, print_proof

    identity = proof.identity
    if proof.certificate is None:
        raise ValueError("a proof is printed from a certificate")

    def either(certificate: Certificate, written: Identity) -> tuple[Certificate, LeanProof]:
        try:
            return certificate, print_proof(certificate, written, means=identity)
        except Unprintable:
            if certificate.order > 0 or max_order < 1:
                raise
            found = worker.certify(written, max_order=max_order, min_order=1, budget_s=budget_s)
            if found.certificate is None:
                raise
            return found.certificate, print_proof(found.certificate, written, means=identity)

    try:
        return either(proof.certificate, identity)
    except Unprintable:
        written = without_denominators(identity)
        if written is None:
            raise
        found = worker.certify(written, max_order=max_order, budget_s=budget_s)
        if found.certificate is None:
            raise
        return proof.certificate, either(found.certificate, written)[1]


def sketch_text(statement: str, style: Style, *, budget_s: float) -> tuple[str, Proof]:
    """Return the Lean text of a statement's proof, and the verdict on the statement.

    The text is empty where there is no certificate; the verdict then says why.

    Raises:
        UserError: If that style can't express the proof.
    """
    from icml.wzllm.lean.sketch import sketch
    from icml.wzllm.lean.summand import Unprintable

    proof = prove(statement, budget_s=budget_s)
    if proof.certificate is None:
        return "", proof
    try:
        drawn = sketch(proof.certificate, proof.identity, style)
    except Unprintable as error:
        raise UserError(f"this proof can't be written in the style {style}: {error}") from error
    names = ", ".join(hole.name for hole in drawn.holes)
    note = f"-- open sub-goals: {names}\n" if names else ""
    return note + drawn.text, proof
