"""Exact numbers against a certificate: plain evaluation that shares no algebra with the search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice

from icml.wzllm.certificate import Certificate, Ratio
from icml.wzllm.expressions import Add, Divide, Expr, Sum
from icml.wzllm.parser import parse
from icml.wzllm.shape import Shape
from icml.wzllm.text import MAX_POLYNOMIAL
from icml.wzllm.values import Meter, Number, TooLarge, Undefined, compiled

__all__ = ["disagreement"]

STEPS = 3  # values of n, ours
TERMS = 2  # values of k for each, ours
WORK = 500_000

Value = Callable[..., Number]


def disagreement(
    certificate: Certificate, shape: Shape, failing_steps: Collection[int]
) -> tuple[str, int]:
    """Evaluate both equations of a certificate at a few points.

    Args:
        certificate: Its texts are evaluated as they stand.
        shape: The sum (or sums) of its identity.
        failing_steps: Values of n at which the recurrence isn't claimed.

    Returns:
        Where a certificate is wrong, "" if it's nowhere seen to be; and how many equations were
        compared.
    """
    compared, sides = 0, [(shape.sum, certificate.certificate)]
    if isinstance(shape.other, Sum) and certificate.right is not None:
        sides.append((shape.other, certificate.right))
    meter = Meter(WORK)
    for side, ratio in sides:
        for where, left, right in _equations(certificate, side, ratio, failing_steps):
            try:
                values = left(meter), right(meter)
            except Undefined:
                continue
            except TooLarge:
                break
            compared += 1
            if values[0] != values[1]:
                return f"{where}: {values[0]} is not {values[1]}", compared
    return "", compared


def _equations(
    certificate: Certificate, side: Sum, ratio: Ratio, failing_steps: Collection[int]
) -> Iterator[tuple[str, Value, Value]]:
    """Yield where, and functions of a meter that give the two sides."""
    identity, n, k = certificate.identity, certificate.shift_var, certificate.sum_var
    names = (k, *identity.vars)
    coefficients = [compiled(_parsed(text, names)) for text in certificate.recurrence]
    boundary = Add((*(_parsed(text, names) for text in certificate.boundary), _parsed("0", names)))
    total, summand, right = compiled(side), compiled(side.body), compiled(boundary)
    low = compiled(side.low)
    factor = compiled(Divide(_parsed(ratio.num, names), _parsed(ratio.den, names)))
    fixed = {name: 2 + i for i, name in enumerate(identity.vars) if name != n}
    steps = (step for step in range(1, 40) if step not in failing_steps)

    def combine(term: Callable[[dict, Meter], Number], values: dict) -> Value:
        return lambda meter: sum(
            a(values, meter) * term({**values, n: values[n] + j}, meter)
            for j, a in enumerate(coefficients)
        )

    def difference(values: dict) -> Value:
        def at(place: int, meter: Meter) -> Number:
            moved = {**values, k: place}
            return factor(moved, meter) * summand(moved, meter)

        return lambda meter: at(values[k] + 1, meter) - at(values[k], meter)

    for step in islice(steps, STEPS):
        values: dict[str, Number] = {**fixed, n: step}
        yield (
            f"the recurrence at {n} = {step}",
            combine(total, values),
            lambda meter, values=values: right(values, meter),
        )
        try:
            start = int(low(values, Meter(WORK)))
        except (Undefined, TooLarge):
            continue
        for place in range(start, min(start + TERMS, start + step)):
            inside = {**values, k: place}
            yield (
                f"the telescoped equation at {n} = {step}, {k} = {place}",
                combine(summand, inside),
                difference(inside),
            )


def _parsed(text: str, names: tuple[str, ...]) -> Expr:
    return parse(text, names, max_length=MAX_POLYNOMIAL)
