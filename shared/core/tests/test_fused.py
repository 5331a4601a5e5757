"""Scores from hidden states against log_softmax of all logits in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from icml.core.cuda.fused import score_tokens

DOUBLE = torch.float64


def make(rows, width, vocabulary, *, seed=0, scale=1.0, dtype=DOUBLE):
    """Hidden states, weight, bias and ids."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, width), (vocabulary, width), (vocabulary,))
    tensors = [scale * torch.randn(s, generator=generator, dtype=DOUBLE) for s in shapes]
    return *(t.to(dtype) for t in tensors), torch.randint(vocabulary, (rows,), generator=generator)


def naive(hidden, weight, ids, *, bias=None, temperature=1.0, softcap=None):
    """All logits at once, then the definitions."""
    logits = hidden @ weight.T
    if bias is not None:
        logits = logits + bias
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    logs = torch.log_softmax(logits / temperature, -1)
    chosen = logs.gather(-1, ids[..., None])[..., 0]
    return chosen, -torch.where(logs == -torch.inf, 0.0, logs.exp() * logs).sum(-1)


@settings(deadline=None, max_examples=50)
@given(
    rows=st.integers(0, 9),
    width=st.integers(1, 5),
    vocabulary=st.integers(1, 13),
    rows_at_once=st.integers(1, 10),
    vocabulary_at_once=st.integers(1, 14),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    softcap=st.sampled_from([None, 0.5, 3.0]),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_tiling_gives_the_value_and_the_gradients_of_all_logits_at_once(
    rows, width, vocabulary, rows_at_once, vocabulary_at_once, temperature, softcap, with_bias, seed
):
    *tensors, ids = make(rows, width, vocabulary, seed=seed)
    tensors = [tensor.requires_grad_() for tensor in tensors][: 2 + with_bias]
    options = {"temperature": temperature, "softcap": softcap}
    tiles = {"rows_at_once": rows_at_once, "vocabulary_at_once": vocabulary_at_once}
    pulls = make(rows, 2, 1, seed=seed + 1)[0].T
    results = []
    for call, more in ((score_tokens, tiles), (naive, {})):
        bias = tensors[2] if with_bias else None
        scores = call(*tensors[:2], ids, bias=bias, **options, **more)
        total = sum((score * pull).sum() for score, pull in zip(scores, pulls, strict=True))
        results.append([*scores, *torch.autograd.grad(total, tensors)])
    assert_close(results[0], results[1])


@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (0, 1, 2)])
def test_gradients_equal_finite_differences(needed):
    *tensors, ids = make(4, 3, 7)
    for place in needed:
        tensors[place].requires_grad_()

    def scores(hidden, weight, bias):
        return score_tokens(
            hidden, weight, ids, bias=bias, temperature=0.7, softcap=2.0, rows_at_once=3,
            vocabulary_at_once=2,
        )  # fmt: skip

    assert torch.autograd.gradcheck(scores, tensors)


@pytest.mark.parametrize("output", [0, 1])
def test_one_output_alone_gives_its_own_gradients(output):
    hidden, weight, _, ids = make(4, 3, 7)
    tensors = [hidden.requires_grad_(), weight.requires_grad_()]
    ours = torch.autograd.grad(score_tokens(*tensors, ids)[output].sum(), tensors)
    assert_close(ours, torch.autograd.grad(naive(*tensors, ids)[output].sum(), tensors))


def test_a_uniform_and_a_certain_distribution():
    weight = torch.tensor([[0.0, 90.0], [0.0, 0.0], [0.0, 0.0]])
    hidden = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    scores = score_tokens(hidden, weight, torch.tensor([2, 0]), vocabulary_at_once=1)
    (scores.logp.sum() + scores.entropy.sum()).backward()
    assert_close(scores.logp, torch.tensor([-math.log(3), 0.0]))
    assert_close(scores.entropy, torch.tensor([math.log(3), 0.0]))
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


@pytest.mark.parametrize("vocabulary_at_once", [1, 2, 99])
def test_large_logits_cost_no_precision_in_float32(vocabulary_at_once):
    # Logits 2^20 + (0, 1, 2), exact in float32; their differences are what counts.
    weight = torch.tensor([[0.0], [1.0], [2.0]])
    hidden, ids = torch.ones(1, 1), torch.tensor([1])
    for offset in (2.0**20, -(2.0**20)):
        bias = torch.full((3,), offset)
        result = score_tokens(hidden, weight, ids, bias=bias, vocabulary_at_once=vocabulary_at_once)
        assert_close(result, score_tokens(hidden, weight, ids))


def test_logits_of_thousands_are_scored_as_in_float64():
    hidden, weight, _, ids = make(6, 4, 50, scale=40)
    hidden, weight = hidden.float(), weight.float()
    expected = naive(hidden.double(), weight.double(), ids)
    # a float32 product of four terms of 1e3 is off by 1e-4
    assert_close([*score_tokens(hidden, weight, ids)], [x.float() for x in expected],
                 atol=1e-3, rtol=1e-6)  # fmt: skip


def test_a_token_that_the_bias_forbids_is_as_good_as_absent():
    hidden, weight, bias, ids = make(5, 3, 6)
    bias[:4], ids = -torch.inf, ids % 2
    tensors = [hidden.requires_grad_(), weight.requires_grad_()]
    ours = score_tokens(*tensors, ids + 4, bias=bias, vocabulary_at_once=2)
    absent = score_tokens(hidden, weight[4:], ids, bias=bias[4:])
    results = [
        [*scores, *torch.autograd.grad(sum(x.sum() for x in scores), tensors)]
        for scores in (ours, absent)
    ]
    assert_close(results[0], results[1])
    assert score_tokens(hidden, weight, ids, bias=bias).logp.tolist() == [-math.inf] * 5


def test_half_precision_is_summed_in_float32():
    hidden, weight, _, ids = make(64, 32, 500, dtype=torch.bfloat16)
    tensors = [hidden.requires_grad_(), weight.requires_grad_()]
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    ours = score_tokens(*tensors, ids, rows_at_once=7, vocabulary_at_once=9)
    truth = naive(*wide, ids)
    assert ours.logp.dtype == torch.float32
    assert_close([*ours], [x.float() for x in truth], atol=1e-4, rtol=1e-5)
    gradients = torch.autograd.grad(sum(x.sum() for x in ours), tensors)
    expected = torch.autograd.grad(sum(x.sum() for x in truth), wide)
    assert [gradient.dtype for gradient in gradients] == [torch.bfloat16] * 2
    # What is left is the rounding of the sums to bfloat16, 2^-8 relative.
    assert_close(list(gradients), [x.bfloat16() for x in expected], atol=1e-3, rtol=2**-7)


def test_autocast_costs_no_precision():
    hidden, weight, _, ids = make(8, 16, 30, dtype=torch.float32)
    weight.requires_grad_()
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            scores = score_tokens(hidden, weight, ids)
            results.append([*scores, *torch.autograd.grad(scores.logp.sum(), weight)])
    assert_close(results[0], results[1], atol=0, rtol=0)


def test_leading_dimensions_and_strides_are_kept():
    hidden, weight, _, ids = make(12, 4, 9)
    spread = hidden.view(4, 3, 4).transpose(0, 1)
    scores = score_tokens(spread, weight.T.contiguous().T, ids.view(4, 3).T)
    flat = score_tokens(hidden, weight, ids)
    assert_close([*scores], [x.view(4, 3).T for x in flat])


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation allocates."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        inputs = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in inputs:
                self.elements = max(self.elements, x.numel())
        return result


def test_no_operation_makes_more_than_a_tile_or_a_gradient():
    hidden, weight, bias, ids = make(100, 4, 300)
    for tensor in (hidden, weight, bias):
        tensor.requires_grad_()
    with LargestTensor() as largest:
        scores = score_tokens(hidden, weight, ids, bias=bias, softcap=5.0, temperature=0.5,
                              rows_at_once=20, vocabulary_at_once=30)  # fmt: skip
        (scores.logp.sum() + scores.entropy.sum()).backward()
    # a tile is 600, the weight's gradient 1200; all logits would be 30000
    assert largest.elements == 1200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.zeros(5, 9)}, r"hidden must be .* got \(2, 3\) and \(5, 9\)"),
        ({"ids": torch.zeros(3, dtype=torch.long)}, r"ids must be \(2,\), got \(3,\)"),
        ({"ids": torch.tensor([0, 5])}, r"ids must be in \[0, 5\), got 0 to 5"),
        ({"ids": torch.tensor([-100, 4])}, r"got -100 to 4"),
        ({"bias": torch.zeros(3)}, r"bias must be \(5,\), got \(3,\)"),
        ({"temperature": 0.0}, "temperature must be > 0, got 0"),
        ({"softcap": -1.0}, "softcap must be > 0, got -1"),
        ({"rows_at_once": 0}, "tiles must be >= 1, got 0 by"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    given = {"hidden": torch.zeros(2, 3), "weight": torch.zeros(5, 3)}
    with pytest.raises(ValueError, match=message):
        score_tokens(**{**given, "ids": torch.tensor([0, 1]), **change})
