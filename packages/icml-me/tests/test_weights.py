import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.me.weights import draw_members, normalise

weight_lists = st.lists(st.floats(0, 100), min_size=1, max_size=5).filter(
    lambda weights: sum(weights) > 1e-6
)


@given(weight_lists)
def test_weights_are_scaled_to_the_sum_1_and_keep_their_ratios(weights):
    found = normalise(weights, len(weights)).tolist()
    assert sum(found) == pytest.approx(1)
    assert found == pytest.approx([weight / sum(weights) for weight in weights])


def test_members_without_weights_count_equally():
    assert normalise(None, 4).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    "weights", [[1.0, -1.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]]
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(UserError, match="weights must be finite, >= 0 and not all 0, got"):
        normalise(weights, 2)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [[1.0, 1.0]]])
def test_weights_of_a_wrong_length_are_refused(weights):
    with pytest.raises(UserError, match="weights must be one a member, 2, got"):
        normalise(weights, 2)


@given(weight_lists)
def test_evenly_spaced_uniforms_draw_each_member_as_often_as_it_weighs(weights):
    points = 1000
    law = normalise(weights, len(weights))
    uniforms = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    drawn = draw_members(law.expand(points, -1), uniforms)
    counts = torch.bincount(drawn, minlength=len(weights))
    # An interval of length w holds w * points midpoints, give or take one.
    assert (counts - law * points).abs().max() <= 1
    assert (counts[law == 0] == 0).all()


@given(weight_lists, st.sampled_from([0.0, 1 - 2**-53]))
def test_a_member_of_weight_0_is_not_drawn_at_the_ends_either(weights, uniform):
    law = normalise(weights, len(weights))
    drawn = draw_members(law[None], torch.tensor([uniform], dtype=torch.float64))
    assert law[drawn[0]] > 0


def test_rows_share_a_draw_but_use_their_own_weights():
    weights = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    assert draw_members(weights, torch.tensor([0.5], dtype=torch.float64)).tolist() == [0, 1]
