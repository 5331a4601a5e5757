"""Rates, groups, pairs: numbers worked out by hand, closed forms and simulated coverage."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.brokenmath.categories import BEHAVIOURS, CATEGORIES, checked
from icml.brokenmath.metrics import clustered_sycophancy, compare_paired, grouped_rates, rates
from icml.core.errors import UserError


def test_wilson_limits_of_the_paper_s_best_model() -> None:
    # 146 of 504: (p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) with z = 1.959964
    table = rates(["sycophant"] * 146 + ["ideal"] * 253 + ["detected"] * 95 + ["corrected"] * 10)
    assert table.n == 504
    assert table.sycophancy is not None
    assert [round(x, 4) for x in table.sycophancy] == [0.2897, 0.2518, 0.3308]
    assert [round(table.rates[name].estimate * 504) for name in BEHAVIOURS] == [253, 10, 95, 146]


def test_invalid_answers_leave_the_rate_and_open_the_bounds() -> None:
    table = rates(["sycophant"] * 3 + ["ideal"] * 3 + ["invalid"] * 4)
    assert (table.n, table.invalid) == (6, 4)
    assert table.sycophancy is not None
    assert table.sycophancy.estimate == 0.5
    assert table.bounds == (0.3, 0.7)


def test_nothing_but_invalid_has_no_rate_and_says_nothing() -> None:
    table = rates(["invalid"] * 5)
    assert (table.n, table.sycophancy, dict(table.rates)) == (0, None, {})
    assert table.bounds == (0, 1)


@given(st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=60))
def test_rates_sum_to_one_and_lie_in_their_limits_and_bounds(categories) -> None:
    table = rates(categories)
    assert sum(table.counts.values()) == len(categories)
    assert table.n == len(categories) - categories.count("invalid")
    assert table.n == 0 or sum(r.estimate for r in table.rates.values()) == pytest.approx(1)
    assert all(r.low <= r.estimate <= r.high for r in table.rates.values())
    if table.sycophancy is not None:
        assert table.bounds[0] <= table.sycophancy.estimate <= max(table.bounds[1], 1e-12)


@pytest.mark.parametrize("bad", [[], ["sycophantic"], ["ideal", None]])
def test_unknown_and_missing_categories_are_refused(bad) -> None:
    with pytest.raises(UserError, match="category"):
        rates(bad)
    with pytest.raises(UserError, match="category"):
        checked(bad)


def test_groups_keep_their_own_n() -> None:
    found = grouped_rates(["sycophant", "ideal", "invalid", "ideal"], ["a", "a", "b", "c"])
    assert list(found) == ["a", "b", "c"]
    assert [(table.n, table.invalid) for table in found.values()] == [(2, 0), (0, 1), (1, 0)]
    with pytest.raises(UserError, match="each of 1 answers"):
        grouped_rates(["ideal"], [])


def test_wilson_covers_a_known_mix_as_stated() -> None:
    """4,000 sets of 504 answers with 29 % sycophants: the exact coverage is .9505.

    The count of misses is binomial (4,000, .0495), so it lies outside 198 ± 55 (4 sd) with a
    probability below 1e-4.
    """
    rng = np.random.default_rng(0)
    hits = rng.binomial(504, 0.29, size=4000)
    limits = {k: rates(["sycophant"] * k + ["ideal"] * (504 - k)).sycophancy for k in set(hits)}
    missed = sum(not limits[k].low <= 0.29 <= limits[k].high for k in hits)
    assert abs(missed - 198) <= 55


def test_clusters_of_equal_answers_widen_the_interval_as_the_formula_says() -> None:
    """100 problems, each with 5 equal answers: the sd is that of 100 answers, sqrt(5) times wider.

    The bootstrap's limits come from 2,000 resamples; their sampling error is about 3 %, the
    tolerance is 12 % (4 sd).
    """
    categories = [name for i in range(100) for name in ["sycophant" if i < 40 else "ideal"] * 5]
    problems = [i for i in range(100) for _ in range(5)]
    found = clustered_sycophancy(categories, problems, seed=1)
    assert found.estimate == 0.4
    assert found.high - found.low == pytest.approx(2 * 1.96 * (0.4 * 0.6 / 100) ** 0.5, rel=0.12)


def test_cluster_bootstrap_covers_where_wilson_fails() -> None:
    """300 sets of 80 problems x 4 answers, problem rates beta(.5, .5): truth .5.

    The bootstrap of 80 clusters covers about 94 %: fewer than 267 of 300 (4 sd below) has a
    probability below 1e-4. Wilson on 320 answers, of effective number 320 / (1 + 3 * .5) = 128,
    covers about 78 %: more than 264 of 300 (4 sd above) has one below 1e-4.
    """
    rng = np.random.default_rng(5)
    covered, naive = 0, 0
    problems = [i for i in range(80) for _ in range(4)]
    for trial in range(300):
        p = np.repeat(rng.beta(0.5, 0.5, size=80), 4)
        drawn = np.where(rng.random(320) < p, "sycophant", "ideal").tolist()
        found = clustered_sycophancy(drawn, problems, resamples=400, seed=trial)
        covered += found.low <= 0.5 <= found.high
        plain = rates(drawn).sycophancy
        assert plain is not None
        naive += plain.low <= 0.5 <= plain.high
    assert covered >= 267
    assert naive <= 264


def test_clusters_leave_invalid_answers_out_and_need_two_problems() -> None:
    found = clustered_sycophancy(
        ["sycophant", "invalid", "ideal", "ideal"], ["a", "a", "b", "b"], seed=0
    )
    assert found.estimate == pytest.approx(1 / 3)
    with pytest.raises(UserError, match="at least 2"):
        clustered_sycophancy(["ideal", "invalid"], ["a", "b"], seed=0)


def flags(sycophantic: set[int], n: int) -> dict[int, str]:
    return {i: "sycophant" if i in sycophantic else "detected" for i in range(n)}


def test_pairs_give_mcnemar_s_number_and_count_what_is_left_out() -> None:
    a, b = flags(set(range(10)), 50), flags({20, 21}, 50)
    a[30], b[31] = "invalid", "invalid"
    found = compare_paired(a, b, seed=0)
    # 2 (1 + 12 + 66) / 2^12
    assert found.p_value == pytest.approx(158 / 4096)
    assert (found.pairs, found.invalid_pairs, found.discordant) == (48, 2, (10, 2))
    assert found.difference.estimate == pytest.approx(8 / 48)
    assert found.difference.low < 8 / 48 < found.difference.high


def test_different_problems_are_refused_or_counted() -> None:
    a, b = flags({1}, 10), flags({1}, 7)
    with pytest.raises(UserError, match="A has 10 problems and B has 7, 3 only in A and 0 only"):
        compare_paired(a, b, seed=0)
    found = compare_paired(a, b, common=True, seed=0)
    assert (found.pairs, found.only_a, found.only_b) == (7, 3, 0)
    with pytest.raises(UserError, match="at least 2"):
        compare_paired({1: "ideal"}, {1: "ideal"}, seed=0)


def test_mcnemar_and_the_bootstrap_keep_their_error_rates_without_a_difference() -> None:
    """400 pairs of equal rates (.4, correlated), n = 150: false alarms at 5 %.

    McNemar's exact test is conservative: more than 5 % + 4 sd (37 of 400) has a probability below
    1e-4. The bootstrap's interval misses 0 in about 5.5 %: 42 is 4 sd above that.
    """
    rng = np.random.default_rng(11)
    alarms, missed = 0, 0
    for trial in range(400):
        hard = rng.random(150)
        both = [np.clip(hard + rng.normal(0, 0.3, 150), 0, 1) < 0.4 for _ in range(2)]
        a, b = ({i: "sycophant" if x else "ideal" for i, x in enumerate(s)} for s in both)
        found = compare_paired(a, b, resamples=300, seed=trial)
        alarms += found.p_value < 0.05
        missed += not found.difference.low <= 0 <= found.difference.high
    assert alarms <= 37
    assert missed <= 42


def test_metrics_need_neither_inspect_nor_torch() -> None:
    code = (
        "import sys, icml.brokenmath.metrics, icml.brokenmath.judge_error, "
        "icml.brokenmath.best_of, icml.brokenmath.confidence; "
        "icml.brokenmath.metrics.rates(['ideal']); "
        "print([m for m in ('inspect_ai', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
