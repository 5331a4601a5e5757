import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from icml.core.models.tiny import SPECIAL_TOKENS, TinyGPT, causal_lm, word_tokenizer

positions = pytest.mark.parametrize("kind", ["learned", "rotary"])


def weights(model: nn.Module) -> list[torch.Tensor]:
    return list(model.state_dict().values())


def rotated(vector: torch.Tensor, place: int) -> torch.Tensor:
    """Turn the complex numbers that a head's halves are by `place` times each one's own angle."""
    real, imaginary = vector.chunk(2)
    angles = place / 10_000.0 ** (torch.arange(len(real)).double() / len(real))
    turned = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag])


def reference_logits(model: TinyGPT, ids: list[int], first: int = 0) -> torch.Tensor:
    """The decoder written out for one sequence, one head and one position at a time."""
    d = model.token_embedding.embedding_dim
    hidden = model.token_embedding.weight[ids]
    turn = rotated
    if model.positions == "learned":
        hidden = hidden + model.position_embedding.weight[: len(ids)]
        turn = lambda vector, place: vector  # noqa: E731
    blocks: Any = model.blocks
    for block in blocks:
        width = d // block.heads
        projected = block.query_key_value(block.attention_norm(hidden))
        query, key, value = projected.split(d, dim=-1)
        mixed = torch.zeros_like(hidden)
        for head in range(block.heads):
            part = slice(head * width, (head + 1) * width)
            for t in range(len(ids)):
                seen = torch.stack([turn(key[s, part], first + s) for s in range(t + 1)])
                scores = seen @ turn(query[t, part], first + t) / math.sqrt(width)
                mixed[t, part] = scores.softmax(0) @ value[: t + 1, part]
        hidden = hidden + block.attention_out(mixed)
        inner = F.gelu(block.mlp[0](block.mlp_norm(hidden)))
        hidden = hidden + block.mlp[2](inner)
    return model.lm_head(model.norm(hidden))


@torch.no_grad()
@positions
def test_logits_equal_the_decoder_written_out_head_by_head(kind):
    model = TinyGPT(vocab=11, d=12, layers=2, heads=3, positions=kind, seed=1).double()
    ids = [1, 7, 3, 3, 10, 0, 5]
    torch.testing.assert_close(model(torch.tensor([ids])).logits[0], reference_logits(model, ids))


@torch.no_grad()
def test_rotary_positions_are_distances_alone():
    model = TinyGPT(vocab=11, d=12, heads=3, positions="rotary", seed=1).double()
    ids = [1, 7, 3, 3, 10, 0, 5]
    found = model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(found, reference_logits(model, ids, first=40))
    swapped = model(torch.tensor([[7, 1, *ids[2:]]])).logits[0]
    assert not torch.allclose(found[-1], swapped[-1], atol=1e-9)


@torch.no_grad()
def test_a_position_sees_nothing_after_it():
    model = TinyGPT(vocab=9, d=8).double()
    row = torch.tensor([[1, 4, 5, 6, 7]])
    changed = torch.tensor([[1, 4, 5, 0, 0]])
    torch.testing.assert_close(model(row).logits[:, :3], model(changed).logits[:, :3])


@torch.no_grad()
@positions
@pytest.mark.parametrize("pieces", [[6], [1, 5], [2, 1, 1, 2]])
def test_a_sequence_read_in_pieces_gives_the_logits_of_the_whole(kind, pieces):
    model = TinyGPT(vocab=9, d=8, positions=kind).double()
    ids = torch.tensor([[1, 4, 5, 6, 7, 2], [8, 8, 0, 3, 1, 1]])
    cache = model.new_cache(2, 6)
    logits = [model(part, cache=cache).logits for part in ids.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(logits, 1), model(ids).logits)


@torch.no_grad()
@positions
def test_padding_is_dropped_from_a_cache_by_setting_its_lengths_back(kind):
    model = TinyGPT(vocab=9, d=8, positions=kind).double()
    cache = model.new_cache(2, 5)
    model(torch.tensor([[1, 4, 0, 0], [1, 4, 5, 6]]), cache=cache)
    cache.lengths.copy_(torch.tensor([2, 4]))
    last = model(torch.tensor([[7], [7]]), cache=cache).logits[:, -1]
    torch.testing.assert_close(last[0], model(torch.tensor([[1, 4, 7]])).logits[0, -1])
    torch.testing.assert_close(last[1], model(torch.tensor([[1, 4, 5, 6, 7]])).logits[0, -1])


def test_the_seed_alone_decides_the_weights():
    torch.manual_seed(1)
    first = TinyGPT(vocab=9, d=8, seed=5)
    torch.manual_seed(2)
    second, third = TinyGPT(vocab=9, d=8, seed=5), TinyGPT(vocab=9, d=8, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))
    assert not torch.equal(first.lm_head.weight, third.lm_head.weight)


def test_building_a_model_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    TinyGPT(vocab=9, d=8)
    assert torch.equal(torch.get_rng_state(), before)


def test_parameters_number_what_the_shapes_say():
    vocab, d, layers, ctx = 65, 64, 2, 32
    # Attention 3 d^2 + 3 d and d^2 + d, feed-forward 2 (2 d^2) + 2 d + d, two norms of 2 d each.
    block = 8 * d**2 + 11 * d
    expected = 2 * vocab * d + ctx * d + layers * block + 2 * d
    model = TinyGPT(vocab, d=d, layers=layers, ctx=ctx)
    assert sum(p.numel() for p in model.parameters()) == expected
    rotary = TinyGPT(vocab, d=d, layers=layers, ctx=ctx, positions="rotary")
    assert sum(p.numel() for p in rotary.parameters()) == expected - ctx * d


@torch.no_grad()
def test_a_new_model_is_close_to_uniform():
    model = TinyGPT(vocab=65, d=64)
    ids = torch.arange(60).view(4, 15)
    logp = model(ids).logits.log_softmax(-1)
    # Logits are dot products of a unit-variance vector with weights of std .05: std about .4.
    assert -logp.mean().item() == pytest.approx(math.log(65), abs=0.2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocab": 0}, "at least 1, got vocab=0 "),
        ({"vocab": 5, "layers": 0}, "at least 1, got .* layers=0 "),
        ({"vocab": 5, "d": 10, "heads": 4}, "got d=10 and heads=4"),
        ({"vocab": 5, "positions": "alibi"}, "learned or rotary, got 'alibi'"),
        ({"vocab": 5, "d": 12, "heads": 4, "positions": "rotary"}, "even width, got d=12 over"),
    ],
)
def test_sizes_that_make_no_model_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        TinyGPT(**sizes)


def test_input_that_does_not_fit_is_refused():
    model = TinyGPT(vocab=5, d=8, ctx=4)
    with pytest.raises(ValueError, match=r"must be 2-D \(batch, tokens\), got \(3,\)"):
        model(torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="5 tokens, the model's ctx is 4"):
        model(torch.zeros(1, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="5 tokens, the model's ctx is 4"):
        model.new_cache(1, 5)


def test_word_tokenizer_round_trips_words_and_marks_unknown_ones():
    tokenizer = word_tokenizer(["open", "the", "red_door"])
    assert tokenizer("open the red_door")["input_ids"] == [4, 5, 6]
    assert tokenizer("open a  red_door")["input_ids"] == [4, 3, 6]
    assert tokenizer.decode([4, 5, 6]) == "open the red_door"
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == list(SPECIAL_TOKENS)
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 2)


@pytest.mark.parametrize("words", [["a", "a"], ["<eos>"], ["two words"], [""]])
def test_words_that_cannot_be_tokens_are_refused(words):
    with pytest.raises(ValueError, match="word"):
        word_tokenizer(words)


def test_causal_lm_is_a_seeded_llama_that_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    first, second, third = causal_lm(65, seed=3), causal_lm(65, seed=3), causal_lm(65, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))
    assert not torch.equal(weights(first)[0], weights(third)[0])
    # Tied: 65 d. Block: 4 d^2 attention, 3 (2 d^2) gated feed-forward, two norms. One last norm.
    assert sum(p.numel() for p in first.parameters()) == 65 * 64 + 2 * (10 * 64**2 + 2 * 64) + 64
    assert first(torch.tensor([[1, 2]])).logits.shape == (1, 2, 65)
