"""Gates on heads and neurons against editing the weights of every family."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from icml.core.models.blocks import (
    FAMILIES,
    attn_out_proj,
    decoder_layers,
    head_layout,
    mlp_down_proj,
)
from icml.core.models.hidden import Site, gate_inputs
from icml.core.models.steps import forward_step, new_cache

IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])
families = pytest.mark.parametrize("family", sorted(FAMILIES))
SITES = [Site(layer, part) for layer in range(3) for part in ("heads", "neurons")]


def logits(model):
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def projection(model, site):
    find = attn_out_proj if site.part == "heads" else mlp_down_proj
    return find(decoder_layers(model)[site.layer])


def hooks(model):
    return sum(len(module._forward_pre_hooks) for module in model.modules())


@families
def test_a_gate_of_ones_changes_no_bit(build_family, family):
    model = build_family(family)
    before = logits(model)
    with gate_inputs(model, SITES, lambda site, x: x * torch.ones_like(x)):
        assert torch.equal(logits(model), before)
    with gate_inputs(model, SITES, lambda site, x: None):
        assert torch.equal(logits(model), before)


@families
@pytest.mark.parametrize("part", ["heads", "neurons"])
def test_a_zeroed_unit_is_one_whose_column_of_the_projection_is_zero(build_family, family, part):
    model = build_family(family)
    width = head_layout(model.config).head_dim if part == "heads" else 1
    site, unit = Site(1, part), slice(width, 2 * width)
    edited = copy.deepcopy(model)
    weight = projection(edited, site).weight.data
    (weight[unit] if family == "gpt2" else weight[:, unit]).zero_()  # Conv1D has the transpose

    def drop(site, x):
        kept = torch.ones(x.shape[-1], dtype=x.dtype)
        kept[unit] = 0
        return x * kept

    with gate_inputs(model, [site], drop):
        found = logits(model)
    assert torch.equal(found, logits(edited))
    assert not torch.allclose(found, logits(model))


@families
def test_zeroes_leave_the_biases_of_the_projection_and_nothing_else(build_family, family):
    model = build_family(family)
    edited = copy.deepcopy(model)
    for site in SITES:
        nn.init.zeros_(projection(edited, site).weight)
    if family == "gpt2":
        for other in (model, edited):
            for site in SITES:
                nn.init.normal_(projection(other, site).bias, generator=torch.manual_seed(1))
    with gate_inputs(model, SITES, lambda site, x: torch.zeros_like(x)):
        assert torch.equal(logits(model), logits(edited))


def test_a_gate_gets_each_site_as_given_and_acts_in_steps_with_a_cache(build_family):
    model, seen = build_family("qwen2"), []

    def halve(site, x):
        seen.append(site)
        return x / 2

    sites = [Site(0, "heads"), Site(-1, "neurons")]
    with gate_inputs(model, sites, halve):
        full = logits(model)
        assert seen == sites
        cache = new_cache(model)
        steps = [forward_step(model, part, cache, last_only=False) for part in IDS.split(2, 1)]
    assert_close(torch.cat(steps, 1), full)


def test_gradients_flow_to_the_gate(build_family):
    # GPT-2's norm stays in float64, Llama's goes through float32
    model, site = build_family("gpt2"), Site(0, "neurons")
    gate = torch.ones(64, dtype=torch.float64, requires_grad=True)
    with gate_inputs(model, [site], lambda site, x: x * gate):
        (found,) = torch.autograd.grad(model(IDS).logits.square().sum(), gate)
        step = 1e-6
        with torch.no_grad():
            gate[3] += step
            above = model(IDS).logits.square().sum()
            gate[3] -= 2 * step
            below = model(IDS).logits.square().sum()
    assert_close(found[3], (above - below) / (2 * step), rtol=1e-6, atol=1e-6)


def test_gates_of_two_models_and_nested_ones_do_not_meet(build_family):
    one, two = build_family("llama"), build_family("gpt2")
    before = logits(two)
    with gate_inputs(one, SITES, lambda site, x: x * 0):
        assert torch.equal(logits(two), before)
        none = logits(one)
        with gate_inputs(one, [Site(0, "heads")], lambda site, x: x * 3):
            assert torch.equal(logits(one), none)  # 3 * 0
    assert hooks(one) == 0


def test_hooks_are_gone_after_an_error(build_family):
    model = build_family("llama")

    def broken(site, x):
        raise RuntimeError("broken gate")

    with pytest.raises(RuntimeError, match="broken gate"), gate_inputs(model, SITES, broken):
        model(IDS)
    assert hooks(model) == 0


@pytest.mark.parametrize(
    ("sites", "error", "words"),
    [
        ([Site(3, "heads")], IndexError, r"layer must be in \[-3, 3\), got 3"),
        ([Site(0, "keys")], ValueError, "part must be heads or neurons, got 'keys'"),
        ([Site(2, "heads"), Site(-1, "heads")], ValueError, "a site comes twice"),
    ],
)
def test_sites_that_are_not_there_are_refused(build_family, sites, error, words):
    model = build_family("llama")
    with pytest.raises(error, match=words), gate_inputs(model, sites, lambda site, x: None):
        pass
    assert hooks(model) == 0
