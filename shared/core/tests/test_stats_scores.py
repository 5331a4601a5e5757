"""Oracles: all pairs, all samples, hand numbers."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from icml.core.stats import auroc, cohen_kappa, kendall, pass_at_k

SCORED = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=15)
RATED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=15)


@settings(deadline=None)
@given(SCORED)
def test_auroc_is_the_share_of_pairs_in_order(items):
    positives = [score for label, score in items if label]
    negatives = [score for label, score in items if not label]
    assume(positives and negatives)
    pairs = [(p > n) + (p == n) / 2 for p in positives for n in negatives]
    assert auroc(*zip(*items, strict=True)) == pytest.approx(sum(pairs) / len(pairs))


def test_auroc_of_equal_scores_is_a_half_and_infinite_scores_are_ranked():
    assert auroc([0, 1, 1], [7, 7, 7]) == 0.5
    assert auroc([False, True, True], [0.0, math.inf, -math.inf]) == 0.5


@given(RATED)
def test_kappa_is_its_formula_by_loops(items):
    a, b = zip(*items, strict=True)
    n = len(items)
    observed = sum(Fraction(x == y, n) for x, y in items)
    chance = sum(Fraction(x == y, n * n) for x in a for y in b)
    assume(chance != 1)
    assert cohen_kappa(a, b) == pytest.approx(float((observed - chance) / (1 - chance)))


def test_kappa_of_words_runs_from_minus_one_to_one():
    assert cohen_kappa(["yes", "no"], ["no", "yes"]) == -1.0
    assert cohen_kappa(["yes", "no", "no"], ["yes", "no", "no"]) == 1.0
    assert cohen_kappa(["a", "a"], ["b", "b"]) == 0.0


@settings(deadline=None)
@given(RATED)
def test_kendall_is_tau_b_by_all_pairs(items):
    a, b = zip(*items, strict=True)
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    signs = [
        ((p[0] > q[0]) - (p[0] < q[0]), (p[1] > q[1]) - (p[1] < q[1]))
        for p, q in itertools.combinations(items, 2)
    ]
    untied = [sum(s[side] != 0 for s in signs) for side in (0, 1)]
    expected = sum(x * y for x, y in signs) / math.sqrt(untied[0] * untied[1])
    assert kendall(a, b) == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_pass_at_k_is_the_share_of_samples_with_a_right_one(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        samples = list(itertools.combinations(range(n), k))
        expected = sum(min(sample) < c for sample in samples) / len(samples)
        assert pass_at_k(n, c, k) == pytest.approx(expected)


def test_pass_at_k_gives_known_numbers_and_keeps_accuracy():
    assert pass_at_k(10, 3, 5) == pytest.approx(0.9166667, abs=5e-8)
    assert pass_at_k(100_000, 1, 1) == 1e-5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auroc([], []), "at least 1"),
        (lambda: auroc([1, 1], [0.1, 0.2]), "both classes, got 2 of 2"),
        (lambda: auroc([0, 1], [0.1, math.nan]), "NaN"),
        (lambda: auroc([0.3, 0.8], [0, 1]), r"order is auroc\(labels, scores\)"),
        (lambda: auroc([0, 1], [0.1]), r"shape \(2,\), got \(1,\)"),
        (lambda: cohen_kappa([], []), "same items"),
        (lambda: cohen_kappa([1], [1, 2]), "same items"),
        (lambda: cohen_kappa([1, 1], [1, 1]), "undefined"),
        (lambda: kendall([1, 1], [1, 2]), "undefined"),
        (lambda: kendall([1], [1]), "at least 2"),
        (lambda: pass_at_k(0, 0, 1), "n must be at least 1"),
        (lambda: pass_at_k(3, 4, 1), "c must be between 0 and 3"),
        (lambda: pass_at_k(3, 1, 4), "k must be between 1 and 3"),
    ],
)
def test_bad_input_is_refused_with_its_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()
