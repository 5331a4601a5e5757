"""Linear forms, numbers and products in the formulas that :mod:`icml.wzllm.cfinite` reads."""

from __future__ import annotations

from typing import NamedTuple

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
    free_names,
    to_text,
)
from icml.wzllm.values import Meter, Number, TooLarge, Undefined, evaluate

__all__ = [
    "Linear",
    "NotCFinite",
    "constant",
    "degree",
    "linear",
    "monomials",
    "shown",
    "split_power",
]

MAX_EXPANDED = 200  # products of a summand that is multiplied out, ours
MAX_SPELT = 8  # exponent of a sum that is multiplied out, ours


class NotCFinite(ValueError):
    """No rule shows a recurrence in constants; the message names the part."""


class Linear(NamedTuple):
    """``constant + sum of slope * name``, whole numbers; no slope is 0."""

    constant: int
    slopes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, name: str) -> Linear:
        """Return a variable."""
        return cls(0, ((name, 1),))

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in it."""
        return tuple(name for name, _ in self.slopes)

    def slope(self, name: str) -> int:
        """Return the coefficient of a variable."""
        return dict(self.slopes).get(name, 0)

    def plus(self, other: Linear, times: int = 1) -> Linear:
        """Add a multiple of another form."""
        slopes = dict(self.slopes)
        for name, slope in other.slopes:
            slopes[name] = slopes.get(name, 0) + times * slope
        kept = tuple(sorted((name, slope) for name, slope in slopes.items() if slope))
        return Linear(self.constant + times * other.constant, kept)

    def minus(self, other: Linear) -> Linear:
        """Take another form away."""
        return self.plus(other, -1)

    def first(self, name: str, least: int) -> int:
        """Return the first ``name >= 0`` from which on the form, rising, is ``least`` or more."""
        return max(0, -((self.constant - least) // self.slope(name)))


def linear(expr: Expr) -> Linear | None:
    """Read a linear form with whole coefficients; None if it isn't one.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> linear(parse("2*(n-k)+1"))
        Linear(constant=1, slopes=(('k', -2), ('n', 2)))
    """
    if not free_names(expr):
        value = constant(expr)
        return Linear(value, ()) if isinstance(value, int) else None
    match expr:
        case Name(name):
            return Linear.of(name)
        case Negate(operand):
            form = linear(operand)
            return None if form is None else Linear(0, ()).minus(form)
        case Add(parts):
            total = Linear(0, ())
            for part in parts:
                form = linear(part)
                if form is None:
                    return None
                total = total.plus(form)
            return total
        case Multiply(factors):
            return _scaled(factors)
    return None


def _scaled(factors: tuple[Expr, ...]) -> Linear | None:
    """Read a product of numbers and one form."""
    result, scale = None, 1
    for factor in factors:
        form = linear(factor)
        if form is None or (form.slopes and result is not None):
            return None
        if form.slopes:
            result = form
        else:
            scale *= form.constant
    return None if result is None else Linear(0, ()).plus(result, scale)


def constant(expr: Expr) -> Number:
    """Return the value of a formula without variables.

    Raises:
        NotCFinite: If it has none, or takes too long.
    """
    try:
        return evaluate(expr, {}, Meter(200_000))
    except (Undefined, TooLarge) as error:
        raise NotCFinite(f"{shown(expr)}: {error}") from None


def degree(expr: Expr, variable: str) -> int | None:
    """Return a degree that a formula doesn't exceed as a polynomial; None if it is none.

    Raises:
        NotCFinite: If a number in it has no value.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> degree(parse("n*binomial(n+1,2)-n^2"), "n")
        3
    """
    if not free_names(expr):
        constant(expr)
        return 0
    match expr:
        case Name(name):
            return 1 if name == variable else None
        case Negate(operand):
            return degree(operand, variable)
        case Add(parts) | Multiply(parts):
            found = [degree(part, variable) for part in parts]
            known = [power for power in found if power is not None]
            if len(known) < len(found):
                return None
            return max(known) if isinstance(expr, Add) else sum(known)
        case Divide(numerator, denominator) if not free_names(denominator):
            return degree(numerator, variable) if constant(denominator) != 0 else None
        case Power(base, exponent) | Call("binomial", (base, exponent)):
            return _degree_of_power(expr, base, exponent, variable)
    return None


def _degree_of_power(expr: Expr, base: Expr, exponent: Expr, variable: str) -> int | None:
    power = None if free_names(exponent) else constant(exponent)
    inner = degree(base, variable)
    if not isinstance(power, int) or inner is None:
        return None
    if power < 0:
        return 0 if isinstance(expr, Call) else None  # a binomial with a negative lower number is 0
    return inner * power


def split_power(expr: Power, *variables: str) -> Linear | None:
    """Return the exponent of a number's power, linear in variables; None if it is no such power.

    The number isn't 0, so the power has a value everywhere and splits over the exponent's terms.
    """
    if free_names(expr.base) or constant(expr.base) == 0:
        return None
    form = linear(expr.exponent)
    return form if form is not None and set(form.names) <= set(variables) else None


def monomials(expr: Expr) -> list[list[Expr]]:
    """Multiply a summand out: the factors of each product.

    Raises:
        NotCFinite: If there are too many products.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> [[shown(f) for f in factors] for factors in monomials(parse("(n-k)*2^k"))]
        [['n', '2^k'], ['-k', '2^k']]
    """
    if len(free_names(expr)) < 2:
        return [[expr]]
    match expr:
        case Add(parts):
            found = [factors for part in parts for factors in monomials(part)]
        case Negate(operand):
            found = [[Negate(Integer(1)), *factors] for factors in monomials(operand)]
        case Multiply(parts):
            found = _products([monomials(part) for part in parts])
        case Power(base, Integer(exponent)) if 1 <= exponent <= MAX_SPELT:
            found = _products([monomials(base)] * exponent)
        case Divide(numerator, denominator):
            inverse = _inverse(denominator)
            found = [[*factors, inverse] for factors in monomials(numerator)]
        case _:
            return [[expr]]
    if len(found) > MAX_EXPANDED:
        raise NotCFinite(f"{shown(expr)}: more than {MAX_EXPANDED} products")
    return found


def _inverse(divisor: Expr) -> Expr:
    """Return 1 over a formula; a number's power stays one."""
    if isinstance(divisor, Power) and not free_names(divisor.base):
        return Power(_inverse(divisor.base), divisor.exponent)
    return Divide(Integer(1), divisor)


def _products(parts: list[list[list[Expr]]]) -> list[list[Expr]]:
    found: list[list[Expr]] = [[]]
    for part in parts:
        if len(found) * len(part) > MAX_EXPANDED:
            raise NotCFinite(f"a summand of more than {MAX_EXPANDED} products")
        found = [[*before, *factors] for before in found for factors in part]
    return found


def shown(expr: Expr) -> str:
    """Write a formula, shortened."""
    text = to_text(expr)
    return text if len(text) <= 60 else text[:57] + "..."
