"""Blocks of real (random) models of every family: found, cut, doubled, saved."""

import copy

import pytest
import torch
import transformers
from torch import nn
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.core.models.blocks import (
    FAMILIES,
    attn_out_proj,
    decoder_layers,
    head_layout,
    mlp_down_proj,
    replace_blocks,
)
from icml.core.models.steps import forward_step, new_cache
from icml.core.models.tiny import TinyGPT

IDS = torch.tensor([[4, 5, 6, 7, 8, 9, 10, 4, 6], [9, 9, 4, 5, 7, 10, 6, 8, 5]])
families = pytest.mark.parametrize("family", sorted(FAMILIES))


def logits(model):
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def stepwise_logits(model):
    cache = new_cache(model)
    return torch.cat(
        [forward_step(model, part, cache, last_only=False) for part in IDS.split(2, 1)], 1
    )


@families
def test_every_block_changes_the_logits_and_there_are_as_many_as_asked_for(build_family, family):
    model = build_family(family, layers=3)
    blocks, before = decoder_layers(model), logits(model)
    assert len(blocks) == len(decoder_layers(model.base_model)) == 3
    for block in blocks:
        hook = block.register_forward_hook(lambda block, inputs, output: inputs[0])
        assert not torch.allclose(logits(model), before)
        hook.remove()


@families
def test_a_block_without_its_output_projections_is_the_identity(build_family, family):
    # Residual connections: what these two layers don't write, a block doesn't add. Gemma's later
    # versions normalise what they write, and the norm of 0 is 0.
    model = build_family(family, layers=2)
    alone = build_family(family, layers=2)
    replace_blocks(alone, decoder_layers(alone)[:1])
    block = decoder_layers(model)[1]
    for layer in (attn_out_proj(block), mlp_down_proj(block)):
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
    assert_close(logits(model), logits(alone))


@families
def test_the_heads_feed_the_output_projection_side_by_side(build_family, family):
    model = build_family(family)
    heads, kv_heads, width = head_layout(model.config)
    seen = []
    layer = attn_out_proj(decoder_layers(model)[0])
    layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[-1]))
    logits(model)
    assert seen == [heads * width]
    assert (heads, kv_heads) == ((2, 2) if family == "gpt2" else (2, 1))


@families
@pytest.mark.parametrize("kept", [(0,), (0, 1, 3), (3, 1, 2, 0), (1, 2)])
def test_other_blocks_give_the_same_logits_with_and_without_a_cache(build_family, family, kept):
    model = build_family(family, layers=4)
    blocks = decoder_layers(model)
    replace_blocks(model, [blocks[i] for i in kept])
    assert model.config.num_hidden_layers == len(kept)
    # gemma2's attention takes its softmax in float32 whatever the model's number type
    tolerance = {"atol": 1e-5, "rtol": 0} if family == "gemma2" else {}
    assert_close(stepwise_logits(model), logits(model), **tolerance)


@families
def test_a_cut_copy_generates_with_its_cache_what_it_generates_without(build_family, family):
    model = copy.deepcopy(build_family(family, layers=4))
    replace_blocks(model, list(decoder_layers(model))[:3])
    texts = [
        model.generate(
            IDS, max_new_tokens=6, do_sample=False, use_cache=use_cache, eos_token_id=None,
            pad_token_id=0, attention_mask=torch.ones_like(IDS),
        )
        for use_cache in (True, False)
    ]  # fmt: skip
    assert torch.equal(*texts)


@families
def test_a_model_cut_after_its_last_layer_equals_one_built_shorter(build_family, family):
    model, short = build_family(family, layers=4), build_family(family, layers=3)
    replace_blocks(model, decoder_layers(model)[:3])
    short.load_state_dict(model.state_dict())
    assert_close(logits(short), logits(model))
    assert getattr(short.config, "layer_types", None) == getattr(model.config, "layer_types", None)


@families
def test_other_blocks_survive_saving_and_loading(build_family, family, tmp_path):
    model = build_family(family, layers=4)
    blocks = decoder_layers(model)
    replace_blocks(model, [blocks[2], blocks[0], copy.deepcopy(blocks[2])])
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert_close(logits(loaded), logits(model))


@families
def test_a_model_that_shares_the_configuration_is_left_alone(build_family, family):
    model = build_family(family, layers=3)
    twin = type(model)(model.config).double().eval()
    before = logits(twin)
    replace_blocks(model, decoder_layers(model)[:1])
    assert_close(logits(twin), before)
    assert twin.config.num_hidden_layers == 3


def test_tied_embeddings_stay_tied(build_family):
    model = build_family("llama", tie_word_embeddings=True)
    replace_blocks(model, decoder_layers(model)[:1])
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_the_attention_implementation_stays(build_family):
    model = build_family("llama")
    model.set_attn_implementation("eager")
    replace_blocks(model, decoder_layers(model)[:2])
    assert model.config._attn_implementation == "eager"
    assert decoder_layers(model)[0].self_attn.config._attn_implementation == "eager"


def test_an_unknown_family_is_refused_by_name():
    config = transformers.GPTNeoXConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    model = transformers.GPTNeoXForCausalLM(config)
    for call in (lambda: decoder_layers(model), lambda: head_layout(config)):
        with pytest.raises(UserError, match=r"family gpt_neox are not known; known are gemma, "):
            call()
    for call in (attn_out_proj, mlp_down_proj):
        with pytest.raises(UserError, match="Linear is no block of gemma"):
            call(nn.Linear(1, 1))
    with pytest.raises(UserError, match="a model of transformers is wanted, got TinyGPT"):
        decoder_layers(TinyGPT(9))


def test_blocks_that_do_not_fit_are_refused_and_nothing_is_changed(build_family):
    model = build_family("llama")
    blocks, before = list(decoder_layers(model)), logits(model)
    for wrong, message in [
        ([], "at least one block, got none"),
        ([blocks[0], blocks[0]], "a block stands twice"),
        ([nn.Linear(1, 1)], "of the class LlamaDecoderLayer, got Linear"),
    ]:
        with pytest.raises(ValueError, match=message):
            replace_blocks(model, wrong)
    assert_close(logits(model), before)


def test_a_type_of_attention_that_the_model_lacks_is_refused(build_family):
    model = build_family("qwen2", use_sliding_window=False)
    other = build_family("qwen2", max_window_layers=0)
    with pytest.raises(ValueError, match="no layers of the type sliding_attention"):
        replace_blocks(model, decoder_layers(other))


def test_a_block_whose_attention_depends_on_its_place_stays_there(build_family):
    model = build_family("gpt2", scale_attn_by_inverse_layer_idx=True)
    blocks = list(decoder_layers(model))
    with pytest.raises(ValueError, match="scale_attn_by_inverse_layer_idx"):
        replace_blocks(model, blocks[1:])
    replace_blocks(model, blocks[:2])
    assert_close(stepwise_logits(model), logits(model))
