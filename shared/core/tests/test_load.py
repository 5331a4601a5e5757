from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.models.load import load
from icml.core.models.random_llama import byte_tokenizer

RANDOM = "random:llama?layers=1&hidden=8&vocab=256&ctx=32"


def test_a_random_model_has_the_sizes_asked_for():
    model = load("random:llama?layers=3&hidden=32&heads=2&vocab=90&ctx=16", device="cpu").model
    config = model.config
    found = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads)
    assert found == (3, 32, 2)
    assert (config.vocab_size, config.max_position_embeddings) == (90, 16)
    assert model(torch.tensor([[4, 89]])).logits.shape == (1, 2, 90)


def test_a_random_model_depends_on_its_seed_alone():
    state = torch.get_rng_state()
    first, again, other = (
        load(f"{RANDOM}&seed={seed}", device="cpu").fingerprint for seed in (0, 0, 1)
    )
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16])
def test_the_number_type_is_a_name_or_one_of_torch(dtype):
    loaded = load(RANDOM, dtype=dtype, device="cpu")
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.spec.dtype == "bfloat16"


def test_the_spec_says_what_the_defaults_came_to():
    spec = load(RANDOM, device="cpu").spec
    assert (spec.source, spec.dtype, spec.device) == (RANDOM, "float32", "cpu")
    assert (spec.attn_implementation, spec.cache_dtype) == ("sdpa", None)


def test_what_is_loaded_by_its_spec_is_the_same_model():
    first = load(RANDOM, device="cpu", dtype="bfloat16", attn_implementation="eager")
    again = load(**asdict(first.spec))
    assert again.spec == first.spec
    assert again.fingerprint == first.fingerprint


def test_eager_attention_gives_the_weights_of_attention(tmp_path):
    loaded = load(RANDOM, device="cpu", attn_implementation="eager")
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    ids = torch.tensor([[4, 5, 6]])
    for source in (RANDOM, tmp_path):
        model = load(source, device="cpu", attn_implementation="eager").model
        (attention,) = model(ids, output_attentions=True).attentions
        torch.testing.assert_close(attention.sum(-1), torch.ones(1, 4, 3))


def test_an_attention_that_is_not_installed_is_one_sentence(tmp_path):
    loaded = load(RANDOM, device="cpu")
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"cannot load .*[Ff]lash") as caught:
        load(tmp_path, device="cpu", attn_implementation="flash_attention_3")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "dtype must be one of float32, .*got int8"),
        ({"device": "toaster"}, "device must be one of"),
        ({"revision": "main"}, "revision is for models of the hub"),
        ({"trust_remote_code": True}, "of kind random holds no code"),
        ({"attn_implementation": "fast"}, "attn_implementation must be one of eager, .*got fast"),
        ({"attn_implementation": "owner/kernel"}, "got owner/kernel"),
        ({"attn_implementation": "flash_attention_3"}, "attn_implementation flash_attention_3: "),
        ({"cache_dtype": "bfloat16"}, "cache_dtype is for GGUF files, and random:llama.* is none"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        load(RANDOM, **options)


def test_a_random_model_generates_text_that_decodes():
    loaded = load(RANDOM, device="cpu")
    inputs = loaded.tokenizer("2 + 2 =", return_tensors="pt")
    out = loaded.model.generate(**inputs, max_new_tokens=5, do_sample=False)
    assert loaded.tokenizer.decode(out[0], skip_special_tokens=True).startswith("2 + 2 =")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back_from_its_bytes(text):
    # Not text that spells a special token, which is one token and no bytes.
    ids = TOKENIZER(text.replace("<", "")).input_ids
    assert len(ids) == len(text.replace("<", "").encode())
    assert TOKENIZER.decode(ids) == text.replace("<", "")


TOKENIZER = byte_tokenizer(256)


def test_a_small_vocabulary_begins_with_printable_ascii():
    tokenizer = byte_tokenizer(4 + 95)
    assert tokenizer(" ~").input_ids == [4, 4 + 94]
    assert tokenizer("é").input_ids == [3, 3]
    assert len(tokenizer) == 4 + 95


def test_a_large_vocabulary_holds_the_bytes_that_occur_and_no_more():
    # 256 less 0xC0, 0xC1 and 0xF5 to 0xFF, and four special tokens.
    assert len(byte_tokenizer(1000)) == 4 + 256 - 2 - 11
