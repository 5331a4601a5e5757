"""The score-norm identity, and the report on who gets how much of the update."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.empg import empg_modulate, score_norm_sq, update_report
from icml.empg.diagnostics import renyi2_entropy


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_score_norm_of_a_small_distribution_worked_out_by_hand():
    # 1 - (.49 + .04 + .01) = .46, and H2 = -ln .54 = .616186
    logits = doubles(0.7, 0.2, 0.1).log()
    assert_close(score_norm_sq(logits), torch.tensor(0.46, dtype=torch.float64))
    assert float(renyi2_entropy(logits)) == pytest.approx(0.616186, abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-12, 12), min_size=1, max_size=6))
def test_score_norm_is_the_expectation_over_actions_of_autograds_score(values):
    logits = torch.tensor(values, dtype=torch.float64) / 4
    p = logits.softmax(0)
    expected = 0.0
    for action in range(len(values)):
        z = logits.clone().requires_grad_()
        z.log_softmax(0)[action].backward()
        expected += float(p[action] * z.grad.square().sum())
    assert float(score_norm_sq(logits)) == pytest.approx(expected, abs=1e-12)


def test_score_norm_grows_with_temperature():
    logits = torch.randn(20, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hotter = torch.stack([score_norm_sq(logits / t) for t in (0.3, 0.7, 1.0, 2.0, 9.0)])
    assert bool((hotter.diff(dim=0) > 0).all())


def test_certain_and_uniform_distributions_are_the_extremes():
    certain = torch.tensor([1000.0, 0.0])
    assert score_norm_sq(certain) == 0
    assert_close(score_norm_sq(torch.zeros(3, 8)), torch.full((3,), 7 / 8))
    assert renyi2_entropy(torch.zeros(5, dtype=torch.float64)).item() == pytest.approx(math.log(5))
    with pytest.raises(ValueError, match=r"logits must be \(..., vocabulary\), got shape \(2, 0\)"):
        score_norm_sq(torch.ones(2, 0))


def test_shares_by_hand_with_score_norms():
    # Update sizes before: .2, .4, .6, .8 of 2; after: .4, .4, .3, .1 of 1.2. The classes are
    # divided at the quartiles .25, .5 and .75 of 0 to 1, here at every third of a step.
    report = update_report(
        doubles(0.0, 0.3, 0.7, 1.0), doubles(1, -1, 1, -1), doubles(2, 1, -0.5, 0.125),
        score_norm=doubles(0.2, 0.4, 0.6, 0.8), classes=2,
    )  # fmt: skip
    assert report.edges == (0, 0.5, 1)
    assert report.steps == (2, 2)
    assert report.share_before == pytest.approx((0.3, 0.7))
    assert report.share_after == pytest.approx((0.8 / 1.2, 0.4 / 1.2))
    assert report.corr_before == pytest.approx(1, abs=0.02)
    assert report.corr_after < -0.8


def test_modulation_moves_the_update_towards_sure_steps():
    generator = torch.Generator().manual_seed(1)
    entropy = torch.rand(400, generator=generator, dtype=torch.float64)
    advantages = torch.randn(400, generator=generator, dtype=torch.float64)
    after = empg_modulate(advantages, entropy, torch.full((400,), -1)).advantages
    norm = (-torch.expm1(-entropy)).sqrt()
    report = update_report(entropy, advantages, after, score_norm=norm)
    assert report.steps == (100, 100, 100, 100)
    assert sum(report.share_before) == pytest.approx(1)
    assert report.share_after[0] > report.share_before[0]
    assert report.share_after[-1] < report.share_before[-1]
    assert report.corr_after < report.corr_before
    assert len(str(report).splitlines()) == 6


def test_equal_entropies_share_a_class_and_have_no_correlation():
    report = update_report(torch.ones(3), torch.ones(3), torch.zeros(3))
    assert sorted(report.steps) == [0, 0, 0, 3]
    assert sum(report.share_before) == 1
    assert report.share_after == (0, 0, 0, 0)
    assert math.isnan(report.corr_before)
    assert "nan" in str(report)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((0, 0, 0), {}, "a step and a class at least, got 0 steps"),
        ((2, 2, 2), {"classes": 0}, "classes=0"),
        ((2, 2, 3), {}, r"after must have one value for each of the 2 steps, got shape \(3,\)"),
    ],
)
def test_reports_that_make_no_sense_are_refused(args, options, message):
    with pytest.raises(ValueError, match=message):
        update_report(*map(torch.ones, args), **options)
