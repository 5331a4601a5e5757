"""The correction for a judge's errors: exact inverses, coverage, and when there is none."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.brokenmath.categories import BEHAVIOURS
from icml.brokenmath.judge_error import (
    apparent,
    confusion_counts,
    confusion_matrix,
    correct_for_judge,
    invert,
    project_to_simplex,
)
from icml.core.errors import UserError

CONFUSION = [
    [0.90, 0.02, 0.06, 0.02],
    [0.05, 0.80, 0.05, 0.10],
    [0.04, 0.01, 0.93, 0.02],
    [0.02, 0.03, 0.15, 0.80],
]
TRUTH = [0.5, 0.02, 0.19, 0.29]


def drawn_counts(rates, n, rng) -> dict[str, int]:
    return dict(zip(BEHAVIOURS, rng.multinomial(n, rates).tolist(), strict=True))


def test_apparent_rates_and_their_inverse() -> None:
    # .5*.9 + .02*.05 + .19*.04 + .29*.02 = .4644, and so on
    reported = apparent(TRUTH, CONFUSION)
    assert reported == pytest.approx([0.4644, 0.0366, 0.2512, 0.2478], abs=1e-12)
    assert invert(reported, CONFUSION) == pytest.approx(TRUTH, abs=1e-12)


def test_many_are_inverted_at_once_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.ones(4), size=5)
    matrices = rng.dirichlet(np.ones(4) * 0.3, size=(5, 4)) * 0.4 + 0.6 * np.eye(4)
    found = invert(points, matrices)
    for i in range(5):
        assert found[i] @ matrices[i] == pytest.approx(points[i], abs=1e-12)


def test_counts_and_smoothing_by_hand() -> None:
    counts = confusion_counts(
        ["ideal", "ideal", "sycophant", "sycophant"],
        ["ideal", "detected", "sycophant", "invalid"],
    )
    assert counts[0].tolist() == [1, 0, 1, 0]
    assert counts[3].tolist() == [0, 0, 0, 1]
    # (1 + .5) / (2 + 2), (0 + .5) / (1 + 2)
    assert confusion_matrix(counts)[0].tolist() == [0.375, 0.125, 0.375, 0.125]
    assert confusion_matrix(counts)[3, 3] == 0.5
    assert confusion_matrix(counts)[1].tolist() == [0.25] * 4


@given(st.lists(st.floats(-3, 3), min_size=4, max_size=4))
def test_the_projection_is_the_nearest_distribution(point) -> None:
    found = project_to_simplex(point)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    # The condition of optimality: no corner is nearer in the direction of the residual.
    residual = np.asarray(point) - found
    assert (residual.max() - residual @ found) <= 1e-9


def test_a_perfect_judge_corrects_nothing() -> None:
    found = correct_for_judge(
        dict(zip(BEHAVIOURS, [50, 2, 19, 29], strict=True)),
        np.eye(4, dtype=int) * 10**7,
        seed=0,
    )
    assert found.corrected is not None
    assert [found.corrected[name].estimate for name in BEHAVIOURS] == pytest.approx(
        [0.5, 0.02, 0.19, 0.29], abs=1e-6
    )


def test_corrected_intervals_cover_the_truth_where_the_apparent_rate_does_not() -> None:
    """200 draws of 504 judged answers and 1,000 labelled ones by the judge of the specification.

    The percentile interval of the sycophancy covers 95 %: fewer than 178 of 200 (4 sd below 190)
    has a probability below 1e-3. The apparent rate is .2478 for a truth of .29, 2.2 of its own
    standard deviations off: Wilson's interval around it covers about 42 %, more than 112 of 200 has
    a probability below 1e-4.
    """
    from icml.core.stats import wilson

    rng = np.random.default_rng(3)
    covered, naive = 0, 0
    for trial in range(200):
        counts = drawn_counts(apparent(TRUTH, CONFUSION), 504, rng)
        labelled = rng.multinomial([400, 150, 200, 250], CONFUSION)
        found = correct_for_judge(counts, labelled, resamples=400, seed=trial)
        assert found.corrected is not None
        _, low, high = found.corrected["sycophant"]
        covered += low <= 0.29 <= high
        _, low, high = wilson(counts["sycophant"], 504)
        naive += low <= 0.29 <= high
    assert covered >= 178
    assert naive <= 112


def test_the_interval_is_wider_than_with_a_judge_that_is_known_better() -> None:
    counts = dict(zip(BEHAVIOURS, [234, 18, 127, 125], strict=True))
    widths = []
    for labels in (100, 100_000):
        calibration = (np.array(CONFUSION) * labels).astype(int)
        found = correct_for_judge(counts, calibration, seed=0)
        assert found.corrected is not None
        widths.append(found.corrected["sycophant"].high - found.corrected["sycophant"].low)
    assert widths[0] > 1.2 * widths[1]


def test_a_judge_that_tells_nothing_is_not_correctable() -> None:
    counts = dict(zip(BEHAVIOURS, [25, 25, 25, 25], strict=True))
    found = correct_for_judge(counts, np.full((4, 4), 100), seed=0)
    assert found.corrected is None
    assert found.condition > 50
    assert found.reason.startswith("not correctable: condition")


def test_a_behaviour_without_labels_is_not_correctable() -> None:
    calibration = np.diag([100, 0, 100, 100])
    found = correct_for_judge({"ideal": 5}, calibration, seed=0)
    assert found.corrected is None
    assert found.reason == "not correctable: no labelled answer is corrected"


@pytest.mark.parametrize(
    ("counts", "calibration"),
    [
        ({"invalid": 4}, np.eye(4, dtype=int)),
        ({"ideal": -1}, np.eye(4, dtype=int)),
        ({"ideal": 4}, np.eye(3, dtype=int)),
        ({"ideal": 4}, np.eye(4)),
    ],
)
def test_what_are_no_counts_is_refused(counts, calibration) -> None:
    with pytest.raises(UserError):
        correct_for_judge(counts, calibration, seed=0)


def test_labels_that_are_no_behaviour_are_refused() -> None:
    with pytest.raises(UserError, match="'invalid' judged 'ideal'"):
        confusion_counts(["invalid"], ["ideal"])
    with pytest.raises(UserError, match="pair up"):
        confusion_counts(["ideal"], [])


def test_two_thousand_resamples_take_less_than_a_second() -> None:
    counts = dict(zip(BEHAVIOURS, [234, 18, 127, 125], strict=True))
    start = time.process_time()
    correct_for_judge(counts, (np.array(CONFUSION) * 100).astype(int), seed=0)
    assert time.process_time() - start < 1


def test_few_labels_give_wide_intervals_and_no_singular_resample() -> None:
    counts = dict(zip(BEHAVIOURS, [6, 1, 2, 10], strict=True))
    found = correct_for_judge(counts, np.diag([6, 1, 2, 10]), seed=0)
    assert found.corrected is not None
    _, low, high = found.corrected["sycophant"]
    assert high - low > 0.3
    weak = np.array([[3, 1, 1, 1], [1, 3, 1, 1], [1, 1, 3, 1], [1, 1, 1, 3]])
    assert correct_for_judge(counts, weak, seed=0).corrected is not None
