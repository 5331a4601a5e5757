"""The part of an identity that telescoping works on: one sum equals something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icml.wzllm.expressions import (
    Add,
    Divide,
    Expr,
    Integer,
    Multiply,
    Name,
    Negate,
    Sum,
    free_names,
    has_sum,
    substitute,
    to_text,
)
from icml.wzllm.reading import NotHypergeometric
from icml.wzllm.statement import Identity

__all__ = ["Shape", "reshape", "shift_candidates"]


@dataclass(frozen=True)
class Shape:
    """``sum = other``, with factors moved into the summand and closed terms to the other side."""

    sum: Sum
    other: Expr
    """A sum with the same variable, or a formula without sums."""


def reshape(identity: Identity) -> Shape:
    """Bring an identity to the form that telescoping needs, by moves that keep its meaning.

    Raises:
        NotHypergeometric: If it has no sum, or more than one on a side.

    Example:
        >>> shape = reshape(Identity.parse("2^n = 1 + 2*sum(k,0,n-1,2^k)/2"))
        >>> to_text(Add((shape.sum, Negate(shape.other))))
        'sum(k,0,n-1,2*2^k/2)-(2^n-1)'
    """
    left, left_rest = _one_sum(identity.left)
    right, right_rest = _one_sum(identity.right)
    if left is None and right is None:
        raise NotHypergeometric("there is no sum to telescope")
    if left is None or right is None:
        rests = (left_rest, right_rest) if left is None else (right_rest, left_rest)
        found = left if right is None else right
        assert found is not None
        return Shape(found, _difference(*rests))
    if left_rest or right_rest:
        raise NotHypergeometric("two sums with other terms beside them")
    if right.variable != left.variable:
        body = substitute(right.body, {right.variable: Name(left.variable)})
        right = Sum(left.variable, right.low, right.high, body)
    return Shape(left, right)


def shift_candidates(identity: Identity, shape: Shape) -> tuple[str, ...]:
    """Return the variables in which a recurrence may be sought: upper limits first."""
    high = free_names(shape.sum.high)
    return tuple(sorted(identity.vars, key=lambda name: name not in high))


def _one_sum(expr: Expr) -> tuple[Sum | None, tuple[Expr, ...]]:
    """Split into one sum, with its factor inside, and the terms beside it."""
    if not has_sum(expr):
        return None, (expr,)
    match expr:
        case Sum():
            return expr, ()
        case Negate(operand):
            return _one_sum(Multiply((Negate(Integer(1)), operand)))
        case Add(terms):
            return _one_term(expr, terms)
        case Multiply(factors) if sum(map(has_sum, factors)) == 1:
            found, rest = _one_sum(next(filter(has_sum, factors)))
            others = tuple(factor for factor in factors if not has_sum(factor))
            if found is not None and not rest:
                return _with_body(found, Multiply((*others, found.body))), ()
        case Divide(numerator, denominator) if not has_sum(denominator):
            found, rest = _one_sum(numerator)
            if found is not None and not rest:
                return _with_body(found, Divide(found.body, denominator)), ()
    raise NotHypergeometric(f"{to_text(expr)[:60]} isn't one sum times a factor")


def _one_term(expr: Expr, terms: Sequence[Expr]) -> tuple[Sum | None, tuple[Expr, ...]]:
    with_sum = [term for term in terms if has_sum(term)]
    if len(with_sum) > 1:
        raise NotHypergeometric(f"more than one sum in {to_text(expr)[:60]}")
    found, rest = _one_sum(with_sum[0])
    return found, (*rest, *(term for term in terms if not has_sum(term)))


def _with_body(found: Sum, body: Expr) -> Sum:
    return Sum(found.variable, found.low, found.high, body)


def _difference(plus: Sequence[Expr], minus: Sequence[Expr]) -> Expr:
    terms = (*plus, *map(Negate, minus))
    return terms[0] if len(terms) == 1 else Add(terms)
