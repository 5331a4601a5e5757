"""Diagnoses of batches small enough to check by hand."""

import math

import pytest
import torch
from torch.testing import assert_close

from icml.gdpo import diagnose, distinct_advantages, reward_shares


def f64(rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_distinct_advantages_counts_per_group_in_the_order_of_the_ids():
    advantages = torch.tensor([1.0, 2.0, 1.0, 5.0, 2.0, 1.0])
    groups = torch.tensor([7, -1, 7, -1, -1, 7])
    assert distinct_advantages(advantages, groups).tolist() == [2, 1]


def test_rounding_does_not_make_equal_advantages_distinct():
    # 0.0005 rounds up or down to three digits with the last bit; both are one value here.
    advantages = f64([0.0005 - 1e-12, 0.0005 + 1e-12, 1.0])
    assert distinct_advantages(advantages, 3).tolist() == [2]


@pytest.mark.parametrize("bad", [torch.zeros(2, 2), [1.0], torch.tensor([math.nan])])
def test_distinct_advantages_refuses_other_than_finite_vectors(bad):
    with pytest.raises(ValueError, match="advantages must be"):
        distinct_advantages(bad, 1)


def test_shares_are_fractions_of_the_absolute_contributions():
    parts = f64([[1, -2], [0, 3], [-1, 1]])  # sums of sizes 2 and 6
    assert_close(reward_shares(parts), f64([0.25, 0.75]))


def test_shares_of_nothing_are_zero():
    assert reward_shares(torch.zeros(4, 3)).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="parts must be 2-D"):
        reward_shares(torch.zeros(4))


def test_group_with_equal_sums_is_silent_under_grpo_only():
    # All sums are 3; the first two rows are one reward's best, which GDPO sees.
    report = diagnose(f64([(3, 0, 0), (0, 3, 0), (1, 1, 1), (1, 1, 1)]), 4)
    assert report.silent_grpo == 1.0
    assert report.distinct_grpo == 1.0
    assert report.distinct_gdpo > 1.0


def test_group_without_any_signal_is_not_counted_as_silenced():
    assert diagnose(torch.ones(8, 2), 4).silent_grpo == 0.0


def test_large_range_reward_dominates_grpo_but_not_gdpo():
    # One group; reward b follows a at a tenth of its size.
    rewards = f64([(10, 1), (0, 0), (10, 1), (0, 0)])
    report = diagnose(rewards, 4, names=["a", "b"])
    assert report.share_grpo == pytest.approx((10 / 11, 1 / 11))
    # eps=1e-4 is relatively larger for the smaller standard deviation.
    assert report.share_gdpo == pytest.approx((0.5, 0.5), abs=1e-4)
    assert "under GRPO 'a' makes 90.9% of all |advantage|" in str(report)
    assert "under GDPO" not in str(report)


def test_report_holds_the_plain_statistics_of_each_reward():
    rewards = f64([(1, 4), (0, math.nan), (1, 4), (1, 4.0002)])
    report = diagnose(rewards, 2)
    assert report.rewards == ("0", "1")
    assert (report.completions, report.groups) == (4, 2)
    assert report.mean == pytest.approx((0.75, 12.0002 / 3))
    assert report.std[0] == pytest.approx(0.5)
    assert report.missing == (0.0, 0.25)
    assert report.constant == (0.5, 0.5)
    assert report.low_std == (0.0, 0.5)


def test_opposed_rewards_are_reported():
    report = diagnose(f64([(0, 3), (1, 2), (2, 1), (3, 0)]), 4, names=["long", "brief"])
    assert report.correlation[0] == pytest.approx((1.0, -1.0))
    assert "'long' and 'brief' pull against each other (correlation -1.00)" in str(report)


def test_report_of_one_constant_reward_says_nothing_alarming():
    report = diagnose(torch.ones(4, 1), 2)
    assert (report.share_grpo, report.share_gdpo) == ((0.0,), (0.0,))
    assert report.correlation == ((0.0,),)
    assert len(str(report).splitlines()) == 6


def test_names_must_fit_the_rewards():
    with pytest.raises(ValueError, match="names must have 2 entries, got 1"):
        diagnose(torch.ones(4, 2), 2, names=["a"])


@pytest.mark.parametrize("names", ["ab", 3, [1, 2]])
def test_names_that_are_no_list_of_texts_are_refused(names):
    with pytest.raises(TypeError, match="names must be"):
        diagnose(torch.ones(4, 2), 2, names=names)


def test_arguments_of_wrong_type_are_named():
    with pytest.raises(TypeError, match="tolerance must be a number"):
        distinct_advantages(torch.ones(2), 2, tolerance="x")
    with pytest.raises(TypeError, match=r"parts must be a torch.Tensor, got list"):
        reward_shares([[1.0]])


def test_weights_are_given_by_name_and_change_the_shares():
    rewards = f64([(0, 0), (1, 0), (0, 1), (1, 1)])
    assert diagnose(rewards, 4, weights=[3, 1]).share_gdpo == pytest.approx((0.75, 0.25))
    with pytest.raises(TypeError, match="positional"):
        diagnose(rewards, 4, [3, 1])
