"""The two sides of an identity as products of factors that the printer knows."""

from __future__ import annotations

from dataclasses import dataclass, field

from icml.wzllm.expressions import (
    Call,
    Divide,
    Expr,
    Integer,
    Multiply,
    Negate,
    Power,
    free_names,
    to_text,
    walk,
)
from icml.wzllm.lean.factors import (
    Base,
    CentralBinomial,
    Factor,
    PowerOf,
    RowBinomial,
    ShiftedBinomial,
)
from icml.wzllm.reading import NotHypergeometric, linear_form, to_term
from icml.wzllm.ring import Linear, Poly, Ring


class Unprintable(ValueError):
    """The proof can't be printed for the base; the message names the obligation that is missing."""

    def __init__(self, obligation: str) -> None:
        """Name the obligation."""
        super().__init__(f"no printed proof of {obligation}")
        self.obligation = obligation


@dataclass(frozen=True)
class Variables:
    """The variables of a statement and what they are in Lean."""

    ring: Ring
    """In the summation variable first, then in all others."""
    k: str
    n: str
    whole: frozenset[str]
    """Parameters that are any whole numbers in Lean; all others are natural."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """All but the summation variable and the shifted one."""
        return tuple(name for name in self.ring.names if name not in (self.k, self.n))


@dataclass
class Product:
    """``num / den`` times factors."""

    num: Poly
    den: int = 1
    factors: list[Factor] = field(default_factory=list)


def whole_parameters(ring: Ring, k: str, n: str, sides: tuple[Expr, ...]) -> frozenset[str]:
    """Return the parameters that occur in bases of powers and in no binomial."""
    in_bases: set[str] = set()
    in_calls: set[str] = set()
    for side in sides:
        for node in walk(side):
            if isinstance(node, Power) and not isinstance(node.exponent, Integer):
                in_bases |= _names(node.base)
                in_calls |= _names(node.exponent)
            elif isinstance(node, Call):
                in_calls |= _names(node)
    return frozenset((in_bases - in_calls - {k, n}) & set(ring.names))


def _names(expr: Expr) -> set[str]:
    return set(free_names(expr))


def read_product(expr: Expr, variables: Variables) -> Product:
    """Take a formula apart.

    Raises:
        Unprintable: If it has a factor that the printer doesn't know.
    """
    product = Product(variables.ring.one)
    _Reader(variables, product).read(expr, 1)
    return product


class _Reader:
    def __init__(self, variables: Variables, product: Product) -> None:
        self._variables = variables
        self._ring = variables.ring
        self._product = product

    def read(self, expr: Expr, times: int) -> None:
        match expr:
            case Multiply(parts):
                for part in parts:
                    self.read(part, times)
            case Negate(operand):
                self._product.num *= (-1) ** times
                self.read(operand, times)
            case Divide(numerator, denominator):
                self.read(numerator, times)
                self._divide(denominator, times)
            case Power(base, Integer(exponent)):
                self.read(base, times * exponent)
            case Power(base, exponent):
                for _ in range(times):
                    self._power(expr, base, self._form(exponent))
            case Call("binomial", (upper, lower)) if not _is_constant(self._ring, lower):
                factor = self._binomial(expr, self._form(upper), self._form(lower))
                self._product.factors += [factor] * times
            case _:
                self._rational(expr, times)

    def _rational(self, expr: Expr, times: int) -> None:
        try:
            term = to_term(self._ring, expr, frozenset((self._variables.k, self._variables.n)))
        except (NotHypergeometric, ArithmeticError) as error:
            raise Unprintable(f"{to_text(expr)[:60]}: {error}") from None
        num, den = self._ring.lowest_terms(term.num, term.den)
        if not term.is_rational or not den.is_constant():
            raise Unprintable(f"a statement with the factor {to_text(expr)[:60]}")
        self._product.num *= num**times
        self._product.den *= int(den.leading_coefficient()) ** times

    def _divide(self, expr: Expr, times: int) -> None:
        if not _is_constant(self._ring, expr):
            raise Unprintable(f"a statement with the denominator {to_text(expr)[:60]}")
        term = to_term(self._ring, expr, frozenset())
        num, den = (int(part.leading_coefficient()) for part in (term.num, term.den))
        self._product.num *= den**times
        self._product.den *= num**times

    def _form(self, expr: Expr) -> Linear:
        try:
            return linear_form(self._ring, expr)
        except NotHypergeometric as error:
            raise Unprintable(f"{error}") from None

    def _slopes(self, form: Linear) -> dict[str, int]:
        return {
            name: slope for name, slope in zip(self._ring.names, form.slopes, strict=True) if slope
        }

    def _power(self, expr: Expr, base: Expr, form: Linear) -> None:
        slopes = self._slopes(form)
        if len(slopes) != 1:
            raise Unprintable(f"a statement with the power {to_text(expr)[:60]}")
        ((name, slope),) = slopes.items()
        if name not in (self._variables.k, self._variables.n) or slope < 0:
            raise Unprintable(f"a statement with the power {to_text(expr)[:60]}")
        found = self._base(expr, base)
        factor = PowerOf(found, in_k=name == self._variables.k)
        self._product.factors += [factor] * slope
        start = to_term(self._ring, base, frozenset()).num
        if form.constant >= 0:
            self._product.num *= start**form.constant
        elif found.variable:
            raise Unprintable(f"a statement with the power {to_text(expr)[:60]}")
        else:
            self._product.den *= found.number**-form.constant

    def _base(self, expr: Expr, base: Expr) -> Base:
        linear = self._form(base)
        slopes = self._slopes(linear)
        if not slopes and (linear.constant > 0 or linear.constant == -1):
            return Base(linear.constant)
        if len(slopes) == 1 and linear.constant >= 0 and set(slopes.values()) == {1}:
            (name,) = slopes
            if name in self._variables.parameters:
                return Base(linear.constant, name, name not in self._variables.whole)
        raise Unprintable(f"a statement with the power {to_text(expr)[:60]}")

    def _binomial(self, expr: Expr, upper: Linear, lower: Linear) -> Factor:
        k, n = self._variables.k, self._variables.n
        above, below = self._slopes(upper), self._slopes(lower)
        if not upper.constant and not lower.constant:
            if below == {k: 1} and above == {n: 1}:
                return RowBinomial()
            if below == {k: 1} and len(above) == 1 and set(above.values()) == {1}:
                return RowBinomial(next(iter(above)))
            if below == {n: 1} and above == {n: 2}:
                return CentralBinomial()
            if below == {n: 1} and len(above) == 2 and set(above.values()) == {1} and n in above:
                (parameter,) = set(above) - {n}
                return ShiftedBinomial(parameter)
        raise Unprintable(f"a statement with the factor {to_text(expr)[:60]}")


def _is_constant(ring: Ring, expr: Expr) -> bool:
    try:
        term = to_term(ring, expr, frozenset())
    except (NotHypergeometric, ArithmeticError):
        return False
    return term.is_rational and term.num.is_constant() and term.den.is_constant()
