"""What must hold for GDPO's advantages whatever the rewards are."""

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.gdpo import gdpo_advantages

SIZES = st.tuples(st.integers(1, 4), st.integers(2, 6), st.integers(1, 4))


@st.composite
def batches(draw):
    """(rewards, group ids): a few levels a reward, so that ties and constant groups occur."""
    groups, size, count = draw(SIZES)
    cells = st.lists(
        st.integers(-4, 4), min_size=groups * size * count, max_size=groups * size * count
    )
    rewards = torch.tensor(draw(cells), dtype=torch.float64).reshape(groups * size, count) / 4
    return rewards, torch.arange(groups).repeat_interleave(size)


@settings(deadline=None, max_examples=60)
@given(batches(), st.integers(1, 50), st.integers(-20, 20), st.data())
def test_positive_affine_change_of_one_reward_changes_nothing(batch, scale, shift, data):
    rewards, groups = batch
    k = data.draw(st.integers(0, rewards.shape[1] - 1))
    changed = rewards.clone()
    changed[:, k] = changed[:, k] * scale + shift
    before = gdpo_advantages(rewards, groups, eps=0.0, batch_norm="none")
    assert_close(gdpo_advantages(changed, groups, eps=0.0, batch_norm="none"), before)


@settings(deadline=None, max_examples=60)
@given(batches(), st.randoms(use_true_random=False))
def test_permuted_rows_give_permuted_advantages(batch, random):
    rewards, groups = batch
    order = torch.tensor(random.sample(range(len(rewards)), len(rewards)))
    moved = gdpo_advantages(rewards[order], groups[order], batch_norm="none")
    assert_close(moved, gdpo_advantages(rewards, groups, batch_norm="none")[order])


@settings(deadline=None, max_examples=60)
@given(batches(), st.randoms(use_true_random=False))
def test_permuted_rewards_with_their_weights_change_nothing(batch, random):
    rewards, groups = batch
    count = rewards.shape[1]
    order = torch.tensor(random.sample(range(count), count))
    weights = torch.arange(1.0, count + 1, dtype=torch.float64)
    before = gdpo_advantages(rewards, groups, weights=weights, batch_norm="none")
    moved = gdpo_advantages(rewards[:, order], groups, weights=weights[order], batch_norm="none")
    assert_close(moved, before)


@settings(deadline=None, max_examples=60)
@given(batches(), st.sampled_from([0.0, 1e-4, 0.1]))
def test_batch_has_mean_zero_and_std_s_over_s_plus_eps(batch, eps):
    rewards, groups = batch
    result = gdpo_advantages(rewards, groups, eps=eps, return_parts=True)
    s = result.pre_norm.std()
    # Below, the weighted sums differ by rounding alone (opposite rewards that cancel).
    assume(s > 1e-12)
    assert_close(result.advantages.mean(), torch.zeros_like(s))
    assert_close(result.advantages.std(), s / (s + eps))


@settings(deadline=None, max_examples=60)
@given(batches(), st.floats(-1e3, 1e3))
def test_constant_reward_changes_nothing(batch, value):
    rewards, groups = batch
    constant = torch.full((len(rewards), 1), value, dtype=torch.float64)
    more = torch.cat([constant, rewards], dim=1)
    assert_close(gdpo_advantages(more, groups), gdpo_advantages(rewards, groups))


@settings(deadline=None, max_examples=60)
@given(batches(), st.integers(2, 5))
def test_copies_of_one_reward_are_that_reward(batch, copies):
    rewards, groups = batch
    one = rewards[:, :1]
    many = one.expand(-1, copies)
    before = gdpo_advantages(one, groups, eps=0.0)
    assert_close(gdpo_advantages(many, groups, eps=0.0), before)


@settings(deadline=None, max_examples=60)
@given(batches())
def test_float32_agrees_with_float64_before_the_batch_norm(batch):
    rewards, groups = batch
    exact = gdpo_advantages(rewards, groups, batch_norm="none")
    single = gdpo_advantages(rewards.float(), groups, batch_norm="none")
    # float32 sums of at most four rewards, each of size about 2
    assert_close(single.double(), exact, atol=1e-5, rtol=0.0)


@settings(deadline=None, max_examples=60)
@given(batches())
def test_float32_agrees_with_float64_where_rewards_do_not_cancel(batch):
    rewards, groups = batch
    exact = gdpo_advantages(rewards, groups, return_parts=True)
    # Where they cancel, the batch norm divides what is left, rounding included, by about eps.
    assume(exact.pre_norm.std() > 0.1)
    single = gdpo_advantages(rewards.float(), groups)
    # float32 sums as above, divided by 0.1 or more
    assert_close(single.double(), exact.advantages, atol=1e-5, rtol=0.0)
