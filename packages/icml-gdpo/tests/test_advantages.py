"""Advantages against numbers worked out by hand and a slow loop over groups."""

import math
from math import sqrt

import pytest
import torch
from torch.testing import assert_close

from icml.core.rl.functional import group_advantage
from icml.gdpo import GDPOResult, gdpo_advantages, grpo_advantages
from icml.gdpo.advantages import grpo_parts

NAN = math.nan
EPS = 1e-4

# Two groups of four: all four combinations of two binary rewards, and one lone success.
GROUPS = [(1, 0), (0, 1), (1, 1), (0, 0), (0, 0), (0, 0), (0, 1), (0, 0)]
# Two of four ones: deviations +-1/2, unbiased variance 4 * (1/4) / 3.
HALF = 0.5 / (sqrt(1 / 3) + EPS)
# One of four ones: deviations 3/4 and -1/4, unbiased variance (9 + 3) / 16 / 3 = 1/4.
HIT, MISS = 0.75 / (0.5 + EPS), -0.25 / (0.5 + EPS)


def f64(rows):
    return torch.tensor(rows, dtype=torch.float64)


def loop_over_groups(rewards, groups, weights=None, eps=EPS):
    """GDPO from the paper's text: plain Python floats, one group and one reward at a time."""
    rows, ids = rewards.tolist(), groups.tolist()
    count = len(rows[0])
    weights = weights or [1.0] * count
    total = [0.0] * len(rows)
    for group in set(ids):
        members = [i for i, g in enumerate(ids) if g == group]
        for k in range(count):
            present = [i for i in members if not math.isnan(rows[i][k])]
            mean, std = _moments([rows[i][k] for i in present])
            for i in present:
                if std > 0:
                    total[i] += weights[k] * (rows[i][k] - mean) / (std + eps)
    scored = [i for i, row in enumerate(rows) if not all(map(math.isnan, row))]
    mean, std = _moments([total[i] for i in scored])
    out = [0.0] * len(rows)
    for i in scored:
        out[i] = (total[i] - mean) / (std + eps)
    return f64(out)


def _moments(values):
    """Mean and unbiased standard deviation, (0, 0) where they do not exist."""
    if not values:
        return 0.0, 0.0
    mean = math.fsum(values) / len(values)
    if len(values) == 1 or len(set(values)) == 1:
        return mean, 0.0
    return mean, sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def test_summing_first_gives_one_and_two_successes_the_same_advantage():
    one, two = f64([(0, 0), (1, 0)]), f64([(0, 0), (1, 1)])
    # Pair (0, x): deviations +-x/2, unbiased std x / sqrt(2).
    half = 0.5 / (sqrt(0.5) + EPS)
    assert_close(grpo_advantages(one, 2), f64([-half, half]))
    assert_close(grpo_advantages(two, 2), f64([-1, 1]) / (sqrt(2) + EPS))
    assert_close(gdpo_advantages(one, 2, batch_norm="none"), f64([-half, half]))
    assert_close(gdpo_advantages(two, 2, batch_norm="none"), f64([-2 * half, 2 * half]))


def test_opposite_rewards_cancel_in_a_pair():
    rewards = f64([(1, 0), (0, 1)])
    assert_close(grpo_advantages(rewards, 2), f64([0, 0]))
    assert_close(gdpo_advantages(rewards, 2), f64([0, 0]))


def test_steps_of_two_groups_of_four_match_the_arithmetic():
    parts = gdpo_advantages(f64(GROUPS), 4, return_parts=True)
    pre = [0, 0, 2 * HALF, -2 * HALF, MISS, MISS, HIT, MISS]
    # The mean of pre is 0; sum of squares over 8 - 1.
    std = sqrt((2 * (2 * HALF) ** 2 + 3 * MISS**2 + HIT**2) / 7)
    assert isinstance(parts, GDPOResult)
    assert_close(parts.pre_norm, f64(pre))
    assert_close(parts.advantages, f64(pre) / (std + EPS))
    assert_close(parts.per_reward[:4], f64([(1, -1), (-1, 1), (1, 1), (-1, -1)]) * HALF)
    assert_close(parts.group_std[4:], f64([(0, 0.5)] * 4))
    assert not parts.missing.any()


def test_grpo_of_two_groups_of_four_matches_the_arithmetic():
    # Sums 1, 1, 2, 0: mean 1, unbiased variance 2/3.
    one = 1 / (sqrt(2 / 3) + EPS)
    expected = f64([0, 0, one, -one, MISS, MISS, HIT, MISS])
    assert_close(grpo_advantages(f64(GROUPS), 4), expected)


def test_weights_act_on_the_normalized_rewards():
    pre = [HALF, -HALF, 3 * HALF, -3 * HALF, MISS, MISS, HIT, MISS]
    std = sqrt((20 * HALF**2 + 3 * MISS**2 + HIT**2) / 7)
    result = gdpo_advantages(f64(GROUPS), 4, weights=[2, 1])
    assert_close(result, f64(pre) / (std + EPS))


def test_small_range_reward_keeps_its_say_next_to_a_large_one():
    rewards = f64([(3, 0), (3, 1), (-3, 0), (-3, 0)])
    # Column 1: deviations +-3, variance 36/3; column 2: one of four. Sums 3, 4, -3, -3.
    wide = 3 / (sqrt(12) + EPS)
    pre = f64([wide + MISS, wide + HIT, -wide + MISS, -wide + MISS])
    assert_close(gdpo_advantages(rewards, 4, batch_norm="none"), pre)
    assert_close(gdpo_advantages(rewards, 4), pre / (pre.std() + EPS))
    sums = f64([3, 4, -3, -3])
    assert_close(grpo_advantages(rewards, 4), (sums - 0.25) / (sums.std() + EPS))


@pytest.mark.parametrize("eps", [1e-4, 0.0])
@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e6])
def test_equal_rewards_give_exactly_zero(value, eps):
    rewards = torch.full((12, 3), value)
    assert gdpo_advantages(rewards, 3, eps=eps).tolist() == [0.0] * 12
    assert grpo_advantages(rewards[:, :1], 3, eps=eps).tolist() == [0.0] * 12


def test_constant_reward_leaves_the_others_alone():
    rewards = f64(GROUPS)
    with_constant = torch.cat([rewards, torch.full((8, 1), 0.1, dtype=torch.float64)], dim=1)
    assert_close(gdpo_advantages(with_constant, 4), gdpo_advantages(rewards, 4))


def test_missing_reward_is_left_out_of_group_and_sum():
    rewards = f64([(1, 5), (0, NAN), (1, 7), (0, 9)])
    parts = gdpo_advantages(rewards, 4, batch_norm="none", return_parts=True)
    # Column 2 has 5, 7, 9: mean 7, unbiased std 2.
    second = [-2 / (2 + EPS), 0.0, 0.0, 2 / (2 + EPS)]
    assert_close(parts.per_reward[:, 1], f64(second))
    assert_close(parts.per_reward[:, 0], f64([1, -1, 1, -1]) * HALF)
    assert parts.missing.tolist() == [[False] * 2, [False, True], [False] * 2, [False] * 2]


def test_row_without_any_reward_gets_zero_and_is_left_out_of_the_batch():
    rewards = f64([(0,), (1,), (NAN,), (2,), (5,), (8,)])
    # Groups (0, 1, missing) and (2, 5, 8), whose unbiased standard deviation is 3.
    a, b = 0.5 / (sqrt(0.5) + EPS), 3 / (3 + EPS)
    std = sqrt((2 * a**2 + 2 * b**2) / 4)  # five scored rows
    expected = f64([-a, a, 0, -b, 0, b]) / (std + EPS)
    assert_close(gdpo_advantages(rewards, 3), expected)
    assert gdpo_advantages(rewards, 3)[2] == 0


def test_only_missing_rewards_give_zeros():
    assert gdpo_advantages(torch.full((4, 2), NAN), 2).tolist() == [0.0] * 4
    assert grpo_advantages(torch.full((4, 2), NAN), 2).tolist() == [0.0] * 4


def test_one_completion_gives_zero():
    assert gdpo_advantages(torch.tensor([[3.0, 1.0]]), 1).tolist() == [0.0]


def test_lone_success_is_amplified_to_its_closed_form():
    size = 16
    rewards = torch.zeros(size, 1, dtype=torch.float64)
    rewards[5] = 1.0
    z = gdpo_advantages(rewards, size, eps=0.0, batch_norm="none")
    expected = torch.full((size,), -1 / sqrt(size), dtype=torch.float64)
    expected[5] = (size - 1) / sqrt(size)
    assert_close(z, expected)


@pytest.mark.parametrize("seed", range(5))
def test_any_groups_in_any_order_match_a_loop_over_groups(seed):
    rng = torch.Generator().manual_seed(seed)
    rewards = torch.randn(60, 3, generator=rng, dtype=torch.float64)
    rewards[torch.rand(60, 3, generator=rng) < 0.3] = NAN
    groups = torch.randint(-4, 9, (60,), generator=rng)
    weights = [1.0, 0.0, 2.5]
    expected = loop_over_groups(rewards, groups, weights)
    assert_close(gdpo_advantages(rewards, groups, weights=weights), expected)


def test_group_size_means_runs_of_rows():
    rewards = f64(GROUPS)
    ids = torch.tensor([9, 9, 9, 9, 2, 2, 2, 2])
    assert torch.equal(gdpo_advantages(rewards, 4), gdpo_advantages(rewards, ids))
    assert torch.equal(grpo_advantages(rewards, 4), grpo_advantages(rewards, ids))


def test_singleton_is_zero_raw_or_refused():
    rewards, groups = f64([(3,), (0,), (2,)]), torch.tensor([1, 0, 0])
    half = 1 / (sqrt(2) + EPS)

    def run(singleton):
        return gdpo_advantages(rewards, groups, singleton=singleton, batch_norm="none")

    assert_close(run("zero"), f64([0, -half, half]))
    assert_close(run("raw"), f64([3 / (1 + EPS), -half, half]))
    with pytest.raises(ValueError, match=r"singleton='error': row 0 of rewards is alone"):
        run("error")


def test_singleton_means_alone_in_the_group_not_alone_with_a_reward():
    rewards = f64([(4, 1), (NAN, 0)])
    result = gdpo_advantages(rewards, 2, singleton="raw", batch_norm="none", return_parts=True)
    assert result.per_reward[:, 0].tolist() == [0.0, 0.0]


def test_single_reward_can_fall_back_to_grpo():
    rewards = f64([(0,), (1,), (3,), (9,), (2,), (2,)])
    fallback = gdpo_advantages(rewards, 3, single_reward="grpo")
    assert_close(fallback, grpo_advantages(rewards, 3))
    assert not torch.allclose(fallback, gdpo_advantages(rewards, 3))


def test_single_reward_option_does_not_touch_two_rewards():
    rewards = f64(GROUPS)
    both = gdpo_advantages(rewards, 4, single_reward="grpo")
    assert torch.equal(both, gdpo_advantages(rewards, 4))


def test_batch_mean_is_zero_before_the_batch_norm_with_missing_rewards():
    rng = torch.Generator().manual_seed(0)
    rewards = torch.randn(64, 3, generator=rng, dtype=torch.float64)
    rewards[torch.rand(64, 3, generator=rng) < 0.4] = NAN
    pre = gdpo_advantages(rewards, 8, batch_norm="none")
    assert_close(pre.mean(), f64(0.0))


def test_batch_norm_subtracts_a_mean_with_raw_singletons():
    rewards, groups = f64([(3,), (0,), (2,)]), torch.tensor([1, 0, 0])
    result = gdpo_advantages(rewards, groups, singleton="raw")
    assert_close(result.mean(), f64(0.0))


def test_grpo_is_the_shared_group_advantage_of_the_weighted_sum():
    rng = torch.Generator().manual_seed(1)
    rewards = torch.randn(30, 2, generator=rng, dtype=torch.float64)
    groups = torch.randint(0, 6, (30,), generator=rng)
    expected = group_advantage(3 * rewards[:, 0] + rewards[:, 1], groups)
    assert_close(grpo_advantages(rewards, groups, weights=[3, 1]), expected)


def test_parts_of_grpo_sum_to_its_advantages():
    rng = torch.Generator().manual_seed(2)
    rewards = torch.randn(40, 3, generator=rng, dtype=torch.float64)
    rewards[torch.rand(40, 3, generator=rng) < 0.4] = NAN
    rewards[7] = NAN
    parts = grpo_parts(rewards, 5, weights=[1, 2, 0.5])
    assert_close(parts.sum(dim=1), grpo_advantages(rewards, 5, weights=[1, 2, 0.5]))


def test_no_gradient_flows_through_advantages():
    rewards = torch.rand(8, 2, requires_grad=True)
    result = gdpo_advantages(rewards, 4, weights=torch.ones(2, requires_grad=True))
    assert not result.requires_grad
    assert not grpo_advantages(rewards, 4).requires_grad


def test_arguments_are_not_changed():
    rewards = f64(GROUPS)
    rewards[0, 0] = NAN
    before = rewards.clone()
    gdpo_advantages(rewards, 4)
    grpo_advantages(rewards, 4)
    assert_close(rewards, before, equal_nan=True)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool]
)
def test_low_precision_and_integer_rewards_are_computed_in_float32(dtype):
    rewards = torch.tensor(GROUPS, dtype=dtype)
    result = gdpo_advantages(rewards, 4)
    assert result.dtype == torch.float32
    assert_close(result, gdpo_advantages(f64(GROUPS), 4).float())


def test_float64_stays_float64():
    assert gdpo_advantages(f64(GROUPS), 4).dtype == torch.float64


@pytest.mark.gpu
def test_result_is_on_the_rewards_device():
    rewards = torch.tensor(GROUPS, dtype=torch.float32, device="cuda")
    result = gdpo_advantages(rewards, torch.tensor([0] * 4 + [1] * 4), weights=[2, 1])
    assert result.device == rewards.device
    assert_close(result.cpu(), gdpo_advantages(rewards.cpu(), 4, weights=[2, 1]))
