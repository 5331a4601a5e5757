"""Masked reductions against plain Python over the entries that count."""

import itertools
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


@st.composite
def masked_batches(draw):
    """Values (rows, columns) in float64 with a mask of the same shape."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    number = st.floats(-1e3, 1e3, allow_nan=False)
    values = draw(st.lists(number, min_size=rows * columns, max_size=rows * columns))
    marks = draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))
    shape = (rows, columns)
    return torch.tensor(values, dtype=DOUBLE).view(shape), torch.tensor(marks).view(shape)


def kept(x, mask):
    return [v for v, m in zip(x.flatten().tolist(), mask.flatten().tolist(), strict=True) if m]


@few
@given(masked_batches())
def test_sum_mean_and_variance_equal_plain_python_over_the_kept_entries(batch):
    x, mask = batch
    values = kept(x, mask)
    assert_close(F.masked_sum(x, mask).item(), math.fsum(values))
    assert_close(F.masked_mean(x, mask).item(), math.fsum(values) / max(len(values), 1))
    unbiased = statistics.variance(values) if len(values) > 1 else 0.0
    biased = statistics.pvariance(values) if values else 0.0
    assert_close(F.masked_var(x, mask).item(), unbiased)
    assert_close(F.masked_var(x, mask, unbiased=False).item(), biased)


@few
@given(masked_batches())
def test_reducing_along_rows_equals_reducing_each_row(batch):
    x, mask = batch
    for reduce in (F.masked_sum, F.masked_mean, F.masked_var):
        by_row = torch.stack([reduce(row, m) for row, m in zip(x, mask, strict=True)])
        assert_close(reduce(x, mask, dim=1), by_row)


def value_and_gradient(reduce, x, mask):
    leaf = x.clone().requires_grad_()
    value = reduce(leaf, mask)
    return value.detach(), *torch.autograd.grad(value.square().sum(), leaf)


@few
@given(masked_batches(), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_what_stands_outside_the_mask_changes_neither_value_nor_gradient(batch, junk):
    x, mask = batch
    for reduce in (F.masked_sum, F.masked_mean, F.masked_var, F.masked_whiten):
        clean = value_and_gradient(reduce, x, mask)
        assert_close(value_and_gradient(reduce, torch.where(mask, x, junk), mask), clean)
        assert not clean[1][~mask].any()


@few
@given(masked_batches())
def test_whitening_follows_verls_formula(batch):
    x, mask = batch
    values = kept(x, mask)
    mean = statistics.fmean(values) if values else 0.0
    var = statistics.variance(values) if len(values) > 1 else 0.0
    white = F.masked_whiten(x, mask)
    for i, j in torch.cartesian_prod(*map(torch.arange, x.shape)).view(-1, 2).tolist():
        centred = (x[i, j].item() - mean) / math.sqrt(var + 1e-8)
        # eps = 1e-8 divides a rounding of 1e3 by 1e-4
        assert_close(white[i, j].item(), centred if mask[i, j] else 0.0, atol=1e-6, rtol=1e-7)


def test_whitening_without_shift_adds_the_mean_again():
    x, mask = torch.tensor([1.0, 3.0, 5.0], dtype=DOUBLE), torch.tensor([1, 1, 1])
    # mean 3, variance 4: (x - 3) / 2 + 3
    assert_close(
        F.masked_whiten(x, mask, shift_mean=False, eps=0.0),
        torch.tensor([2.0, 3.0, 4.0], dtype=DOUBLE),
    )


@pytest.mark.parametrize("value", [0.1, 1e6 + 0.3, -7.7])
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_whitening_constant_float32_values_gives_exactly_zero(value, eps):
    x = torch.full((3, 7), value)
    assert not F.masked_whiten(x, torch.ones(3, 7), eps=eps).any()
    assert F.masked_var(x, torch.ones(3, 7)) == 0


def test_whitened_values_have_mean_zero_and_unit_variance():
    x = torch.randn(8, 9, generator=torch.Generator().manual_seed(0), dtype=DOUBLE) * 40 + 5
    mask = torch.rand(8, 9, generator=torch.Generator().manual_seed(1)) > 0.4
    white = F.masked_whiten(x, mask, eps=0.0)
    assert_close(white.sum().item(), 0.0, atol=1e-12, rtol=0.0)
    assert_close(white.square().sum() / (mask.sum() - 1), torch.tensor(1.0, dtype=DOUBLE))


def test_an_empty_mask_gives_zero_and_a_zero_gradient():
    x = torch.full((2, 3), math.nan, requires_grad=True)
    mask = torch.zeros(2, 3)
    total = F.masked_mean(x, mask) + F.masked_var(x, mask) + F.masked_whiten(x, mask).sum()
    total.backward()
    assert total.item() == 0
    assert x.grad is not None
    assert not x.grad.any()


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_tensors_without_entries_reduce_to_zero(shape):
    x = torch.zeros(shape)
    assert F.masked_mean(x, x).item() == F.masked_var(x, x).item() == 0
    assert F.masked_whiten(x, x).shape == shape


def test_half_precision_is_summed_in_float32():
    x = torch.ones(4096, dtype=torch.bfloat16)  # in bfloat16, 256 + 1 = 256
    result = F.masked_sum(x, torch.ones(4096))
    assert result.dtype == torch.float32
    assert result.item() == 4096


def test_keepdim_keeps_the_reduced_dimension():
    x = torch.ones(2, 3)
    assert F.masked_sum(x, x, dim=1, keepdim=True).shape == (2, 1)
    assert F.masked_mean(x, x, keepdim=True).shape == (1, 1)


def test_inputs_are_left_alone():
    x, mask = torch.tensor([[1.0, 2.0]]), torch.tensor([[1, 0]])
    F.masked_whiten(x, mask)
    assert x.tolist() == [[1.0, 2.0]]
    assert mask.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("mask", "message"),
    [(torch.ones(3), "shape"), (torch.tensor([0.5, 1.0]), "only 0 and 1")],
)
def test_a_mask_of_another_shape_or_with_weights_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        F.masked_mean(torch.ones(2), mask)


def test_a_negative_eps_is_refused():
    with pytest.raises(ValueError, match="eps"):
        F.masked_whiten(torch.ones(2), torch.ones(2), eps=-1.0)


def test_broadcasting_gives_each_trained_token_its_samples_value():
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 1, 0]])
    advantages = torch.tensor([2.0, math.nan, -1.0])
    expected = [[2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, -1.0, 0.0]]
    assert F.broadcast_to_tokens(advantages, mask).tolist() == expected


@pytest.mark.parametrize(("advantages", "mask"), [((2,), (3, 4)), ((2, 4), (2, 4)), ((2,), (2,))])
def test_broadcasting_refuses_other_shapes(advantages, mask):
    with pytest.raises(ValueError, match="samples"):
        F.broadcast_to_tokens(torch.zeros(advantages), torch.ones(mask))


def test_segments_are_the_runs_of_trained_tokens():
    mask = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]])
    assert F.segments_from_mask(mask) == [[(0, 2), (3, 4)], [], [(0, 4)], [(1, 2)]]


@few
@given(masked_batches())
def test_segments_rebuild_their_mask_and_never_touch(batch):
    mask = batch[1]
    rebuilt = torch.zeros_like(mask)
    for row, runs in enumerate(F.segments_from_mask(mask)):
        for start, end in runs:
            rebuilt[row, start:end] = True
        assert all(a[1] < b[0] for a, b in itertools.pairwise(runs))
    assert torch.equal(rebuilt, mask)


def test_segments_need_a_two_dimensional_mask():
    with pytest.raises(ValueError, match="2-D"):
        F.segments_from_mask(torch.ones(3))
