"""The statement language: text to trees, with a column in every complaint.

::

    sum     = product (("+" | "-") product)*
    product = unary (("*" | "/" | "//") unary)*
    unary   = "-" unary | power
    power   = atom (("^" | "**") unary)?
    atom    = integer | name | function "(" sum ("," sum)* ")" | "(" sum ")"
            | "sum" "(" name "," sum "," sum "," sum ")"

A hand-written parser, since Python's own accepts much that isn't mathematics, moves columns when
``^`` is rewritten to ``**``, and answers deep nesting with a MemoryError.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from icml.core.errors import UserError
from icml.wzllm.expressions import (
    FUNCTIONS,
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

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "BadStatement", "parse", "split_equation"]

MAX_LENGTH = 2000  # characters of a formula, ours
MAX_DIGITS = 4000  # of a number, ours
MAX_DEPTH = 100  # nesting, ours: every walk over a tree stays far from Python's recursion limit

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_][A-Za-z_0-9]*)|(\*\*|//|[-+*/^(),]))", re.ASCII)


class BadStatement(UserError):
    """The text is not a statement; the message says why and where."""


class _Token(NamedTuple):
    kind: str  # "integer", "name", "end" or the sign itself
    text: str
    column: int


def parse(
    text: str,
    names: Collection[str] | None = None,
    *,
    start: int = 1,
    max_length: int = MAX_LENGTH,
) -> Expr:
    """Read a formula.

    Args:
        text: The formula.
        names: The variables that may occur free; None allows any.
        start: The column of the text's first character, for messages.
        max_length: Most characters allowed.

    Raises:
        BadStatement: If the text isn't a formula of the language; the message names the column.

    Example:
        >>> parse("2*n+1")
        Add(terms=(Multiply(factors=(Integer(value=2), Name(name='n'))), Integer(value=1)))
    """
    if len(text) > max_length:
        raise BadStatement(f"the formula has {len(text)} characters, at most {max_length} allowed")
    return _Parser(_tokens(text, start), names).whole()


def split_equation(text: str) -> tuple[str, str, int]:
    """Return the two sides of ``a = b`` and the column where the right one starts.

    Raises:
        BadStatement: If there isn't exactly one ``=``.
    """
    parts = text.split("=")
    if len(parts) != 2:
        raise BadStatement(
            f"an identity has one '=', found {len(parts) - 1}: "
            'write it like "sum(k,0,n,binomial(n,k)) = 2^n"'
        )
    return parts[0], parts[1], len(parts[0]) + 2


def _tokens(text: str, start: int) -> list[_Token]:
    tokens, place = [], 0
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            bad = len(text[place:]) - len(text[place:].lstrip()) + place
            raise BadStatement(f"unexpected {text[bad]!r} at column {bad + start}")
        integer, name, sign = match.groups()
        found = integer or name or sign
        kind = "integer" if integer else "name" if name else "^" if sign == "**" else sign
        tokens.append(_Token(kind, found, match.end() - len(found) + start))
        place = match.end()
    tokens.append(_Token("end", "the end", end + start))
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token], names: Collection[str] | None) -> None:
        self._tokens = tokens
        self._place = 0
        self._names = names
        self._bound: list[str] = []
        self._depth = 0

    def whole(self) -> Expr:
        expr = self._sum()
        self._expect("end")
        return expr

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        self._place += 1
        return self._tokens[self._place - 1]

    def _expect(self, kind: str) -> _Token:
        if self._next.kind != kind:
            wanted = "the end" if kind == "end" else repr(kind)
            raise self._unexpected(f"where {wanted} should be")
        return self._take()

    def _unexpected(self, where: str) -> BadStatement:
        token = self._next
        what = "end" if token.kind == "end" else repr(token.text)
        return BadStatement(f"unexpected {what} at column {token.column}, {where}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadStatement(
                f"nested more than {MAX_DEPTH} deep at column {self._next.column}: "
                "write the formula flatter"
            )

    def _sum(self) -> Expr:
        self._deeper()
        terms = [self._product()]
        while self._next.kind in ("+", "-"):
            sign = self._take().kind
            term = self._product()
            terms.append(Negate(term) if sign == "-" else term)
        self._depth -= 1
        if len(terms) == 1:
            return terms[0]
        flat = [
            part for term in terms for part in (term.terms if isinstance(term, Add) else [term])
        ]
        return Add(tuple(flat))

    def _product(self) -> Expr:
        result, chain = self._unary(), 0
        while self._next.kind in ("*", "/", "//"):
            sign = self._take().kind
            right = self._unary()
            if sign == "*":
                result = Multiply((*_factors(result), *_factors(right)))
                continue
            chain += 1
            if self._depth + chain > MAX_DEPTH:
                self._deeper()
                raise BadStatement(f"more than {MAX_DEPTH} divisions in a row")
            result = Divide(result, right) if sign == "/" else FloorDivide(result, right)
        return result

    def _unary(self) -> Expr:
        if self._next.kind != "-":
            return self._power()
        self._take()
        self._deeper()
        operand = self._unary()
        self._depth -= 1
        return Negate(operand)

    def _power(self) -> Expr:
        base = self._atom()
        if self._next.kind != "^":
            return base
        self._take()
        self._deeper()
        exponent = self._unary()
        self._depth -= 1
        return Power(base, exponent)

    def _atom(self) -> Expr:
        token = self._next
        if token.kind == "integer":
            if len(token.text) > MAX_DIGITS:  # Python itself reads no more than 4300
                raise BadStatement(
                    f"a number of {len(token.text)} digits at column {token.column}, "
                    f"at most {MAX_DIGITS} allowed"
                )
            return Integer(int(self._take().text))
        if token.kind == "(":
            self._take()
            inner = self._sum()
            self._expect(")")
            return inner
        if token.kind != "name":
            raise self._unexpected("where a number, a name or '(' should be")
        self._take()
        if self._next.kind != "(":
            return self._variable(token)
        return self._bounded_sum() if token.text == "sum" else self._call(token)

    def _variable(self, token: _Token) -> Name:
        if token.text in FUNCTIONS or token.text == "sum":
            raise BadStatement(f"{token.text} at column {token.column} needs arguments in '(...)'")
        if self._names is not None and token.text not in {*self._names, *self._bound}:
            known = ", ".join(self._names) or "none"
            raise BadStatement(
                f"unknown variable {token.text!r} at column {token.column}; there are: {known}"
            )
        return Name(token.text)

    def _call(self, token: _Token) -> Call:
        if token.text not in FUNCTIONS:
            known = ", ".join(["sum", *FUNCTIONS])
            raise BadStatement(
                f"unknown function {token.text!r} at column {token.column}; there are: {known}"
            )
        self._take()
        arguments = [self._sum()]
        while self._next.kind == ",":
            self._take()
            arguments.append(self._sum())
        self._expect(")")
        wanted = FUNCTIONS[token.text]
        if len(arguments) != wanted:
            raise BadStatement(
                f"{token.text} at column {token.column} takes {wanted} "
                f"argument{'s' * (wanted > 1)}, got {len(arguments)}"
            )
        return Call(token.text, tuple(arguments))

    def _bounded_sum(self) -> Sum:
        self._expect("(")
        name = self._take()
        if name.kind != "name" or name.text in FUNCTIONS or name.text == "sum":
            raise BadStatement(
                f"sum needs a variable first, got {name.text!r} at column {name.column}: "
                "sum(k, low, high, summand)"
            )
        if name.text in self._bound or name.text in (self._names or ()):
            raise BadStatement(
                f"{name.text!r} at column {name.column} is in use already: "
                "give the sum a variable of its own"
            )
        self._expect(",")
        low = self._sum()
        self._expect(",")
        high = self._sum()
        self._expect(",")
        self._bound.append(name.text)
        body = self._sum()
        self._bound.pop()
        self._expect(")")
        return Sum(name.text, low, high, body)


def _factors(expr: Expr) -> tuple[Expr, ...]:
    return expr.factors if isinstance(expr, Multiply) else (expr,)
