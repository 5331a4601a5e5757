"""Formulas in Mathlib's words, over the natural and over the rational numbers.

Lean's natural numbers have no negative ones: a subtraction there is refused where it could be cut
off, and an exponent with one is an integer.
"""

from __future__ import annotations

from icml.core.errors import UserError
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
    to_text,
)

NAT, INTEGER, RATIONAL = "\u2115", "\u2124", "\u211a"

_FUNCTIONS = {"binomial": "Nat.choose", "factorial": "Nat.factorial", "catalan": "catalan"}


def natural(expr: Expr) -> str:
    """Write a formula over the natural numbers.

    Raises:
        UserError: If it subtracts, divides or calls a function.
    """
    match expr:
        case Integer(value):
            return str(value)
        case Name(name):
            return name
        case Add(parts) | Multiply(parts):
            sign = " + " if isinstance(expr, Add) else " * "
            return "(" + sign.join(map(natural, parts)) + ")"
    raise UserError(f"{to_text(expr)} can't be said with natural numbers alone")


def rational(expr: Expr) -> str:
    """Write a formula over the rational numbers; its variables are natural numbers.

    Raises:
        UserError: If it has a function that Mathlib lacks, or a subtraction in one's argument.
    """
    match expr:
        case Integer() | Name():
            return f"({natural(expr)} : {RATIONAL})"
        case Negate(operand):
            return f"(-{rational(operand)})"
        case Add(parts) | Multiply(parts):
            sign = " + " if isinstance(expr, Add) else " * "
            return "(" + sign.join(map(rational, parts)) + ")"
        case Divide(numerator, denominator):
            return f"({rational(numerator)} / {rational(denominator)})"
        case Power(base, exponent):
            return f"({rational(base)} ^ {_exponent(exponent)})"
        case Call(function, arguments) if function in _FUNCTIONS:
            written = " ".join(map(natural, arguments))
            return f"({_FUNCTIONS[function]} {written} : {RATIONAL})"
    raise UserError(f"no sketch of {to_text(expr)[:60]}")


def _exponent(expr: Expr) -> str:
    try:
        return natural(expr)
    except UserError:
        return _integer(expr)


def _integer(expr: Expr) -> str:
    match expr:
        case Negate(operand):
            return f"(-{_integer(operand)})"
        case Add(parts) | Multiply(parts):
            sign = " + " if isinstance(expr, Add) else " * "
            return "(" + sign.join(map(_integer, parts)) + ")"
    return f"({natural(expr)} : {INTEGER})"
