"""Oracles: problems whose best rates and differences are known in closed form."""

import functools
import math
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from icml.core.errors import UserError
from icml.core.rl.compare import compare
from icml.core.stats import holm, paired_t_interval, paired_t_test, t_interval

RATES = [0.01, 0.03, 0.1, 0.3, 1.0]
OPTIMUM = {"old": 0.03, "new": 0.3, "twin": 0.1}
GAIN = {"old": 0.0, "new": 2.0, "twin": 0.0}


def noise(*key):
    return float(np.random.default_rng(key).normal())


def hill(method, rate, seed, *, log):
    """Peak at the method's optimum; seeds shift all methods alike; small noise of its own."""
    height = 10 * seed + GAIN[method] - math.log(rate / OPTIMUM[method]) ** 2
    own = noise(seed, round(rate * 1000), sorted(OPTIMUM).index(method))
    return {"reward": height + own / 10, "length": 5.0 + own}


def plain(jobs, fn):
    return {key: fn(*args, log=lambda *a, **k: None) for key, args in jobs.items()}


design = functools.partial(
    compare,
    methods=["old", "new"],
    rates=RATES,
    seeds=range(8),
    select_seeds=[100, 101],
    select_by="reward",
    baseline="old",
    cells=plain,
)


def test_each_method_gets_the_rate_of_its_own_optimum():
    best = design(hill).best
    assert {name: b.rate for name, b in best.items()} == {"old": 0.03, "new": 0.3}
    assert not best["old"].edge
    assert not best["new"].edge


def test_the_known_difference_is_found_and_paired_over_seeds():
    # seeds move the reward by 10 each, the gain is 2: only pairing can show it
    found = design(hill).differences["new", "reward"]
    new = [hill("new", 0.3, seed, log=None)["reward"] for seed in range(8)]
    old = [hill("old", 0.03, seed, log=None)["reward"] for seed in range(8)]
    assert found.interval == paired_t_interval(new, old)
    assert found.p_value == paired_t_test(new, old)
    assert found.interval.low < 2.0 < found.interval.high
    assert found.verdict == "higher"


def test_a_loss_is_chosen_by_a_function_and_a_fall_reads_lower():
    def loss(method, rate, seed, *, log):
        return {"loss": -hill(method, rate, seed, log=log)["reward"]}

    result = design(loss, select_by=lambda metrics: -metrics["loss"])
    assert result.best["new"].rate == 0.3
    assert result.differences["new", "loss"].verdict == "lower"


def descend(method, rate, seed, *, log, shared_noise=True):
    """Noisy descent of w^2/2 from w = 3; method "b" is "a" with three times the step."""
    step = rate * (3 if method == "b" else 1)
    rng = np.random.default_rng([seed, 0 if shared_noise else "ab".index(method)])
    weight, tail = 3.0, []
    for iteration in range(60):
        weight -= step * (weight + rng.normal())
        tail += [weight**2 / 2] if iteration >= 50 else []
    return {"reward": -sum(tail) / len(tail)}


# powers of three over 1024: 3 * rate is exact, so the two methods meet on the same steps
GRID = [3**power / 1024 for power in range(7)]
steps = functools.partial(
    design,
    methods=["a", "b"],
    rates=GRID,
    baseline="a",
    seeds=range(12),
    select_seeds=range(50, 62),
)


def test_a_change_of_step_size_wins_at_one_rate_and_not_under_the_sweep():
    new, old = (
        [descend(method, GRID[2], seed, log=None)["reward"] for seed in range(12)]
        for method in "ba"
    )
    assert paired_t_test(new, old) < 1e-3
    assert paired_t_interval(new, old).low > 0
    result = steps(descend)
    assert result.best["a"].rate == 3 * result.best["b"].rate
    assert result.differences["b", "reward"] == ((0.0, 0.0, 0.0), 1.0, "not shown")


def test_a_change_of_step_size_is_not_shown_when_the_noise_differs_too():
    # a true null with its own noise in each method: a new seed fails with probability .05
    result = steps(functools.partial(descend, shared_noise=False))
    assert result.differences["b", "reward"].verdict == "not shown"


def test_all_jobs_go_out_in_one_call_with_readable_keys():
    calls = []

    def recording(jobs, fn):
        calls.append(jobs)
        return plain(jobs, fn)

    design(hill, rates=[1e-5, 0.001, 0.1], cells=recording)
    (jobs,) = calls
    assert len(jobs) == 2 * 3 * (8 + 2)
    assert jobs["select/new/0.001/seed=100"] == ("new", 0.001, 100)
    assert jobs["report/old/1e-05/seed=0"] == ("old", 1e-5, 0)


def test_report_seeds_have_no_say_in_the_choice():
    def flipped(method, rate, seed, *, log):
        reward = hill(method, rate, seed, log=log)["reward"]
        return {"reward": reward if seed >= 100 else -reward}

    assert design(flipped).best == design(hill).best


@pytest.mark.parametrize(
    ("rates", "at_edge"), [([0.01, 0.03, 0.1], "new"), ([0.03, 0.1, 0.3, 1.0], "old")]
)
def test_a_best_rate_at_the_edge_on_either_side_is_never_a_win(rates, at_edge):
    # the peak at 0.3 lies outside the first grid, the one at 0.03 ends the second
    result = design(hill, rates=rates)
    assert {name for name, best in result.best.items() if best.edge} == {at_edge}
    assert result.differences["new", "reward"].p_value < 0.01
    assert result.differences["new", "reward"].verdict == "edge"


def test_one_or_two_rates_are_all_edge():
    assert all(best.edge for best in design(hill, rates=[0.1]).best.values())
    assert all(best.edge for best in design(hill, rates=[0.1, 0.3]).best.values())


@pytest.mark.parametrize(
    ("rates", "chosen"), [([4, 1, 2], 2.0), ([1, 2, 3, 4], 2.0), ([1, 2, 3, 4, 5], 3.0)]
)
def test_equal_scores_go_to_the_middle_of_the_grid_then_to_the_smaller_rate(rates, chosen):
    result = design(lambda method, rate, seed, *, log: {"reward": 1.0}, rates=rates)
    assert result.best["new"].rate == chosen
    assert not result.best["new"].edge


def diverging(when):
    def evaluate(method, rate, seed, *, log):
        metrics = hill(method, rate, seed, log=log)
        return {**metrics, "length": math.nan} if when(method, rate, seed) else metrics

    return evaluate


def test_a_rate_that_diverged_on_one_selection_seed_is_never_chosen():
    result = design(diverging(lambda method, rate, seed: rate == 0.3 and seed == 101))
    assert result.best["new"].rate != 0.3
    assert math.isnan(result.selection["new", 0.3])
    assert math.isfinite(result.selection["new", 0.1])


def test_a_report_run_that_diverged_is_said_and_not_left_out():
    result = design(diverging(lambda method, rate, seed: (method, seed) == ("new", 3)))
    assert result.diverged("new") == (3,)
    assert result.diverged("old") == ()
    assert result.differences["new", "reward"] == (None, 1.0, "diverged")
    row = next(r for r in result.rate_rows() if (r["method"], r["rate"]) == ("new", 0.1))
    assert (row["diverged seeds"], row["reward"], row["reward low"]) == (1, None, None)


def test_a_baseline_that_diverged_loses_every_comparison():
    result = design(diverging(lambda method, rate, seed: (method, seed) == ("old", 0)))
    assert {found.verdict for found in result.differences.values()} == {"diverged"}


def test_a_method_that_diverged_at_every_rate_is_an_error_of_the_user():
    with pytest.raises(UserError, match=r"new diverged .* every rate from 0.01 to 1: extend"):
        design(diverging(lambda method, rate, seed: method == "new" and seed == 100))


def test_p_values_of_several_methods_are_holm_corrected():
    result = design(hill, methods=["twin", "old", "new"])
    old = result.values("old", "reward")
    raw = [paired_t_test(result.values(m, "reward"), old) for m in ("twin", "new")]
    found = [result.differences[m, "reward"] for m in ("twin", "new")]
    assert [f.p_value for f in found] == holm(raw)
    assert [f.verdict for f in found] == ["not shown", "higher"]


def test_a_lost_comparison_stays_in_the_family():
    lost = diverging(lambda method, rate, seed: (method, seed) == ("twin", 0))
    result = design(lost, methods=["old", "new", "twin"])
    raw = paired_t_test(result.values("new", "reward"), result.values("old", "reward"))
    assert result.differences["new", "reward"].p_value == pytest.approx(2 * raw)


def test_the_rate_table_has_every_method_at_every_rate():
    result = design(hill)
    rows = result.rate_rows("reward")
    assert [(r["method"], r["rate"]) for r in rows] == [
        (m, r) for m in ("old", "new") for r in RATES
    ]
    assert [r["rate"] for r in rows if r["best"]] == [0.03, 0.3]
    mean, low, high = t_interval([hill("old", 0.01, s, log=None)["reward"] for s in range(8)])
    assert (rows[0]["reward"], rows[0]["reward low"], rows[0]["reward high"]) == (mean, low, high)
    assert "length" not in rows[0]


def test_the_best_table_has_a_row_for_each_metric_and_method():
    result = design(hill)
    rows = result.best_rows()
    assert [(r["metric"], r["method"]) for r in rows] == [
        (metric, method) for metric in ("reward", "length") for method in ("old", "new")
    ]
    found = result.differences["new", "reward"]
    assert (rows[0]["verdict"], rows[0]["difference"]) == ("baseline", None)
    assert tuple(rows[1][f"difference{limit}"] for limit in ("", " low", " high")) == found.interval
    assert (rows[1]["p (Holm)"], rows[1]["verdict"]) == (found.p_value, "higher")


def test_every_cell_of_both_tables_is_a_plain_value_and_rows_share_their_columns():
    lost = design(diverging(lambda method, rate, seed: rate == 1.0))
    for rows in (lost.rate_rows(), lost.best_rows()):
        assert len({tuple(row) for row in rows}) == 1
        cells = [cell for row in rows for cell in row.values()]
        assert all(cell is None or type(cell) in (str, int, float, bool) for cell in cells)
        assert not any(isinstance(cell, float) and math.isnan(cell) for cell in cells)


def test_an_unknown_metric_is_refused_by_name():
    with pytest.raises(ValueError, match="one of reward, length, got 'loss'"):
        design(hill).rate_rows("loss")
    with pytest.raises(ValueError, match="select_by must be one of reward, length, got 'loss'"):
        design(hill, select_by="loss")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"select_seeds": [7, 8]}, r"disjoint, both hold \[7\]"),
        ({"select_seeds": []}, "select_seeds must be distinct and at least one"),
        ({"seeds": [0, 1]}, "seeds must be at least 3, got 2"),
        ({"seeds": [0, 1, 1]}, "seeds must be distinct"),
        ({"rates": []}, "rates must be distinct and at least one"),
        ({"rates": [0.1, 0.1]}, "rates must be distinct"),
        ({"rates": [0.0, 0.1]}, "rates must be positive"),
        ({"rates": [0.1, math.inf]}, "rates must be positive and finite"),
        ({"methods": ["old"]}, "the baseline 'old' and another"),
        ({"baseline": "none"}, "the baseline 'none' and another"),
        ({"methods": ["old", "old"]}, "methods must be distinct"),
    ],
)
def test_a_design_that_cannot_be_fair_is_refused_before_any_run(change, message):
    def never(jobs: Mapping, fn):
        raise AssertionError("ran")

    with pytest.raises(ValueError, match=message):
        design(hill, cells=never, **change)


def test_runs_that_differ_in_their_metrics_are_refused():
    def uneven(method, rate, seed, *, log):
        return {"reward": 1.0} if seed != 5 else {"return": 1.0}

    with pytest.raises(ValueError, match=r"seed=5 gave the metrics \['return'\]"):
        design(uneven)


def test_importing_it_loads_neither_torch_nor_scipy():
    code = "import sys, icml.core.rl.compare; print({'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
