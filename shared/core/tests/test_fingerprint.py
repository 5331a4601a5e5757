import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from icml.core.models.fingerprint import fingerprint
from icml.core.models.load import load
from icml.core.models.tiny import causal_lm


def test_equal_weights_have_one_fingerprint_and_others_another():
    first, again, other = (
        fingerprint(causal_lm(20, d=8, layers=1, seed=seed)) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(first) == 64


def test_it_changes_with_the_last_bit_of_one_weight():
    model = causal_lm(20, d=8, layers=1)
    before = fingerprint(model)
    weight = model.model.norm.weight
    with torch.no_grad():
        weight[3] = torch.nextafter(weight[3], torch.tensor(2.0))
    assert fingerprint(model) != before


def test_it_survives_saving_and_loading(tmp_path):
    loaded = load("random:llama?layers=1&hidden=8&vocab=300", device="cpu")
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    assert load(tmp_path, device="cpu").fingerprint == loaded.fingerprint


def test_a_setting_that_changes_the_function_changes_it():
    sizes = {
        "vocab_size": 20, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2,
    }  # fmt: skip
    models = []
    for epsilon in (1e-5, 1e-6):
        torch.manual_seed(0)
        models.append(LlamaForCausalLM(LlamaConfig(**sizes, rms_norm_eps=epsilon)))
    assert fingerprint(models[0]) != fingerprint(models[1])


@pytest.mark.parametrize(
    ("setting", "value"), [("pad_token_id", 7), ("use_cache", False), ("_name_or_path", "here")]
)
def test_a_setting_that_leaves_the_function_alone_does_not(setting, value):
    model = causal_lm(20, d=8, layers=1)
    before = fingerprint(model)
    setattr(model.config, setting, value)
    assert fingerprint(model) == before


def test_the_number_type_counts():
    model = causal_lm(20, d=8, layers=1)
    assert fingerprint(model) != fingerprint(model.bfloat16())
