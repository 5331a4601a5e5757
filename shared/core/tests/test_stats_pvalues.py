"""Oracles: enumeration, closed forms, closed testing, statsmodels 0.15, simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.core.stats import (
    chi2_gof,
    holm,
    mcnemar_exact,
    paired_t_interval,
    paired_t_test,
    poisson_binomial_sf,
)

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=7)


def test_paired_t_test_of_three_pairs_has_the_closed_form():
    # two degrees of freedom: p = 1 - t / sqrt(2 + t^2), here t = 2 / (1 / sqrt(3))
    t = 2 * math.sqrt(3)
    expected = 1 - t / math.sqrt(2 + t * t)
    assert paired_t_test([2, 4, 6], [1, 2, 3]) == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.floats(-10, 10).map(lambda x: round(x, 3)), min_size=2, max_size=12))
def test_paired_t_test_rejects_when_its_interval_leaves_out_zero(differences):
    _, low, high = paired_t_interval(differences, [0.0] * len(differences), level=0.9)
    p_value = paired_t_test(differences, [0.0] * len(differences))
    assert (p_value < 0.1) == (low > 0 or high < 0) or p_value == pytest.approx(0.1)


def test_equal_differences_decide_the_paired_t_test():
    assert paired_t_test([1, 2, 3], [1, 2, 3]) == 1.0
    assert paired_t_test([2, 3, 4], [1, 2, 3]) == 0.0


@pytest.mark.parametrize(("b", "c"), [(10, 2), (2, 10), (0, 5), (3, 3), (7, 6)])
def test_mcnemar_sums_the_binomial_tails(b, c):
    tail = sum(math.comb(b + c, i) for i in range(min(b, c) + 1)) / 2 ** (b + c)
    assert mcnemar_exact(b, c) == pytest.approx(min(1.0, 2 * tail))


def test_mcnemar_without_a_differing_pair_is_one():
    assert mcnemar_exact(0, 0) == 1.0


def test_mcnemar_agrees_with_statsmodels():
    from statsmodels.stats import contingency_tables as peer

    for b, c in [(12, 4), (1, 9), (30, 31)]:
        expected = peer.mcnemar([[5, b], [c, 7]], exact=True).pvalue
        assert mcnemar_exact(b, c) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni_tests(p_values):
    tests = range(len(p_values))
    subsets = [s for m in tests for s in itertools.combinations(tests, m + 1)]
    local = {s: min(1.0, len(s) * min(p_values[i] for i in s)) for s in subsets}
    expected = [max(local[s] for s in subsets if i in s) for i in tests]
    assert holm(p_values) == pytest.approx(expected)


def test_holm_of_one_test_changes_nothing():
    assert holm([0.03]) == [0.03]


def test_holm_agrees_with_statsmodels():
    from statsmodels.stats import multitest as peer

    p_values = np.random.default_rng(0).uniform(size=30) ** 4
    assert holm(p_values) == pytest.approx(peer.multipletests(p_values, method="holm")[1])


@given(CHANCES)
def test_poisson_binomial_tail_sums_all_outcomes(chances):
    for k in range(-1, len(chances) + 1):
        expected = math.fsum(
            math.prod(p if hit else 1 - p for p, hit in zip(chances, outcome, strict=True))
            for outcome in itertools.product([0, 1], repeat=len(chances))
            if sum(outcome) > k
        )
        assert poisson_binomial_sf(k, chances) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_poisson_binomial_of_equal_chances_is_binomial():
    expected = sum(math.comb(50, i) * 0.3**i * 0.7 ** (50 - i) for i in range(21, 51))
    assert poisson_binomial_sf(20, [0.3] * 50) == pytest.approx(expected)


def test_poisson_binomial_keeps_the_accuracy_of_a_small_tail():
    # all ten of ten: the product, far below the float epsilon
    assert poisson_binomial_sf(9, [1e-12] * 10) == pytest.approx(1e-120, rel=1e-12)


def test_chi_square_has_the_hand_number():
    # (10^2 + 10^2) / 50 = 4 on one degree of freedom: p = erfc(sqrt(4/2)) = .0455
    statistic, df, p_value = chi2_gof([60, 40], [50, 50])
    assert (statistic, df) == (4.0, 1)
    assert p_value == pytest.approx(math.erfc(math.sqrt(2)))


def test_rare_bins_are_merged_until_they_expect_enough():
    # 1 + 2 + 3 = 6 >= 5 is one bin, 44 stays: df 1, (8-6)^2/6 + (42-44)^2/44
    statistic, df, _ = chi2_gof([4, 42, 3, 1], [1, 44, 2, 3])
    assert (statistic, df) == (pytest.approx(4 / 6 + 4 / 44), 1)


def test_bins_too_small_at_the_end_join_the_last_pool():
    # ascending pools {3, 3} and {3, 3}; the fifth bin of 3 is left over
    assert chi2_gof([3] * 5, [3] * 5).df == 1


def test_less_merging_leaves_more_degrees_of_freedom():
    assert chi2_gof([3, 2, 5], [2, 3, 5], min_expected=1).df == 2


@given(st.permutations([(3, 1.0), (2, 2.5), (0, 3.5), (30, 28.0), (15, 15.0)]))
def test_the_order_of_the_bins_plays_no_part(bins):
    observed, expected = zip(*bins, strict=True)
    result = chi2_gof(observed, expected)
    assert result == pytest.approx(chi2_gof([3, 2, 0, 30, 15], [1, 2.5, 3.5, 28, 15]))


def test_a_count_where_none_can_be_refutes_the_null():
    assert chi2_gof([49, 50, 1], [50, 50, 0])[::2] == (math.inf, 0.0)
    assert chi2_gof([9, 1], [10, 0])[::2] == (math.inf, 0.0)


def test_chi_square_rejects_a_true_null_as_often_as_it_says():
    # 2000 samples of 300 with rare bins; sd .0049, and the law itself is approximate by about
    # .005: .05 ± .025, so a new seed fails with probability < 1e-4.
    chances = np.array([0.4, 0.3, 0.2, 0.07, 0.01, 0.008, 0.007, 0.005])
    samples = np.random.default_rng(1).multinomial(300, chances, size=2000)
    rejected = np.mean([chi2_gof(s, 300 * chances).p_value < 0.05 for s in samples])
    assert rejected == pytest.approx(0.05, abs=0.025)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_t_test([1], [2]), "at least 2"),
        (lambda: mcnemar_exact(-1, 2), "b must be at least 0"),
        (lambda: holm([]), "at least 1"),
        (lambda: holm([0.5, 1.5]), r"in \[0, 1\], got 1.5"),
        (lambda: holm([0.5, math.nan]), "finite"),
        (lambda: poisson_binomial_sf(0, []), "at least 1"),
        (lambda: poisson_binomial_sf(0, [-0.1]), r"in \[0, 1\]"),
        (lambda: poisson_binomial_sf(-2, [0.1]), "k must be at least -1"),
        (lambda: chi2_gof([1, 2], [3]), "one length, got 2 and 1"),
        (lambda: chi2_gof([50, 50], [0.5, 0.5]), "sum to the 100 observed, got 1"),
        (lambda: chi2_gof([0.5, 9.5], [5, 5]), "whole counts"),
        (lambda: chi2_gof([-1, 11], [5, 5]), "whole counts"),
        (lambda: chi2_gof([3, 3], [3, 3]), "2 bins of at least 5"),
        (lambda: chi2_gof([1, 1], [1, 1]), "2 bins of at least 5"),
        (lambda: chi2_gof([9, 9], [9, 9], min_expected=0), "min_expected must be positive"),
    ],
)
def test_bad_input_is_refused_with_its_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()
