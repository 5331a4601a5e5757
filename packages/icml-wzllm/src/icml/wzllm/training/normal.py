"""The guard against contamination: statements compared by a form that no spelling changes.

Names of variables, the order of terms and factors, grouping, and which side is which don't matter.
More than that isn't seen: ``k`` for ``n-k`` in a sum, or ``2*n`` for ``n+n``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations

from icml.wzllm.expressions import Add, Call, Expr, Integer, Multiply, Name, Sum, children
from icml.wzllm.statement import Identity

__all__ = ["Guard", "normal_form"]


def normal_form(identity: Identity) -> str:
    """Return one text for all spellings of a statement.

    Example:
        >>> one = Identity.parse("sum(k,0,n,binomial(n,k)*x^k) = (1+x)^n")
        >>> other = Identity.parse("(y+1)^m = sum(j,0,m,y^j*binomial(m,j))")
        >>> normal_form(one) == normal_form(other)
        True
    """
    labels = [f"v{i}" for i in range(len(identity.vars))]
    forms = []
    for names in permutations(identity.vars):
        labelled = dict(zip(names, labels, strict=True))
        sides = sorted(_text(side, labelled, 0) for side in (identity.left, identity.right))
        forms.append(" = ".join(sides))
    return min(forms)


class Guard:
    """Statements that must not be trained on."""

    def __init__(self, held_out: Iterable[Identity]) -> None:
        """Remember the normal forms."""
        self._forms = frozenset(map(normal_form, held_out))

    def __contains__(self, identity: Identity) -> bool:
        """Say whether a statement is a spelling of one that is held out."""
        return normal_form(identity) in self._forms


def _text(expr: Expr, names: Mapping[str, str], depth: int) -> str:
    """Write a node with the names replaced, sums' variables by how deep they are."""
    match expr:
        case Integer(value):
            return str(value)
        case Name(name):
            return names[name]
        case Add() | Multiply():
            parts = sorted(_text(part, names, depth) for part in _flat(expr, type(expr)))
        case Sum(variable, low, high, body):
            inner = {**names, variable: f"k{depth}"}
            parts = [_text(low, names, depth), _text(high, names, depth)]
            parts.append(_text(body, inner, depth + 1))
        case _:
            parts = [_text(part, names, depth) for part in children(expr)]
    kind = expr.function if isinstance(expr, Call) else type(expr).__name__
    return f"{kind}({','.join(parts)})"


def _flat(expr: Expr, kind: type[Add | Multiply]) -> list[Expr]:
    """Return the terms or factors, those of parts of the same kind among them."""
    if not isinstance(expr, kind):
        return [expr]
    parts = expr.terms if isinstance(expr, Add) else expr.factors
    return [deeper for part in parts for deeper in _flat(part, kind)]
