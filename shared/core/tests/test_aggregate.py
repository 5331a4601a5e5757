"""Every way from token losses to one number, against plain loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.rl.functional import aggregate_loss

MODES = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_sum_const")


def reference(losses, mask, mode, const):
    rows = [
        [x for x, kept in zip(row, marks, strict=True) if kept]
        for row, marks in zip(losses.tolist(), mask.tolist(), strict=True)
    ]
    total, tokens = sum(map(sum, rows)), sum(map(len, rows))
    return {
        "token_mean": total / max(tokens, 1),
        "seq_mean_token_mean": sum(sum(row) / max(len(row), 1) for row in rows) / len(rows),
        "seq_mean_token_sum": total / len(rows),
        "seq_sum_const": total / (len(rows) * (const or 1)),
    }[mode]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 999), st.sampled_from(MODES))
def test_value_equals_a_loop_over_rows(rows, tokens, seed, mode):
    generator = torch.Generator().manual_seed(seed)
    losses = torch.randn(rows, tokens, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, tokens, generator=generator) > 0.5
    const = 7.0 if mode == "seq_sum_const" else None
    value = aggregate_loss(losses, mask, mode, const=const).item()
    assert_close(value, reference(losses, mask, mode, const))


def test_rows_of_unequal_length_weigh_as_the_mode_says():
    losses = torch.tensor([[1.0, 2.0, 3.0], [6.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert aggregate_loss(losses, mask, "token_mean") == 3.0  # (1+2+3+6) / 4
    assert aggregate_loss(losses, mask, "seq_mean_token_mean") == 4.0  # (2 + 6) / 2
    assert aggregate_loss(losses, mask, "seq_mean_token_sum") == 6.0  # (6 + 6) / 2
    assert aggregate_loss(losses, mask, "seq_sum_const", const=3.0) == 2.0  # 12 / (2 * 3)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_trained_gives_zero_with_a_zero_gradient(mode):
    losses = torch.full((2, 3), torch.nan, requires_grad=True)
    const = 1.0 if mode == "seq_sum_const" else None
    loss = aggregate_loss(losses, torch.zeros(2, 3), mode, const=const)
    loss.backward()
    assert loss.item() == 0
    assert losses.grad is not None
    assert not losses.grad.any()


def test_no_rows_give_zero():
    assert aggregate_loss(torch.zeros(0, 3), torch.zeros(0, 3), "seq_mean_token_mean") == 0


@pytest.mark.parametrize(
    ("mode", "const", "message"),
    [
        ("mean", None, "aggregate must be one of"),
        ("seq_sum_const", None, "const > 0"),
        ("seq_sum_const", 0.0, "const > 0"),
        ("seq_sum_const", float("nan"), "const > 0"),
        ("token_mean", 8.0, r"const=8.0 .* aggregate='token_mean'"),
    ],
)
def test_const_belongs_to_its_mode_alone(mode, const, message):
    with pytest.raises(ValueError, match=message):
        aggregate_loss(torch.ones(1, 1), torch.ones(1, 1), mode, const=const)


def test_losses_of_another_rank_are_refused():
    with pytest.raises(ValueError, match="2-D"):
        aggregate_loss(torch.ones(3), torch.ones(3), "token_mean")
