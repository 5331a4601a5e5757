"""Gates: values and gradients by hand, by finite differences, by simulation."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from torch.nn import functional as F

from icml.core.errors import UserError
from icml.safeseek.masks import BETA, GAMMA, ZETA, GateSet, hard_concrete, straight
from icml.safeseek.units import KINDS, CircuitSpec, Site, unit_factors

FAMILIES = ("gemma", "gpt2", "llama", "mistral", "qwen2", "qwen3")
IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@given(z=st.floats(-20, 20), tau=st.sampled_from([0.5, 1.0, 2.0]))
def test_straight_gates_are_exactly_0_or_1_with_the_sigmoids_gradient(z, tau):
    logit = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    gate = straight(logit, tau)
    s = sigmoid(z / tau)
    assert gate.item() == (1.0 if s > 0.5 else 0.0)
    (gradient,) = torch.autograd.grad(gate, logit)
    assert gradient.item() == pytest.approx(s * (1 - s) / tau, rel=1e-9)


def test_half_is_off():
    assert straight(torch.tensor([0.0, 1e-3, -1e-3])).tolist() == [0, 1, 0]


@pytest.mark.parametrize(("tau", "gradient"), [(1.0, 0.1966119), (2.0, 0.1175019)])
def test_the_gradient_at_z_1_is_that_of_the_specification(tau, gradient):
    z = torch.ones(1, requires_grad=True)
    straight(z, tau).backward()
    assert z.grad.item() == pytest.approx(gradient, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("masks", [1, 2])
def test_gates_that_are_all_on_change_no_bit(build, family, masks):
    model = build(family)
    with torch.no_grad():
        before = model(IDS).logits
    gates = GateSet(model, CircuitSpec(KINDS), masks=masks)
    for training in (True, False):
        gates.train(training)
        with gates.apply(model, "main"):
            assert torch.equal(model(IDS).logits.detach(), before)
    with gates.apply(model, "off"):
        assert torch.equal(model(IDS).logits.detach(), before)


def test_the_circuit_alone_is_the_complement_or_a_mask_of_its_own(build):
    model = build("llama")
    one = GateSet(model, CircuitSpec())
    with torch.no_grad():
        one.logits[0, ::3] = -1
    for site, on in one.hard("main").items():
        assert torch.equal(one.hard("circuit")[site], ~on)
        assert torch.equal(one.values("circuit")[site], 1 - one.values("main")[site])
    two = GateSet(model, CircuitSpec(), masks=2, init=0.1)
    assert all(on.all() for mode in ("main", "circuit") for on in two.hard(mode).values())


@pytest.mark.parametrize("mode", ["main", "circuit"])
def test_gradients_are_the_surrogates_by_finite_differences(build, mode):
    """d loss / dz = d loss / d gate (finite differences) * ds/dz, the straight-through rule."""
    model = build("gpt2", dtype=torch.float64)  # its norms stay in float64
    gates = GateSet(model, CircuitSpec()).double()
    with torch.no_grad():
        gates.logits.copy_(torch.randn(gates.logits.shape, generator=torch.manual_seed(0)))

    def loss():
        logits = model(IDS).logits[:, :-1]  # transformers' own loss is float32
        return F.cross_entropy(logits.flatten(0, 1), IDS[:, 1:].flatten())

    with gates.apply(model, mode):
        loss().backward()
    values = {site: x.detach().clone() for site, x in gates.values(mode).items()}
    s = gates.by_site(torch.sigmoid(gates.logits.detach()[0]))
    found = gates.by_site(gates.logits.grad[0])
    sign = 1 if mode == "main" else -1
    for site in (Site(0, "head"), Site(1, "head"), Site(0, "mlp-channel"), Site(1, "mlp-channel")):
        for unit in range(0, len(values[site]), 3):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {k: v.clone() for k, v in values.items()}
                moved[site][unit] += step
                with torch.no_grad(), unit_factors(model, moved):
                    ends.append(loss().item())
            slope = (ends[0] - ends[1]) / 2e-6
            wanted = sign * slope * (s[site][unit] * (1 - s[site][unit])).item()
            assert found[site][unit].item() == pytest.approx(wanted, rel=1e-5, abs=1e-8)


def test_hard_concrete_gradients_are_those_of_finite_differences():
    noise = torch.rand(50, generator=torch.manual_seed(0), dtype=torch.float64)
    logits = torch.linspace(-3, 3, 50, dtype=torch.float64)
    gates = hard_concrete(logits, noise)
    inside = (gates > 1e-4) & (gates < 1 - 1e-4)  # off the two kinks
    assert inside.sum() > 15
    assert torch.autograd.gradcheck(
        lambda z: hard_concrete(z, noise[inside]), logits[inside].clone().requires_grad_()
    )


@pytest.mark.parametrize("logit", [-2.0, 0.0, 1.0])
def test_expected_l0_is_the_rate_of_gates_that_are_not_zero(build, logit):
    model = build("llama")
    gates = GateSet(model, CircuitSpec(), relaxation="hard_concrete", init=logit)
    n = gates.logits.numel()
    closed = sigmoid(logit - BETA * math.log(-GAMMA / ZETA))
    assert gates.l0().item() == pytest.approx(n * closed, rel=1e-5)
    generator = torch.Generator().manual_seed(1)
    drawn, on, not_one = 0, 0, 0
    for _ in range(200):
        gates.draw(generator)
        flat = torch.cat(list(gates.values("main").values())).detach()
        drawn, on, not_one = drawn + n, on + int((flat > 0).sum()), not_one + int((flat < 1).sum())
    # two-sided exact tests: false alarms 1 in 10 000 each
    assert binomtest(on, drawn, closed).pvalue > 1e-4
    complement = gates.soft("circuit")[0].item()
    assert binomtest(not_one, drawn, complement).pvalue > 1e-4


def test_expected_l0_of_straight_gates_is_the_sum_of_their_sigmoids(build):
    gates = GateSet(build("llama"), CircuitSpec(), init={"head": 1.0, "mlp-channel": 0.1})
    # 2 layers of 4 heads and 24 channels
    assert gates.l0().item() == pytest.approx(8 * 0.7310586 + 48 * 0.5249792, rel=1e-6)


def test_noise_is_drawn_from_the_generator_alone(build):
    model = build("llama")
    gates = GateSet(model, CircuitSpec(), relaxation="hard_concrete")
    median = gates.values("main")[Site(0, "head")]
    assert (median == median[0]).all()
    state = torch.get_rng_state()
    gates.draw(torch.Generator().manual_seed(3))
    first = gates.values("main")[Site(0, "head")].detach()
    gates.draw(torch.Generator().manual_seed(3))
    assert torch.equal(gates.values("main")[Site(0, "head")].detach(), first)
    assert torch.equal(torch.get_rng_state(), state)
    gates.eval()
    assert (gates.values("main")[Site(0, "head")] == 1).all()


def test_the_circuit_is_what_main_leaves_out(build):
    model = build("qwen2")
    gates = GateSet(model, CircuitSpec())
    with torch.no_grad():
        gates.by_site(gates.logits[0])[Site(1, "head")][2] = -1
    circuit = gates.circuit(model)
    assert circuit.members() == [(Site(1, "head"), 2)]
    assert circuit.fraction("head") == 1 / 8
    circuit.check(model)


def test_a_set_of_gates_holds_no_model(build):
    gates = GateSet(build("llama"), CircuitSpec())
    assert [name for name, _ in gates.named_parameters()] == ["logits"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"relaxation": "soft"}, "relaxation must be ste or hard_concrete"),
        ({"tau": 0.0}, "tau must be a number above 0"),
        ({"init": {"head": 1.0}}, "init must hold a logit for mlp-channel"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build, options, words):
    with pytest.raises(UserError, match=words):
        GateSet(build("llama"), CircuitSpec(), **options)
    with pytest.raises(UserError, match="mode must be"):
        GateSet(build("llama"), CircuitSpec()).hard("on")
