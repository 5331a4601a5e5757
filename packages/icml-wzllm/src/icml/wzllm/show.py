"""Verdicts in words, for the command line."""

from __future__ import annotations

from icml.wzllm.certificate import Certificate, Ratio
from icml.wzllm.cfinite_certificate import CFiniteCertificate
from icml.wzllm.proofs import Proof
from icml.wzllm.provers.protocol import refusals

__all__ = ["proof_text", "recurrence_text"]

SHOWN_REASONS = 5


def proof_text(proof: Proof) -> str:
    """Return the verdict and what backs it, a fact a line."""
    lines = [f"{proof.status}: {proof.identity}"]
    if proof.counterexample is not None:
        lines.append(str(proof.counterexample))
    if proof.detail:
        lines.append(proof.detail)
    if proof.certificate is not None:
        lines += _certificate_lines(proof.certificate)
    if proof.induction is not None:
        lines += _induction_lines(proof.induction)
    if any(attempt.reason or attempt.prover != "symbolic" for attempt in proof.attempts):
        lines += _prover_lines(proof)
    if proof.verdict is not None:
        verdict = proof.verdict
        axioms = ", ".join(verdict.axioms) or "none"
        memory = "" if verdict.max_rss_mb is None else f", {verdict.max_rss_mb:.0f} MB"
        word = "accepted" if verdict.accepted else "not accepted"
        lines.append(f"kernel       {verdict.backend}: {word}, axioms: {axioms}")
        lines.append(f"             {verdict.seconds:.2f} s{memory}")
    lines.append(f"checked      {proof.points} points exactly")
    lines.append(f"time         {proof.seconds:.2f} s")
    return "\n".join(lines)


def _induction_lines(certificate: CFiniteCertificate) -> list[str]:
    n, start = certificate.variable, certificate.start
    last = start + certificate.order - 1
    steps = [f"             {step}" for step in certificate.steps]
    return [
        "template     C-finite: both sides satisfy recurrences in constants",
        *steps,
        f"induction    equal at {n} = {start} to {last}, hence for all {n} >= {start}",
    ]


def _prover_lines(proof: Proof) -> list[str]:
    accepted = sum(attempt.accepted for attempt in proof.attempts)
    whose = f"{proof.prover}: " if proof.prover else ""
    lines = [f"prover       {whose}{len(proof.attempts)} proposals judged, {accepted} accepted"]
    for reason, count in refusals(proof.attempts)[:SHOWN_REASONS]:
        lines.append(f"             refused {count}: {reason}")
    return lines


def recurrence_text(certificate: Certificate) -> str:
    """Return the recurrence of the sum f, with its right side.

    Example:
        >>> from icml.wzllm.statement import Identity
        >>> row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
        >>> recurrence_text(Certificate(row, "k", "n", ("-2", "1"), Ratio("k", "k-n-1")))
        '(-2)*f(n) + (1)*f(n+1) = 0'
    """
    n = certificate.shift_var
    shifts = ["", *(f"+{j}" for j in range(1, certificate.order + 1))]
    terms = [
        f"({text})*f({n}{shift})"
        for text, shift in zip(certificate.recurrence, shifts, strict=True)
        if text != "0"
    ]
    return f"{' + '.join(terms)} = {' + '.join(certificate.boundary)}"


def _certificate_lines(certificate: Certificate) -> list[str]:
    n, k = certificate.shift_var, certificate.sum_var
    lines = [
        f"recurrence   {recurrence_text(certificate)}",
        f"certificate  G({n},{k}) = R F({n},{k}), R = {_ratio_text(certificate.certificate)}",
    ]
    if certificate.right is not None:
        lines.append(f"             on the right side R = {_ratio_text(certificate.right)}")
    bases = ", ".join(map(str, certificate.base_cases))
    return [
        *lines,
        f"base cases   {n} = {bases}" if certificate.base_cases else "base cases   none",
    ]


def _ratio_text(ratio: Ratio) -> str:
    return ratio.num if ratio.den == "1" else f"({ratio.num}) / ({ratio.den})"
