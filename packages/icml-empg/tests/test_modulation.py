"""The modulation against numbers worked out by hand, its variants, and what it refuses."""

import math
import warnings

import pytest
import torch
from torch.testing import assert_close

from icml.empg import ClarityBonusWarning, EMPGParams, empg_modulate, entropy_stats


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def ints(*values):
    return torch.tensor(values)


def test_two_episodes_of_two_steps_worked_out_by_hand():
    # Hn = H / 2 = 0, .5, 1, .25 and f = exp(-Hn) = 1, .606531, .367879, .778801, whose mean is
    # .688303; g = f / .688303; the bonus is .1 f of the next step; the mean of A g + bonus is
    # (1.452849 + .060653 + .881198 - .534473 + .077880 - 1.131480) / 4 = .201657.
    found = empg_modulate(doubles(1, 1, -1, -1), doubles(0, 1, 2, 0.5), ints(1, -1, 3, -1))
    six_digits = {"rtol": 0, "atol": 1e-6}
    assert_close(found.h_norm, doubles(0, 0.5, 1, 0.25), **six_digits)
    assert_close(found.g, doubles(1.452849, 0.881198, 0.534473, 1.131480), **six_digits)
    assert_close(found.f, doubles(1, 0.606531, 0.367879, 0.778801), **six_digits)
    modulated = doubles(1.513502, 0.881198, -0.456593, -1.131480)
    assert_close(found.advantages + found.shift, modulated, **six_digits)
    assert found.shift == pytest.approx(0.201657, abs=1e-6)
    expected = doubles(1.311846, 0.679541, -0.658250, -1.333137)
    assert_close(found.advantages, expected, **six_digits)


def test_constant_entropy_leaves_the_bonus_of_steps_that_have_a_next_one():
    # Hn = 0, so g = f = 1 (to eps); A_mod = A + .05 where there is a next step; its mean is
    # (.55 + .55 + .5 - 1.45 - 1.5) / 5 = -.27
    params = EMPGParams(zeta=0.05)
    found = empg_modulate(
        doubles(0.5, 0.5, 0.5, -1.5, -1.5), doubles(1, 1, 1, 1, 1), ints(1, 2, -1, 4, -1), params
    )
    assert_close(found.g, doubles(1, 1, 1, 1, 1), rtol=0, atol=1.1e-8)  # eps is 1e-8
    assert_close(found.advantages, doubles(0.82, 0.82, 0.77, -1.18, -1.23), rtol=0, atol=1e-7)


def test_both_slopes_and_zeta_act_worked_out_by_hand():
    # Hn = (H - .2) / 1 = 0, .6, .2, 1, .4; exp(-2 Hn) = 1, .301194, .670320, .135335, .449329 with
    # mean .511236; exp(-Hn / 2) = 1, .740818, .904837, .606531, .818731
    params = EMPGParams(k=2, k_future=0.5, zeta=0.2)
    found = empg_modulate(
        doubles(1, 1, 1, -1, -1), doubles(0.2, 0.8, 0.4, 1.2, 0.6), ints(1, 2, -1, 4, -1), params
    )
    modulated = doubles(2.104209, 0.770117, 1.311176, -0.100976, -0.878908)
    assert_close(found.advantages + found.shift, modulated, rtol=0, atol=1e-6)
    expected = doubles(1.463085, 0.128993, 0.670052, -0.742099, -1.520031)
    assert_close(found.advantages, expected, rtol=0, atol=1e-6)


def test_no_centring_returns_the_modulated_advantages():
    found = empg_modulate(
        doubles(1, -1), doubles(0, 1), ints(-1, -1), EMPGParams(zeta=0.0, center=False)
    )
    low = math.exp(-1) / ((1 + math.exp(-1)) / 2)
    assert found.shift == 0
    assert_close(found.advantages, doubles(2 - low, -low), rtol=0, atol=1e-7)  # eps is 1e-8


def test_the_last_step_may_get_the_mean_bonus():
    # Hn = 0, 1: f = 1, 1/e. The first step gets .5 / e, the last .5 (1 + 1/e) / 2.
    params = EMPGParams(zeta=0.5, last_step_bonus="mean", eps=0.0)
    with pytest.warns(ClarityBonusWarning):
        found = empg_modulate(doubles(1, 1), doubles(0, 1), ints(1, -1), params)
    expected = doubles(0.5 * math.exp(-1), 0.25 * (1 + math.exp(-1)))
    assert_close(found.bonus, expected)


def test_a_turn_baseline_takes_the_mean_bonus_of_the_turn_from_each():
    # Two episodes, of three and of two steps, k' = 0: f = 1 and all bonuses are .1. At turn 0 both
    # steps have one, at turn 1 only the first episode's, so nothing is left anywhere.
    params = EMPGParams(k_future=0.0, bonus_baseline="turn")
    next_step = ints(1, 2, -1, 4, -1)
    args = doubles(1, 1, 1, -1, -1), doubles(0, 1, 2, 3, 4), next_step
    assert_close(empg_modulate(*args, params).bonus, doubles(0, 0, 0, 0, 0))
    # With k' = 1, turn 0 keeps half the difference of its two bonuses, turn 1 nothing.
    half = 0.05 * (math.exp(-1 / 4) - math.exp(-1))
    found = empg_modulate(*args, EMPGParams(bonus_baseline="turn", eps=0.0)).bonus
    assert_close(found, doubles(half, 0, 0, -half, 0))


def test_a_turn_baseline_counts_last_steps_that_get_the_mean_bonus():
    params = EMPGParams(bonus_baseline="turn", last_step_bonus="mean", k_future=0.0)
    found = empg_modulate(doubles(1, 1, -1), doubles(0, 1, 2), ints(1, -1, -1), params)
    assert_close(found.bonus, doubles(0, 0, 0))


def test_entropies_above_the_quantile_count_as_the_quantile():
    # The linear .75 quantile of 0, 1, 2, 9 lies a quarter of the way from 2 to 9: 3.75
    entropy, nowhere = doubles(0, 1, 2, 9), ints(-1, -1, -1, -1)
    params = EMPGParams(entropy_clip_quantile=0.75, eps=0.0)
    found = empg_modulate(doubles(1, 1, -1, -1), entropy, nowhere, params)
    assert_close(found.h_norm, doubles(0, 1 / 3.75, 2 / 3.75, 1))
    assert found.stats.max == 3.75


def test_skipped_steps_stay_zero_and_out_of_the_mean_but_in_the_entropies():
    advantages, entropy = doubles(1, -1, 0, 9e-4), doubles(0, 1, 2, 3)
    params = EMPGParams(skip_zero_groups=True)
    found = empg_modulate(advantages, entropy, ints(1, -1, 3, -1), params)
    alone = empg_modulate(advantages, entropy, ints(1, -1, 3, -1))
    assert found.advantages[2:].tolist() == [0, 0]
    assert found.stats == alone.stats
    bonus = 0.1 * math.exp(-1 / 3)
    assert_close(found.bonus[0], torch.tensor(bonus, dtype=torch.float64), rtol=0, atol=1e-8)
    assert found.shift == pytest.approx(float(found.g[0] + bonus - found.g[1]) / 2, abs=1e-8)
    assert float(found.advantages.sum()) == pytest.approx(0, abs=1e-12)
    assert found.effect.skipped == 0.5


def test_a_single_step_in_the_batch_is_centred_to_zero():
    found = empg_modulate(doubles(2), doubles(0.5), ints(-1))
    assert_close(found.advantages, doubles(0))
    assert_close(found.g, doubles(1), rtol=0, atol=1.1e-8)  # eps is 1e-8


def test_no_step_at_all_gives_nothing_and_one_warning():
    with pytest.warns(UserWarning, match="no step in the batch") as caught:
        found = empg_modulate(doubles(), doubles(), ints().long())
    assert len(caught) == 1
    assert found.advantages.shape == (0,)
    assert found.shift == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_half_precision_is_computed_in_float32(dtype):
    args = torch.tensor([1.0, -1.0], dtype=dtype), torch.tensor([0.5, 1.0], dtype=dtype)
    found = empg_modulate(*args, ints(-1, -1))
    assert found.advantages.dtype == torch.float32
    expected = empg_modulate(doubles(1, -1), doubles(0.5, 1), ints(-1, -1)).advantages
    assert_close(found.advantages.double(), expected, rtol=0, atol=1e-6)  # float32


def test_no_gradient_flows_and_nothing_given_is_changed():
    advantages, entropy = doubles(1, -1).requires_grad_(), doubles(-1e-5, 1).requires_grad_()
    found = empg_modulate(advantages, entropy, ints(1, -1))
    assert not found.advantages.requires_grad
    assert entropy.tolist() == [-1e-5, 1]
    assert found.stats.min == 0  # rounding below 0 is rounding


def test_the_effect_is_that_of_its_definition():
    advantages, entropy = doubles(1, 0.5, -1, -2), doubles(0.3, 1, 2, 0.5)
    found = empg_modulate(advantages, entropy, ints(1, -1, 3, -1))
    scaled = advantages * found.g
    effect = found.effect
    share = found.bonus.abs().sum() / (scaled.abs().sum() + found.bonus.abs().sum())
    assert effect.bonus_share == pytest.approx(float(share))
    assert effect.scaled_std == pytest.approx(float(scaled.std(correction=0)))
    assert effect.bonus_std == pytest.approx(0.1 * float(found.f.std(correction=0)))
    both = torch.stack([found.advantages, entropy])
    assert effect.corr_adv_entropy == pytest.approx(float(both.corrcoef()[0, 1]))
    assert effect.last_step_shift == pytest.approx(-float(found.bonus.mean()))
    assert effect.skipped == 0


def test_a_bonus_that_steers_the_training_is_warned_about_in_words_that_do_not_change():
    advantages, *rest = doubles(1, 1, -1, -1), doubles(0, 1, 2, 0.5), ints(1, -1, 3, -1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for scale in (0.1, 0.11):
            empg_modulate(advantages * scale, *rest)
    (warning,) = caught  # Python shows an equal text once
    assert warning.category is ClarityBonusWarning
    assert "more than a fifth of the advantages" in str(warning.message)
    assert warning.filename == __file__


def test_a_bonus_that_varies_as_much_as_the_advantages_is_warned_about():
    nowhere = torch.full((4,), -1)  # so that the share is 0
    with pytest.warns(ClarityBonusWarning, match="varies more than half as much"):
        empg_modulate(doubles(1, 1, 1, 1), doubles(0, 1, 2, 0.5), nowhere, EMPGParams(k=0))


def test_ordinary_numbers_are_not_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empg_modulate(doubles(1, 1, -1, -1), doubles(0, 1, 2, 0.5), ints(1, -1, 3, -1))


@pytest.mark.parametrize(
    ("entropy", "message"),
    [
        ([0.5, math.nan], "step_entropy of step 1 is nan"),
        ([math.inf, 0.5], "step_entropy of step 0 is inf"),
        ([0.5, -2e-4], "step_entropy of step 1 is -0.0002"),
        ([[0.5, 1.0]], r"step_entropy must be 1-D \(steps,\), got shape \(1, 2\)"),
    ],
)
def test_what_is_no_entropy_is_refused_and_the_step_named(entropy, message):
    with pytest.raises(ValueError, match=message):
        empg_modulate(doubles(1, -1), doubles(*entropy), ints(-1, -1))
    with pytest.raises(ValueError, match=message):
        entropy_stats(doubles(*entropy))


@pytest.mark.parametrize(
    ("next_step", "message"),
    [
        ([1, 3, -1], "-1 or below 3, but next_step of step 1 is 3"),
        ([1, -2, -1], "-1 or below 3, but next_step of step 1 is -2"),
        ([1, 1, -1], "can't follow itself, but next_step of step 1 is 1"),
        ([2, 2, -1], "two steps have the same successor, but next_step of step 0 is 2"),
        ([1, 0, -1], "must end, not run in a circle, but next_step of step 0 is 1"),
        ([1, 2, 0], "must end, not run in a circle"),
        ([-1, -1], r"one index for each of the 3 steps, got shape \(2,\)"),
    ],
)
def test_chains_of_steps_that_make_no_sense_are_refused(next_step, message):
    with pytest.raises(ValueError, match=message):
        empg_modulate(doubles(1, 1, 1), doubles(1, 1, 1), ints(*next_step))


def test_a_next_step_that_is_no_integer_is_refused():
    with pytest.raises(TypeError, match=r"next_step must hold integers, got torch.float64"):
        empg_modulate(doubles(1), doubles(1), doubles(-1))


@pytest.mark.parametrize(
    ("advantages", "message"),
    [
        ([1.0], r"one value for each of the 2 steps, got shape \(1,\)"),
        ([1.0, math.nan], "the advantage of step 1 is nan"),
    ],
)
def test_advantages_that_make_no_sense_are_refused(advantages, message):
    with pytest.raises(ValueError, match=message):
        empg_modulate(doubles(*advantages), doubles(1, 1), ints(-1, -1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": -1.0}, "k must be a finite number >= 0, got -1.0"),
        ({"k_future": math.nan}, "k_future must be a finite number >= 0, got nan"),
        ({"zeta": -0.1}, "zeta must be a finite number >= 0"),
        ({"eps": math.inf}, "eps must be a finite number >= 0"),
        ({"zeta": 1.0}, "zeta must be below 1, got 1.0: .*allow_large_zeta=True"),
        ({"last_step_bonus": "turn"}, "last_step_bonus must be 'none' or 'mean', got 'turn'"),
        ({"bonus_baseline": "mean"}, "bonus_baseline must be 'none' or 'turn', got 'mean'"),
        ({"entropy_clip_quantile": 0.0}, r"entropy_clip_quantile must be in \(0, 1\], got 0.0"),
        ({"entropy_clip_quantile": 1.5}, r"entropy_clip_quantile must be in \(0, 1\]"),
    ],
)
def test_parameters_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        EMPGParams(**options)


def test_a_large_zeta_can_be_forced():
    assert EMPGParams(zeta=1.0, allow_large_zeta=True).zeta == 1
