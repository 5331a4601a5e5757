"""Base cases: do both sides agree at one value of n, for all values of the other variables?"""

from __future__ import annotations

from icml.wzllm.domain import Domain, Undetermined
from icml.wzllm.expressions import Expr, Integer, Sum, free_names, substitute
from icml.wzllm.faithful import check_faithful, check_regular
from icml.wzllm.limits import settled
from icml.wzllm.reading import NotHypergeometric, OutOfReach, linear_form, to_terms
from icml.wzllm.ring import Ring
from icml.wzllm.shape import Shape
from icml.wzllm.terms import Term, vanishes
from icml.wzllm.values import TooLarge, Undefined, evaluate

__all__ = ["sides_agree"]

MAX_TERMS = 400  # of a sum in a base case with other variables, ours


def sides_agree(ring: Ring, shape: Shape, n: str, value: int, whole: frozenset[str]) -> bool:
    """Say whether both sides are seen to agree at ``n = value``.

    A side that has no value there makes the statement empty there, so that it agrees.

    Args:
        ring: In the summation variable and all variables.
        shape: The identity.
        n: The variable that has the value.
        value: A whole number, 0 or more.
        whole: The variables that are whole numbers from the beginning.

    Raises:
        Undetermined: If a side can't be written as terms there.
    """
    sides = [substitute(side, {n: Integer(value)}) for side in (shape.sum, shape.other)]
    try:
        if not any(map(free_names, sides)):
            return evaluate(sides[0], {}) == evaluate(sides[1], {})
        domain = Domain(ring, None, whole - {n})
        left, right = (_terms(domain, side) for side in sides)
    except Undefined:
        return True
    except TooLarge as error:
        raise Undetermined(f"base case {n} = {value}: {error}") from error
    except (NotHypergeometric, OutOfReach) as error:
        raise Undetermined(f"base case {n} = {value}: {error}") from error
    return vanishes(ring, [*left, *(term.scaled(-1) for term in right)])


def _terms(domain: Domain, side: Expr) -> list[Term]:
    if not isinstance(side, Sum):
        return _checked_terms(domain, side)
    low, high = (linear_form(domain.ring, end) for end in (side.low, side.high))
    if not (low.is_constant and high.is_constant):
        raise Undetermined("a base case whose number of terms depends on a parameter")
    if high.constant - low.constant > MAX_TERMS:
        raise Undetermined(f"a base case with more than {MAX_TERMS} terms")
    indices = range(low.constant, high.constant + 1)
    bodies = (substitute(side.body, {side.variable: Integer(i)}) for i in indices)
    return [term for body in bodies for term in _checked_terms(domain, body)]


def _checked_terms(domain: Domain, expr: Expr) -> list[Term]:
    """Return a formula as terms that have its value for all values of the parameters."""
    found = to_terms(domain.ring, expr, frozenset())  # first: says where there is no value
    check_faithful(domain, expr, None)
    terms = [settled(domain, term) for term in found]
    for term in terms:
        check_regular(domain, term)
    return terms
