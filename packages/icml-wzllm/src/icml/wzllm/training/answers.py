"""What a model writes as a proof, and the judge of it.

An answer is one line: the recurrence's coefficients and the two polynomials of R, as in
``-2, 1 | k | k-n-1`` for ``sum(k,0,n,binomial(n,k)) = 2^n``. B and the base cases follow from
these, so they are derived, and the certificate is then judged like any other.
"""

from __future__ import annotations

from dataclasses import replace

from icml.wzllm.certificate import Certificate, Ratio
from icml.wzllm.derive import Rejected, derive
from icml.wzllm.domain import Undetermined
from icml.wzllm.parser import BadStatement
from icml.wzllm.reading import NotHypergeometric, OutOfReach
from icml.wzllm.shape import reshape, shift_candidates
from icml.wzllm.statement import Identity
from icml.wzllm.text import term_text
from icml.wzllm.values import Undefined
from icml.wzllm.verification import Report, read_claim, verify

__all__ = ["completed", "judged", "written"]

MAX_ANSWER = 2000  # characters, ours: as for a statement


def written(certificate: Certificate) -> str:
    """Write a certificate as an answer.

    Example:
        >>> row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
        >>> written(Certificate(row, "k", "n", ("-2", "1"), Ratio("k", "k-n-1")))
        '-2, 1 | k | k-n-1'
    """
    ratio = certificate.certificate
    return f"{', '.join(certificate.recurrence)} | {ratio.num} | {ratio.den}"


def judged(identity: Identity, text: str) -> Report:
    """Judge an answer: it is accepted only if ``verify`` accepts the certificate made from it.

    Args:
        identity: The statement; one side holds the sum, the other none.
        text: The answer, which may be anything.

    Example:
        >>> row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
        >>> judged(row, "-2, 1 | k | k-n-1").accepted
        True
        >>> judged(row, "-3, 1 | k | k-n-1").reason
        "the telescoped equation isn't an identity"
    """
    report, certificate = completed(identity, text)
    return report if certificate is None else verify(certificate, identity)


def completed(identity: Identity, text: str) -> tuple[Report, Certificate | None]:
    """Make a certificate of an answer: B and the base cases are derived, the rest is not believed.

    Returns:
        Why there is none, and the certificate or None; ``verify`` has still to judge it.
    """
    if len(text) > MAX_ANSWER:
        return Report(False, f"an answer of {len(text)} characters, at most {MAX_ANSWER}"), None
    parts = [part.strip() for part in text.split("|")]
    if len(parts) != 3:
        return Report(False, "not of the form a_0, a_1, … | numerator | denominator"), None
    recurrence = tuple(coefficient.strip() for coefficient in parts[0].split(","))
    try:
        shape = reshape(identity)
        n = shift_candidates(identity, shape)[0]
        claimed = Certificate(
            identity, shape.sum.variable, n, recurrence, Ratio(*parts[1:]), engine="a model"
        )
        claim = read_claim(claimed, shape)
        derived = derive(claim)
        boundary = tuple(term_text(claim.ring, term) for term in derived.boundary) or ("0",)
    except (Rejected, Undetermined, BadStatement, NotHypergeometric, OutOfReach) as error:
        return Report(False, str(error)), None
    except (Undefined, IndexError) as error:
        return Report(False, f"the statement has no value or no variable: {error}"), None
    found = replace(claimed, boundary=boundary, base_cases=derived.base_cases)
    return Report(True, ""), found
