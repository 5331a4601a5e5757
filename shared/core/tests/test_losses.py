"""Policy losses against numbers by hand and slow token-by-token references.

The references are written from the formulas of the papers and, for what the papers leave open,
of TRL 1.16 (``loss_type``) and verl (``clip_ratio_c``).
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.rl.functional import broadcast_to_tokens, policy_loss

DOUBLE = torch.float64
KINDS = ("reinforce", "ppo_clip", "gspo", "cispo", "sapo", "dual_clip")
SMOOTH = ("reinforce", "sapo")


def clip(x, low, high):
    return min(max(x, low), high)


def one_token(kind, new, old, a, low, high, delta):
    """Loss of a token from its two log-probabilities (for gspo: the row's mean difference)."""
    r = math.exp(new - old)
    ppo = -min(min(r, delta) * a, clip(r, 1 - low, 1 + high) * a)
    tau = 1.0 if a > 0 else 1.05
    return {
        "reinforce": -a * new,
        "ppo_clip": ppo,
        "gspo": ppo,
        "cispo": -min(r, high) * a * new,
        "sapo": -a * 4 / (1 + math.exp(-tau * (r - 1))) / tau,
        "dual_clip": min(ppo, -3.0 * a) if a < 0 else ppo,
    }[kind]


def reference_loss(kind, new, old, advantages, mask, *, low=0.2, high=0.2, delta=math.inf):
    """Mean over tokens, or over rows of token means, each kind's default."""
    rows = []
    for n, o, a, m in zip(new, old, advantages, mask, strict=True):
        kept = [t for t in range(len(m)) if m[t]]
        mean = sum((n[t] - o[t]).item() for t in kept) / max(len(kept), 1)
        rows.append(
            [
                one_token(kind, *pair, a[t].item(), low, high, delta)
                for t in kept
                for pair in [(mean, 0.0) if kind == "gspo" else (n[t].item(), o[t].item())]
            ]
        )
    if kind in ("gspo", "sapo"):
        return sum(sum(row) / max(len(row), 1) for row in rows) / len(rows)
    return sum(map(sum, rows)) / max(sum(map(len, rows)), 1)


def batch(seed, rows=4, tokens=6, spread=0.5):
    """New and old log-probabilities, advantages for each token, and a mask with an empty row."""
    generator = torch.Generator().manual_seed(seed)
    old = -3 * torch.rand(rows, tokens, generator=generator, dtype=DOUBLE) - 0.1
    new = old + spread * torch.randn(rows, tokens, generator=generator, dtype=DOUBLE)
    advantages = torch.randn(rows, tokens, generator=generator, dtype=DOUBLE)
    mask = torch.rand(rows, tokens, generator=generator) > 0.3
    mask[-1] = False
    return new, old, advantages, mask


def loss_of_one_token(ratio, advantage, **options):
    new = torch.tensor([[math.log(ratio)]], dtype=DOUBLE)
    a, mask = torch.tensor([advantage], dtype=DOUBLE), torch.ones(1, 1)
    return policy_loss(new, torch.zeros_like(new), a, mask, **options).loss.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "options", "expected"),
    [
        (1.5, 1.0, {}, -1.2),  # -min(1.5, 1.2)
        (1.5, -1.0, {}, 1.5),  # -min(-1.5, -1.2)
        (0.5, 1.0, {}, -0.5),  # -min(0.5, 0.8)
        (0.5, -1.0, {}, 0.8),  # -min(-0.5, -0.8)
        (1.5, 1.0, {"eps_high": 0.28}, -1.28),
        (0.5, -1.0, {"eps_low": 0.4}, 0.6),
        (5.0, -1.0, {}, 5.0),
        (5.0, -1.0, {"delta": 4.0}, 4.0),
        (5.0, 1.0, {"delta": 4.0}, -1.2),
        (5.0, -2.0, {"kind": "dual_clip"}, 6.0),  # -c A = 3 * 2
        (5.0, 2.0, {"kind": "dual_clip"}, -2.4),
        (1.5, 2.0, {"kind": "gspo"}, -2.4),
        (2.0, 1.0, {"kind": "reinforce"}, -math.log(2)),
        (2.0, 1.0, {"kind": "cispo"}, -2 * math.log(2)),
        (8.0, -1.0, {"kind": "cispo"}, 5 * math.log(8)),
        (8.0, -1.0, {"kind": "cispo", "eps_high": 2.0}, 2 * math.log(8)),
        (1.0, 3.0, {"kind": "sapo"}, -6.0),  # 4 sigmoid(0) / 1 = 2
        (1.0, -1.05, {"kind": "sapo"}, 2.0),  # 1.05 * 4 sigmoid(0) / 1.05
    ],
)
def test_loss_of_a_single_token_by_hand(ratio, advantage, options, expected):
    assert_close(loss_of_one_token(ratio, advantage, **options), expected)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), spread=st.sampled_from([0.0, 0.1, 1.0, 3.0]))
def test_loss_equals_a_loop_over_tokens(kind, seed, spread):
    new, old, advantages, mask = batch(seed, spread=spread)
    if kind == "gspo":
        advantages = advantages[:, :1].expand_as(advantages)
    high = 5.0 if kind == "cispo" else 0.2
    expected = reference_loss(kind, new, old, advantages, mask, high=high)
    assert_close(policy_loss(new, old, advantages, mask, kind=kind).loss.item(), expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_asymmetric_clip_with_delta_equals_a_loop_over_tokens(seed):
    arguments = batch(seed, spread=1.0)
    expected = reference_loss("ppo_clip", *arguments, low=0.1, high=0.28, delta=2.0)
    loss = policy_loss(*arguments, eps_low=0.1, eps_high=0.28, delta=2.0).loss
    assert_close(loss.item(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_one_advantage_a_sample_equals_the_same_advantage_on_each_token(kind):
    new, old, advantages, mask = batch(3)
    by_row = advantages[:, 0]
    losses = [
        policy_loss(new, old, a, mask, kind=kind).loss
        for a in (by_row, broadcast_to_tokens(by_row, mask))
    ]
    assert_close(losses[0], losses[1])


def gradient(loss_of, new):
    leaf = new.clone().requires_grad_()
    loss_of(leaf).backward()
    return leaf.grad


@pytest.mark.parametrize("kind", SMOOTH)
def test_gradient_of_smooth_kinds_equals_finite_differences(kind):
    new, old, advantages, mask = batch(1)
    leaf = new.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: policy_loss(x, old, advantages, mask, kind=kind).loss, (leaf,)
    )


@pytest.mark.parametrize("kind", ["ppo_clip", "gspo", "dual_clip"])
def test_gradient_of_clipped_kinds_equals_finite_differences_away_from_the_kinks(kind):
    new, old, advantages, mask = batch(2, spread=0.5)
    # GSPO-token's gradient is that of its value only where a row has one advantage.
    advantages = advantages[:, 0]
    leaf = new.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: policy_loss(x, old, advantages, mask, kind=kind).loss, (leaf,)
    )


def test_cispo_weighs_the_gradient_of_every_token_by_its_capped_ratio():
    new, old, advantages, mask = batch(4, spread=2.0)
    grad = gradient(lambda x: policy_loss(x, old, advantages, mask, kind="cispo").loss, new)
    expected = -(new - old).exp().clamp(max=5.0) * advantages * mask / mask.sum()
    assert_close(grad, expected)


def test_gspo_gives_each_tokens_gradient_its_own_advantage_and_the_rows_ratio():
    new, old, advantages, mask = batch(5, spread=0.1)
    grad = gradient(
        lambda x: policy_loss(x, old, advantages, mask, kind="gspo", eps_low=0.9).loss, new
    )
    tokens = mask.sum(1, keepdim=True).clamp(min=1)
    ratio = (((new - old) * mask).sum(1, keepdim=True) / tokens).exp()
    # eps_low = eps_high = 0.9 clips nothing here: d loss / d logp = -s A / (tokens * rows)
    assert_close(grad, -ratio * advantages * mask / (tokens * len(new)))


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "reinforce"])
def test_on_policy_gradient_is_that_of_reinforce(kind):
    new, _, advantages, mask = batch(6)
    grads = [
        gradient(
            lambda x, k=k: (
                policy_loss(x, new, advantages, mask, kind=k, aggregate="token_mean").loss
            ),
            new,
        )
        for k in (kind, "reinforce")
    ]
    # sapo's slope at ratio 1 is 4 sigmoid'(0) = 1
    assert_close(grads[0], grads[1])


@pytest.mark.parametrize("kind", KINDS)
def test_junk_outside_the_mask_changes_neither_value_nor_gradient(kind):
    new, old, advantages, mask = batch(7)
    clean = gradient(lambda x: policy_loss(x, old, advantages, mask, kind=kind).loss, new)
    for junk in (math.nan, math.inf, -math.inf):
        spoilt = [torch.where(mask, x, junk) for x in (new, old, advantages)]
        grad = gradient(
            lambda x, s=spoilt: policy_loss(x, s[1], s[2], mask, kind=kind).loss, spoilt[0]
        )
        assert torch.equal(grad, clean)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_trained_gives_zero_everywhere(kind):
    leaf = torch.full((2, 3), math.nan, requires_grad=True)
    result = policy_loss(leaf, torch.zeros(2, 3), torch.ones(2), torch.zeros(2, 3), kind=kind)
    result.loss.backward()
    assert [x.item() for x in result] == [0.0] * 5
    assert leaf.grad is not None
    assert not leaf.grad.any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
@pytest.mark.parametrize("gap", [-500.0, 500.0])
def test_an_absurd_ratio_gives_a_finite_loss_and_gradient(kind, advantage, gap):
    old = torch.full((1, 2), -1.0)
    new = (old + gap).requires_grad_()
    loss = policy_loss(new, old, torch.tensor([advantage]), torch.ones(1, 2), kind=kind).loss
    loss.backward()
    assert loss.isfinite()
    assert new.grad is not None
    assert new.grad.isfinite().all()


def test_half_precision_is_reduced_in_float32():
    new, old, advantages, mask = (x.bfloat16() for x in batch(8))
    low = policy_loss(new, old, advantages, mask)
    wide = policy_loss(new.float(), old.float(), advantages.float(), mask)
    assert low.loss.dtype == torch.float32
    assert low == wide


def test_only_the_new_log_probabilities_get_a_gradient():
    new, old, advantages, mask = batch(9)
    leaves = [x.requires_grad_() for x in (new, old, advantages)]
    result = policy_loss(*leaves, mask)
    result.loss.backward()
    assert [leaf.grad is not None for leaf in leaves] == [True, False, False]
    assert not any(x.requires_grad for x in result[1:])


def test_measurements_count_what_is_clipped():
    ratios = torch.tensor([[1.5, 1.5, 0.5, 0.5, 1.1, 9.0, 7.0]], dtype=DOUBLE)
    advantages = torch.tensor([[1.0, -1, 1, -1, 1, -1, 1]], dtype=DOUBLE)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 0]])
    new, old = ratios.log(), torch.zeros_like(ratios)
    plain = policy_loss(new, old, advantages, mask)
    assert_close(plain.clip_high.item(), 1 / 6, check_dtype=False, atol=1e-7, rtol=0)  # float32
    assert_close(plain.clip_low.item(), 1 / 6, check_dtype=False, atol=1e-7, rtol=0)
    assert_close(plain.ratio_mean.item(), (1.5 + 1.5 + 0.5 + 0.5 + 1.1 + 9) / 6)
    kl = sum(r - 1 - math.log(r) for r in ratios[0, :6].tolist()) / 6
    assert_close(plain.approx_kl.item(), kl)
    dual = policy_loss(new, old, advantages, mask, kind="dual_clip")
    assert_close(dual.clip_high.item(), 2 / 6, atol=1e-7, rtol=0)  # and the 9 under A = -1
    cispo = policy_loss(new, old, advantages, mask, kind="cispo")
    assert_close(cispo.clip_high.item(), 1 / 6, atol=1e-7, rtol=0)


def test_dr_grpo_divides_by_rows_and_const():
    new, old, advantages, mask = batch(10)
    total = policy_loss(new, old, advantages, mask).loss * mask.sum()
    loss = policy_loss(new, old, advantages, mask, aggregate="seq_sum_const", const=6.0).loss
    assert_close(loss, total / (4 * 6))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "ppo"}, "kind must be one of"),
        ({"kind": "gspo", "delta": 4.0}, "delta=4.0 .* kind='gspo'"),
        ({"kind": "dual_clip", "delta": 4.0}, "delta=4.0 .* kind='dual_clip'"),
        ({"kind": "cispo", "eps_low": 0.2}, "eps_low=0.2 .* kind='cispo'"),
        ({"kind": "reinforce", "eps_low": 0.2}, "eps_low=0.2 .* kind='reinforce'"),
        ({"kind": "sapo", "eps_high": 0.2}, "eps_high=0.2 .* kind='sapo'"),
        ({"delta": 1.1}, r"eps_high = 1.2 .* delta=1.1"),
        ({"kind": "dual_clip", "eps_high": 2.5}, r"eps_high = 3.5 .* kind='dual_clip'"),
        ({"eps_low": 1.0}, "eps_low must be"),
        ({"eps_high": 0.0}, "eps_high must be"),
        ({"aggregate": "mean"}, "aggregate must be one of"),
        ({"const": 5.0}, "const=5.0 .* aggregate='token_mean'"),
        ({"aggregate": "seq_sum_const"}, "const"),
    ],
)
def test_combinations_without_meaning_are_refused_by_name(options, message):
    one = torch.ones(1, 1)
    with pytest.raises(ValueError, match=message):
        policy_loss(one, one, one, one, **options)


@pytest.mark.parametrize(
    ("new", "old", "advantages", "mask", "message"),
    [
        ((2, 3), (2, 4), (2,), (2, 3), "old_logp"),
        ((3,), (3,), (3,), (3,), "samples, tokens"),
        ((2, 3), (2, 3), (3,), (2, 3), "advantages"),
        ((2, 3), (2, 3), (2, 1), (2, 3), "advantages"),
        ((2, 3), (2, 3), (2,), (2,), "mask"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(new, old, advantages, mask, message):
    tensors = [torch.ones(shape) for shape in (new, old, advantages, mask)]
    with pytest.raises(ValueError, match=message):
        policy_loss(*tensors)
