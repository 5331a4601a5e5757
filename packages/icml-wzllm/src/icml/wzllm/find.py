"""The search for a certificate, in one variable and one order at a time."""

from __future__ import annotations

from icml.wzllm.derive import Claim
from icml.wzllm.expressions import Sum
from icml.wzllm.reading import to_term
from icml.wzllm.ring import Fraction, Poly, Ring, ring
from icml.wzllm.shape import Shape
from icml.wzllm.telescope import Telescoper, telescoper

__all__ = ["find"]


def find(shape: Shape, variables: tuple[str, ...], n: str, order: int) -> Claim | None:
    """Look for a recurrence in n that every sum of the identity has; None if there is none.

    The recurrence is primitive and its leading coefficient has a positive leading number.

    Raises:
        NotHypergeometric: If a summand is outside of the class.
        OutOfReach: If it has too large numbers.
    """
    k = shape.sum.variable
    names = ring((k, *variables))
    left = _of_sum(names, shape.sum, n, order)
    if left is None:
        return None
    if not isinstance(shape.other, Sum):
        recurrence, ratio = _normal(names, left)
        return Claim(names, shape, n, recurrence, ratio, None)
    right = _of_sum(names, shape.other, n, order)
    if right is None:
        return None
    (first, ratio), (second, right_ratio) = _normal(names, left), _normal(names, right)
    if any(a * second[-1] != b * first[-1] for a, b in zip(first, second, strict=True)):
        return None
    # Both are primitive with a positive leading number, hence equal.
    return Claim(names, shape, n, first, ratio, right_ratio)


def _of_sum(names: Ring, side: Sum, n: str, order: int) -> Telescoper | None:
    term = to_term(names, side.body, frozenset((side.variable, n)))
    if term.num == 0:
        one, zero = Fraction(names.zero, names.one), names.zero
        return Telescoper((zero,) * order + (names.one,), one)
    return telescoper(names, term, side.variable, n, order)


def _normal(names: Ring, found: Telescoper) -> tuple[tuple[Poly, ...], Fraction]:
    common = names.zero
    for coefficient in found.recurrence:
        common = common.gcd(coefficient)
    if int(found.recurrence[-1].leading_coefficient()) < 0:
        common = -common
    recurrence = tuple(coefficient / common for coefficient in found.recurrence)
    return recurrence, names.lowest_terms(found.ratio.num, found.ratio.den * common)
