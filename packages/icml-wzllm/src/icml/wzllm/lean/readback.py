"""A printed Lean statement, read back into the statement language and compared with the identity.

The printer is not trusted with what was proved: the statement that the kernel checks is read by
this small reader, and must say what the identity says. It shares one function with the printer:
the positive factor of a statement with denominators, worked out from the identity alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

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
    free_names,
    to_text,
)
from icml.wzllm.lean.denominators import positive_factor
from icml.wzllm.reading import NotHypergeometric, OutOfReach, to_terms
from icml.wzllm.ring import ring
from icml.wzllm.shape import reshape
from icml.wzllm.statement import Identity
from icml.wzllm.terms import vanishes
from icml.wzllm.values import TooLarge, Undefined, evaluate

POINTS = 50
"""Points at which both are evaluated, at most; ours."""

_TOKEN = re.compile(r"\(|\)|=>|[^\s()]+")
_BINDER = re.compile(r"\s*\((\w+) : (Nat|Whole)\) → ")


class Unfaithful(ValueError):
    """The Lean statement isn't the identity, or isn't one that can be read."""


@dataclass(frozen=True)
class Statement:
    """What a Lean statement says."""

    variables: tuple[str, ...]
    left: Expr
    right: Expr


def read_statement(text: str) -> Statement:
    """Read a statement in the words of the base.

    Raises:
        Unfaithful: If it isn't one.

    Example:
        >>> from icml.wzllm.expressions import to_text
        >>> said = read_statement("(n : Nat) → Eq (wMul (Z.nm n) (Z.nm 2)) (ch Z (dbl n) n)")
        >>> to_text(said.left), to_text(said.right)
        ('n*2', 'binomial(2*n,n)')
    """
    variables: list[str] = []
    while found := _BINDER.match(text):
        variables.append(found[1])
        text = text[found.end() :]
    tokens = iter(_TOKEN.findall(f"({text})"))
    tree = _tree(tokens)
    match tree:
        case ["Eq", left, right] if next(tokens, None) is None:
            scope = frozenset(variables)
            return Statement(tuple(variables), _whole(left, scope), _whole(right, scope))
    raise Unfaithful("the Lean statement isn't an equation")


def _tree(tokens: Iterator[str]) -> list:
    """Read to the closing parenthesis of the first opening one."""
    if next(tokens, None) != "(":
        raise Unfaithful("the Lean statement isn't an equation")
    stack: list[list] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            if not stack:
                return done
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    raise Unfaithful("a parenthesis of the Lean statement isn't closed")


_Distance = tuple[object, str] | None
"""A sum's upper limit and its variable, whose difference is natural inside of the sum."""


def _natural(tree: object, scope: frozenset[str], distance: _Distance) -> Expr:
    match tree:
        case [inner]:
            return _natural(inner, scope, distance)
        case "Nat.zero":
            return Integer(0)
        case str() if tree.isdecimal():
            return Integer(int(tree))
        case str() if tree in scope:
            return Name(tree)
        case ["Nat.succ", inner]:
            return Add((_natural(inner, scope, distance), Integer(1)))
        case ["Nat.add", left, right]:
            return Add((_natural(left, scope, distance), _natural(right, scope, distance)))
        case ["Nat.mul", str() as count, inner] if count.isdecimal():
            return Multiply((Integer(int(count)), _natural(inner, scope, distance)))
        case ["sub", high, str() as name] if distance == (high, name):
            return Add((_natural(high, scope, distance), Negate(Name(name))))
        case ["dbl", inner]:
            return Multiply((Integer(2), _natural(inner, scope, distance)))
    raise Unfaithful(f"{tree} isn't a natural number of the base")


def _whole(tree: object, scope: frozenset[str], distance: _Distance = None) -> Expr:
    match tree:
        case [inner]:
            return _whole(inner, scope, distance)
        case "minusOne":
            return Negate(Integer(1))
        case str() if tree in scope:
            return Name(tree)
        case ["wAdd" | "wMul" as operation, left, right]:
            kind = Add if operation == "wAdd" else Multiply
            return kind((_whole(left, scope, distance), _whole(right, scope, distance)))
    return _call(tree, scope, distance)


def _call(tree: object, scope: frozenset[str], distance: _Distance) -> Expr:
    match tree:
        case ["Z.nm", number] | ["Whole.pos", number]:
            return _natural(number, scope, distance)
        case ["ch", "Z", upper, lower]:
            return Call(
                "binomial", (_natural(upper, scope, distance), _natural(lower, scope, distance))
            )
        case ["fac" | "catalan" as function, inner]:
            name = "factorial" if function == "fac" else "catalan"
            return Call(name, (_natural(inner, scope, distance),))
        case ["pw", "Z", base, exponent]:
            return Power(_whole(base, scope, distance), _natural(exponent, scope, distance))
        case ["sumTo", "Z", ["fun", str() as variable, "=>", *body], high]:
            if variable in scope:
                raise Unfaithful(f"{variable} is bound twice")
            inner = _whole(body, scope | {variable}, (high, variable))
            return Sum(variable, Integer(0), _natural(high, scope, distance), inner)
    raise Unfaithful(f"{str(tree)[:80]} isn't a term of the base")


def check_faithful(text: str, identity: Identity) -> int:
    """Compare a Lean statement with an identity, up to one positive number as a factor.

    Exactly: summand with summand, range with range, other side with other side. And at up to
    :data:`POINTS` points by evaluation.

    Returns:
        The number by which the identity was multiplied.

    Raises:
        Unfaithful: If they differ.
    """
    return _compared(text, identity, Integer(1))


def _compared(text: str, identity: Identity, factor: Expr) -> int:
    """Compare a Lean statement with a factor times an identity, up to one positive number."""
    said = read_statement(text)
    if sorted(said.variables) != sorted(identity.vars):
        raise Unfaithful(f"the Lean statement is about {', '.join(said.variables)}")
    scale = _scale(said, identity, factor)
    times = (Integer(scale), factor)
    try:
        shape = reshape(identity)
        if not isinstance(said.left, Sum) or said.left.variable != shape.sum.variable:
            raise Unfaithful("the Lean statement's left side isn't the sum")
        pairs = [
            (said.left.body, Multiply((*times, shape.sum.body))),
            (said.left.low, shape.sum.low),
            (said.left.high, shape.sum.high),
        ]
        variables = [shape.sum.variable]
        if isinstance(shape.other, Sum):
            if not isinstance(said.right, Sum) or said.right.variable != shape.other.variable:
                raise Unfaithful("the Lean statement's right side isn't the other sum")
            pairs += [
                (said.right.body, Multiply((*times, shape.other.body))),
                (said.right.low, shape.other.low),
                (said.right.high, shape.other.high),
            ]
            variables.append(shape.other.variable)
        else:
            pairs.append((said.right, Multiply((*times, shape.other))))
        names = (*dict.fromkeys(variables), *identity.vars)
        for ours, theirs in pairs:
            _same_terms(names, ours, theirs)
    except (NotHypergeometric, OutOfReach) as error:
        raise Unfaithful(f"the Lean statement can't be compared: {error}") from None
    return scale


def how_restated(text: str, identity: Identity) -> tuple[str, ...]:
    """Say how a Lean statement differs from the identity that it states; none if verbatim.

    Raises:
        Unfaithful: If it states something else.

    Example:
        >>> row = Identity.parse("2^n = sum(k,0,n,binomial(n,k))")
        >>> how_restated("(n : Nat) → Eq (sumTo Z (fun k => (ch Z n k)) n) (pw Z (Z.nm 2) n)", row)
        ('terms moved so that the sum stands alone on the left',)
    """
    factor: Expr | None = None
    try:
        scale = check_faithful(text, identity)
    except Unfaithful as error:
        factor = _factor(identity)
        if factor is None:
            raise
        try:
            scale = _compared(text, identity, factor)
        except Unfaithful:
            raise error from None
    shape = reshape(identity)
    found: list[str] = []
    if (shape.sum, shape.other) != (identity.left, identity.right):
        found.append("terms moved so that the sum stands alone on the left")
    if factor is not None:
        times = factor if scale == 1 else Multiply((Integer(scale), factor))
        found.append(f"both sides multiplied by {to_text(times)}")
    elif scale != 1:
        found.append(f"both sides multiplied by {scale}")
    return tuple(found)


def _factor(identity: Identity) -> Expr | None:
    try:
        shape = reshape(identity)
    except NotHypergeometric:
        return None
    return positive_factor(shape, ring((shape.sum.variable, *identity.vars)))


def _same_terms(names: Sequence[str], ours: Expr, theirs: Expr) -> None:
    # 0^e is no term: it counts as a variable of its own, so that the sides agree whatever it is.
    exponents: dict[str, None] = {}
    difference = Add(tuple(_named(side, exponents) for side in (ours, Negate(theirs))))
    within = ring((*names, *exponents))
    if not vanishes(within, to_terms(within, difference, frozenset())):
        raise Unfaithful("the Lean statement isn't the identity")


def _named(expr: Expr, found: dict[str, None]) -> Expr:
    """Put a name for every ``0^e`` with a variable in e; the names are added to what was found."""
    match expr:
        case Power(Integer(0), exponent) if free_names(exponent):
            found[to_text(expr)] = None
            return Name(to_text(expr))
        case Add(parts) | Multiply(parts):
            return type(expr)(tuple(_named(part, found) for part in parts))
        case Negate(operand):
            return Negate(_named(operand, found))
        case Divide(numerator, denominator):
            return Divide(_named(numerator, found), _named(denominator, found))
    return expr


def _scale(said: Statement, identity: Identity, factor: Expr) -> int:
    """Return the number that the points show; all of them must agree on it."""
    scale: Fraction | None = None
    for point in _points(identity.vars):
        try:
            ours = [evaluate(side, point) for side in (said.left, said.right)]
            theirs = [
                evaluate(Multiply((factor, side)), point)
                for side in (identity.left, identity.right)
            ]
        except Undefined:
            continue
        except TooLarge as error:
            raise Unfaithful(f"its values at {point} are too large: {error}") from None
        if ours[0] - ours[1] != 0 or theirs[0] - theirs[1] != 0:
            raise Unfaithful(f"a side is another at {point}")
        if theirs[0] and scale is None:
            scale = Fraction(ours[0]) / Fraction(theirs[0])
        if scale is not None and ours[0] != scale * theirs[0]:
            raise Unfaithful(f"the values at {point} don't fit")
    if scale is None:
        scale = Fraction(1)  # both sides are 0 at every point; the summands decide
    if scale <= 0 or scale.denominator != 1:
        raise Unfaithful(f"the identity was multiplied by {scale}")
    return int(scale)


def _points(variables: Sequence[str]) -> Iterator[dict[str, int]]:
    size = 1
    while (size + 1) ** len(variables) <= POINTS:
        size += 1
    for values in itertools.islice(itertools.product(range(size), repeat=len(variables)), POINTS):
        yield dict(zip(variables, values, strict=True))
