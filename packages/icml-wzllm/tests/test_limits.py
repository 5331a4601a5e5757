"""Limits of terms at the ends of a range."""

import pytest

from icml.wzllm.domain import Domain
from icml.wzllm.limits import limit
from icml.wzllm.parser import parse
from icml.wzllm.reading import linear_form, to_term
from icml.wzllm.ring import ring


@pytest.mark.parametrize(
    ("text", "point", "exceptions"),
    [
        ("(k-n)/(k-5)", "n", {5}),  # 0/0 at n = 5, where it is 1 for every k
        ("binomial(n,k)/(2*n-11-k)", "n+1", {12}),  # 1/(-1)! over 0
        ("(k-n)/(k+5)", "n", set()),
    ],
)
def test_a_limit_is_not_called_0_where_a_denominator_cancels_the_zero(text, point, exceptions):
    names = ring(("k", "n"))
    domain = Domain(names, "n", ("k", "n"))
    term = to_term(names, parse(text), frozenset(("k",)))
    assert limit(domain, term, "k", linear_form(names, parse(point))).num == 0
    assert domain.exceptions == exceptions
