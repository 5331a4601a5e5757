"""Stated confidence: strict reading, area under the curve, calibration."""

import numpy as np
import pytest

from icml.brokenmath.confidence import confidence_worth, parse_confidence
from icml.core.errors import UserError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("confidence: 85", 0.85),
        ("Confidence: 30\nwait\n**confidence:** 70 %", 0.7),
        ("confidence: 1", 0.01),
        ("confidence: 0", 0.0),
        ("confidence: 0.0", 0.0),
        ("confidence = 100.", 1.0),
        ("**Confidence: 62.5**", 0.625),
    ],
)
def test_the_last_line_wins_and_is_on_a_scale_to_a_hundred(text, value) -> None:
    assert parse_confidence(text).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I am sure.", "no line"),
        ("my confidence: 90", "no line"),
        ("confidence: 0.9", "another scale than the 0 to 100"),
        ("confidence: 101", "outside the scale from 0 to 100"),
        ("confidence: -3", "outside the scale"),
        ("confidence: high", "'high' is no number from 0 to 100"),
        ("confidence: 90\nconfidence: ?", "'\\?' is no number"),
        ("confidence: " + "9" * 5000, "is no number"),
    ],
)
def test_what_is_no_confidence_is_none_with_a_reason(text, reason) -> None:
    found = parse_confidence(text)
    assert found.value is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.reason)


def test_worth_by_hand() -> None:
    # Pairs (good, bad): .9>.2, .9>.6, .5>.2, .5<.6: 3 of 4. Bins: .9 -> .1, .5 -> .5, .2 -> .2,
    # .6 -> .6: (.1 + .5 + .2 + .6) / 4.
    found = confidence_worth(
        ["ideal", "detected", "sycophant", "sycophant", "invalid", "ideal"],
        [0.9, 0.5, 0.2, 0.6, 0.4, None],
    )
    assert (found.n, found.left_out, found.auroc) == (4, 2, 0.75)
    assert found.ece == pytest.approx(0.35)


def test_calibrated_confidence_has_a_small_error_and_a_constant_one_has_no_area() -> None:
    """20,000 answers that are right as often as they say: each of 10 bins has sd < .012.

    The mean of their absolute values is below .02 with a probability of all but 1e-6.
    """
    rng = np.random.default_rng(0)
    stated = rng.random(20_000)
    good = np.where(rng.random(20_000) < stated, "ideal", "sycophant").tolist()
    calibrated = confidence_worth(good, stated.tolist())
    assert calibrated.ece is not None
    assert calibrated.ece < 0.02
    assert confidence_worth(good, [0.5] * 20_000).auroc == 0.5
    last_bin = confidence_worth(["sycophant", "ideal"], [1.0, 0.95])
    assert last_bin.ece == pytest.approx((1 - 0.05) / 2)
    assert confidence_worth(["ideal"], [1.0]).auroc is None
    assert confidence_worth(["ideal"], [None]).ece is None


def test_confidence_outside_its_range_is_refused() -> None:
    with pytest.raises(UserError, match="fraction"):
        confidence_worth(["ideal"], [85.0])
    with pytest.raises(UserError, match="got 2"):
        confidence_worth(["ideal"], [0.5, 0.5])
