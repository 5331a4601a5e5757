"""Polynomials and terms as text of the statement language, and polynomials back from it."""

from __future__ import annotations

from icml.wzllm.parser import BadStatement, parse
from icml.wzllm.reading import to_term
from icml.wzllm.ring import Fraction, Linear, Poly, Ring
from icml.wzllm.terms import Term

__all__ = ["fraction_text", "polynomial", "polynomial_text", "term_text"]

MAX_POLYNOMIAL = 50_000  # characters, ours: the suite's longest has 150


def polynomial_text(poly: Poly) -> str:
    """Write a polynomial as a product of irreducible ones.

    Example:
        >>> from icml.wzllm.ring import ring
        >>> n = ring(("n",)).variable("n")
        >>> polynomial_text(4 * n * n + 2 * n)
        '2*n*(2*n+1)'
    """
    if poly.is_constant():
        return str(poly)
    content, factors = poly.factor()
    number = int(content)
    if number == 1 and len(factors) == 1 and factors[0][1] == 1:
        return str(poly).replace(" ", "")
    parts = [] if number in (1, -1) else [str(abs(number))]
    parts += [_power(_in_parentheses(factor), int(m)) for factor, m in factors]
    return ("-" if number < 0 else "") + "*".join(parts)


def _in_parentheses(factor: Poly) -> str:
    text = str(factor).replace(" ", "")
    return text if text.isidentifier() else f"({text})"


def _as_factor(poly: Poly) -> str:
    return _wrapped(polynomial_text(poly), "+-")


def _wrapped(text: str, weak: str) -> str:
    """Put parentheses round a text that has one of the signs ``weak`` outside of parentheses."""
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and character in weak:
            return f"({text})"
    return text


def _power(base: str, exponent: int) -> str:
    return base if exponent == 1 else f"{base}^{exponent}"


def fraction_text(fraction: Fraction) -> str:
    """Write a rational function."""
    if fraction.den == 1:
        return polynomial_text(fraction.num)
    return f"{_as_factor(fraction.num)}/{_wrapped(polynomial_text(fraction.den), '+-*/')}"


def term_text(ring: Ring, term: Term) -> str:
    """Write a term with factorials and powers.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> from icml.wzllm.ring import ring
        >>> names = ring(("n",))
        >>> term_text(names, to_term(names, parse("3^n*binomial(2*n,n)/(n+1)"), frozenset()))
        '3^n*factorial(2*n)/((n+1)*factorial(n)^2)'
    """
    num = [] if term.num in (1, -1) else [_as_factor(term.num)]
    den = [] if term.den == 1 else [_as_factor(term.den)]
    for base, exponent in term.powers.values():
        shown = _form(ring, exponent)
        num.append(f"{_base(base)}^{shown if shown.isalnum() else f'({shown})'}")
    for form, multiplicity in term.factorials.items():
        text = _power(f"factorial({_form(ring, form)})", abs(multiplicity))
        (num if multiplicity > 0 else den).append(text)
    above = ("-" if term.num == -1 else "") + ("*".join(num) or "1")
    if not den:
        return above
    return f"{above}/{_wrapped('*'.join(den), '+-*/')}"


def _form(ring: Ring, form: Linear) -> str:
    return str(ring.polynomial(form)).replace(" ", "")


def _base(base: Poly) -> str:
    text = str(base).replace(" ", "")
    return text if text.isalnum() else f"({text})"


def polynomial(ring: Ring, text: str) -> Poly:
    """Read a polynomial with integer coefficients.

    Raises:
        BadStatement: If it isn't one.
    """
    expr = parse(text, ring.names, max_length=MAX_POLYNOMIAL)
    try:
        term = to_term(ring, expr, frozenset())
        num, den = ring.lowest_terms(term.num, term.den)
    except (ArithmeticError, ValueError) as error:
        raise BadStatement(f"not a polynomial: {text[:60]} ({error})") from None
    if not term.is_rational or den != 1:
        raise BadStatement(f"not a polynomial with whole coefficients: {text[:60]}")
    return num
