"""Equality with TRL 1.16 (its formula, and what it logged) and with verl (its formula)."""

import math

import pytest
import torch
from torch.testing import assert_close

from icml.core.rl.functional import masked_whiten
from icml.gdpo import gdpo_advantages, grpo_advantages
from icml.gdpo.audit.logs import trl_logged_batches


def rewards_with_gaps(seed, rows=48, count=3, missing=1 / 3):
    rng = torch.Generator().manual_seed(seed)
    rewards = torch.randn(rows, count, generator=rng, dtype=torch.float64)
    rewards[torch.rand(rows, count, generator=rng) < missing] = math.nan
    rewards[5] = math.nan
    return rewards


def nanstd(x, dim=None):
    """Unbiased standard deviation of what is there, NaN for fewer than two values."""
    mean = x.nanmean(dim=dim, keepdim=True)
    count = (~x.isnan()).sum(dim=dim, keepdim=True)
    return ((x - mean).square().nansum(dim=dim, keepdim=True) / (count - 1)).sqrt()


def trl_normalize_then_sum(rewards, size, weights):
    """TRL 1.16's formula, on a (groups, size, rewards) view."""
    grouped = rewards.view(-1, size, rewards.shape[1])
    z = (grouped - grouped.nanmean(dim=1, keepdim=True)) / (nanstd(grouped, 1) + 1e-4)
    total = (z.view_as(rewards) * weights).nansum(dim=1)
    total[rewards.isnan().all(dim=1)] = math.nan
    return ((total - total.nanmean()) / (nanstd(total, 0) + 1e-4)).nan_to_num(nan=0.0)


def trl_sum_then_normalize(rewards, size, weights):
    total = (rewards * weights).nansum(dim=1)
    total[rewards.isnan().all(dim=1)] = math.nan
    grouped = total.view(-1, size)
    centered = grouped - grouped.nanmean(dim=1, keepdim=True)
    return (centered / (nanstd(grouped, 1) + 1e-4)).nan_to_num(nan=0.0).view(-1)


def verl_gdpo(rewards, groups, weights, mask):
    """verl's formula: per-token scores, a loop over groups, eps 1e-6, token-weighted whitening."""
    total = torch.zeros_like(mask, dtype=torch.float64)
    for k in range(rewards.shape[1]):
        scores = rewards[:, k].clone()
        for group in set(groups.tolist()):
            rows = [i for i, g in enumerate(groups.tolist()) if g == group]
            alone = len(rows) == 1
            mean = torch.zeros(()) if alone else rewards[rows, k].mean()
            std = torch.ones(()) if alone else rewards[rows, k].std()
            for i in rows:
                scores[i] = (rewards[i, k] - mean) / (std + 1e-6)
        total += weights[k] * scores[:, None] * mask
    return masked_whiten(total, mask, eps=1e-8)


@pytest.mark.parametrize("missing", [0.0, 1 / 3])
@pytest.mark.parametrize("seed", range(3))
def test_gdpo_equals_trls_normalize_then_sum(seed, missing):
    rewards = rewards_with_gaps(seed, missing=missing)
    weights = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    expected = trl_normalize_then_sum(rewards, 8, weights)
    assert_close(gdpo_advantages(rewards, 8, weights=weights), expected)


@pytest.mark.parametrize("missing", [0.0, 1 / 3])
@pytest.mark.parametrize("seed", range(3))
def test_grpo_equals_trls_sum_then_normalize(seed, missing):
    rewards = rewards_with_gaps(seed, missing=missing)
    weights = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    expected = trl_sum_then_normalize(rewards, 8, weights)
    assert_close(grpo_advantages(rewards, 8, weights=weights), expected)


@pytest.mark.parametrize("batch", trl_logged_batches(), ids=lambda batch: batch.source)
def test_gdpo_equals_what_trl_logged_in_a_real_run(batch):
    logged = torch.tensor(batch.advantages, dtype=torch.float64)
    ours = gdpo_advantages(torch.tensor(batch.rewards, dtype=torch.float64), 8)
    # TRL computed in float32 with eps=1e-4.
    assert_close(ours, logged, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_token_norm_equals_verls_formula(seed):
    rng = torch.Generator().manual_seed(seed)
    rewards = torch.randn(20, 2, generator=rng, dtype=torch.float64)
    groups = torch.randint(0, 6, (20,), generator=rng)
    groups[3] = 17  # alone: verl takes its reward as it is
    lengths = torch.randint(1, 12, (20,), generator=rng)
    mask = (torch.arange(12) < lengths[:, None]).long()
    expected = verl_gdpo(rewards, groups, [1.0, 2.0], mask)
    ours = gdpo_advantages(
        rewards, groups, weights=[1.0, 2.0], eps=1e-6, batch_norm="token",
        token_counts=lengths, singleton="raw",
    )  # fmt: skip
    assert_close(ours[:, None] * mask, expected)


def test_token_norm_gives_a_completion_without_tokens_zero():
    rewards = torch.tensor([[0.0], [1.0], [4.0], [2.0]])
    counts = torch.tensor([3, 0, 2, 5])
    assert gdpo_advantages(rewards, 4, batch_norm="token", token_counts=counts)[1] == 0


def test_token_norm_with_at_most_one_token_gives_zeros():
    rewards = torch.tensor([[0.0], [1.0]])
    for counts in ([0, 0], [1, 0]):
        result = gdpo_advantages(rewards, 2, batch_norm="token", token_counts=torch.tensor(counts))
        assert result.tolist() == [0.0, 0.0]


def test_equal_lengths_make_token_norm_a_rescaled_rollout_norm():
    rewards = rewards_with_gaps(0, missing=0.0)[:5]
    groups = torch.tensor([0, 0, 1, 1, 1])
    token = gdpo_advantages(
        rewards, groups, batch_norm="token", token_counts=torch.full((5,), 7), whiten_eps=0.0
    )
    rollout = gdpo_advantages(rewards, groups)
    # Same direction: the variances differ by (35 - 7) / 7 against 34, and eps.
    assert_close(token / token.norm(), rollout / rollout.norm())
