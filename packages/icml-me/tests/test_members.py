import pytest
import torch
from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

from icml.core.errors import UserError
from icml.core.models.load import load
from icml.core.models.tiny import causal_lm
from icml.me import Ensemble
from icml.me.members import load_members, load_source


def test_a_copy_without_its_middle_blocks_runs_both_ends(tmp_path):
    whole = load("random:llama?layers=6&hidden=16&heads=2", device="cpu")
    whole.model.save_pretrained(tmp_path)
    whole.tokenizer.save_pretrained(tmp_path)
    cut = load_source(f"{tmp_path}?layers=3", device="cpu")
    model = whole.model.model
    hidden = model.embed_tokens(torch.tensor([[5, 6]]))
    turns = model.rotary_emb(hidden, torch.tensor([[0, 1]]))
    for number in (0, 4, 5):  # half of 3 rounded down from the front, the rest from the end
        hidden = model.layers[number](hidden, position_embeddings=turns)
    wanted = whole.model.lm_head(model.norm(hidden))
    torch.testing.assert_close(cut.model(torch.tensor([[5, 6]])).logits, wanted)
    assert cut.spec.source == f"{tmp_path}?layers=3"


@pytest.mark.parametrize("layers", [0, 3])
def test_a_model_cannot_be_cut_to_none_or_more_blocks(tmp_path, layers):
    whole = load("random:llama?layers=2&hidden=16&heads=2", device="cpu")
    whole.model.save_pretrained(tmp_path)
    whole.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=f"layers must be between 1 and 2, got {layers}"):
        load_source(f"{tmp_path}?layers={layers}", device="cpu")


def test_layers_of_a_random_source_stay_its_own():
    model = load_source("random:llama?layers=1&hidden=8", device="cpu").model
    assert model.config.num_hidden_layers == 1


def t5():
    return T5ForConditionalGeneration(
        T5Config(vocab_size=8, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    )


def bert():
    return BertModel(
        BertConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=8)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("models", "reason"),
    [
        ([], "models must be a list with at least one model"),
        ("random:llama", "models must be a list with at least one model, got 'random:llama'"),
        ([t5], r"member 1 \(T5ForConditionalGeneration\) is an encoder-decoder"),
        ([bert], r"member 1 \(BertModel\) doesn't generate text"),
        ([lambda: object()], r"member 1 \(object\) is no model of transformers"),
        (["random:llama?depth=3"], "has no depth"),
    ],
)
def test_what_cannot_be_a_member_is_refused(models, reason):
    built = models if isinstance(models, str) else [m() if callable(m) else m for m in models]
    with pytest.raises(UserError, match=reason):
        load_members(built)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tokenizers": [None]}, "tokenizers must be one a model, 2, got 1"),
        ({"devices": ["cpu"] * 3}, "devices must be one a model, 2, got 3"),
        ({"weights": [1, -1]}, "weights must be finite, >= 0"),
        ({"weights": [1]}, "weights must be one a member, 2"),
        ({"align": "words"}, "align must be 'auto'"),
    ],
)
def test_arguments_that_do_not_fit_the_members_are_refused(settings, reason):
    models = [causal_lm(12, d=8, layers=1, heads=2, seed=seed) for seed in range(2)]
    with pytest.raises(UserError, match=reason):
        Ensemble(models, **settings)


def test_models_without_tokenizers_need_equally_many_logits():
    models = [causal_lm(vocab, d=8, layers=1, heads=2) for vocab in (12, 13)]
    with pytest.raises(UserError, match="must have equally many logits, got member 1"):
        Ensemble(models)
