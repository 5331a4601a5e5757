"""A circuit's share of the weights, against counting through masks of the weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.safeseek.circuit import Circuit
from icml.safeseek.shares import parameter_shares
from icml.safeseek.tuning import unit_slices
from icml.safeseek.units import CircuitSpec, Site, unit_counts

FAMILIES = ("gemma", "gpt2", "llama", "mistral", "qwen2", "qwen3")


def counted(model, circuit, kind):
    """Entries that are a circuit's own, counted in a mask of every parameter's shape."""
    units = {s: m for s, m in circuit.units.items() if kind in ("all", s.kind)}
    masks = unit_slices(model, Circuit(units, circuit.model_fingerprint))
    return sum(int(mask.sum()) for mask in masks.values())


def check(model, circuit):
    found = parameter_shares(model, circuit)
    assert list(found) == [*circuit.kinds, "all"]
    every = circuit.union(circuit.complement())
    for kind, share in found.items():
        assert share.own == counted(model, circuit, kind)
        assert share.gated == counted(model, every, kind)
        assert share.share == share.own / share.gated


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "kinds",
    [
        ("head",),
        ("mlp-channel",),
        ("head", "mlp-channel"),
        ("head", "mlp-channel", "linear-output"),
    ],
    ids="+".join,
)
def test_shares_are_those_counted_in_masks(build, family, kinds):
    model = build(family)
    generator = torch.Generator().manual_seed(3)
    counts = unit_counts(model, CircuitSpec(kinds))
    for density in (0.1, 0.6, 1.0):
        units = {s: torch.rand(n, generator=generator) < density for s, n in counts.items()}
        check(model, Circuit(units, "any"))


@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_any_heads_that_share_keys_and_values(data):
    from icml.safeseek.units import KINDS

    model = _grouped()
    counts = unit_counts(model, CircuitSpec(KINDS))
    units = {
        site: torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
        for site, n in counts.items()
    }
    check(model, Circuit(units, "any"))


def _grouped():
    import transformers

    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=7, hidden_size=8, intermediate_size=5, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
    ))  # fmt: skip


def test_a_group_counts_when_all_its_heads_are_in(build):
    model = build("llama")  # width 16, heads of 6, two query heads a group
    half = parameter_shares(model, Circuit.of(model, {Site(0, "head"): [0]}))
    whole = parameter_shares(model, Circuit.of(model, {Site(0, "head"): [0, 1]}))
    assert half["head"].own == 2 * 6 * 16  # rows of the queries, columns of the output
    assert whole["head"].own == 4 * 6 * 16 + 2 * 6 * 16  # and rows of keys and values
    assert whole["head"].gated == 2 * (8 * 6 * 16 + 4 * 6 * 16)


def test_a_model_of_another_shape_is_refused(build):
    circuit = Circuit.of(build("llama"), {Site(1, "head"): [0]})
    with pytest.raises(UserError, match="another model"):
        parameter_shares(build("llama", layers=1), circuit)
