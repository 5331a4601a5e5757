"""Members with different tokenizers: texts survive, and ME keeps the law of the ensemble."""

import os
import random
import subprocess
import sys
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from icml.core.errors import UserError
from icml.core.models.tiny import word_tokenizer
from icml.me import Ensemble
from icml.me.alignment.levels import choose_level, compare_members
from icml.me.alignment.streams import ByteStream, WordStream
from icml.me.alignment.token_bytes import token_bytes
from icml.me.alignment.union import UnionVocabulary
from icml.me.members import Member
from icml.me.state import MemberState

ALPHA = 1e-4
FAMILY = "👨‍👩‍👧‍👦"
CORPUS = ["the cat sat on the mat, naïve café 日本語 " * 3, f"emoji 😀😃 and {FAMILY} and Ünïcödé"]


def byte_level(*, corpus=None, alphabet=None, merges=(), size=400):
    """Build a byte-level BPE: trained on a corpus, or with the given bytes and merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<eos>"]
    if corpus is not None:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size, special_tokens=special, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
        tokenizer.train_from_iterator(corpus, trainer)
    else:
        pieces = [*special, *alphabet, *("".join(pair) for pair in merges)]
        vocabulary = {piece: i for i, piece in enumerate(pieces)}
        tokenizer = Tokenizer(models.BPE(vocabulary, list(merges)))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def sentencepiece():
    """Build a tokenizer of SentencePiece's kind: spaces are ▁, unknown letters are bytes."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "<eos>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "t", "h", "e", "▁the"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>")


@pytest.fixture(scope="module")
def trained():
    return byte_level(corpus=CORPUS), byte_level(corpus=["entirely other words: 中文 😃"], size=300)


class Reader:
    """Stands for a model whose forward pass nobody asks for."""

    device = "cpu"


@cache
def union_of(*tokenizers):
    return UnionVocabulary([_Plain(Reader(), each, f"member {each!r}") for each in tokenizers])


@cache
def texts_of(tokenizer):
    return token_bytes(tokenizer).texts


@cache
def ids_from(union):
    return {own: shared for shared, own in union.own_ids[0].items()}


def pass_on(text, tokenizers):
    """Let the first tokenizer's member write a text; return what each member has read."""
    union = union_of(*tokenizers)
    members = union.members
    empty = torch.zeros(1, 0, dtype=torch.long)
    states = [MemberState(member, empty, empty.bool()) for member in members]
    writer = union.writer(states, 1)
    to_union = ids_from(union)
    author = torch.tensor([[1.0] + [0.0] * (len(members) - 1)], dtype=torch.float64)
    stream, shown = union.stream(), ""
    for token in tokenizers[0](text, add_special_tokens=False).input_ids:
        shown += stream.push(to_union[token])
        writer.write(torch.tensor([to_union[token]]), torch.tensor([True]), author)
    return shown, [
        b"".join(texts_of(state.member.tokenizer)[i] for i in state.ids[0].tolist())
        for state in states
    ]


class _Plain(Member):
    """A member without a model: what its vocabulary needs to know of one."""

    @property
    def rows(self):
        return len(self.tokenizer)

    @property
    def end_ids(self):
        return frozenset([self.tokenizer.eos_token_id])


def check_passed_on(text, tokenizers):
    shown, read = pass_on(text, tokenizers)
    assert shown == text
    assert read == [text.encode()] * len(tokenizers)


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_random_unicode_survives_between_two_byte_level_tokenizers(trained, text):
    check_passed_on(text, trained)
    check_passed_on(text, trained[::-1])


@pytest.mark.parametrize(
    "text", ["😀", FAMILY, "é", "日本", "a😀b 😃", " leading", "ends ", "\n\t "]
)
def test_characters_of_several_tokens_survive(trained, text):
    check_passed_on(text, trained)
    check_passed_on(text, [trained[1], sentencepiece()])


def test_a_sentencepiece_member_reads_ordinary_tokens_and_writes_them(trained):
    # Its own tokenizer would put a space in front of every piece.
    check_passed_on("the the", [trained[0], sentencepiece()])
    assert token_bytes(sentencepiece()).texts[258] == b" "
    assert token_bytes(sentencepiece()).texts[2 + 0x41] == b"A"


@pytest.mark.slow
@pytest.mark.usefixtures("model_cache")
def test_random_unicode_survives_between_smollm2_and_another_tokenizer(trained):
    from icml.core.models.load import load

    smollm2 = load("pkg:smollm2", device="cpu").tokenizer
    draws = random.Random(0)
    letters = [c for c in map(chr, range(0x20, 0x20000)) if not 0xD800 <= ord(c) < 0xE000]
    texts = ["".join(draws.choices(letters, k=12)) for _ in range(100)]
    texts += ["😀😃", FAMILY, "naïve café 日本語", "".join(draws.choices("😀😃👩👧é", k=30))]
    for text in texts:
        check_passed_on(text, [smollm2, trained[0]])
        check_passed_on(text, [trained[0], smollm2])


# Bytes of "a", "b", "é" (C3 A9) and U+FFFD (EF BF BD), which stands for bytes that are no text.
ALPHABET = ["a", "b", "Ã", "©", "ï", "¿", "½"]


@pytest.fixture(scope="module")
def pair(random_model):
    """Two members: one writes é with two tokens, the other has one for it and one for "ab"."""
    split = byte_level(alphabet=ALPHABET)
    merged = byte_level(alphabet=ALPHABET, merges=[("Ã", "©"), ("a", "b")])
    models = [random_model(0, vocab=len(split)), random_model(1, vocab=len(merged))]
    return Ensemble(models, tokenizers=[split, merged], weights=[0.6, 0.4], align="text")


def test_me_and_the_conventional_ensemble_write_the_same_by_text(pair):
    found = [
        Counter(
            pair.generate(
                ["ab"] * 3000, method=method, max_new_tokens=3, selection="per_row", seed=seed
            ).texts
        )
        for seed, method in enumerate(("me", "ce"))
    ]
    keys = [key for key in set(found[0]) | set(found[1]) if found[0][key] + found[1][key] >= 20]
    table = np.array([[each[key] for key in keys] for each in found])
    rest = 3000 - table.sum(1, keepdims=True)
    assert stats.chi2_contingency(np.hstack([table, rest])).pvalue > ALPHA


@pytest.mark.parametrize("method", ["me", "ce"])
def test_a_character_of_two_tokens_is_written_by_one_member(pair, method):
    """P(é) = .6 M_1(C3) M_1(A9 | C3) + .4 (M_2(é) + M_2(C3) M_2(A9 | C3)), by hand."""

    def law(number, ids):
        with torch.no_grad():
            logits = pair.members[number].model(torch.tensor([ids])).logits[0, -1]
        return logits.double().softmax(-1)

    vocabularies = [member.tokenizer.get_vocab() for member in pair.members]
    prompts = [member.tokenizer("ab").input_ids for member in pair.members]
    assert [len(prompt) for prompt in prompts] == [2, 1]
    by_two = []
    for number, (ids, vocabulary) in enumerate(zip(prompts, vocabularies, strict=True)):
        first, second = vocabulary["Ã"], vocabulary["©"]
        by_two.append(law(number, ids)[first] * law(number, [*ids, first])[second])
    wanted = 0.6 * by_two[0] + 0.4 * (by_two[1] + law(1, prompts[1])[vocabularies[1]["Ã©"]])
    rows = 4000
    texts = pair.generate(
        ["ab"] * rows, method=method, max_new_tokens=2, selection="per_row", seed=1
    ).texts
    seen = sum(text.startswith("é") for text in texts)
    assert stats.binomtest(seen, rows, float(wanted)).pvalue > ALPHA


def test_rows_of_a_batch_read_what_they_would_read_alone(pair):
    settings = {"method": "ce", "max_new_tokens": 12, "temperature": 0, "warp": "after_mix"}
    prompts = ["ab", "bé", "aaaab"]
    together = pair.generate(prompts, **settings)
    assert together.texts == [pair.generate(prompt, **settings).texts[0] for prompt in prompts]


@pytest.mark.slow
def test_the_union_is_the_same_in_every_process():
    def described(seed):
        program = (
            f"import sys; sys.path.insert(0, {folder!r}); import test_alignment as t; t.tell()"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    folder = os.path.dirname(__file__)
    assert described("1") == described("2") != ""


def tell():
    merged = byte_level(alphabet=ALPHABET, merges=[("a", "b")])
    union = union_of(byte_level(alphabet=ALPHABET), merged)
    print(union.texts, union.specials, union.own_ids)


def test_end_tokens_of_all_members_are_one(random_model, trained):
    ensemble = Ensemble(
        [random_model(i, vocab=len(t), ends=[1]) for i, t in enumerate(trained)],
        tokenizers=list(trained),
    )
    assert ensemble.level == "text"
    assert [ids[0] for ids in ensemble.vocabulary.own_ids] == [1, 1]


def member(model, tokenizer, name="member 1"):
    return Member(model, tokenizer, name)


def test_equal_tokenizers_are_found_identical(random_model):
    one, other = (byte_level(corpus=CORPUS) for _ in range(2))
    members = [member(random_model(0, vocab=len(one)), each) for each in (one, other)]
    assert choose_level(members, "auto") == "identical"


def test_more_rows_of_logits_are_cut_to_the_common_ones(random_model):
    tokenizer = byte_level(alphabet=ALPHABET)
    size = len(tokenizer)
    models = [random_model(0, vocab=size), random_model(1, vocab=size + 3)]
    ensemble = Ensemble(models, tokenizers=tokenizer)
    assert ensemble.level == "shared_prefix"
    with pytest.raises(UserError, match=r"member 2 .* to rows behind the common 9 tokens"):
        ensemble.next_distribution("ab")
    with torch.no_grad():
        models[1].lm_head.weight[size:] = 0  # logits of 0 where the others are raised by 100
        models[1].model.norm.weight.mul_(1)
    found = _with_mass_moved(models[1], size)
    assert Ensemble([models[0], found], tokenizers=tokenizer).next_distribution("ab").shape == (9,)


def _with_mass_moved(model, size):
    """Give the rows from ``size`` on a probability of about e^-100."""
    head = model.lm_head
    bias = torch.zeros(head.out_features)
    bias[size:] = -100
    model.lm_head = torch.nn.Linear(head.in_features, head.out_features)
    model.lm_head.weight, model.lm_head.bias = head.weight, torch.nn.Parameter(bias)
    return model


def test_different_tokenizers_are_refused_as_identical(random_model, trained):
    models = [random_model(i, vocab=len(t)) for i, t in enumerate(trained)]
    with pytest.raises(UserError, match="have different tokenizers; use align='auto'"):
        Ensemble(models, tokenizers=list(trained), align="identical")


def test_a_tokenizer_that_loses_text_is_refused_for_alignment_by_text(random_model, trained):
    words = word_tokenizer(list("abcdefgh"))
    models = [random_model(0, vocab=len(trained[0])), random_model(1, vocab=12)]
    with pytest.raises(UserError, match=r"that of member 2 .* doesn't write any text without loss"):
        Ensemble(models, tokenizers=[trained[0], words])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda e: e.generate(torch.tensor([3])), "ids mean different texts"),
        (lambda e: e.logprobs("a", "b"), "one text is written in many ways"),
        (lambda e: e.generate("a", logits_processor=[]), "needs members with one vocabulary"),
    ],
)
def test_what_needs_one_vocabulary_is_refused(pair, call, reason):
    with pytest.raises(UserError, match=reason):
        call(pair)


def test_the_report_counts_the_texts_that_both_have(random_model):
    split = byte_level(alphabet=ALPHABET)
    merged = byte_level(alphabet=ALPHABET, merges=[("Ã", "©"), ("a", "b")])
    report = compare_members(
        member(random_model(0, vocab=9, ends=[1]), split),
        member(random_model(1, vocab=11, ends=[1]), merged),
    )
    assert (report.level, report.shared, report.sizes) == ("text", 7, (9, 11))
    assert "shared texts   7 (77.8% and 63.6%)" in str(report)
    assert "end tokens     <eos> and <eos>" in str(report)


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=12))
def test_a_stream_gives_what_decoding_all_bytes_gives(pieces):
    stream = ByteStream(dict(enumerate(pieces)))
    shown = "".join(stream.push(token) for token in range(len(pieces)))
    shown += stream.push(-1)  # a control token ends what is incomplete
    assert shown == b"".join(pieces).decode("utf-8", "replace")


def test_words_are_shown_with_the_spaces_between_them():
    tokenizer = word_tokenizer(["one", "two"])
    stream = WordStream(tokenizer)
    assert [stream.push(i) for i in (4, 5, 2, 4)] == ["one", " two", "", " one"]
