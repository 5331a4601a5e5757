"""Sites of units, and factors on them in live models."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.core.models.blocks import attn_out_proj, decoder_layers, head_layout
from icml.safeseek.units import KINDS, CircuitSpec, Site, unit_counts, unit_factors

FAMILIES = ("gemma", "gpt2", "llama", "mistral", "qwen2", "qwen3")
families = pytest.mark.parametrize("family", FAMILIES)
IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])


def logits(model):
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def factors(model, value, granularity=KINDS):
    counts = unit_counts(model, CircuitSpec(granularity))
    return {site: torch.full((count,), value) for site, count in counts.items()}


@families
def test_heads_and_channels_are_counted(build, family):
    counts = unit_counts(build(family), CircuitSpec())
    wanted = {Site(i, k): n for i in (0, 1) for k, n in (("head", 4), ("mlp-channel", 24))}
    assert counts == wanted


def test_linear_outputs_are_those_of_every_projection(build):
    counts = unit_counts(build("qwen3"), CircuitSpec(["linear-output"], layers=[1]))
    sizes = {site.module.split(".")[1]: n for site, n in counts.items()}
    assert sizes == {
        "q_proj": 24, "k_proj": 12, "v_proj": 12, "o_proj": 16,
        "gate_proj": 24, "up_proj": 24, "down_proj": 16,
    }  # fmt: skip
    counts = unit_counts(build("gpt2"), CircuitSpec(["linear-output"], layers=[0]))
    assert list(counts.values()) == [48, 16, 24, 16]


@families
def test_factors_of_one_change_no_bit_with_and_without_gradients(build, family):
    model = build(family)
    before = logits(model)
    with unit_factors(model, factors(model, 1.0)):
        assert torch.equal(logits(model), before)
    learnt = {site: x.requires_grad_() for site, x in factors(model, 1.0).items()}
    with unit_factors(model, learnt):
        found = model(IDS, use_cache=False).logits
    assert found.requires_grad
    assert torch.equal(found, before)


@families
def test_all_off_leaves_a_blocks_residual_and_its_biases(build, family):
    model = build(family)
    with unit_factors(model, factors(model, 0.0, ("head", "mlp-channel"))):
        found = logits(model)
    hidden = model.get_input_embeddings()(IDS)
    base = model.base_model
    if family == "gpt2":
        hidden = hidden + base.wpe(torch.arange(5))
        for block in base.h:
            hidden = hidden + block.attn.c_proj.bias
            hidden = hidden + block.mlp.c_proj.bias
    if family == "gemma":  # it scales its embeddings
        with torch.no_grad():
            hidden = model(IDS, output_hidden_states=True).hidden_states[0]
    norm = base.ln_f if family == "gpt2" else base.norm
    assert torch.equal(found, model.lm_head(norm(hidden)))


@families
def test_a_gate_on_a_head_leaves_the_others_contributions_alone(build, family):
    """In the authors' code the slice behind the projection changes what all heads wrote."""
    model = build(family)
    projection = attn_out_proj(decoder_layers(model)[1])
    width = head_layout(model.config).head_dim
    weight = projection.weight if family == "gpt2" else projection.weight.T  # (inputs, outputs)
    seen = {}

    def keep(module, inputs, output):
        seen["in"], seen["out"] = inputs[0], output

    handle = projection.register_forward_hook(keep)
    before = logits(model)
    plain = dict(seen)
    factor = torch.tensor([1.0, 1.0, 0.0, 1.0])
    with unit_factors(model, {Site(1, "head"): factor}):
        gated = logits(model)
    handle.remove()
    heads = plain["in"].split(width, -1)
    parts = [x @ w for x, w in zip(heads, weight.split(width), strict=True)]
    # what the block's attention wrote has lost exactly head 2's part
    assert_close(seen["out"], plain["out"] - parts[2], atol=1e-4, rtol=1e-5)
    for other in (0, 1, 3):
        assert torch.equal(seen["in"].split(width, -1)[other], heads[other])
    assert not torch.allclose(gated, before)


@families
def test_only_the_query_head_is_gated_where_heads_share_keys_and_values(build, family):
    model = build(family)
    with unit_factors(model, {Site(0, "head"): torch.tensor([0.0, 1.0, 1.0, 1.0])}):
        one = logits(model)
    with unit_factors(model, {Site(0, "head"): torch.tensor([0.0, 0.0, 1.0, 1.0])}):
        group = logits(model)
    assert not torch.allclose(one, group)


@families
def test_a_linear_output_that_is_off_sends_nothing(build, family):
    model = build(family)
    down = "mlp.c_proj" if family == "gpt2" else "mlp.down_proj"
    site = Site(0, "linear-output", down)
    seen = []
    module = decoder_layers(model)[0].get_submodule(down)
    with unit_factors(model, {site: torch.tensor([0.0] + [1.0] * 15)}):
        handle = module.register_forward_hook(lambda m, i, out: seen.append(out))
        logits(model)
        handle.remove()
    assert (seen[0][..., 0] == 0).all()
    assert (seen[0][..., 1:] != 0).any()


def test_two_models_in_one_process_do_not_meet(build):
    one, two = build("llama"), build("llama", seed=1)
    before = logits(two)
    with unit_factors(one, factors(one, 0.0)):
        assert torch.equal(logits(two), before)
        with unit_factors(two, factors(two, 0.0)):
            silent = logits(two)
        assert torch.equal(logits(two), before)
    assert not torch.equal(silent, before)
    for model in (one, two):
        assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_a_site_is_read_back_from_its_text():
    for site in (Site(3, "head"), Site(0, "linear-output", "mlp.up_proj")):
        assert Site.of(site.key) == site
    for wrong in ("head", "x/head", "1/neuron", "1/linear-output", "1/head/x"):
        with pytest.raises(UserError, match="is no site"):
            Site.of(wrong)


@pytest.mark.parametrize("wrong", [(), ("heads",), "head"])
def test_granularity_must_be_known(wrong):
    with pytest.raises(UserError, match="granularity must be one or more of head, mlp-channel"):
        CircuitSpec(wrong)


def test_layers_that_are_not_there_are_refused(build):
    with pytest.raises(UserError, match=r"layers must be in \[0, 2\), got 2"):
        unit_counts(build("llama"), CircuitSpec(layers=[0, 2]))
    with pytest.raises(UserError, match="no layer is named"):
        unit_counts(build("llama"), CircuitSpec(layers=[]))


def test_a_model_without_known_projections_is_refused_and_its_modules_named():
    model = nn.ModuleDict({"first": nn.Linear(2, 2), "second": nn.Linear(2, 2)})
    with pytest.raises(UserError, match="the model's modules are called first, second"):
        unit_counts(model, CircuitSpec())
