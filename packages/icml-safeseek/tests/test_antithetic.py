import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from icml.safeseek import antithetic_estimates, plain_estimates

uniforms = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 7)),
    elements=st.floats(0, 1),
)


def test_plain_estimate_is_the_mean_of_the_values_worked_out_by_hand() -> None:
    # (1^2 + 0.5^2) / 2 = 0.625
    assert plain_estimates(np.square, np.array([[1.0, 0.5]])).tolist() == [0.625]


def test_antithetic_estimate_averages_in_the_mirror_images_worked_out_by_hand() -> None:
    # u = 1 -> (1 + 0) / 2; u = 0.25 -> (0.0625 + 0.5625) / 2; their mean is 0.40625
    assert antithetic_estimates(np.square, np.array([[1.0, 0.25]])).tolist() == [0.40625]


@given(uniforms, st.floats(-100, 100), st.floats(-100, 100))
def test_antithetic_estimate_of_a_straight_line_is_exact(points, slope, offset) -> None:
    found = antithetic_estimates(lambda u: slope * u + offset, points)
    np.testing.assert_allclose(found, slope / 2 + offset, rtol=0, atol=1e-12)


@given(uniforms)
def test_antithetic_estimate_does_not_change_when_the_points_are_mirrored(points) -> None:
    found = antithetic_estimates(np.exp, 1 - points)
    # 1 - (1 - u) loses the last bits of a small u
    np.testing.assert_allclose(found, antithetic_estimates(np.exp, points), rtol=1e-15)


def test_a_constant_is_estimated_exactly_from_one_point() -> None:
    assert antithetic_estimates(np.ones_like, np.array([[0.3]])).tolist() == [1.0]


@pytest.mark.parametrize("estimator", [plain_estimates, antithetic_estimates])
@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        (np.zeros(3), r"must be 2-D \(estimates, points\)"),
        (np.zeros((2, 0)), "points >= 1"),
        (np.array([[1.5]]), "between 0 and 1"),
        (np.array([[np.nan]]), "between 0 and 1"),
    ],
)
def test_points_that_make_no_sense_are_refused(estimator, points, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        estimator(np.exp, points)
