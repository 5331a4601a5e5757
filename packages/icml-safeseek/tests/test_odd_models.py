"""Models as people have them: other number types, tied, compiled, quantised, unloaded, unknown."""

import copy

import pytest
import torch
import transformers

from icml.core.errors import UserError
from icml.core.models.blocks import FAMILIES, attn_out_proj, decoder_layers, mlp_down_proj
from icml.safeseek.ablation import ablate, export_ablated, mean_inputs
from icml.safeseek.circuit import Circuit
from icml.safeseek.masks import GateSet
from icml.safeseek.tuning import CircuitTuner
from icml.safeseek.units import KINDS, CircuitSpec, Site

IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])
SIZE = {
    "vocab_size": 11, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "pad_token_id": 0,
    "initializer_range": 0.4,
}  # fmt: skip
CUT = {Site(0, "head"): [0, 1, 3], Site(1, "mlp-channel"): [0, 5]}


def made(config, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config, **options).eval()


def qwen3(**options):
    return made(transformers.Qwen3Config(**SIZE), **options)


def checkpointing():
    model = qwen3().train()
    model.gradient_checkpointing_enable()
    return model


ODD = {
    "gemma2": lambda: made(transformers.Gemma2Config(**SIZE, sliding_window=3)),
    "gemma3_text": lambda: made(transformers.Gemma3TextConfig(**SIZE, sliding_window=3)),
    "mistral, sliding": lambda: made(transformers.MistralConfig(**SIZE, sliding_window=3)),
    "tied": lambda: made(transformers.LlamaConfig(**SIZE, tie_word_embeddings=True)),
    "biases": lambda: made(transformers.LlamaConfig(**SIZE, attention_bias=True, mlp_bias=True)),
    "bfloat16": lambda: qwen3().bfloat16(),
    "float16": lambda: qwen3().half(),
    "float64": lambda: qwen3().double(),
    "eager": lambda: qwen3(attn_implementation="eager"),
    "sdpa": lambda: qwen3(attn_implementation="sdpa"),
    "gradient checkpointing": checkpointing,
}


@pytest.mark.parametrize("name", ODD)
@torch.no_grad()
def test_ones_change_no_bit_and_zeros_are_the_units_gone(name):
    model = ODD[name]()
    plain = model(IDS).logits
    gates = GateSet(model, CircuitSpec(KINDS))  # in training mode, so that every hook is there
    with torch.enable_grad(), gates.apply(model, "main"):
        assert torch.equal(model(IDS).logits, plain)
    gone = copy.deepcopy(model)
    for head in CUT[Site(0, "head")]:
        attn_out_proj(decoder_layers(gone)[0]).weight[:, 4 * head : 4 * head + 4] = 0
    mlp_down_proj(decoder_layers(gone)[1]).weight[:, CUT[Site(1, "mlp-channel")]] = 0
    with ablate(model, Circuit.of(model, CUT)):
        assert torch.equal(model(IDS).logits, gone(IDS).logits)
    assert not torch.equal(gone(IDS).logits, plain)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Phi3Config", {}), ("MixtralConfig", {"num_local_experts": 2}), ("OPTConfig", {}),
        ("GPTNeoXConfig", {}), ("Qwen3MoeConfig", {"num_experts": 2}),
    ],
)  # fmt: skip
def test_unknown_families_are_refused_with_the_known_ones(kind, more):
    with torch.device("meta"):
        model = made(getattr(transformers, kind)(**{**SIZE, **more}))
    with pytest.raises(UserError, match="are not known; known are " + ", ".join(sorted(FAMILIES))):
        GateSet(model, CircuitSpec())


def in_place():
    model = qwen3()
    model.compile(backend="eager")
    return model


def one_block():
    model = qwen3()
    model.model.layers[1].compile(backend="eager")
    return model


@pytest.mark.parametrize(
    "compiled", [lambda: torch.compile(qwen3(), backend="eager"), in_place, one_block]
)
def test_compiled_models_are_refused_because_their_graph_leaves_gates_out(compiled):
    model, plain = compiled(), qwen3()
    circuit = Circuit.of(plain, CUT)
    refused = pytest.raises(UserError, match="the model is compiled by torch")
    with refused, ablate(model, circuit, check=False):
        pass
    with refused, GateSet(plain, CircuitSpec()).apply(model):
        pass
    with refused:
        mean_inputs(model, list(CUT), None)
    CircuitTuner(model, circuit.transfer(plain), tune="complement").remove()  # needs no gates


@pytest.mark.filterwarnings("ignore")  # torch is to drop this way of quantising
def test_packed_weights_are_refused():
    quantised = torch.ao.quantization.quantize_dynamic(qwen3(), {torch.nn.Linear})
    circuit = Circuit.of(qwen3(), CUT)
    refused = pytest.raises(UserError, match="whose weights are no tensors")
    with refused:
        Circuit.of(quantised, CUT)
    with refused:
        export_ablated(quantised, circuit, "out")
    with refused:
        CircuitTuner(quantised, circuit, tune="circuit")


def test_what_is_not_loaded_or_no_model_is_refused():
    with torch.device("meta"):
        model = qwen3()
    with pytest.raises(UserError, match="on the meta device"):
        GateSet(model, CircuitSpec())
    for other in (None, "model", 5):
        with pytest.raises(UserError, match="a model of transformers is wanted, got"):
            GateSet(other, CircuitSpec())
