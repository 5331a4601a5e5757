"""Formulas as trees: what the parser returns and every other module walks.

``a - b`` is ``Add((a, Negate(b)))``, and chains of ``+`` and ``*`` are one node each, so that a
tree is only as deep as its text is nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = [
    "FUNCTIONS",
    "Add",
    "Call",
    "Divide",
    "Expr",
    "FloorDivide",
    "Integer",
    "Multiply",
    "Name",
    "Negate",
    "Power",
    "Sum",
    "children",
    "free_names",
    "has_sum",
    "substitute",
    "to_text",
    "walk",
]

FUNCTIONS: Mapping[str, int] = {
    "binomial": 2,
    "catalan": 1,
    "factorial": 1,
    "falling": 2,
    "fibonacci": 1,
    "harmonic": 1,
    "rising": 2,
    "stirling2": 2,
}
"""The functions of the language and how many arguments each takes; ``sum`` is a node of its own."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number, 0 or more (``-2`` is a negated 2)."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    """``-operand``."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Add:
    """The sum of two or more terms."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Multiply:
    """The product of two or more factors."""

    factors: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Divide:
    """``numerator / denominator``, exactly."""

    numerator: Expr
    denominator: Expr


@dataclass(frozen=True, slots=True)
class FloorDivide:
    """``numerator // denominator``, rounded down."""

    numerator: Expr
    denominator: Expr


@dataclass(frozen=True, slots=True)
class Power:
    """``base ^ exponent``."""

    base: Expr
    exponent: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A function of :data:`FUNCTIONS` and its arguments."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """``sum(variable, low, high, body)``; empty, hence 0, where high < low."""

    variable: str
    low: Expr
    high: Expr
    body: Expr


Expr = Integer | Name | Negate | Add | Multiply | Divide | FloorDivide | Power | Call | Sum


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the parts of a node, from left to right."""
    match expr:
        case Integer() | Name():
            return ()
        case Negate(operand):
            return (operand,)
        case Add(parts) | Multiply(parts) | Call(_, parts):
            return parts
        case Divide(left, right) | FloorDivide(left, right) | Power(left, right):
            return (left, right)
        case Sum(_, low, high, body):
            return (low, high, body)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the node and everything below it."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def has_sum(expr: Expr) -> bool:
    """Say whether a ``sum`` occurs anywhere in it."""
    return any(isinstance(node, Sum) for node in walk(expr))


def free_names(expr: Expr) -> tuple[str, ...]:
    """Return the variables that no ``sum`` binds, in the order in which they occur.

    Example:
        >>> row = Call("binomial", (Name("m"), Name("k")))
        >>> free_names(Sum("k", Integer(0), Name("n"), row))
        ('n', 'm')
    """
    match expr:
        case Name(name):
            return (name,)
        case Sum(variable, low, high, body):
            inside = tuple(name for name in free_names(body) if name != variable)
            found = (*free_names(low), *free_names(high), *inside)
        case _:
            found = tuple(name for child in children(expr) for name in free_names(child))
    return tuple(dict.fromkeys(found))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Put formulas in place of free variables.

    Args:
        expr: The formula.
        values: What replaces each variable; it must not contain a variable that a ``sum`` in
            ``expr`` binds.
    """
    match expr:
        case Integer():
            return expr
        case Name(name):
            return values.get(name, expr)
        case Negate(operand):
            return Negate(substitute(operand, values))
        case Add(parts):
            return Add(tuple(substitute(part, values) for part in parts))
        case Multiply(parts):
            return Multiply(tuple(substitute(part, values) for part in parts))
        case Divide(left, right) | FloorDivide(left, right) | Power(left, right):
            return type(expr)(substitute(left, values), substitute(right, values))
        case Call(function, parts):
            return Call(function, tuple(substitute(part, values) for part in parts))
        case Sum(variable, low, high, body):
            inner = {name: value for name, value in values.items() if name != variable}
            return Sum(
                variable,
                substitute(low, values),
                substitute(high, values),
                substitute(body, inner),
            )


_ADD, _MULTIPLY, _NEGATE, _POWER, _ATOM = range(5)


def to_text(expr: Expr) -> str:
    """Write a formula in the statement language, with no parentheses that it doesn't need.

    Example:
        >>> to_text(Power(Add((Integer(1), Name("x"))), Name("n")))
        '(1+x)^n'
    """
    return _text(expr, _ADD)


def _text(expr: Expr, needed: int) -> str:
    strength, text = _strength_and_text(expr)
    return text if strength >= needed else f"({text})"


def _strength_and_text(expr: Expr) -> tuple[int, str]:
    match expr:
        case Integer(value):
            return (_ATOM, str(value)) if value >= 0 else (_NEGATE, str(value))
        case Name(name):
            return _ATOM, name
        case Negate(operand):
            return _NEGATE, "-" + _text(operand, _NEGATE)
        case Add(terms):
            return _ADD, _text(terms[0], _MULTIPLY) + "".join(map(_signed, terms[1:]))
        case Multiply(factors):
            first, *rest = factors
            return _MULTIPLY, "*".join(
                [_text(first, _MULTIPLY), *(_text(factor, _NEGATE) for factor in rest)]
            )
        case Divide(left, right) | FloorDivide(left, right):
            sign = "/" if isinstance(expr, Divide) else "//"
            return _MULTIPLY, f"{_text(left, _MULTIPLY)}{sign}{_text(right, _NEGATE)}"
        case Power(base, exponent):
            return _POWER, f"{_text(base, _ATOM)}^{_text(exponent, _NEGATE)}"
        case Call(function, arguments):
            return _ATOM, f"{function}({','.join(map(to_text, arguments))})"
        case Sum(variable, low, high, body):
            parts = [variable, to_text(low), to_text(high), to_text(body)]
            return _ATOM, f"sum({','.join(parts)})"


def _signed(term: Expr) -> str:
    if isinstance(term, Negate):
        return "-" + _text(term.operand, _MULTIPLY)
    return "+" + _text(term, _MULTIPLY)
