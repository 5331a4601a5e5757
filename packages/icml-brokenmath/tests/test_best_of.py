"""Bounds, brackets and correlation against closed forms, enumeration and simulation."""

from itertools import combinations, product

import numpy as np
import pytest

from icml.brokenmath.best_of import BetaBinomial, bracket_rate, fit_beta_binomial, pass_at_n
from icml.core.errors import UserError


@pytest.mark.parametrize(
    ("p", "w", "wanted"),
    [(0.466, 0.5, 0.4660), (0.466, 0.7, 0.2736), (0.466, 1, 0.466**4), (0.29, 0.7, 0.1418)],
)
def test_bracket_of_four_is_the_closed_form(p, w, wanted) -> None:
    assert bracket_rate(p, w) == pytest.approx(wanted, abs=5e-5)


@pytest.mark.parametrize("w", [0.0, 0.3, 0.8])
def test_bracket_equals_the_sum_over_all_outcomes(w) -> None:
    def beats(x: int, y: int) -> float:
        """Return P(the winner is sycophantic)."""
        return {0: 0.0, 1: 1 - w, 2: 1.0}[x + y]

    p, total = 0.37, 0.0
    for four in product((0, 1), repeat=4):
        chance = np.prod([p if x else 1 - p for x in four])
        for left, right in product((0, 1), repeat=2):
            first, second = beats(*four[:2]), beats(*four[2:])
            way = (first if left else 1 - first) * (second if right else 1 - second)
            total += float(chance * way * beats(left, right))
    assert bracket_rate(p, w) == pytest.approx(total, abs=1e-12)


def test_problems_are_averaged_after_the_bracket() -> None:
    # With two certain problems there is nothing to choose, whatever the judge: 1/2 stays 1/2.
    assert bracket_rate([0.0, 1.0], 1.0) == 0.5
    assert bracket_rate(0.5, 1.0) == 0.5**4


def test_best_of_n_counts_the_sets_that_are_sycophantic_throughout() -> None:
    answers = [1, 1, 1, 0, 1]
    sets = [all(chosen) for chosen in combinations(answers, 3)]
    assert pass_at_n([4], [5], 3) == pytest.approx(np.mean(sets))
    assert pass_at_n([4, 2, 0], [4, 4, 4], 4) == pytest.approx(1 / 3)


def test_the_paper_s_numbers_have_the_correlations_of_the_specification() -> None:
    # Observed: 55.6 % and 40.9 % of four; 65.1 % and 38.3 %. Correlations are given to 2 digits.
    assert BetaBinomial(0.556, 0.68).all_of(4) == pytest.approx(0.409, abs=0.01)
    assert BetaBinomial(0.651, 0.39).all_of(4) == pytest.approx(0.383, abs=0.01)
    assert BetaBinomial(0.556, 0.0).all_of(4) == pytest.approx(0.556**4)
    assert BetaBinomial(0.556, 1.0).all_of(4) == 0.556


def test_the_fit_finds_mean_and_correlation() -> None:
    """2,000 problems x 4 answers from beta(a, b) of mean .55 and correlation .5.

    The standard errors are about .009 and .014; the tolerances are 5 of them.
    """
    rng = np.random.default_rng(2)
    hits = rng.binomial(4, rng.beta(0.55, 0.45, size=2000))
    found = fit_beta_binomial(hits.tolist(), [4] * 2000)
    assert found.mean == pytest.approx(0.55, abs=0.045)
    assert found.correlation == pytest.approx(0.5, abs=0.07)
    assert found.all_of(4) == pytest.approx(pass_at_n(hits.tolist(), [4] * 2000, 4), abs=0.02)


def test_independent_answers_have_next_to_no_correlation() -> None:
    """2,000 problems x 4 independent answers: sd of the correlation about .009, 5 of them."""
    hits = np.random.default_rng(4).binomial(4, 0.4, size=2000).tolist()
    assert fit_beta_binomial(hits, [4] * 2000).correlation < 0.045


def test_the_edges_of_the_correlation_are_exact() -> None:
    assert fit_beta_binomial([4, 0, 4, 0], [4] * 4) == (0.5, 1.0)
    # Each problem has exactly half: less spread than independent answers have.
    assert fit_beta_binomial([2] * 50, [4] * 50) == (0.5, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pass_at_n([1], [2], 3),
        lambda: pass_at_n([3], [2], 1),
        lambda: pass_at_n([], [], 1),
        lambda: pass_at_n([1.5], [2], 1),
        lambda: bracket_rate(1.2, 0.5),
        lambda: bracket_rate(0.5, 0.5, n=3),
        lambda: bracket_rate([], 0.5),
        lambda: fit_beta_binomial([1, 0], [1, 1]),
        lambda: fit_beta_binomial([2, 2], [2, 2]),
    ],
)
def test_counts_that_make_no_sense_are_refused(call) -> None:
    with pytest.raises(UserError):
        call()
