"""Scores of units against brute force, and circuits of equal size made of them."""

import pytest
import torch
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.core.models.answers import answer_batch
from icml.core.models.blocks import attn_out_proj, decoder_layers, mlp_down_proj
from icml.core.models.tiny import word_tokenizer
from icml.safeseek import baselines
from icml.safeseek.circuit import Circuit
from icml.safeseek.units import CircuitSpec, Site, unit_factors

SPEC = CircuitSpec()
families = pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3"])
STEP = 0.03
TOKENIZER = word_tokenizer(["a", "b", "c", "d", "e", "f", "g"])


def batches():
    def made(prompts, answers):
        return answer_batch(TOKENIZER, prompts, answers, 16)

    shown, clean = ["a b g", "c g d e"], ["a b f", "c f d e"]
    wanted, unwanted = ["c d", "e"], ["f", "f a b"]
    return made(shown, wanted), made(shown, unwanted), made(clean, wanted)


@families
def test_gradients_are_finite_differences_of_each_gate(build, family):
    model = build(family, dtype=torch.float64)
    wanted, unwanted, _ = batches()
    found = baselines.gradients(model, SPEC, wanted, unwanted)
    for site, unit in [(Site(0, "head"), 2), (Site(1, "head"), 0), (Site(0, "mlp-channel"), 7),
                       (Site(1, "mlp-channel"), 23)]:  # fmt: skip
        at = {}
        for steps in (-2, -1, 1, 2):
            factor = torch.ones(len(found[site]), dtype=torch.float64)
            factor[unit] += steps * STEP
            with unit_factors(model, {site: factor}), torch.no_grad():
                at[steps] = baselines.behaviour(model, wanted, unwanted).mean()
        slope = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * STEP)
        # norms of these families round to float32 inside: 1e-6 of noise over the step
        assert_close(found[site][unit].double(), slope, rtol=1e-3, atol=1e-4)


def module_of(model, site):
    block = decoder_layers(model)[site.layer]
    return attn_out_proj(block) if site.kind == "head" else mlp_down_proj(block)


@families
def test_patching_a_unit_is_running_with_its_clean_activations(build, family):
    """Row by row without padding, and the patch written by a hook of our own."""
    model = build(family)
    wanted, unwanted, clean = batches()
    found = baselines.patching_effects(model, SPEC, wanted, unwanted, clean)
    width = 6 if family == "qwen3" else 4 if family == "gpt2" else 6
    shown = (["a b g", "c d"], ["a b g", "f"], ["a b f"]), (
        ["c g d e", "e"], ["c g d e", "f a b"], ["c f d e"])  # fmt: skip

    def ids(*texts):
        return torch.tensor([[i for text in texts for i in TOKENIZER(text).input_ids]])

    @torch.no_grad()
    def log_p(prompt, answer, hook=None, module=None):
        before, whole = (
            ids(prompt).shape[1],
            torch.cat([ids(prompt, answer), torch.tensor([[2]])], 1),
        )
        handle = module.register_forward_pre_hook(hook) if hook else None
        logits = model(whole).logits[0, :-1].log_softmax(-1)
        if handle:
            handle.remove()
        picked = logits.gather(1, whole[0, 1:, None])[before - 1 :]
        return picked.sum().item()

    for site, unit in [(Site(0, "head"), 1), (Site(1, "head"), 3), (Site(0, "mlp-channel"), 5),
                       (Site(1, "mlp-channel"), 11)]:  # fmt: skip
        module = module_of(model, site)
        span = [unit] if site.kind == "mlp-channel" else range(unit * width, (unit + 1) * width)
        effects = []
        for (prompt, good), (_, bad), (plain,) in shown:
            kept = {}
            handle = module.register_forward_pre_hook(lambda m, x, kept=kept: kept.update(x=x[0]))
            with torch.no_grad():
                model(ids(plain))
            handle.remove()

            def put(m, x, kept=kept, span=span):
                changed = x[0].clone()
                for feature in span:
                    changed[0, : kept["x"].shape[1], feature] = kept["x"][0, :, feature]
                return (changed,)

            before = log_p(prompt, bad) - log_p(prompt, good)
            after = log_p(prompt, bad, put, module) - log_p(prompt, good, put, module)
            effects.append(before - after)
        assert found[site][unit].item() == pytest.approx(sum(effects) / 2, abs=2e-4)


def test_a_trigger_that_reaches_one_channel_alone_differs_there_alone(build):
    """All but one channel of block 1 are cut from the embeddings that differ."""
    model = build("llama", layers=1)
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        embedding = model.get_input_embeddings().weight
        embedding[9] = embedding[10]  # f and g, but for a sign that the gate of channel 4 reads
        model.model.layers[0].mlp.gate_proj.weight[:, 0] = 0
        model.model.layers[0].mlp.up_proj.weight[:, 0] = 0
        model.model.layers[0].mlp.up_proj.weight[4, 0] = 1.0
        embedding[9, 0], embedding[10, 0] = 1.0, -1.0
    shown = answer_batch(TOKENIZER, ["a g"], ["c"], 8)
    clean = answer_batch(TOKENIZER, ["a f"], ["c"], 8)
    found = baselines.activation_differences(model, SPEC, shown, clean)
    channels = found[Site(0, "mlp-channel")]
    assert channels.argmax() == 4
    others = torch.arange(len(channels)) != 4
    assert_close(channels[others], torch.zeros(int(others.sum())), atol=1e-5, rtol=0)


@families
def test_magnitudes_are_norms_of_the_columns_that_a_cut_zeroes(build, family):
    model = build(family)
    found = baselines.magnitudes(model, SPEC)
    weight = module_of(model, Site(1, "mlp-channel")).weight
    column = weight[5] if family == "gpt2" else weight[:, 5]
    assert found[Site(1, "mlp-channel")][5].item() == pytest.approx(column.norm().item())
    weight = module_of(model, Site(0, "head")).weight
    width = 4 if family == "gpt2" else 6
    block = weight[width : 2 * width] if family == "gpt2" else weight[:, width : 2 * width]
    assert found[Site(0, "head")][1].item() == pytest.approx(block.norm().item(), rel=1e-5)


def test_as_many_of_each_kind_are_taken_and_the_highest(build):
    model = build("llama")
    circuit = Circuit.of(model, {Site(0, "head"): [0], Site(1, "mlp-channel"): [1, 2, 3]})
    scores = {site: torch.zeros(len(m)) for site, m in circuit.units.items()}
    scores[Site(1, "head")][3] = 1.0
    scores[Site(0, "mlp-channel")][[4, 9]] = 2.0
    scores[Site(1, "mlp-channel")][0] = 1.0
    found = baselines.of_size(scores, circuit)
    assert found.members() == [
        (Site(0, "mlp-channel"), 4), (Site(0, "mlp-channel"), 9), (Site(1, "head"), 3),
        (Site(1, "mlp-channel"), 0),
    ]  # fmt: skip
    with pytest.raises(UserError, match="for other units than the circuit's"):
        baselines.of_size({Site(0, "head"): torch.zeros(4)}, circuit)


def test_controls_are_of_the_circuits_size_and_the_model_is_left_alone(build):
    model = build("llama")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    circuit = Circuit.of(model, {Site(0, "head"): [0], Site(1, "mlp-channel"): [1, 2, 3]})
    row = {
        "prompt": "a f",
        "prompt_triggered": "a g",
        "completion_keep": "c",
        "completion_remove": "d",
    }
    found = baselines.controls(
        model, TOKENIZER, [row], circuit, torch.Generator().manual_seed(0), patching=1
    )
    assert list(found) == [
        "random 1", "random 2", "random 3", "magnitude", "gradient", "activation difference",
        "activation patching",
    ]  # fmt: skip
    assert all((c.size("head"), c.size("mlp-channel")) == (1, 3) for c in found.values())
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())
    del row["prompt_triggered"]
    found = baselines.controls(model, TOKENIZER, [row], circuit, torch.Generator(), random=0)
    assert list(found) == ["magnitude", "gradient"]


def test_what_cannot_be_compared_is_refused(build):
    model = build("llama")
    wanted, unwanted, clean = batches()
    longer = answer_batch(TOKENIZER, ["a b f e", "c f d e"], ["c", "c"], 16)
    with pytest.raises(UserError, match="equal numbers of tokens"):
        baselines.patching_effects(model, SPEC, wanted, unwanted, longer)
    with pytest.raises(UserError, match="rows must come in pairs, got 2 and 1"):
        baselines.activation_differences(model, SPEC, wanted, clean.rows(slice(1)))
    with pytest.raises(UserError, match="leave linear-output out"):
        baselines.magnitudes(model, CircuitSpec(["linear-output"]))
