"""The hand example of two members with three tokens, and the settings that ME refuses."""

import pytest
import torch

from icml.core.errors import UserError
from icml.me.sampling import Sampling, check_equivalent, mix

FIRST = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
SECOND = torch.tensor([[0.1, 0.3, 0.6]], dtype=torch.float64)
WEIGHTS = torch.tensor([[0.25, 0.75]], dtype=torch.float64)


def per_model(sampling):
    return mix([sampling.probabilities(law.log()) for law in (FIRST, SECOND)], WEIGHTS)[0].tolist()


def after_mix(sampling):
    return sampling.probabilities(mix([FIRST, SECOND], WEIGHTS).log())[0].tolist()


def test_the_mixture_is_the_weighted_mean_worked_out_by_hand():
    # .25 * .7 + .75 * .1 = .25; .05 + .225 = .275; .025 + .45 = .475
    assert mix([FIRST, SECOND], WEIGHTS)[0].tolist() == pytest.approx([0.25, 0.275, 0.475])


def test_top_1_keeps_each_members_favourite_or_the_mixtures():
    assert per_model(Sampling(top_k=1)) == pytest.approx([0.25, 0, 0.75])
    assert after_mix(Sampling(top_k=1)) == pytest.approx([0, 0, 1])


def test_temperature_one_half_squares_each_members_law_or_the_mixture():
    # squares: .49 .04 .01 (sum .54) and .01 .09 .36 (sum .46)
    first = [0.49 / 0.54, 0.04 / 0.54, 0.01 / 0.54]
    second = [0.01 / 0.46, 0.09 / 0.46, 0.36 / 0.46]
    mean = [0.25 * a + 0.75 * b for a, b in zip(first, second, strict=True)]
    assert mean == pytest.approx([0.2432, 0.1653, 0.5916], abs=1e-4)
    assert per_model(Sampling(temperature=0.5)) == pytest.approx(mean)
    # .25^2 .275^2 .475^2 = .0625 .075625 .225625, sum .36375
    squares = [0.0625 / 0.36375, 0.075625 / 0.36375, 0.225625 / 0.36375]
    assert after_mix(Sampling(temperature=0.5)) == pytest.approx(squares)


def test_temperature_0_takes_the_most_probable_token():
    assert Sampling(temperature=0).probabilities(FIRST.log()).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        ("me", {"temperature": 0}, "favourite of a random member"),
        ("me", {"top_k": 5, "place": "after_mix"}, "never computes the mixture"),
        ("me", {"top_p": 0.9, "place": "after_mix"}, "not linear"),
        ("me", {"temperature": 0.7, "place": "after_mix"}, "use warp='per_model', or method='ce'"),
        ("ce", {"temperature": 0}, "use warp='after_mix'"),
        ("beam", {}, "method must be 'me', 'ce' or 'single', got 'beam'"),
    ],
)
def test_settings_without_the_ensembles_law_are_refused_with_the_reason(method, settings, reason):
    with pytest.raises(UserError, match=reason) as refusal:
        check_equivalent(method, Sampling(**settings))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("method", ["me", "ce", "single"])
def test_a_warp_after_mixing_that_changes_nothing_is_allowed(method):
    check_equivalent(method, Sampling(place="after_mix"))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"temperature": -1}, "temperature must be >= 0, got -1"),
        ({"temperature": float("nan")}, "temperature must be >= 0, got nan"),
        ({"top_k": -1}, "top_k must be a whole number"),
        ({"top_k": 1.5}, "top_k must be a whole number"),
        ({"top_p": 0}, r"top_p must be in \(0, 1\], got 0"),
        ({"top_p": 1.5}, r"top_p must be in \(0, 1\], got 1.5"),
        ({"place": "before"}, "warp must be 'per_model' or 'after_mix', got 'before'"),
    ],
)
def test_settings_out_of_range_are_refused(settings, reason):
    with pytest.raises(UserError, match=reason):
        Sampling(**settings)
