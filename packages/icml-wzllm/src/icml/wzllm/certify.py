"""The symbolic part of a proof: search, then derive, then let the judge read what was written."""

from __future__ import annotations

from importlib.metadata import version
from typing import NamedTuple

from icml.wzllm.certificate import Certificate, Ratio
from icml.wzllm.derive import Claim, Derived, Rejected, derive, without_powers_of_zero
from icml.wzllm.domain import Undetermined
from icml.wzllm.expressions import Sum
from icml.wzllm.find import find
from icml.wzllm.reading import NotHypergeometric, OutOfReach, to_term, to_terms
from icml.wzllm.ring import Fraction, ring
from icml.wzllm.shape import Shape, reshape, shift_candidates
from icml.wzllm.statement import Identity
from icml.wzllm.text import polynomial_text, term_text
from icml.wzllm.values import Undefined
from icml.wzllm.verification import verify

__all__ = ["MAX_ORDER", "Outcome", "certify"]

MAX_ORDER = 4  # of recurrences: the highest that the search tries by itself


class Outcome(NamedTuple):
    """What the symbolic part found."""

    status: str
    """"certified", "open" or "not hypergeometric"."""
    detail: str
    """The obligation that failed, or the part outside of the class."""
    certificate: Certificate | None


def certify(identity: Identity, *, max_order: int = MAX_ORDER, min_order: int = 0) -> Outcome:
    """Look for a certificate, orders upwards, and return one only if the judge accepts it.

    Args:
        identity: The statement.
        max_order: Highest order of a recurrence.
        min_order: Lowest order; 1 leaves out sums in closed form by Gosper's algorithm.

    Example:
        >>> squares = Identity.parse("sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)")
        >>> certify(squares).certificate.recurrence
        ('-2*(2*n+1)', 'n+1')
    """
    try:
        shape = reshape(identity)
        _refuse_foreign_sides(identity, shape)
    except NotHypergeometric as error:
        return Outcome("not hypergeometric", str(error), None)
    except OutOfReach as error:
        return Outcome("open", str(error), None)
    except Undefined as error:
        return Outcome("open", f"the statement has no value: {error}", None)
    failures: list[str] = []
    for n in shift_candidates(identity, shape):
        for order in range(min_order, max_order + 1):
            try:
                found = _attempt(identity, shape, n, order)
            except (Undetermined, NotHypergeometric, OutOfReach, Rejected, Undefined) as error:
                failures.append(str(error))
                continue
            if found is not None:
                return Outcome("certified", "", found)
    nothing = f"no recurrence of order {min_order} to {max_order}"
    return Outcome("open", failures[0] if failures else nothing, None)


def _refuse_foreign_sides(identity: Identity, shape: Shape) -> None:
    """Say at once if a side can't be written in terms, whatever the variable of the recurrence."""
    k = shape.sum.variable
    names = ring((k, *identity.vars))
    for side in (shape.sum, shape.other):
        if isinstance(side, Sum):
            to_term(names, side.body, frozenset((k,)))
        else:
            to_terms(names, without_powers_of_zero(side)[0], frozenset())


def _attempt(identity: Identity, shape: Shape, n: str, order: int) -> Certificate | None:
    claim = find(shape, identity.vars, n, order)
    if claim is None:
        return None
    certificate = _written(identity, claim, derive(claim))
    report = verify(certificate, identity)
    if not report.accepted:
        raise Rejected(f"the judge doesn't accept what was found: {report.reason}")
    return certificate


def _written(identity: Identity, claim: Claim, derived: Derived) -> Certificate:
    boundary = tuple(term_text(claim.ring, term) for term in derived.boundary)
    return Certificate(
        identity,
        claim.k,
        claim.n,
        tuple(polynomial_text(coefficient) for coefficient in claim.recurrence),
        _ratio(claim.ratio),
        None if claim.right is None else _ratio(claim.right),
        boundary or ("0",),
        derived.base_cases,
        f"icml-wzllm {version('icml-wzllm')}",
    )


def _ratio(fraction: Fraction) -> Ratio:
    return Ratio(polynomial_text(fraction.num), polynomial_text(fraction.den))
