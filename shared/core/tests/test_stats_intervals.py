"""Oracles: hand numbers, the equations that define the limits, statsmodels 0.15, simulation."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.core.stats import Interval, newcombe, paired_t_interval, t_interval, wilson

FINITE = st.floats(-1e6, 1e6)


def test_t_interval_of_five_seeds_is_the_hand_number():
    # mean 3, s^2 = 10/4, s/sqrt(5) = sqrt(0.5), t_{4, .975} = 2.776445 (tables)
    half = 2.776445 * math.sqrt(0.5)
    expected = (3.0, 3 - half, 3 + half)
    assert t_interval([1, 2, 3, 4, 5]) == pytest.approx(expected, abs=1e-6)


def test_t_interval_of_two_values_at_level_half_spans_exactly_the_two_values():
    # One degree of freedom is the Cauchy law: quantile tan(pi/4) = 1 and s/sqrt(2) = 1.
    # scipy 1.14 has eleven digits of this quantile
    assert t_interval([4.0, 6.0], level=0.5) == pytest.approx((5.0, 4.0, 6.0), rel=1e-10)


def test_equal_values_give_an_interval_of_zero_width():
    assert t_interval([0.1, 0.1, 0.1]) == Interval(0.1, 0.1, 0.1)


def test_t_interval_covers_the_mean_as_often_as_it_says():
    # 4000 samples of 5 normals; binomial sd .0034. Four of them: a correct interval fails at
    # a new seed with probability 6e-5. (A percentile bootstrap covers .83 here.)
    samples = np.random.default_rng(0).normal(2.0, 3.0, size=(4000, 5))
    covered = [low <= 2.0 <= high for _, low, high in map(t_interval, samples)]
    assert statistics.mean(covered) == pytest.approx(0.95, abs=0.0138)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=2, max_size=20), FINITE, st.floats(0.1, 10))
def test_t_interval_moves_and_scales_with_the_data(values, shift, scale):
    plain = np.array(t_interval(values))
    moved = t_interval(np.array(values) * scale + shift)
    # float64 rounding of the sums, relative to the size of the numbers put in
    assert moved == pytest.approx(plain * scale + shift, rel=1e-6, abs=1e-6)


@settings(deadline=None)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=2, max_size=20))
def test_swapping_the_sides_of_a_pair_flips_the_interval(pairs):
    a, b = zip(*pairs, strict=True)
    mean, low, high = paired_t_interval(a, b)
    assert paired_t_interval(b, a) == pytest.approx((-mean, -high, -low))


def test_pairing_removes_what_the_seeds_share():
    seeds = np.array([0.0, 100.0, -50.0, 7.0])
    assert paired_t_interval(seeds + 1, seeds) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("k", "n"), [(8, 10), (1, 7), (146, 504)])
def test_wilson_limits_solve_the_score_equation(k, n):
    z = statistics.NormalDist().inv_cdf(0.975)
    p_hat, low, high = wilson(k, n)
    for p in (low, high):
        assert abs(p_hat - p) == pytest.approx(z * math.sqrt(p * (1 - p) / n), rel=1e-9)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (146, 504, 0.2518, 0.3308), (0, 25, 0.0, 0.1332)],
)
def test_wilson_gives_known_numbers(k, n, low, high):
    assert wilson(k, n)[1:] == pytest.approx((low, high), abs=5e-5)


def test_wilson_ends_at_zero_and_one_when_none_or_all_succeed():
    # closed form: at k = 0 the upper limit is z^2 / (n + z^2)
    z = statistics.NormalDist().inv_cdf(0.975)
    assert wilson(0, 9) == pytest.approx((0.0, 0.0, z**2 / (9 + z**2)))
    assert wilson(9, 9) == pytest.approx((1.0, 9 / (9 + z**2), 1.0))


def test_wilson_covers_as_the_exact_binomial_sum_says():
    n, p = 504, 0.29  # published exact coverage .9505
    weights = {k: math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(90, 210)}
    covered = sum(w for k, w in weights.items() if wilson(k, n).low <= p <= wilson(k, n).high)
    assert covered == pytest.approx(0.9505, abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    # Newcombe 1998, Table II, method 10, examples (a), (b), (d), (g), (h)
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe_gives_the_numbers_of_his_paper(counts, low, high):
    assert newcombe(*counts)[1:] == pytest.approx((low, high), abs=5e-5)


@settings(deadline=None)
@given(st.data(), st.integers(1, 60), st.integers(1, 60))
def test_newcombe_holds_its_estimate_and_flips_with_the_samples(data, n1, n2):
    k1, k2 = data.draw(st.integers(0, n1)), data.draw(st.integers(0, n2))
    mean, low, high = newcombe(k1, n1, k2, n2)
    assert -1 <= low <= mean <= high <= 1
    assert newcombe(k2, n2, k1, n1) == pytest.approx((-mean, -high, -low))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_proportions_agree_with_statsmodels(level):
    from statsmodels.stats import proportion as peer

    for k1, n1, k2, n2 in [(3, 11, 5, 9), (0, 4, 2, 6), (40, 41, 1, 50)]:
        limits = peer.proportion_confint(k1, n1, alpha=1 - level, method="wilson")
        assert wilson(k1, n1, level)[1:] == pytest.approx(limits, abs=1e-12)
        limits = peer.confint_proportions_2indep(k1, n1, k2, n2, method="newcomb", alpha=1 - level)
        assert newcombe(k1, n1, k2, n2, level)[1:] == pytest.approx(limits, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "at least 2"),
        ([1.0], "at least 2"),
        ([1.0, math.nan], "finite, got nan"),
        ([1.0, math.inf], "finite, got inf"),
        ([[1.0, 2.0]], "1-D"),
    ],
)
def test_t_interval_refuses_what_has_no_spread_or_no_value(values, message):
    with pytest.raises(ValueError, match=message):
        t_interval(values)


def test_bad_arguments_are_named():
    half: Any = 0.5
    with pytest.raises(ValueError, match=r"paired, got 2 and 3"):
        paired_t_interval([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"n must be at least 1, got 0"):
        wilson(0, 0)
    with pytest.raises(ValueError, match=r"successes must be between 0 and 3, got 4"):
        wilson(4, 3)
    with pytest.raises(ValueError, match=r"successes must be an integer, got 0.5"):
        wilson(half, 3)
    with pytest.raises(ValueError, match=r"level must be between 0 and 1"):
        wilson(1, 3, level=95)
