"""Weights that are a function of the step."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.gdpo import WeightSchedule

SCHEDULE = WeightSchedule({10: [1, 0], 30: [3, 1], 31: [0, 1]})


def test_weights_between_two_points_lie_on_the_line():
    # a quarter of the way from (1, 0) to (3, 1)
    assert SCHEDULE.at(15) == (1.5, 0.25)


@pytest.mark.parametrize(
    ("step", "weights"),
    [(0, (1, 0)), (10, (1, 0)), (30, (3, 1)), (31, (0, 1)), (10**9, (0, 1))],
)
def test_weights_outside_and_at_the_points_are_the_points(step, weights):
    assert SCHEDULE.at(step) == weights


def test_a_schedule_survives_json():
    again = WeightSchedule(json.loads(json.dumps(dict(SCHEDULE.points))))
    assert [again.at(step) for step in range(40)] == [SCHEDULE.at(step) for step in range(40)]


def test_string_steps_are_ordered_as_numbers():
    assert WeightSchedule({"9": [1.0], "10": [2.0]}).at(10) == (2.0,)


def test_a_schedule_knows_how_many_rewards_it_weighs():
    assert SCHEDULE.rewards == 2


points = st.dictionaries(
    st.integers(0, 1000),
    st.lists(st.floats(0, 100), min_size=3, max_size=3).filter(any),
    min_size=1,
)


@given(points, st.integers(0, 2000))
def test_weights_are_never_outside_the_points_and_never_all_zero(given_points, step):
    weights = WeightSchedule(given_points).at(step)
    assert any(weights)
    for k, weight in enumerate(weights):
        column = [w[k] for w in given_points.values()]
        # one rounding of a sum of two products
        assert min(column) * (1 - 1e-12) <= weight <= max(column) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("given_points", "message"),
    [
        ({}, "must map steps to weights"),
        ([[1, 0]], "must map steps to weights"),
        ({-1: [1]}, "whole number >= 0, got -1"),
        ({0.5: [1]}, "whole number >= 0, got 0.5"),
        ({True: [1]}, "whole number >= 0, got True"),
        ({1: [1], "1": [2]}, r"each step once, got \[1, 1\]"),
        ({0: [1, 2], 5: [1]}, "2 at 0, 1 at 5"),
        ({0: [0, 0]}, "weights at step 0 must be a list of finite numbers >= 0, not all 0"),
        ({0: [1, -1]}, "got \\[1, -1\\]"),
        ({0: [float("nan")]}, "finite"),
        ({0: 1.0}, "must be a list"),
        ({0: "12"}, "must be a list"),
    ],
)
def test_what_is_no_schedule_is_refused(given_points, message):
    with pytest.raises(ValueError, match=message):
        WeightSchedule(given_points)
