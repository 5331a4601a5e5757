"""A statement without denominators: both sides multiplied by a positive factor.

The factor is the closed side's denominator, and the power of each number whose exponent falls below
0 in the range of the sum; it doesn't contain the summation variable. What it leaves of the summand
is written without a quotient by moves that hold for all values: ``b^e / b^f = b^(e-f)``,
``(u+1) binomial(u,l) / (l+1) = binomial(u+1,l+1)``, and equal factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from icml.wzllm.expressions import (
    Add,
    Call,
    Divide,
    Expr,
    Integer,
    Multiply,
    Name,
    Negate,
    Power,
    Sum,
    to_text,
)
from icml.wzllm.reading import NotHypergeometric, linear_form
from icml.wzllm.ring import Linear, Ring, ring
from icml.wzllm.shape import Shape, reshape
from icml.wzllm.statement import Identity

__all__ = ["positive_factor", "without_denominators"]

MAX_POWER = 4  # ours: larger powers of a denominator make proofs that are too long


@dataclass
class _Quotient:
    """A product over a product."""

    above: list[Expr] = field(default_factory=list)
    below: list[Expr] = field(default_factory=list)


def positive_factor(shape: Shape, names: Ring) -> Expr | None:
    """Return what to multiply with; None if nothing or what isn't seen to be positive.

    Args:
        shape: Of the statement.
        names: In the summation variable and all others.

    Example:
        >>> row = "sum(k,0,n,binomial(n,k)/(k+1)) = (2^(n+1)-1)/(2*(n+1))"
        >>> shape = reshape(Identity.parse(row))
        >>> to_text(positive_factor(shape, ring(("k", "n"))))
        'n+1'
    """
    if isinstance(shape.other, Sum):
        return None
    found: list[Expr] = [f for f in _quotient(shape.other).below if not isinstance(f, Integer)]
    if not all(_is_positive(names, factor) for factor in found):
        return None
    found += _low_powers(shape.sum, names)
    if not found:
        return None
    return found[0] if len(found) == 1 else Multiply(tuple(found))


def _low_powers(summed: Sum, names: Ring) -> list[Expr]:
    """Return powers that make the exponents of the summand's powers natural, if linear ones do."""
    high, k = _linear(names, summed.high), summed.variable
    found: list[Expr] = []
    for factor in _quotient(summed.body).above:
        match factor:
            case Power(Integer(base), exponent) if base > 1 and high is not None:
                form = _linear(names, exponent)
                if form is None or names.slope(form, k) >= 0:
                    continue
                least = names.put_linear(form, k, high).times(-1)
                if max(least.slopes) > 0 and min(least.slopes) >= 0:
                    parts = [
                        Name(name) if count == 1 else Multiply((Integer(count), Name(name)))
                        for name, count in zip(names.names, least.slopes, strict=True)
                        if count
                    ]
                    more = parts[0] if len(parts) == 1 else Add(tuple(parts))
                    found.append(Power(Integer(base), more))
    return found


def without_denominators(identity: Identity) -> Identity | None:
    """Return the identity multiplied by :func:`positive_factor`; None if that isn't enough.

    Example:
        >>> central = "sum(k,0,n,binomial(2*k,k)/4^k) = (2*n+1)*binomial(2*n,n)/4^n"
        >>> str(without_denominators(Identity.parse(central)))
        'sum(k,0,n,binomial(2*k,k)*4^(n-k)) = (2*n+1)*binomial(2*n,n)'
    """
    try:
        shape = reshape(identity)
    except NotHypergeometric:
        return None
    summed = shape.sum
    names = ring((summed.variable, *identity.vars))
    factor = positive_factor(shape, names)
    if factor is None:
        return None
    body, other = (_cleared(names, factor, side) for side in (summed.body, shape.other))
    if body is None or other is None:
        return None
    left = Sum(summed.variable, summed.low, summed.high, body)
    return Identity(to_text(left), to_text(other), identity.vars, identity.name)


def _quotient(expr: Expr) -> _Quotient:
    found = _Quotient()
    _collect(expr, found.above, found.below)
    return found


def _collect(expr: Expr, above: list[Expr], below: list[Expr]) -> None:
    match expr:
        case Multiply(factors):
            for factor in factors:
                _collect(factor, above, below)
        case Divide(numerator, denominator):
            _collect(numerator, above, below)
            _collect(denominator, below, above)
        case Negate(operand):
            above.append(Negate(Integer(1)))
            _collect(operand, above, below)
        case Power(base, Integer(exponent)) if 1 < exponent <= MAX_POWER:
            for _ in range(exponent):
                _collect(base, above, below)
        case Integer(1):
            pass
        case _:
            above.append(expr)


def _is_positive(names: Ring, expr: Expr) -> bool:
    """Say whether it is a power of a number, a factorial, or a linear form, always positive."""
    match expr:
        case Power(Integer(base), exponent):
            return base > 0 and _linear(names, exponent) is not None
        case Call("factorial", (argument,)):
            form, least = _linear(names, argument), 0
        case _:
            form, least = _linear(names, expr), 1
    return form is not None and form.constant >= least and min(form.slopes) >= 0


def _linear(names: Ring, expr: Expr) -> Linear | None:
    try:
        return linear_form(names, expr)
    except NotHypergeometric:
        return None


def _cleared(names: Ring, factor: Expr, expr: Expr) -> Expr | None:
    """Multiply and write without a quotient, but by numbers; None if it can't be done so."""
    rest = _quotient(Multiply((expr, factor)))
    numbers = [one for one in rest.below if isinstance(one, Integer)]
    for divisor in rest.below:
        if not isinstance(divisor, Integer) and not any(
            move(names, rest.above, divisor) for move in _MOVES
        ):
            return None
    parts = _merged(rest.above) or [Integer(1)]
    done: Expr = parts[0] if len(parts) == 1 else Multiply(tuple(parts))
    for one in numbers:
        done = Divide(done, one)
    return done


def _merged(factors: list[Expr]) -> list[Expr]:
    """Write powers of one number as one power."""
    done: list[Expr] = []
    at: dict[int, int] = {}
    for factor in factors:
        match factor:
            case Power(Integer(base), exponent) if base in at:
                earlier = done[at[base]]
                assert isinstance(earlier, Power)
                done[at[base]] = Power(earlier.base, Add((earlier.exponent, exponent)))
            case Power(Integer(base), _):
                at[base] = len(done)
                done.append(factor)
            case _:
                done.append(factor)
    return done


def _same(names: Ring, one: Expr, other: Expr) -> bool:
    if one == other:
        return True
    left, right = _linear(names, one), _linear(names, other)
    return left is not None and left == right


def _equal_factor(names: Ring, above: list[Expr], divisor: Expr) -> bool:
    for i, factor in enumerate(above):
        if _same(names, factor, divisor):
            del above[i]
            return True
    return False


def _equal_base(names: Ring, above: list[Expr], divisor: Expr) -> bool:
    for i, factor in enumerate(above):
        match factor, divisor:
            case Power(Integer(a), exponent), Power(Integer(b), taken) if a == b > 0:
                above[i] = Power(factor.base, Add((exponent, Negate(taken))))
                return True
    return False


def _absorbed(names: Ring, above: list[Expr], divisor: Expr) -> bool:
    wanted = _linear(names, divisor)
    for i, factor in enumerate(above):
        match factor:
            case Call("binomial", (upper, lower)):
                more = [Add((argument, Integer(1))) for argument in (upper, lower)]
                if wanted is None or _linear(names, more[1]) != wanted:
                    continue
                for j, other in enumerate(above):
                    if j != i and _same(names, other, more[0]):
                        above[i] = Call("binomial", tuple(more))
                        del above[j]
                        return True
    return False


_MOVES: tuple[Callable[[Ring, list[Expr], Expr], bool], ...] = (
    _equal_factor, _equal_base, _absorbed
)  # fmt: skip
