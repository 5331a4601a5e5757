"""Ablation against edited weights, and exported checkpoints against the gated model."""

import copy

import pytest
import torch
import transformers
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.core.models.answers import AnswerBatch
from icml.core.models.blocks import attn_out_proj, decoder_layers, head_layout, mlp_down_proj
from icml.core.models.tiny import word_tokenizer
from icml.safeseek.ablation import ablate, export_ablated, mean_inputs
from icml.safeseek.circuit import Circuit
from icml.safeseek.units import KINDS, CircuitSpec, Site

FAMILIES = ("gemma", "gpt2", "llama", "mistral", "qwen2", "qwen3")
families = pytest.mark.parametrize("family", FAMILIES)
IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(ids, use_cache=False).logits


def mixed(model, family):
    """Two heads of one group and one of another, channels, outputs with and without biases."""
    names = (
        ("attn.c_attn", "mlp.c_proj") if family == "gpt2" else ("self_attn.k_proj", "mlp.up_proj")
    )
    members = {Site(0, "head"): [0, 1, 2], Site(1, "mlp-channel"): [0, 23]}
    members |= {Site(1, "linear-output", name): [1, 5] for name in names}
    return Circuit.of(model, members, CircuitSpec(KINDS))


@families
def test_the_exported_checkpoint_has_the_ablated_models_logits(build, family, tmp_path):
    model = build(family)
    before = copy.deepcopy(model.state_dict())
    circuit = mixed(model, family)
    with ablate(model, circuit):
        wanted = logits(model)
    assert not torch.allclose(wanted, logits(model))
    tokenizer = word_tokenizer(list("abcdefg"))
    export_ablated(model, circuit, tmp_path / "out", tokenizer)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert_close(logits(loaded), wanted, atol=1e-6, rtol=0)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("b").input_ids == [5]
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    with pytest.raises(UserError, match="a model with other weights"):
        circuit.check(loaded)


@families
def test_a_circuit_and_its_complement_cut_all(build, family):
    model = build(family)
    circuit = Circuit.of(model, {Site(0, "head"): [1], Site(1, "mlp-channel"): [3]})
    with ablate(model, circuit), ablate(model, circuit.complement()):
        nothing = logits(model)
    with ablate(model, circuit.union(circuit.complement())):
        assert torch.equal(logits(model), nothing)


@families
def test_mean_ablation_sends_the_mean_of_the_tokens_that_are_no_padding(build, family):
    model = build(family)
    mask = torch.ones_like(IDS, dtype=torch.bool)
    mask[1, 3:] = False
    text = AnswerBatch(IDS, mask, IDS, torch.zeros(2, dtype=torch.bool))
    circuit = Circuit.of(model, {Site(1, "head"): [2], Site(1, "mlp-channel"): [0, 5]})
    width, block = head_layout(model.config).head_dim, decoder_layers(model)[1]
    inputs, edited = {}, {}

    def listen(into):
        def at(name):
            return lambda module, args: into.__setitem__(name, args[0])

        found = ((attn_out_proj(block), "head"), (mlp_down_proj(block), "mlp-channel"))
        return [m.register_forward_pre_hook(at(name)) for m, name in found]

    handles = listen(inputs)
    logits(model)
    for handle in handles:
        handle.remove()
    with ablate(model, circuit, value="mean", calibration=text):
        handles = listen(edited)
        logits(model)
        for handle in handles:
            handle.remove()
    rows = [inputs["head"][0], inputs["head"][1, :3]]
    head = slice(2 * width, 3 * width)
    mean = torch.cat(rows)[:, head].mean(0)
    assert_close(edited["head"][..., head], mean.expand(2, 5, -1))
    assert_close(edited["head"][..., : 2 * width], inputs["head"][..., : 2 * width])
    # channels come behind the ablated head of the block, so only their being constant is seen
    for channel in (0, 5):
        column = edited["mlp-channel"][..., channel]
        assert_close(column, column[0, 0].expand(2, 5))
    assert edited["mlp-channel"][..., 1].std() > 0


def test_means_are_zero_where_units_send_nothing(build):
    model = build("llama")
    text = AnswerBatch(IDS, torch.ones_like(IDS).bool(), IDS, torch.zeros(2, dtype=torch.bool))
    torch.nn.init.zeros_(model.model.layers[0].mlp.up_proj.weight)
    sites = [Site(0, "mlp-channel"), Site(0, "linear-output", "mlp.up_proj")]
    mean = mean_inputs(model, sites, text)
    assert all((x == 0).all() for x in mean.values())


def test_an_empty_circuit_changes_no_bit(build):
    model = build("gpt2")
    with ablate(model, Circuit.of(model, {})):
        assert torch.equal(logits(model), logits(build("gpt2")))


def test_another_models_circuit_and_odd_settings_are_refused(build, tmp_path):
    model, other = build("llama"), build("llama", seed=1)
    circuit = Circuit.of(other, {Site(0, "head"): [0]})
    with pytest.raises(UserError, match="other weights"), ablate(model, circuit):
        pass
    with pytest.raises(UserError, match="other weights"):
        export_ablated(model, circuit, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with (
        pytest.raises(UserError, match="mean with a calibration"),
        ablate(other, circuit, value="mean"),
    ):
        pass


def test_quantised_weights_are_not_exported(build, tmp_path):
    model = build("llama")
    circuit = Circuit.of(model, {Site(0, "head"): [0]})
    projection = model.model.layers[0].self_attn.o_proj
    projection.weight = torch.nn.Parameter(projection.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(UserError, match=r"0/head lies in a Linear with torch\.int8"):
        export_ablated(model, circuit, tmp_path / "out")
