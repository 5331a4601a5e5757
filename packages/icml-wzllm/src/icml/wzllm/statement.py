"""An identity: two formulas that are claimed to be equal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from icml.wzllm.expressions import Expr, Sum, free_names, to_text, walk
from icml.wzllm.parser import BadStatement, parse, split_equation

__all__ = ["BadStatement", "Identity"]

MAX_VARIABLES = 6  # ours: polynomials in more variables than that take too long to be of use


@dataclass(frozen=True)
class Identity:
    """``lhs = rhs`` for all non-negative whole values of ``vars`` at which both are defined.

    Example:
        >>> row = Identity.parse("sum(k,0,n,binomial(n,k)*x^k) = (1+x)^n")
        >>> row.vars
        ('n', 'x')
        >>> str(row)
        'sum(k,0,n,binomial(n,k)*x^k) = (1+x)^n'
    """

    lhs: str
    """The left side in the statement language."""
    rhs: str
    """The right side in the statement language."""
    vars: tuple[str, ...]
    """The free variables; the recurrence is sought in the first one first."""
    name: str = ""
    """What people call it."""

    def __post_init__(self) -> None:
        """Refuse what isn't a statement.

        Raises:
            BadStatement: If a side isn't a formula in ``vars``, or there are too many variables.
        """
        if len(set(self.vars)) != len(self.vars):
            raise BadStatement(f"a variable is listed twice: {', '.join(self.vars)}")
        if len(self.vars) > MAX_VARIABLES:
            raise BadStatement(
                f"{len(self.vars)} variables, at most {MAX_VARIABLES} allowed: "
                f"{', '.join(self.vars)}"
            )
        self.__dict__["left"] = parse(self.lhs, self.vars)
        self.__dict__["right"] = parse(self.rhs, self.vars)

    @classmethod
    def parse(cls, text: str, *, name: str = "") -> Identity:
        """Read ``lhs = rhs``; the variables are what occurs free, those of upper limits first.

        Raises:
            BadStatement: If the text isn't a statement; the message names the column.
        """
        lhs, rhs, start = split_equation(text)
        sides = (parse(lhs), parse(rhs, start=start))
        sums = [node for side in sides for node in walk(side) if isinstance(node, Sum)]
        bound = {node.variable for node in sums}
        found = [free_names(node.high) for node in sums] + [free_names(side) for side in sides]
        free = {name for side in sides for name in free_names(side)}
        for variable in bound & free:
            raise BadStatement(
                f"{variable!r} is a sum's variable and occurs outside of that sum as well"
            )
        names = dict.fromkeys(name for names in found for name in names if name in free)
        return cls(lhs.strip(), rhs.strip(), tuple(names), name)

    @cached_property
    def left(self) -> Expr:
        """The left side as a tree."""
        return parse(self.lhs, self.vars)

    @cached_property
    def right(self) -> Expr:
        """The right side as a tree."""
        return parse(self.rhs, self.vars)

    def __str__(self) -> str:
        """Write the statement without needless spaces and parentheses."""
        return f"{to_text(self.left)} = {to_text(self.right)}"
