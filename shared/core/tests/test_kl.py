"""KL estimators and the exact divergence, against closed forms and torch.distributions."""

import math

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from torch.testing import assert_close

from icml.core.rl.functional import full_kl, kl_estimate

DOUBLE = torch.float64
P, Q = (torch.tensor(x, dtype=DOUBLE) for x in ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3]))


def random_logits(seed, shape=(3, 4, 7)):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=generator, dtype=DOUBLE)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) + 0.5 - 1)],
)
def test_estimators_of_one_token_by_hand(kind, expected):
    logp, ref = torch.tensor([-1.0], dtype=DOUBLE), torch.tensor([-1.5], dtype=DOUBLE)
    assert_close(kl_estimate(logp, ref, kind).item(), expected)


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_expectation_under_the_policy_is_the_divergence(kind):
    estimates = kl_estimate(P.log(), Q.log(), kind)
    exact = sum(p * math.log(p / q) for p, q in zip(P.tolist(), Q.tolist(), strict=True))
    assert_close((P * estimates).sum().item(), exact)


def test_k2_is_the_divergence_to_second_order():
    nearby = torch.log_softmax(P.log() + 1e-3 * torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE), 0)
    exact = (P * (P.log() - nearby)).sum()
    # relative error of the second-order term is of the order of the step, 1e-3
    assert_close((P * kl_estimate(P.log(), nearby, "k2")).sum(), exact, rtol=5e-3, atol=0.0)


def test_k3_is_never_negative_in_float32():
    difference = torch.logspace(-6, 1, 200)
    for sign in (1, -1):
        assert (kl_estimate(sign * difference, torch.zeros(200), "k3") >= 0).all()


@pytest.mark.parametrize(("direction", "expected"), [("reverse", 0.223805), ("forward", 0.193794)])
def test_full_divergence_of_two_known_distributions(direction, expected):
    value = full_kl(P.log(), Q.log(), direction=direction).item()
    assert_close(value, expected, atol=5e-7, rtol=0.0)  # the numbers have six digits


@pytest.mark.parametrize("direction", ["reverse", "forward"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_full_divergence_equals_torch_distributions(direction, temperature):
    p, q = random_logits(0), random_logits(1)
    pair = [Categorical(logits=x / temperature) for x in (p, q)]
    expected = kl_divergence(*(pair if direction == "reverse" else pair[::-1]))
    assert_close(full_kl(p, q, direction=direction, temperature=temperature), expected)


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_gradient_of_the_full_divergence_is_that_of_finite_differences(direction):
    p, q = (random_logits(seed, (2, 5)).requires_grad_() for seed in (2, 3))
    assert torch.autograd.gradcheck(lambda p, q: full_kl(p, q, direction=direction), (p, q))


def test_full_divergence_ignores_an_added_constant_and_is_zero_for_equal_logits():
    p, q = random_logits(4), random_logits(5)
    shifted = full_kl(p + 1e4, q - 1e4, direction="reverse")
    # float64 logits of 1e4 carry 12 digits
    assert_close(shifted, full_kl(p, q, direction="reverse"), atol=1e-10, rtol=1e-7)
    assert not full_kl(p, p, direction="forward").any()


def test_tokens_ruled_out_in_both_add_nothing_to_value_or_gradient():
    p, q = random_logits(6, (2, 5)), random_logits(7, (2, 5))
    p[:, 3] = q[:, 3] = -torch.inf
    p.requires_grad_()
    value = full_kl(p, q, direction="reverse")
    value.sum().backward()
    keep = [0, 1, 2, 4]
    assert_close(value, full_kl(p[:, keep], q[:, keep], direction="reverse"))
    assert p.grad is not None
    assert p.grad.isfinite().all()


def test_a_token_that_the_reference_cannot_produce_makes_the_divergence_infinite():
    p, q = torch.zeros(2), torch.tensor([0.0, -torch.inf])
    assert full_kl(p, q, direction="reverse") == torch.inf
    assert_close(full_kl(p, q, direction="forward"), torch.tensor(math.log(2)))


def test_half_precision_is_compared_in_float32():
    p, q = random_logits(8).bfloat16(), random_logits(9).bfloat16()
    result = full_kl(p, q, direction="reverse")
    assert result.dtype == torch.float32
    assert torch.equal(result, full_kl(p.float(), q.float(), direction="reverse"))
    assert kl_estimate(p, q, "k3").dtype == torch.float32


@pytest.mark.parametrize(
    ("function", "shapes", "options", "message"),
    [
        (kl_estimate, (1, 1), {"kind": "k4"}, "'k4'"),
        (kl_estimate, (1, 2), {"kind": "k1"}, "one shape"),
        (full_kl, (2, 2), {"direction": "both"}, "direction"),
        (full_kl, (1, 2), {"direction": "reverse"}, "one shape"),
        (full_kl, (2, 2), {"direction": "reverse", "temperature": 0.0}, "temperature"),
    ],
)
def test_unknown_choices_and_shapes_are_refused(function, shapes, options, message):
    with pytest.raises(ValueError, match=message):
        function(*(torch.zeros(shape) for shape in shapes), **options)
