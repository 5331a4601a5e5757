"""Models with weights that are no numbers, and rows that a model has no embeddings for."""

import pytest
import torch
import transformers

from icml.core.errors import UserError
from icml.safeseek.baselines import controls
from icml.safeseek.circuit import Circuit
from icml.safeseek.evaluation import evaluate_circuit
from icml.safeseek.objectives import backdoor_objective
from icml.safeseek.search import SearchConfig, find_circuit
from icml.safeseek.units import Site

STEPS = SearchConfig(steps=2, eval_every=1)
UNIT = {Site(1, "mlp-channel"): [2]}


@pytest.mark.parametrize("token", [18, 10**6, -1, 2**40])
@pytest.mark.parametrize("name", ["prompt", "completion_remove"])
def test_ids_outside_of_the_vocabulary_are_refused_by_row(planted, name, token):
    model, tokenizer, rows = planted("mlp-channel")
    data = [dict(row) for row in rows]
    data[1][name] = [4, token]
    words = r"row 1 holds the token|of row 1 must be a text or token ids"
    with pytest.raises(UserError, match=words):
        find_circuit(model, tokenizer, data, backdoor_objective("official-neuron"), STEPS)
    with pytest.raises(UserError, match=words):
        find_circuit(
            model, tokenizer, rows, backdoor_objective("official-neuron"), STEPS, eval_data=data
        )
    circuit = Circuit.of(model, UNIT)
    with pytest.raises(UserError, match=words):
        evaluate_circuit(model, tokenizer, circuit, data)
    with pytest.raises(UserError, match=words):
        controls(model, tokenizer, data, circuit, torch.Generator())


def test_a_padding_token_without_an_embedding_is_named(planted):
    model, tokenizer, rows = planted("mlp-channel")
    tokenizer.add_special_tokens({"pad_token": "<new>"})
    rows = [*rows, {**rows[0], "prompt": "a b c"}, {**rows[0], "prompt": "a"}]
    with pytest.raises(UserError, match=r"fills rows up with the token 14.*pad_token = "):
        find_circuit(model, tokenizer, rows, backdoor_objective(), STEPS)


def test_rows_longer_than_gpt2_has_places_are_refused(planted):
    _, tokenizer, rows = planted("mlp-channel")
    config = transformers.GPT2Config(vocab_size=14, n_embd=8, n_layer=2, n_head=2, n_positions=4)
    model = transformers.GPT2LMHeadModel(config)
    long = [{**row, "prompt": "a b c d a b"} for row in rows]
    with pytest.raises(UserError, match=r"a row has 8 tokens, this model reads 4"):
        find_circuit(model, tokenizer, long, backdoor_objective(), STEPS)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(planted, value):
    model, tokenizer, rows = planted("mlp-channel")
    model.model.layers[0].mlp.up_proj.weight.data[3, 4] = value
    circuit = Circuit.of(model, UNIT)
    words = r"1 weights of model\.layers\.0\.mlp\.up_proj\.weight are NaN or infinite"
    with pytest.raises(UserError, match=words):
        find_circuit(model, tokenizer, rows, backdoor_objective(), STEPS)
    with pytest.raises(UserError, match=words):
        evaluate_circuit(model, tokenizer, circuit, rows)
