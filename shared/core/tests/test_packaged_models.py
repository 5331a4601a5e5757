"""The real models of `icml.core.models.packaged`, where their packages are installed."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from icml.core.models.blocks import decoder_layers, replace_blocks
from icml.core.models.load import load
from icml.core.models.packaged import packaged
from icml.core.models.steps import forward_step, new_cache


def needs(name):
    """Skip a test where the package of a model is not installed."""
    model = packaged(name)
    return pytest.mark.skipif(not model.installed, reason=model.install)


@pytest.fixture
def smollm2(model_cache):
    return load("pkg:smollm2", dtype="float32", device="cpu")


@needs("smollm2")
@pytest.mark.slow  # the first of these tests converts 135 million weights
def test_smollm2_knows_the_capital_of_france(smollm2):
    inputs = smollm2.tokenizer("The capital of France is", return_tensors="pt")
    out = smollm2.model.generate(**inputs, max_new_tokens=1, do_sample=False)
    assert smollm2.tokenizer.decode(out[0, inputs.input_ids.shape[1] :]) == " Paris"
    assert smollm2.source_kind == "package"


@needs("smollm2")
@pytest.mark.slow
def test_smollm2_has_the_logits_of_its_gguf_file(smollm2):
    path = packaged("smollm2").locate()
    direct = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    ids = smollm2.tokenizer("Two plus two is four.", return_tensors="pt").input_ids
    with torch.inference_mode():
        assert torch.equal(smollm2.model(ids).logits, direct(ids).logits)


@needs("smollm2")
@pytest.mark.slow
def test_smollm2_has_the_tokenizer_of_its_gguf_file(smollm2):
    path = packaged("smollm2").locate()
    direct = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    random = np.random.default_rng(0)
    texts = [random_text(random) for _ in range(1000)]
    cached = smollm2.tokenizer(texts).input_ids
    assert cached == direct(texts).input_ids
    assert smollm2.tokenizer.batch_decode(cached) == direct.batch_decode(cached)
    chat = [{"role": "user", "content": "Hello"}]
    assert smollm2.tokenizer.apply_chat_template(chat, tokenize=False) == (
        direct.apply_chat_template(chat, tokenize=False)
    )


def random_text(random):
    """Draw up to 40 characters, half of them from ASCII, none of them a surrogate."""
    points = np.where(
        random.random(40) < 0.5, random.integers(1, 128, 40), random.integers(1, 0x11_0000, 40)
    )
    kept = [chr(point) for point in points if not 0xD800 <= point < 0xE000]
    return "".join(kept[: random.integers(0, 40)])


@needs("smollm2")
@pytest.mark.slow
def test_smollm2_cut_to_20_layers_has_the_same_logits_with_and_without_a_cache(smollm2):
    model = smollm2.model
    replace_blocks(model, decoder_layers(model)[:20])
    ids = smollm2.tokenizer("Two plus two is four, and four", return_tensors="pt").input_ids
    cache = new_cache(model)
    steps = [forward_step(model, part, cache, last_only=False) for part in ids.split(3, 1)]
    with torch.inference_mode():
        # float32 logits of up to 20, over 20 layers
        torch.testing.assert_close(torch.cat(steps, 1), model(ids).logits, atol=1e-3, rtol=0)
