"""Steps with a cache against one forward pass of everything; warps against transformers' own."""

import itertools

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers.generation import (
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from icml.core.models.steps import forward_step, new_cache, next_distributions, warp
from icml.core.models.tiny import TinyGPT, causal_lm

VOCABULARY = 19


@pytest.fixture(scope="module")
def model():
    return causal_lm(VOCABULARY, d=16, layers=2, heads=2, ctx=64).double()


def encoder():
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    return transformers.BertModel(transformers.BertConfig(vocab_size=9, **size))


def random_ids(*shape, seed=0):
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def full_logits(model, ids):
    with torch.no_grad():
        return model(ids).logits


@settings(deadline=None, max_examples=40)
@given(cuts=st.sets(st.integers(1, 11)), rows=st.integers(1, 3), seed=st.integers(0, 99))
def test_any_schedule_of_steps_gives_the_logits_of_one_pass(model, cuts, rows, seed):
    ids, cache = random_ids(rows, 12, seed=seed), new_cache(model)
    bounds = itertools.pairwise([0, *sorted(cuts), 12])
    steps = [forward_step(model, ids[:, a:b], cache, last_only=False) for a, b in bounds]
    assert_close(torch.cat(steps, 1), full_logits(model, ids))


def test_float32_steps_equal_one_pass_to_1e_4():
    model, ids = causal_lm(VOCABULARY, d=16, heads=2), random_ids(2, 9)
    cache = new_cache(model)
    forward_step(model, ids[:, :5], cache)
    # float32, the tolerance of the specification
    assert_close(
        forward_step(model, ids[:, 5:], cache), full_logits(model, ids)[:, -1], atol=1e-4, rtol=0
    )


def test_the_last_position_is_returned_alone_unless_all_are_wanted(model):
    ids = random_ids(3, 5)
    last = forward_step(model, ids, new_cache(model))
    every = forward_step(model, ids, new_cache(model), last_only=False)
    assert last.shape == (3, VOCABULARY)
    assert_close(last, every[:, -1])
    assert not last.requires_grad


@pytest.mark.parametrize("garbage", [0, 7])
def test_padding_on_the_left_changes_nothing(model, garbage):
    short, long = random_ids(1, 4), random_ids(1, 7, seed=1)
    padded = torch.cat([torch.full((1, 3), garbage), short], 1)
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :3] = 0
    cache, more = new_cache(model), random_ids(2, 2, seed=2)
    first = forward_step(model, torch.cat([padded, long]), cache, attention_mask=mask[:, :7])
    second = forward_step(model, more, cache, attention_mask=mask)
    assert_close(first[0], full_logits(model, short)[0, -1])
    assert_close(first[1], full_logits(model, long)[0, -1])
    assert_close(second[0], full_logits(model, torch.cat([short, more[:1]], 1))[0, -1])
    assert_close(second[1], full_logits(model, torch.cat([long, more[1:]], 1))[0, -1])


@settings(deadline=None, max_examples=30)
@given(lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
def test_rows_that_read_different_numbers_of_tokens_a_step_equal_rows_alone(model, lengths):
    rows = [random_ids(1, 13), random_ids(1, 13, seed=1)]
    cache, done, mask = new_cache(model), [0, 0], torch.zeros(2, 0, dtype=torch.long)
    for counts in [(1, 1), *lengths]:
        width = max(counts)
        if not width:
            continue
        step = torch.zeros(2, width, dtype=torch.long)
        new = torch.zeros(2, width, dtype=torch.long)
        for i, count in enumerate(counts):
            step[i, width - count :] = rows[i][0, done[i] : done[i] + count]
            new[i, width - count :] = 1
            done[i] += count
        mask = torch.cat([mask, new], 1)
        logits = forward_step(model, step, cache, attention_mask=mask)
        for i, count in enumerate(counts):
            if count:
                assert_close(logits[i], full_logits(model, rows[i][:, : done[i]])[0, -1])


def test_positions_can_be_given_by_hand(model):
    ids = random_ids(2, 5)
    positions = torch.arange(3, 8).expand(2, 5)
    with torch.no_grad():
        expected = model(ids, position_ids=positions).logits[:, -1]
    assert_close(forward_step(model, ids, new_cache(model), position_ids=positions), expected)


def peer(logits, temperature, top_k, top_p):
    """transformers' warpers in the order of generate (transformers 5.24)."""
    scores = TemperatureLogitsWarper(temperature)(None, logits)
    scores = TopKLogitsWarper(top_k)(None, scores) if top_k else scores
    scores = TopPLogitsWarper(top_p)(None, scores) if top_p < 1 else scores
    return scores.softmax(-1)


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 999),
    temperature=st.floats(0.05, 5),
    top_k=st.integers(0, 25),
    top_p=st.floats(0.01, 1),
    grid=st.booleans(),
)
def test_warp_equals_the_warpers_of_generate(seed, temperature, top_k, top_p, grid):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(3, VOCABULARY, generator=generator)
    logits = logits.round() if grid else logits  # rounded ones tie
    result = warp(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    assert torch.equal(result, peer(logits, temperature, top_k, top_p))


def test_generate_itself_draws_from_the_warped_distribution(model):
    # The scores that generate returns are the warped logits (its own order of warpers).
    ids = random_ids(2, 6)
    chosen = {"temperature": 0.6, "top_k": 7, "top_p": 0.8}
    out = model.generate(
        ids, do_sample=True, max_new_tokens=1, output_scores=True, return_dict_in_generate=True,
        attention_mask=torch.ones_like(ids), **chosen,
    )  # fmt: skip
    logits = forward_step(model, ids, new_cache(model)).float()
    assert_close(warp(logits, **chosen), out.scores[0].softmax(-1))


def test_warp_by_hand():
    # p = .5, .3, .2; at temperature 1/2 they are squared: .25, .09, .04 over .38
    logits = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log()
    squared = torch.tensor([[0.25, 0.09, 0.04]], dtype=torch.float64)
    assert_close(warp(logits, temperature=0.5), squared / 0.38)
    assert_close(warp(logits, top_k=2), torch.tensor([[0.625, 0.375, 0.0]]).double())
    # .5 does not reach .6, .5 + .3 does
    assert_close(warp(logits, top_p=0.6), torch.tensor([[0.625, 0.375, 0.0]]).double())
    assert_close(warp(logits, top_p=1e-9), torch.tensor([[1.0, 0.0, 0.0]]).double())


def test_warp_takes_half_precision_and_any_shape():
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    result = warp(logits, top_k=2, top_p=0.9)
    assert result.dtype == torch.float32
    assert_close(result[1], warp(logits[1].float(), top_k=2, top_p=0.9))
    assert_close(warp(logits[0, 0], top_k=99), warp(logits)[0, 0])


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_distributions_of_all_prefixes_equal_those_of_one_pass(model, chunk):
    ids = random_ids(2, 8)
    slices = list(next_distributions(model, ids, chunk_positions=chunk))
    assert max(part.shape[1] for part in slices) <= chunk
    assert_close(torch.cat(slices, 1), full_logits(model, ids).softmax(-1))


def test_distributions_are_warped_as_asked(model):
    ids = random_ids(1, 5)
    slices = next_distributions(model, ids, warp=lambda x: warp(x, top_k=3), chunk_positions=2)
    assert_close(torch.cat(list(slices), 1), warp(full_logits(model, ids), top_k=3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: warp(torch.zeros(3), temperature=0.0), ValueError, "temperature must be > 0"),
        (lambda m: warp(torch.zeros(3), temperature=float("nan")), ValueError, "got nan"),
        (lambda m: warp(torch.zeros(3), top_k=-1), ValueError, "top_k must be >= 0"),
        (lambda m: warp(torch.zeros(3), top_p=0.0), ValueError, "top_p must be in"),
        (lambda m: warp(torch.zeros(3), top_p=1.1), ValueError, "top_p must be in"),
        (lambda m: forward_step(m, random_ids(3), new_cache(m)), ValueError, "new tokens >= 1"),
        (lambda m: forward_step(m, random_ids(3, 0), new_cache(m)), ValueError, "new tokens"),
        (
            lambda m: forward_step(
                m, random_ids(2, 3), new_cache(m), attention_mask=torch.ones(2, 2)
            ),
            ValueError,
            r"cover the cache .*\(2, 3\), got \(2, 2\)",
        ),
        (lambda m: next_distributions(m, random_ids(1, 2), chunk_positions=0), ValueError, ">= 1"),
        (lambda m: new_cache(TinyGPT(9)), TypeError, "got TinyGPT"),
        (lambda m: new_cache(encoder()), TypeError, "got BertModel"),
    ],
)
def test_bad_input_is_refused_by_name(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)
