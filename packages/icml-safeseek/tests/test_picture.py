import re

import pytest
import torch

from icml.core.models.tiny import causal_lm
from icml.safeseek.circuit import Circuit
from icml.safeseek.picture import circuit_map, layer_rows
from icml.safeseek.units import CircuitSpec, Site


def circuit(layers: int = 3) -> Circuit:
    model = causal_lm(9, d=16, layers=layers, heads=4)
    members = {Site(1, "head"): [0, 2], Site(2, "mlp-channel"): [3, 4, 31]}
    return Circuit.of(model, members)


def test_rows_say_which_units_and_which_share_of_a_layer() -> None:
    rows = {(row["layer"], row["kind"]): row for row in layer_rows(circuit())}

    assert len(rows) == 6
    assert rows[1, "head"]["which"] == "0 2"
    assert rows[1, "head"]["share"] == 0.5
    # the feed-forward layer has twice the width, 32 channels
    assert rows[2, "mlp-channel"]["which"] == "3 4 31"
    assert rows[2, "mlp-channel"]["share"] == 3 / 32
    assert rows[0, "mlp-channel"]["in circuit"] == 0
    assert sum(int(row["in circuit"]) for row in rows.values()) == circuit().size()


def test_linear_outputs_of_a_layer_are_counted_together() -> None:
    model = causal_lm(9, d=8, layers=1, heads=2)
    members = {Site(0, "linear-output", "mlp.up_proj"): [1, 2]}
    (row,) = layer_rows(Circuit.of(model, members, CircuitSpec(["linear-output"])))

    # q, k, v, o: 4 * 8; gate and up: 2 * 16; down: 8
    assert (row["in circuit"], row["gated"], row["which"]) == (2, 72, "mlp.up_proj:2")


@pytest.mark.parametrize("width", [340, 760])
@pytest.mark.parametrize("layers", [3, 30])
def test_the_map_fills_one_cell_for_each_head_of_the_circuit(width: int, layers: int) -> None:
    found = circuit(layers)
    svg = circuit_map(found, title="Two heads carry it", note="a note").svg(width)

    ours = len(re.findall(r"fill: #0072b2", svg))
    free = len(re.findall(r"fill: #e2e2de", svg))
    assert ours == 2 + layers  # two heads, and a bar of channels for each layer
    assert free == 4 * layers - 2
    assert "Two heads carry it" in svg
    assert "In the circuit: 2 of" in svg


def test_equal_circuits_give_equal_drawings() -> None:
    first, second = (circuit_map(circuit(), title="t") for _ in range(2))
    assert first.svg() == second.svg()
    assert first.csv() == second.csv()


def test_a_circuit_of_channels_alone_has_no_map_of_heads() -> None:
    model = causal_lm(9, d=8, layers=2, heads=2)
    units = {Site(n, "mlp-channel"): torch.ones(16, dtype=torch.bool) for n in range(2)}
    only = Circuit.of(model, {s: range(16) for s in units}, CircuitSpec(["mlp-channel"]))
    svg = circuit_map(only, title="All channels").svg()
    assert ">head<" not in svg
    assert ">100<" in svg
