"""The judge of certificates: everything is derived anew from the statement, nothing believed."""

from __future__ import annotations

from dataclasses import dataclass

from icml.wzllm.certificate import Certificate
from icml.wzllm.certificate_files import AnyCertificate
from icml.wzllm.cfinite_certificate import CFiniteCertificate, disagreement_cfinite
from icml.wzllm.derive import Claim, Derived, Rejected, derive
from icml.wzllm.domain import Undetermined
from icml.wzllm.expressions import Sum
from icml.wzllm.parser import BadStatement, parse
from icml.wzllm.reading import NotHypergeometric, OutOfReach, to_terms
from icml.wzllm.ring import Fraction, Ring, ring
from icml.wzllm.shape import Shape, reshape
from icml.wzllm.statement import Identity
from icml.wzllm.terms import Term, vanishes
from icml.wzllm.text import MAX_POLYNOMIAL, polynomial
from icml.wzllm.values import Undefined
from icml.wzllm.witness import disagreement

__all__ = ["Report", "verify"]


@dataclass(frozen=True)
class Report:
    """The verdict on a certificate."""

    accepted: bool
    reason: str
    """Why it was not accepted; "" if it was."""
    witnesses: int = 0
    """Equations between exact numbers that were compared as well."""


def verify(certificate: AnyCertificate, identity: Identity | None = None) -> Report:
    """Check a certificate: does it prove its identity for all whole values of the variables?

    What the certificate says of B and of base cases is compared with what follows from the
    statement, the recurrence and R; and both equations are evaluated at a few points.

    Args:
        certificate: From a file or from :func:`icml.wzllm.proofs.prove`.
        identity: The statement that it should prove; its own if None.

    Example:
        >>> from icml.wzllm.certificate import Ratio
        >>> row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
        >>> ratio = Ratio("k", "k-n-1")
        >>> verify(Certificate(row, "k", "n", ("-2", "1"), ratio, base_cases=(0,))).accepted
        True
        >>> verify(Certificate(row, "k", "n", ("-3", "1"), ratio, base_cases=(0,))).reason
        "the telescoped equation isn't an identity"
    """
    if identity is not None and not _same(identity, certificate.identity):
        return Report(False, f"the certificate is for another statement: {certificate.identity}")
    if isinstance(certificate, CFiniteCertificate):
        wrong, witnesses = disagreement_cfinite(certificate)
        return Report(not wrong, wrong, witnesses)
    try:
        shape = reshape(certificate.identity)
        claim = read_claim(certificate, shape)
        derived = derive(claim)
        _compare(certificate, claim.ring, derived)
    except (Rejected, Undetermined, BadStatement, NotHypergeometric, OutOfReach) as error:
        return Report(False, str(error))
    except Undefined as error:
        return Report(False, f"the statement has no value: {error}")
    wrong, witnesses = disagreement(certificate, shape, derived.failing_steps)
    return Report(not wrong, wrong, witnesses)


def _same(one: Identity, other: Identity) -> bool:
    sides = (one.left, one.right) == (other.left, other.right)
    return sides and set(one.vars) == set(other.vars)


def read_claim(certificate: Certificate, shape: Shape) -> Claim:
    """Read a certificate's texts.

    Raises:
        BadStatement: If one isn't a polynomial in the right variables.
        Rejected: If it doesn't fit the statement.
    """
    k, n, variables = certificate.sum_var, certificate.shift_var, certificate.identity.vars
    if k != shape.sum.variable:
        raise Rejected(f"the sum is over {shape.sum.variable}, not {k}")
    if n not in variables:
        raise Rejected(f"{n!r} isn't a variable of the statement")
    if not certificate.recurrence:
        raise Rejected("the recurrence is empty")
    names = ring((k, *variables))
    ratios = [certificate.certificate, certificate.right]
    fractions = [
        None if r is None else Fraction(polynomial(names, r.num), polynomial(names, r.den))
        for r in ratios
    ]
    if any(fraction is not None and fraction.den == 0 for fraction in fractions):
        raise Rejected("a denominator of R is 0")
    recurrence = tuple(polynomial(names, text) for text in certificate.recurrence)
    ratio, right = (None if f is None else names.lowest_terms(*f) for f in fractions)
    assert ratio is not None
    return Claim(names, shape, n, recurrence, ratio, right)


def _compare(certificate: Certificate, names: Ring, derived: Derived) -> None:
    """Compare what the file says with what was derived.

    Raises:
        Rejected: If B differs or a base case is missing.
    """
    written: list[Term] = []
    for text in certificate.boundary:
        expr = parse(text, names.names, max_length=MAX_POLYNOMIAL)
        if isinstance(expr, Sum):
            raise Rejected("the boundary contains a sum")
        written += to_terms(names, expr, frozenset((certificate.shift_var,)))
    if not vanishes(names, [*written, *(term.scaled(-1) for term in derived.boundary)]):
        raise Rejected("the boundary isn't what telescoping leaves over")
    missing = sorted(set(derived.base_cases) - set(certificate.base_cases))
    if missing:
        raise Rejected(f"the base case {certificate.shift_var} = {missing[0]} is missing")
