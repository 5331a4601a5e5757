"""Circuits as sets, and as files that only their own model accepts."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.safeseek.circuit import Circuit
from icml.safeseek.units import CircuitSpec, Site

SITES = (Site(0, "head"), Site(0, "mlp-channel"), Site(1, "head"))


def circuit(*members, owner="x"):
    sizes = dict(zip(SITES, (3, 5, 3), strict=True))
    units = {s: torch.zeros(n, dtype=torch.bool) for s, n in sizes.items()}
    for place, number in members:
        units[SITES[place]][number] = True
    return Circuit(units, owner)


members = st.sets(
    st.sampled_from([(p, n) for p, size in enumerate((3, 5, 3)) for n in range(size)])
)


@given(a=members, b=members)
def test_circuits_are_sets(a, b):
    one, two = circuit(*a), circuit(*b)

    def units(c):
        return {(SITES.index(site), n) for site, n in c.members()}

    assert units(one) == a
    assert units(one.union(two)) == a | b
    assert units(one.intersection(two)) == a & b
    assert units(one.complement().complement()) == a
    assert one.size() + one.complement().size() == one.total() == 11
    assert one.union(one.complement()).fraction() == 1
    assert one.jaccard(one) == 1
    assert one.jaccard(two) == (len(a & b) / len(a | b) if a | b else 1)


def test_kinds_have_shares_of_their_own():
    found = circuit((0, 1), (1, 4), (1, 0), (2, 2))
    assert found.fraction("head") == 2 / 6
    assert found.fraction("mlp-channel") == 2 / 5
    assert found.fraction() == 4 / 11
    assert (found.heads(0), found.heads(1), found.channels(0)) == ((1,), (2,), (0, 4))
    assert found.channels(1) == ()
    assert found.without(SITES[1], 4).channels(0) == (0,)
    with pytest.raises(UserError, match="no linear-output had a gate"):
        found.fraction("linear-output")


def test_a_random_circuit_has_as_many_units_of_each_kind():
    found = circuit((0, 1), (1, 4), (1, 0), (2, 2))
    generator, counts = torch.Generator().manual_seed(0), torch.zeros(6)
    for _ in range(300):
        drawn = found.random_like(generator)
        assert (drawn.size("head"), drawn.size("mlp-channel")) == (2, 2)
        counts += torch.cat([drawn.units[SITES[0]], drawn.units[SITES[2]]]).float()
    # each of 6 heads is drawn 100 times on average, standard deviation 8.2: 5 of them a side
    assert (counts - 100).abs().max() < 41


def test_circuits_of_different_models_do_not_mix():
    with pytest.raises(UserError, match="union needs two circuits of one model"):
        circuit().union(circuit(owner="y"))
    fewer = Circuit({SITES[0]: torch.zeros(3, dtype=torch.bool)}, "x")
    with pytest.raises(UserError, match="union needs two circuits"):
        circuit().jaccard(fewer)


def test_saved_and_loaded_it_is_the_same(build, tmp_path):
    model = build("qwen2")
    spec = CircuitSpec(["head", "linear-output"], layers=[1])
    site = Site(1, "linear-output", "mlp.up_proj")
    found = Circuit.of(model, {Site(1, "head"): [3], site: [0, 23]}, spec, {"lambda": 2.0})
    found.save(tmp_path / "c")
    again = Circuit.load(tmp_path / "c", model)
    assert again.members() == found.members()
    assert again.jaccard(found) == 1
    assert again.notes == {"lambda": 2.0}
    about = json.loads((tmp_path / "c/circuit.json").read_text())
    assert about["sizes"] == {"head": [1, 4], "linear-output": [2, 112]}


def test_another_models_circuit_is_refused(build, tmp_path):
    model = build("llama")
    found = Circuit.of(model, {Site(1, "head"): [3]})
    found.save(tmp_path / "c")
    other = build("llama", seed=1)
    with pytest.raises(UserError, match="a model with other weights"):
        Circuit.load(tmp_path / "c", other)
    assert found.transfer(other).members() == found.members()
    found.transfer(other).check(other)
    with pytest.raises(UserError, match="belongs to another model"):
        Circuit.load(tmp_path / "c", build("llama", layers=1))
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] += 1
    with pytest.raises(UserError, match="a model with other weights"):
        found.check(model)


def test_heads_of_another_number_are_refused(build):
    model = build("llama")
    units = {Site(0, "head"): torch.ones(8, dtype=torch.bool)}
    with pytest.raises(UserError, match="it has 8 units at 0/head, this model has 4"):
        Circuit(units, "x").check(model)


def test_a_folder_without_a_circuit_or_with_a_damaged_one_is_refused(build, tmp_path):
    with pytest.raises(UserError, match="holds no circuit"):
        Circuit.load(tmp_path)
    found = circuit((0, 0))
    found.save(tmp_path / "c")
    whole = (tmp_path / "c/circuit.safetensors").read_bytes()
    (tmp_path / "c/circuit.safetensors").write_bytes(whole[:-3])
    with pytest.raises(UserError, match="is damaged"):
        Circuit.load(tmp_path / "c")
    (tmp_path / "c/circuit.safetensors").write_bytes(whole)
    about = tmp_path / "c/circuit.json"
    about.write_text(about.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(UserError, match="has format 9"):
        Circuit.load(tmp_path / "c")
    about.write_text("{}")
    with pytest.raises(UserError, match="is damaged"):
        Circuit.load(tmp_path / "c")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({Site(0, "head"): [4]}, "0/head has units 0 to 3, got 4"),
        ({Site(2, "head"): [0]}, "no unit of 2/head is gated"),
    ],
)
def test_units_that_are_not_there_are_refused(build, members, words):
    with pytest.raises(UserError, match=words):
        Circuit.of(build("llama"), members)
    with pytest.raises(UserError, match="at least one gated site"):
        Circuit({}, "x")
    with pytest.raises(UserError, match="must be booleans"):
        Circuit({Site(0, "head"): torch.ones(3)}, "x")
