"""Exact values of formulas, in plain Python: the witness that no algebra can talk round.

Conventions: ``0^0 = 1``; ``binomial(u, l)`` is 0 for ``l < 0`` and ``u (u-1) … (u-l+1) / l!``
otherwise, for any rational u; an empty sum is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

from icml.wzllm.expressions import (
    Add,
    Call,
    Divide,
    Expr,
    FloorDivide,
    Integer,
    Multiply,
    Name,
    Negate,
    Power,
    Sum,
)

__all__ = ["MAX_EXPONENT", "MAX_RANGE", "Meter", "Number", "TooLarge", "Undefined", "evaluate"]

Number = int | Fraction
"""A rational number; whole ones are ints, which are ten times faster."""

Values = dict[str, Number]
Compiled = Callable[[Values, "Meter"], Number]

# Limits, ours: what a person writes stays far below, and each is far from hanging the machine.
MAX_EXPONENT = 4096
MAX_RANGE = 100_000  # terms of a sum
MAX_ARGUMENT = 10_000  # of factorial and the like
MAX_BITS = 200_000  # of a number
DEFAULT_WORK = 5_000_000


class Undefined(ArithmeticError):
    """The formula has no value here: a division by zero, a factorial of a negative number."""


class TooLarge(ArithmeticError):
    """The value exists but would take too long; the message says what is too large."""


class Meter:
    """Counts work, roughly in operations on small numbers, and stops what takes too much."""

    def __init__(self, allowed: int = DEFAULT_WORK) -> None:
        """Allow that much work."""
        self.left = allowed

    def spend(self, work: int) -> None:
        """Take from what is left.

        Raises:
            TooLarge: If nothing is left.
        """
        self.left -= work
        if self.left < 0:
            raise TooLarge("the value takes too many operations")


def evaluate(expr: Expr, values: Mapping[str, Number], meter: Meter | None = None) -> Number:
    """Return the exact value of a formula.

    Args:
        expr: The formula.
        values: The values of its free variables.
        meter: Limits the work; a fresh one of the default size if None.

    Raises:
        Undefined: If the formula has no value there.
        TooLarge: If an exponent, range, argument or number is beyond the limits.
        KeyError: If a variable has no value.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> evaluate(parse("sum(k,0,n,binomial(n,k)/(k+1))"), {"n": 3})
        Fraction(15, 4)
    """
    return compiled(expr)(dict(values), Meter() if meter is None else meter)


@lru_cache(maxsize=1024)
def compiled(expr: Expr) -> Compiled:
    """Return a function of the variables' values and a meter; formulas are walked once."""
    match expr:
        case Integer(value):
            return lambda values, meter: value
        case Name(name):
            return lambda values, meter: values[name]
        case Negate(operand):
            inner = compiled(operand)
            return lambda values, meter: -inner(values, meter)
        case Add(terms):
            parts = [compiled(term) for term in terms]
            return lambda values, meter: _whole(sum(part(values, meter) for part in parts))
        case Multiply(factors):
            parts = [compiled(factor) for factor in factors]
            return lambda values, meter: _product(parts, values, meter)
        case Sum():
            return _compiled_sum(expr)
        case Call(function, arguments):
            parts, apply = [compiled(argument) for argument in arguments], _APPLY[function]
            return lambda values, meter: apply(meter, *[part(values, meter) for part in parts])
        case Divide(left, right) | FloorDivide(left, right) | Power(left, right):
            return _binary(left, right, _BINARY[type(expr)])


def _binary(left: Expr, right: Expr, apply: Callable[[Meter, Number, Number], Number]) -> Compiled:
    first, second = compiled(left), compiled(right)
    return lambda values, meter: apply(meter, first(values, meter), second(values, meter))


def _compiled_sum(expr: Sum) -> Compiled:
    low, high, body = compiled(expr.low), compiled(expr.high), compiled(expr.body)
    variable = expr.variable

    def total(values: Values, meter: Meter) -> Number:
        first = _integer(low(values, meter), "a sum's lower limit")
        last = _integer(high(values, meter), "a sum's upper limit")
        if last - first >= MAX_RANGE:
            raise TooLarge(f"a sum of {last - first + 1} terms, at most {MAX_RANGE} are added")
        inner = dict(values)
        result: Number = 0
        for index in range(first, last + 1):
            inner[variable] = index
            meter.spend(4)
            result += body(inner, meter)
        return _whole(result)

    return total


def _whole(value: Number) -> Number:
    return value if type(value) is int or value.denominator != 1 else value.numerator


def _product(parts: list[Compiled], values: Values, meter: Meter) -> Number:
    # All factors, also after a 0: one that is undefined leaves the product undefined.
    result: Number = 1
    for part in parts:
        result *= part(values, meter)
    _check_size(meter, _bits(result))
    return _whole(result)


def _bits(value: Number) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _check_size(meter: Meter, bits: int) -> None:
    if bits > MAX_BITS:
        raise TooLarge(f"a number of about {bits} bits, at most {MAX_BITS} are computed")
    meter.spend(1 + bits // 64)


def _integer(value: Number, what: str) -> int:
    value = _whole(value)
    if not isinstance(value, int):
        raise Undefined(f"{what} is {value}, not a whole number")
    return value


def _natural(value: Number, what: str) -> int:
    number = _integer(value, what)
    if number < 0:
        raise Undefined(f"{what} is {number}, below 0")
    if number > MAX_ARGUMENT:
        raise TooLarge(f"{what} is {number}, at most {MAX_ARGUMENT} is computed")
    return number


def _divide(meter: Meter, left: Number, right: Number) -> Number:
    if right == 0:
        raise Undefined("division by zero")
    _check_size(meter, _bits(left) + _bits(right))
    return _whole(Fraction(left) / right)


def _floor_divide(meter: Meter, left: Number, right: Number) -> Number:
    if right == 0:
        raise Undefined("division by zero")
    return left // right


def _power(meter: Meter, base: Number, exponent: Number) -> Number:
    power = _integer(exponent, "an exponent")
    if abs(power) > MAX_EXPONENT:
        raise TooLarge(f"the exponent {power}, at most {MAX_EXPONENT} is computed")
    if base == 0 and power < 0:
        raise Undefined("0 to a negative power")
    _check_size(meter, _bits(base) * abs(power))
    return _whole(Fraction(base) ** power) if power < 0 else base**power


_BINARY: Mapping[type, Callable[[Meter, Number, Number], Number]] = {
    Divide: _divide,
    FloorDivide: _floor_divide,
    Power: _power,
}


def _factorial(meter: Meter, value: Number) -> Number:
    number = _natural(value, "a factorial's argument")
    meter.spend(1 + number)
    return math.factorial(number)


def _binomial(meter: Meter, upper: Number, lower: Number) -> Number:
    count = _integer(lower, "a binomial's lower argument")
    if count < 0:
        return 0
    if isinstance(upper, int) and 0 <= upper < 2 * count:
        count = upper - count
    if count > MAX_ARGUMENT:
        raise TooLarge(f"binomial({upper}, {lower}), at most {MAX_ARGUMENT} factors are multiplied")
    if count < 0:
        return 0
    _check_size(meter, count * _bits(upper))
    if isinstance(upper, int) and upper >= 0:
        return _pascal(upper, count)
    return _whole(_falling(meter, upper, count) / Fraction(math.factorial(count)))


@lru_cache(maxsize=16384)
def _pascal(upper: int, lower: int) -> int:
    """Return a binomial coefficient; small ones run, each from its neighbour in the row before."""
    if lower == 0 or upper > 64:
        return math.comb(upper, lower)
    return 1 if lower == upper else _pascal(upper - 1, lower - 1) * upper // lower


def _catalan(meter: Meter, value: Number) -> Number:
    index = _natural(value, "catalan's argument")
    return _binomial(meter, 2 * index, index) // (index + 1)


def _fibonacci(meter: Meter, value: Number) -> Number:
    index = _natural(value, "fibonacci's argument")
    meter.spend(index)
    first, second = 0, 1
    for _ in range(index):
        first, second = second, first + second
    return first


def _harmonic(meter: Meter, value: Number) -> Number:
    index = _natural(value, "harmonic's argument")
    meter.spend(8 * index + index * index // 64)
    return _whole(sum((Fraction(1, i) for i in range(1, index + 1)), Fraction(0)))


def _stirling2(meter: Meter, size: Number, blocks: Number) -> Number:
    n, k = _natural(size, "stirling2's argument"), _integer(blocks, "stirling2's argument")
    if not 0 <= k <= n:
        return 0
    meter.spend(k * (1 + n * n.bit_length() // 64))
    alternating = sum((-1) ** (k - j) * math.comb(k, j) * j**n for j in range(k + 1))
    return alternating // math.factorial(k)


def _rising(meter: Meter, start: Number, length: Number) -> Number:
    count = _natural(length, "rising's length")
    return _falling(meter, start + count - 1, count)


def _falling(meter: Meter, start: Number, length: Number) -> Number:
    count = _natural(length, "falling's length")
    _check_size(meter, count * _bits(start))
    return _whole(math.prod((start - i for i in range(count)), start=Fraction(1)))


_APPLY: Mapping[str, Callable[..., Number]] = {
    "binomial": _binomial,
    "catalan": _catalan,
    "factorial": _factorial,
    "falling": _falling,
    "fibonacci": _fibonacci,
    "harmonic": _harmonic,
    "rising": _rising,
    "stirling2": _stirling2,
}
