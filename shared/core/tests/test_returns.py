"""GAE and discounted returns against the sums they are defined by."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.rl.functional import discounted_returns, gae

DOUBLE = torch.float64


def episodes(seed, rows=4, tokens=7):
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, rows, tokens, generator=generator, dtype=DOUBLE)
    mask = torch.rand(rows, tokens, generator=generator) > 0.4
    mask[0] = False
    return rewards, values, mask


def reference_gae(rewards, values, mask, gamma, lam):
    """Double sum of Eq. 16 over each row's trained tokens."""
    advantages = torch.zeros_like(rewards)
    for row in range(len(rewards)):
        kept = [t for t in range(rewards.shape[1]) if mask[row, t]]
        r, v = rewards[row, kept].tolist(), [*values[row, kept].tolist(), 0.0]
        deltas = [r[i] + gamma * v[i + 1] - v[i] for i in range(len(kept))]
        for i, t in enumerate(kept):
            advantages[row, t] = sum((gamma * lam) ** k * d for k, d in enumerate(deltas[i:]))
    return advantages


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([0.0, 0.8, 1.0]))
def test_gae_equals_the_double_sum_over_trained_tokens(seed, gamma, lam):
    rewards, values, mask = episodes(seed)
    advantages, returns = gae(rewards, values, mask, gamma=gamma, lam=lam)
    assert_close(advantages, reference_gae(rewards, values, mask, gamma, lam))
    assert_close(returns, advantages + values * mask)


def test_gae_of_two_steps_by_hand():
    rewards, values = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 0.25]])
    advantages, returns = gae(rewards, values, torch.ones(1, 2), gamma=0.5, lam=0.5)
    # delta_1 = 2 - .25 = 1.75; delta_0 = 1 + .5*.25 - .5 = .625; A_0 = .625 + .25*1.75
    assert advantages.tolist() == [[1.0625, 1.75]]
    assert returns.tolist() == [[1.5625, 2.0]]


def test_with_lambda_one_the_returns_do_not_depend_on_the_values():
    rewards, values, mask = episodes(1)
    with_critic = gae(rewards, values, mask, gamma=0.9, lam=1.0)[1]
    without = gae(rewards, torch.zeros_like(values), mask, gamma=0.9, lam=1.0)[1]
    assert_close(with_critic, without)


def test_time_does_not_pass_over_masked_tokens():
    rewards = torch.tensor([[0.0, torch.nan, torch.inf, 1.0, 5.0]])
    mask = torch.tensor([[1, 0, 0, 1, 0]])
    advantages, returns = gae(rewards, torch.zeros(1, 5), mask, gamma=0.5)
    assert advantages.tolist() == returns.tolist() == [[0.5, 0.0, 0.0, 1.0, 0.0]]


def test_no_gradient_flows_through_gae():
    rewards = torch.ones(1, 2, requires_grad=True)
    assert not any(x.requires_grad for x in gae(rewards, rewards, torch.ones(1, 2)))


def test_gae_of_nothing_is_zero():
    assert not gae(torch.ones(2, 3), torch.ones(2, 3), torch.zeros(2, 3))[0].any()
    assert gae(torch.ones(2, 0), torch.ones(2, 0), torch.ones(2, 0))[0].shape == (2, 0)


def test_gae_of_half_precision_is_summed_in_float32():
    ones = torch.ones(1, 400, dtype=torch.bfloat16)
    assert gae(ones, torch.zeros_like(ones), ones)[0][0, 0] == 400  # bfloat16 stops at 256


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((2, 4), {}, "one shape"),
        ((2, 3), {"gamma": 1.1}, "gamma"),
        ((2, 3), {"lam": -0.1}, "lam"),
    ],
)
def test_gae_refuses_other_shapes_and_factors(shape, options, message):
    with pytest.raises(ValueError, match=message):
        gae(torch.ones(2, 3), torch.ones(shape), torch.ones(2, 3), **options)


@st.composite
def shuffled_chains(draw):
    """Rewards of episodes of 1-9 steps whose steps lie in random order."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    place = draw(st.permutations(range(sum(lengths))))
    following, start = [-1] * sum(lengths), 0
    for length in lengths:
        for i in range(start, start + length - 1):
            following[place[i]] = place[i + 1]
        start += length
    numbers = st.floats(-5, 5)
    rewards = draw(st.lists(numbers, min_size=sum(lengths), max_size=sum(lengths)))
    return torch.tensor(rewards, dtype=DOUBLE), torch.tensor(following)


@settings(max_examples=50, deadline=None)
@given(shuffled_chains(), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_discounted_returns_equal_walking_along_each_episode(chains, gamma):
    rewards, following = chains
    expected = []
    for i in range(len(rewards)):
        total, factor, step = 0.0, 1.0, i
        while step >= 0:
            total += factor * rewards[step].item()
            factor, step = factor * gamma, int(following[step])
        expected.append(total)
    assert_close(
        discounted_returns(rewards, following, gamma=gamma), torch.tensor(expected).double()
    )


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 9, 1000])
def test_an_undiscounted_episode_counts_down(steps):
    following = torch.tensor([*range(1, steps), -1])
    returns = discounted_returns(torch.ones(steps), following, gamma=1.0)
    assert returns.tolist() == list(range(steps, 0, -1))


def test_returns_of_one_padded_episode_are_those_of_gae_without_a_critic():
    rewards = torch.tensor([1.0, -2.0, 0.5, 4.0], dtype=DOUBLE)
    chained = discounted_returns(rewards, torch.tensor([1, 2, 3, -1]), gamma=0.9)
    row = rewards[None]
    assert_close(gae(row, torch.zeros_like(row), torch.ones(1, 4), gamma=0.9)[1][0], chained)


def test_no_steps_have_no_returns():
    assert discounted_returns(torch.zeros(0), torch.zeros(0).long(), gamma=0.9).shape == (0,)


@pytest.mark.parametrize(
    ("following", "gamma", "message"),
    [
        ([1, 0, -1], 0.9, "cycle"),
        ([0, -1, -1], 0.9, "cycle"),
        ([3, -1, -1], 0.9, r"-1\.\.2"),
        ([-2, -1, -1], 0.9, r"-1\.\.2"),
        ([-1, -1], 0.9, "one length"),
        ([-1, -1, -1], 1.5, "gamma"),
    ],
)
def test_chains_that_do_not_end_and_wrong_indices_are_refused(following, gamma, message):
    with pytest.raises(ValueError, match=message):
        discounted_returns(torch.ones(3), torch.tensor(following), gamma=gamma)
