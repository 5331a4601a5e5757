"""Group statistics and advantages against loops over the groups in plain Python."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.rl import functional as F

DOUBLE = torch.float64
few = settings(max_examples=50, deadline=None)  # no clock: machines may be busy
NAN = math.nan


def double(values):
    return torch.tensor(values, dtype=DOUBLE)


@st.composite
def grouped_rewards(draw):
    """1-24 rewards, some missing, in groups with arbitrary ids in arbitrary order."""
    n = draw(st.integers(1, 24))
    reward = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 1.0, NAN]))
    ids = st.sampled_from([-9, 0, 3, 4, 2**40])
    rewards = draw(st.lists(reward, min_size=n, max_size=n))
    groups = draw(st.lists(ids, min_size=n, max_size=n))
    return double(rewards), torch.tensor(groups)


def members(rewards, groups, i):
    """Present values of i's group."""
    pairs = zip(rewards.tolist(), groups.tolist(), strict=True)
    return [r for r, g in pairs if g == groups[i].item() and not math.isnan(r)]


def deviation_of(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def reference_advantage(rewards, groups, *, scale, leave_one_out, eps, singleton):
    present = [r for r in rewards.tolist() if not math.isnan(r)]
    advantages = []
    for i, reward in enumerate(rewards.tolist()):
        group = members(rewards, groups, i)
        if math.isnan(reward):
            advantages.append(0.0)
            continue
        mean, std = statistics.fmean(group), deviation_of(group)
        if leave_one_out and len(group) > 1:
            mean = (math.fsum(group) - reward) / (len(group) - 1)
        if len(group) == 1 and singleton == "raw":
            mean, std = 0.0, 1.0
        divisor = {"group": std + eps, "batch": deviation_of(present) + eps, "none": 1.0}[scale]
        advantages.append((reward - mean) / divisor)
    return double(advantages)


@few
@given(grouped_rewards())
def test_statistics_equal_a_loop_over_the_groups(batch):
    rewards, groups = batch
    stats = F.group_stats(rewards, groups)
    for i in range(len(rewards)):
        group = members(rewards, groups, i)
        assert stats.count[i].item() == len(group)
        # the oracle works in exact fractions; ours in float64 on values up to 10
        assert_close(stats.std[i].item(), deviation_of(group), atol=1e-13, rtol=1e-7)
        mean = statistics.fmean(group) if group else NAN
        assert_close(stats.mean[i].item(), mean, equal_nan=True)
        assert_close((rewards - stats.mean)[i], stats.deviation[i], equal_nan=True)


@few
@given(
    grouped_rewards(),
    st.sampled_from(["group", "batch", "none"]),
    st.booleans(),
    st.sampled_from(["zero", "raw"]),
)
def test_advantage_equals_a_loop_over_the_samples(batch, scale, leave_one_out, singleton):
    options = {"scale": scale, "leave_one_out": leave_one_out, "singleton": singleton}
    expected = reference_advantage(*batch, **options, eps=1e-4)
    # statistics' exact fractions against float64 sums, divided by eps = 1e-4
    assert_close(F.group_advantage(*batch, **options), expected, atol=1e-10, rtol=1e-7)


@few
@given(grouped_rewards(), st.randoms(use_true_random=False))
def test_order_of_samples_and_names_of_groups_do_not_matter(batch, random):
    rewards, groups = batch
    order = list(range(len(rewards)))
    random.shuffle(order)
    renamed = 5 - 3 * (groups % 1000)
    moved = F.group_advantage(rewards[order], renamed[order])
    assert_close(moved, F.group_advantage(rewards, groups)[order])


def test_two_rewards_of_a_pair_become_plus_and_minus_their_half_distance_over_std():
    # mean 1/2, std 1/sqrt(2): (1 - 1/2) / (0.7071068 + 1e-4) = 0.7070068
    advantages = F.group_advantage(double([0.0, 1.0]), torch.tensor([4, 4]))
    assert_close(advantages, double([-0.5, 0.5]) / (math.sqrt(0.5) + 1e-4))


def test_leave_one_out_subtracts_the_mean_of_the_others():
    rewards, groups = double([1.0, 2.0, 6.0]), torch.zeros(3, dtype=torch.long)
    advantages = F.group_advantage(rewards, groups, scale="none", leave_one_out=True)
    # 1 - (2+6)/2, 2 - (1+6)/2, 6 - (1+2)/2
    assert_close(advantages, double([-3.0, -1.5, 4.5]))


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e6 + 0.1, -1e-30, 3e38, 16_777_217.0])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_constant_group_has_exactly_zero_deviation(value, size, dtype):
    rewards = torch.full((size,), value, dtype=dtype)
    stats = F.group_stats(rewards, torch.full((size,), 12))
    assert not stats.std.any()
    assert not stats.deviation.any()
    assert torch.equal(stats.mean, rewards.to(stats.mean.dtype))


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_constant_rewards_give_exactly_zero_advantage(scale, eps):
    groups = F.group_ids_from_size(6, 3)
    advantages = F.group_advantage(torch.full((6,), 0.1), groups, scale=scale, eps=eps)
    assert not advantages.any()


def test_a_large_offset_in_float32_leaves_the_statistics_exact():
    rewards = torch.tensor([0.0, 1.0, 0.0, 0.5]) + 1e6  # exact: float32 steps by 1/16 there
    groups = torch.zeros(4, dtype=torch.long)
    shifted, plain = F.group_stats(rewards, groups), F.group_stats(rewards - 1e6, groups)
    assert torch.equal(shifted.std, plain.std)
    assert torch.equal(shifted.deviation, plain.deviation)


def test_each_reward_column_has_its_own_statistics_and_missing_values():
    rewards = double([[1.0, NAN], [3.0, 5.0], [NAN, 7.0]])
    stats = F.group_stats(rewards, torch.tensor([2, 2, 2]))
    assert stats.count.tolist() == [[2, 2]] * 3
    assert_close(stats.mean, double([[2.0, 6.0]] * 3))
    assert_close(stats.std, double([[math.sqrt(2), math.sqrt(2)]] * 3))
    assert_close(stats.deviation, double([[-1, NAN], [1, -1], [NAN, 1]]), equal_nan=True)


def test_a_group_without_any_value_has_mean_nan_and_advantage_zero():
    rewards, groups = double([NAN, NAN, 1.0]), torch.tensor([0, 0, 1])
    stats = F.group_stats(rewards, groups)
    assert stats.count.tolist() == [0, 0, 1]
    assert stats.mean.isnan().tolist() == [True, True, False]
    assert stats.std.tolist() == [0.0, 0.0, 0.0]
    assert F.group_advantage(rewards, groups).tolist() == [0.0, 0.0, 0.0]


def test_no_samples_give_no_statistics():
    empty = torch.zeros(0, dtype=torch.long)
    assert F.group_stats(torch.zeros(0, 2), empty).mean.shape == (0, 2)
    assert F.group_advantage(torch.zeros(0), empty, scale="batch").shape == (0,)
    assert F.informative_groups(torch.zeros(0, 2), empty).shape == (0,)


def test_a_sample_alone_gets_zero_or_its_reward_over_one_plus_eps():
    rewards, groups = double([3.0]), torch.tensor([8])
    assert F.group_advantage(rewards, groups).item() == 0
    raw = F.group_advantage(rewards, groups, singleton="raw", eps=0.5)
    assert_close(raw, double([2.0]))  # 3 / (1 + 0.5)


def test_gradients_of_the_statistics_are_right_and_finite_for_constant_groups():
    groups = torch.tensor([0, 1, 0, 1, 1, 2])
    x = double([1.0, 4.0, 2.5, -1.0, 0.5, 3.0]).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: F.group_stats(x, groups)[:2], (x,))
    constant = torch.full((6,), 0.1, requires_grad=True)
    F.group_stats(constant, groups).std.sum().backward()
    assert constant.grad is not None
    assert not constant.grad.any()


def test_half_precision_rewards_are_normalised_in_float32():
    rewards = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.bfloat16)
    groups = F.group_ids_from_size(4, 4)
    advantages = F.group_advantage(rewards, groups)
    assert advantages.dtype == torch.float32
    assert torch.equal(advantages, F.group_advantage(rewards.float(), groups))


def test_integer_rewards_are_normalised_in_float32():
    advantages = F.group_advantage(torch.tensor([0, 2]), torch.tensor([0, 0]), scale="none")
    assert advantages.tolist() == [-1.0, 1.0]


def test_informative_groups_looks_at_every_reward_and_not_at_their_sum():
    rewards = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [2.0, 2.0]])
    groups = torch.tensor([5, 5, 1, 1])
    assert F.informative_groups(rewards, groups).tolist() == [True, True, False, False]
    assert F.informative_groups(rewards.sum(1), groups).tolist() == [False] * 4


def test_a_missing_reward_is_no_difference():
    rewards = torch.tensor([[1.0], [NAN], [NAN], [NAN], [0.0], [1.0]])
    groups = torch.tensor([0, 0, 1, 1, 2, 2])
    assert F.informative_groups(rewards, groups).tolist() == [False] * 4 + [True] * 2


def test_a_difference_too_small_to_square_is_still_informative():
    rewards = torch.tensor([0.0, 1e-30])
    assert F.informative_groups(rewards, torch.tensor([0, 0])).all()


@few
@given(grouped_rewards())
def test_a_group_is_informative_where_its_advantages_are_not_all_zero(batch):
    rewards, groups = batch
    informative = F.informative_groups(rewards, groups)
    for i in range(len(rewards)):
        assert informative[i].item() == (len(set(members(rewards, groups, i))) > 1)


def test_group_ids_count_up_in_runs():
    assert F.group_ids_from_size(6, 3).tolist() == [0, 0, 0, 1, 1, 1]
    assert F.group_ids_from_size(0, 3).tolist() == []


@pytest.mark.parametrize(("n", "size"), [(5, 2), (4, 0), (-2, 2)])
def test_samples_that_do_not_fill_their_groups_are_refused(n, size):
    with pytest.raises(ValueError, match=f"cut {n} samples into groups of {size}"):
        F.group_ids_from_size(n, size)


@pytest.mark.parametrize(
    ("rewards", "groups", "message"),
    [
        (torch.zeros(2, 1, 1), torch.zeros(2).long(), "samples, rewards"),
        (torch.zeros(2), torch.zeros(3).long(), "one id a sample"),
        (torch.zeros(2), torch.zeros(2), "integers"),
    ],
)
def test_wrong_shapes_and_ids_are_refused(rewards, groups, message):
    for function in (F.group_stats, F.informative_groups):
        with pytest.raises(ValueError, match=message):
            function(rewards, groups)


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        ([0.0, 1.0], {"scale": "std"}, "scale"),
        ([0.0, 1.0], {"singleton": "one"}, "singleton"),
        ([0.0, 1.0], {"eps": -1e-4}, "eps"),
        ([0.0, math.inf], {}, "finite"),
        ([[0.0], [1.0]], {}, "1-D"),
    ],
)
def test_unknown_choices_and_infinite_rewards_are_refused(rewards, options, message):
    with pytest.raises(ValueError, match=message):
        F.group_advantage(torch.tensor(rewards), torch.tensor([0, 0]), **options)


@pytest.mark.parametrize("size", [1, 3, 12])
def test_a_group_size_means_the_same_as_the_ids_of_runs(size):
    rewards = torch.randn(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rewards[3, 1] = torch.nan
    by_ids = F.group_stats(rewards, torch.arange(12) // size)
    for one, other in zip(F.group_stats(rewards, size), by_ids, strict=True):
        assert_close(one, other, equal_nan=True)
    assert torch.equal(
        F.informative_groups(rewards, size), F.informative_groups(rewards, torch.arange(12) // size)
    )


@pytest.mark.parametrize("size", [0, -1, 5])
def test_a_group_size_that_does_not_divide_the_samples_is_refused(size):
    with pytest.raises(ValueError, match="cannot cut 12 samples into groups of"):
        F.group_stats(torch.zeros(12), size)
