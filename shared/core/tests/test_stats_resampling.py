"""Oracles: all permutations by loops, the law of the drawn means, simulation."""

import itertools
import math
import statistics
from typing import Any

import numpy as np
import pytest

from icml.core.stats import bootstrap, paired_bootstrap, permutation_test

UNKNOWN: Any = "none"
A, B = [1.2, 0.4, 3.1, 2.2], [0.1, 0.9, 0.3, 0.7]


def test_bootstrap_of_two_values_has_the_limits_of_its_three_means():
    # the drawn means are 0, 1/2, 1 with chances 1/4, 1/2, 1/4
    assert bootstrap([0, 1], seed=0) == (0.5, 0.0, 1.0)
    assert bootstrap([0, 1], level=0.4, seed=0) == (0.5, 0.5, 0.5)


def test_bootstrap_of_many_values_nears_the_normal_interval():
    values = np.random.default_rng(1).normal(size=400)
    half = 1.96 * values.std() / 20
    mean, low, high = bootstrap(values, n=4000, seed=2)
    # each limit is a quantile of 4000 draws, with a standard error of 2.2 % of half: four of them
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.09)


def test_bootstrap_covers_the_mean_of_sixty_values():
    # 200 samples; true coverage is .94 here, binomial sd .0168: four of them either way, so
    # a new seed fails with probability < 1e-3.
    samples = np.random.default_rng(3).normal(size=(200, 60))
    found = [bootstrap(sample, n=300, seed=i) for i, sample in enumerate(samples)]
    covered = statistics.mean(low <= 0 <= high for _, low, high in found)
    assert covered == pytest.approx(0.94, abs=0.067)


def test_clusters_of_copies_give_the_interval_of_the_originals():
    values = np.random.default_rng(4).normal(size=30)
    names = [f"task {i}" for i in range(30) for _ in range(5)]
    copies = bootstrap(np.repeat(values, 5), clusters=names, seed=5)
    assert copies == pytest.approx(bootstrap(values, seed=5), rel=1e-9)


def test_clusters_may_be_uneven_and_scattered():
    # clusters {0, 0, 0} and {3}: drawn means are 0, 3/4 or 3 and the limits are the extremes
    assert bootstrap([0, 3, 0, 0], clusters=["a", "b", "a", "a"], seed=0) == (0.75, 0.0, 3.0)


def test_the_statistic_may_use_several_columns_of_a_row():
    rows = np.array([[1.0, 2.0], [2.0, 4.0], [5.0, 10.0]])
    ratio = bootstrap(rows, lambda drawn: drawn[:, 1].sum() / drawn[:, 0].sum(), seed=0)
    assert ratio == (2.0, 2.0, 2.0)


def test_bootstrap_repeats_with_its_seed_and_changes_with_another():
    values = np.random.default_rng(6).normal(size=20)
    assert bootstrap(values, seed=7) == bootstrap(values, seed=7)
    assert bootstrap(values, seed=7) != bootstrap(values, seed=8)


def test_paired_bootstrap_of_the_mean_is_the_bootstrap_of_the_differences():
    a, b = np.random.default_rng(9).normal(size=(2, 25))
    expected = bootstrap(a - b, seed=1)
    assert paired_bootstrap(a, b, seed=1) == pytest.approx(expected, rel=1e-9)


def test_paired_bootstrap_applies_the_statistic_to_each_side():
    def largest(values):
        return float(values.max())

    a = [5.0, 5.0, 5.0]
    assert paired_bootstrap(a, [1.0, 1.0, 1.0], largest, seed=0) == (4.0, 4.0, 4.0)


def brute_force(statistics_of_all, observed):
    sizes = [abs(x) for x in statistics_of_all]
    return sum(size >= abs(observed) - 1e-12 for size in sizes) / len(sizes)


def test_groups_p_value_counts_all_splits():
    pooled, everything = A + B, []
    for chosen in itertools.combinations(range(8), 4):
        one = [pooled[i] for i in chosen]
        everything.append(sum(one) / 4 - (sum(pooled) - sum(one)) / 4)
    expected = brute_force(everything, sum(A) / 4 - sum(B) / 4)
    assert permutation_test(A, B, kind="groups", seed=0) == pytest.approx(expected)


def test_pairs_p_value_counts_all_sign_flips():
    differences = [x - y for x, y in zip(A, B, strict=True)]
    everything = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product([1, -1], repeat=4)
    ]
    expected = brute_force(everything, sum(differences))
    assert permutation_test(A, B, kind="pairs", seed=0) == pytest.approx(expected)


def test_matching_p_value_counts_all_orders():
    everything = [np.corrcoef(order, B)[0, 1] for order in itertools.permutations(A)]
    expected = brute_force(everything, np.corrcoef(A, B)[0, 1])
    assert permutation_test(A, B, kind="matching", seed=0) == pytest.approx(expected)


def test_a_statistic_of_ones_own_is_used():
    def medians(a, b):
        return float(np.median(a) - np.median(b))

    pooled, everything = A + B, []
    for chosen in itertools.combinations(range(8), 4):
        rest = [pooled[i] for i in range(8) if i not in chosen]
        everything.append(medians([pooled[i] for i in chosen], rest))
    expected = brute_force(everything, medians(A, B))
    assert permutation_test(A, B, medians, kind="groups", seed=0) == pytest.approx(expected)


def test_a_permutation_test_is_exact_over_every_relabelling():
    # Under the null each of the 20 splits is as likely: P(p <= alpha) <= alpha, exactly.
    pooled = np.array([0.3, 1.1, 2.0, 2.7, 4.9, 5.2])
    p_values = []
    for chosen in itertools.combinations(range(6), 3):
        rest = np.setdiff1d(np.arange(6), chosen)
        p_values.append(permutation_test(pooled[[*chosen]], pooled[rest], kind="groups", seed=0))
    assert all(np.mean(np.array(p_values) <= alpha) <= alpha + 1e-12 for alpha in p_values)


def test_random_permutations_estimate_the_exact_p_value_and_never_give_zero():
    exact = permutation_test(A, B, kind="groups", seed=0)
    estimate = permutation_test(A * 3, B * 3, kind="groups", n=99, seed=0)
    assert estimate >= 1 / 100
    close = permutation_test(A, B, kind="groups", n=60, seed=1)  # 60 of 70 splits: random
    # four standard errors of 60 draws: a new seed fails with probability < 1e-3
    assert close == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 60) + 1 / 61)


def test_equal_samples_give_a_p_value_of_one():
    assert permutation_test([1, 1, 1], [1, 1, 1], kind="groups", seed=0) == 1.0
    assert permutation_test([1, 1, 1], [1, 2, 3], kind="matching", seed=0) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap([], seed=0), "at least 2"),
        (lambda: bootstrap([1.0], seed=0), "at least 2"),
        (lambda: bootstrap(3.0, seed=0), "must have rows"),
        (lambda: bootstrap([1.0, math.nan], seed=0), "finite, got nan"),
        (lambda: bootstrap([1, 2], clusters=["a", "a"], seed=0), "2 clusters, got 1"),
        (lambda: bootstrap([1, 2], clusters=["a"], seed=0), "each of 2 rows, got 1"),
        (lambda: bootstrap([1, 2], n=0, seed=0), "n must be at least 1"),
        (lambda: bootstrap([1, 2], lambda rows: math.nan, seed=0), "every resample"),
        (lambda: paired_bootstrap([1, 2], [1, 2, 3], seed=0), "paired, got 2 and 3"),
        (lambda: permutation_test([1], [2, 3], kind="groups", seed=0), "at least 2"),
        (lambda: permutation_test([1, 2], [1, 2, 3], kind="pairs", seed=0), "paired"),
        (lambda: permutation_test([1, 2], [1, 2], kind=UNKNOWN, seed=0), "kind must be one of"),
    ],
)
def test_bad_input_is_refused_with_its_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()
