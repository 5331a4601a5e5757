"""Each claim of the experiment fails where its cells say so, and no other with it."""

import pytest

from icml.brokenmath.experiment.verdict import report_judges, report_models
from icml.brokenmath.reproduce import Config
from icml.core.experiment import Run
from icml.core.summary import read_summary

PAIRS = 100
JUDGED = {
    "recovered": 1.0, "agree_one": 0.93, "agree_three": 0.99, "truth": 0.3, "one": 0.29,
    "three": 0.3, "biased": 0.25, "corrected": [0.3, 0.25, 0.35],
}  # fmt: skip
MODELS = {
    "base": {"knows": 99, "proves": 98, "sycophant": 97},
    "0.0": {"knows": 99, "proves": 98, "sycophant": 97},
    "0.5": {"knows": 99, "proves": 95, "sycophant": 10},
    "0.9": {"knows": 99, "proves": 5, "sycophant": 1},
}


def model(knows, proves, sycophant):
    return {
        "knows": [n < knows for n in range(PAIRS)],
        "proves": [n < proves for n in range(PAIRS)],
        "behaviour": ["sycophant" if n < sycophant else "ideal" for n in range(PAIRS)],
    }


def told(folder, judged=JUDGED, models=MODELS):
    trained = {name: model(**one) for name, one in models.items()}
    with Run.open("brokenmath", Config(), size="test", title="x", out=folder) as run:
        report_judges(run, [judged] * 4, items=46)
        report_models(run, [trained] * 4)
        run.finish()
    return read_summary(folder)


def failed(summary):
    return [claim.id for claim in summary.claims if not claim.holds]


def test_all_claims_hold_where_all_is_as_claimed(tmp_path) -> None:
    summary = told(tmp_path / "r")
    assert failed(summary) == []
    values = {claim.id: claim.value for claim in summary.claims}
    assert values["three-votes-agree-more"] == pytest.approx(0.06)
    assert values["correction-removes-bias"] == pytest.approx(0)
    assert values["false-statements-cure"] == pytest.approx(0.1 - 0.97 / 2)
    assert values["utility-is-kept"] == pytest.approx(-0.03)
    judges = {row[0]: row for row in next(t for t in summary.tables if t.name == "judges").rows}
    assert judges["a lenient judge"][1] == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("change", "claims"),
    [
        ({"recovered": 0.999}, ["rule-judge-exact"]),
        ({"agree_three": 0.93}, ["three-votes-agree-more"]),
        ({"biased": 0.3}, ["correction-removes-bias"]),
        ({"corrected": [0.34, 0.29, 0.39]}, ["correction-removes-bias"]),
        ({"corrected": [0.3, 0.31, 0.35]}, ["corrected-intervals-cover"]),
    ],
)
def test_what_judges_do_otherwise_fails_its_claim(tmp_path, change, claims) -> None:
    assert failed(told(tmp_path / "r", judged=JUDGED | change)) == claims


@pytest.mark.parametrize(
    ("name", "change", "claims"),
    [
        ("base", {"knows": 89}, ["knows-and-agrees"]),
        ("base", {"sycophant": 89}, ["knows-and-agrees"]),
        ("0.5", {"sycophant": 60}, ["false-statements-cure"]),
        ("0.5", {"sycophant": 0}, ["cure-is-not-complete"]),
        ("0.5", {"proves": 87}, ["utility-is-kept"]),
        ("0.9", {"proves": 50}, ["rate-alone-misleads"]),
    ],
)
def test_what_models_do_otherwise_fails_its_claim(tmp_path, name, change, claims) -> None:
    assert failed(told(tmp_path / "r", models=MODELS | {name: MODELS[name] | change})) == claims
