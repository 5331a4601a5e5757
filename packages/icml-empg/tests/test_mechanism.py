import math

import pytest
import torch

from icml.core.experiment import Run
from icml.empg.experiment.mechanism import (
    Batches,
    claim_mechanism,
    identity_error,
    measure_batches,
)
from icml.empg.experiment.tabular import Training
from icml.empg.reproduce import SIZES, TITLE

GOOD = {
    "identity error": 1e-16,
    "mean weight error": 1e-9,
    "sum error": 1e-9,
    "disorder": 0,
    "before": [0.1, 0.2, 0.3, 0.4],
    "after": [0.2, 0.2, 0.3, 0.3],
    "corr before": 0.5,
    "corr after": 0.3,
}


def claims(tmp_path, *batches: dict):
    """Claims of two seeds, each with these batches."""
    with Run.open("empg", SIZES["quick"], title=TITLE, out=tmp_path / "run") as run:
        claim_mechanism(run, {seed: list(batches) for seed in (0, 1)})
        return {claim.id: claim for claim in run.finish().claims}


def test_the_identity_holds_up_to_rounding_from_certain_to_even():
    logits = torch.tensor(
        [[0.0, 0.0, 0.0], [math.log(0.7), math.log(0.2), math.log(0.1)], [0.0, -800.0, -800.0]],
        dtype=torch.float64,
    )
    assert identity_error(logits) < 1e-15


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"identity error": 1e-4}, {"score-norm"}),
        ({"mean weight error": 1e-3}, {"calibrated"}),
        ({"sum error": 1e-3}, {"calibrated"}),
        ({"disorder": 1}, {"ordered"}),
        ({"corr after": 0.5}, {"update-correlation"}),
        ({"after": [0.1, 0.2, 0.4, 0.3]}, {"update-surest"}),
        ({"after": [0.2, 0.1, 0.3, 0.4]}, {"update-least-sure"}),
    ],
)
def test_each_claim_fails_on_the_batch_that_contradicts_it(tmp_path, change, failing):
    found = claims(tmp_path, {**GOOD, **change})
    assert {name for name, claim in found.items() if not claim.holds} == failing
    assert all(claim.kind == "required" for claim in found.values())


def test_one_bad_batch_among_good_ones_is_seen(tmp_path):
    found = claims(tmp_path, GOOD, {**GOOD, "identity error": 0.5}, GOOD)
    assert found["score-norm"].value == 0.5
    assert not found["score-norm"].holds


def test_batches_of_a_real_run_bear_the_claims_out():
    setting = Training(iterations=40, eval_every=20)
    steps = []
    rows = measure_batches(
        setting, Batches(rate=64.0, every=20), 0, log=lambda step, **row: steps.append(step)
    )
    assert steps
    assert len(steps) == len(rows)
    for row in rows:
        assert row["identity error"] < 1e-12
        assert row["disorder"] == 0
        # The method's own eps of 1e-8 over a mean of at least exp(-1).
        assert row["mean weight error"] < 1e-7
        for when in ("before", "after"):
            assert sum(row[when]) == pytest.approx(1)
