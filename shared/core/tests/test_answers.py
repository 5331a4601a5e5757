"""Prompts and answers: labels by hand, likelihoods by transformers' loss, matches by generate."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.core.models.answers import IGNORED, answer_batch, exact_match, sequence_nll
from icml.core.models.tiny import TinyGPT, causal_lm, word_tokenizer

WORDS = ["a", "b", "c", "d", "e"]
EOS = 2


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer(WORDS)


@pytest.fixture(scope="module")
def model():
    return causal_lm(4 + len(WORDS), d=16, layers=2, heads=2, seed=3).double()


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def test_labels_by_hand(tokenizer):
    batch = answer_batch(tokenizer, ["a b", "c"], ["d", "e a"], 9)
    assert batch.ids.tolist() == [[4, 5, 7, EOS], [6, 8, 4, EOS]]
    assert batch.labels.tolist() == [[-100, -100, 7, EOS], [-100, 8, 4, EOS]]
    assert bool(batch.mask.all())
    assert (batch.truncated, batch.empty) == (0, 0)
    without_end = answer_batch(tokenizer, ["a b", "c"], ["d", "e a"], 9, end=False)
    assert without_end.labels.tolist() == [[-100, -100, 7], [-100, 8, 4]]


def test_rows_that_are_too_long_lose_their_end_and_are_counted(tokenizer):
    batch = answer_batch(tokenizer, ["a b c", "a", "a b"], ["d", "d", "d e"], 3)
    assert batch.ids.tolist() == [[4, 5, 6], [4, 7, EOS], [4, 5, 7]]
    assert batch.cut.tolist() == [True, False, True]
    assert (batch.truncated, batch.empty) == (2, 1)


@settings(deadline=None, max_examples=50)
@given(rows=st.lists(st.tuples(texts, texts), min_size=1, max_size=4), max_len=st.integers(2, 9))
def test_labels_are_the_answers_tokens_and_nothing_else(tokenizer, rows, max_len):
    prompts, answers = zip(*rows, strict=True)
    batch = answer_batch(tokenizer, prompts, answers, max_len)
    for row, (prompt, answer) in enumerate(rows):
        before = len(prompt.split())
        full = tokenizer(f"{prompt} {answer} <eos>").input_ids
        assert batch.ids[row][batch.mask[row]].tolist() == full[:max_len]
        labels = batch.labels[row]
        assert labels[labels != IGNORED].tolist() == full[before:max_len]
        assert bool(batch.cut[row]) == (len(full) > max_len)


def test_token_ids_are_taken_as_they_are(tokenizer):
    batch = answer_batch(tokenizer, [[1, 4]], [[5]], 9, end=False)
    assert batch.ids.tolist() == [[1, 4, 5]]


def test_the_likelihood_is_that_of_the_librarys_own_loss(tokenizer, model):
    batch = answer_batch(tokenizer, ["a b c", "d", "e e"], ["a", "b c d", "e"], 5)
    nll = sequence_nll(model, batch)
    tokens = (batch.labels != IGNORED).sum(1)
    assert_close(sequence_nll(model, batch, mean=True), nll / tokens)
    assert_close(sequence_nll(model, batch, batch_size=2), nll)
    output = model(input_ids=batch.ids, attention_mask=batch.mask, labels=batch.labels)
    # its loss is a mean over tokens, and float32 inside
    assert_close((nll.sum() / tokens.sum()).float(), output.loss.float())


def test_gradients_of_the_likelihood_are_cross_entropys(tokenizer, model):
    batch = answer_batch(tokenizer, ["a b c", "d"], ["a", "b c"], 9)
    weight = model.get_input_embeddings().weight
    logits = model(batch.ids).logits[:, :-1]
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.labels[:, 1:].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    found = sequence_nll(model, batch).sum()
    assert_close(torch.autograd.grad(found, weight), torch.autograd.grad(expected, weight))


def test_a_row_that_lost_its_answer_costs_nothing_and_is_no_match(tokenizer, model):
    batch = answer_batch(tokenizer, ["a b c", "d"], ["a", "b"], 3)
    assert batch.empty == 1
    assert sequence_nll(model, batch, mean=True)[0] == 0
    assert not exact_match(model, batch)[0]


def test_matches_are_what_generate_gives(tokenizer, model):
    prompts = ["a b c", "d", "e e", "b a d"]
    written = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        out = model.generate(
            ids, max_new_tokens=3, do_sample=False, eos_token_id=None, pad_token_id=0,
            attention_mask=torch.ones_like(ids),
        )  # fmt: skip
        written.append(out[0, ids.shape[1] :].tolist())
    wrong = [[*answer[:-1], (answer[-1] + 1) % 9] for answer in written]
    for size in (None, 1, 3):
        right_batch = answer_batch(tokenizer, prompts, written, 9, end=False)
        assert exact_match(model, right_batch, batch_size=size).all()
        wrong_batch = answer_batch(tokenizer, prompts, wrong, 9, end=False)
        assert not exact_match(model, wrong_batch, batch_size=size).any()


def test_a_model_of_our_own_is_read_as_well(tokenizer):
    model = TinyGPT(9, d=16)
    batch = answer_batch(tokenizer, ["a b"], ["c"], 9, end=False)
    best = int(model(batch.ids[:, :2]).logits[0, -1].argmax())
    assert bool(exact_match(model, batch)) == (best == int(batch.ids[0, 2]))
    right = answer_batch(tokenizer, ["a b"], [[best]], 9, end=False)
    assert exact_match(model, right).all()


@pytest.mark.parametrize(
    ("prompts", "answers", "max_len", "words"),
    [
        (["a"], [], 9, "as many answers as prompts"),
        ([], [], 9, "at least one"),
        (["a"], [""], 9, "the answer of row 0 has no token"),
        (["a", ""], ["a", "b"], 9, "the prompt of row 1 has no token"),
        (["a"], ["b"], 1, "max_len must be >= 2"),
    ],
)
def test_what_makes_no_sense_is_refused(tokenizer, prompts, answers, max_len, words):
    with pytest.raises(UserError, match=words):
        answer_batch(tokenizer, prompts, answers, max_len)


def test_an_end_needs_a_token_for_it(model):
    tokenizer = word_tokenizer(WORDS)
    tokenizer.eos_token = None
    with pytest.raises(UserError, match="no end-of-text token"):
        answer_batch(tokenizer, ["a"], ["b"], 9)
    batch = answer_batch(tokenizer, ["a"], ["b"], 9, end=False)
    with pytest.raises(ValueError, match="batch_size must be >= 1"):
        sequence_nll(model, batch, batch_size=0)
