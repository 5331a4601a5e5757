import subprocess
import sys
from dataclasses import replace

import pytest

from icml.core.experiment import Run
from icml.core.testing import check_interrupted_run_continues, check_reproduce
from icml.gdpo.experiment.verdict import selection_score
from icml.gdpo.reproduce import SIZES, TITLE, run_experiment


def test_seeds_that_choose_rates_are_never_shown():
    for config in SIZES.values():
        assert not set(config.report_seeds) & set(config.select_seeds)
        # Seeds on which the experiment was developed (NOTES.md).
        assert not {0, 1, 2} & {*config.report_seeds, *config.select_seeds}


def test_the_selection_score_weighs_both_ranges_equally():
    worst = selection_score({"format AUC": 0.0, "correctness AUC": -3.0})
    only_format = selection_score({"format AUC": 1.0, "correctness AUC": -3.0})
    only_correct = selection_score({"format AUC": 0.0, "correctness AUC": 3.0})
    assert (worst, only_format, only_correct) == (0.0, 1.0, 1.0)


def test_sizes_can_be_read_without_torch():
    code = "import icml.gdpo.reproduce, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_the_smallest_run_makes_every_claim(tmp_path):
    config = replace(SIZES["quick"], rates=(1e-3,), iterations=4, eval_every=2, sft_steps=20)
    with Run.open("gdpo", config, title=TITLE, out=tmp_path / "run") as run:
        run_experiment(config, run)
        summary = run.finish()
    claims = {claim.id: claim for claim in summary.claims}
    kinds = {name: claim.kind for name, claim in claims.items()}
    assert kinds == {
        "distinct-advantages": "required",
        "equals-trl": "required",
        "rebalancing": "required",
        "format-auc": "reported",
        "format-share": "reported",
    }
    assert claims["distinct-advantages"].value == 10
    assert claims["equals-trl"].holds
    assert claims["rebalancing"].value == 1.0
    # One rate is the edge of its grid.
    assert not claims["format-auc"].holds
    assert any("ends the grid" in note for note in summary.notes)


@pytest.mark.slow
def test_reproduce_from_beginning_to_end_and_when_interrupted(tmp_path):
    whole = check_reproduce("gdpo", tmp_path / "whole")
    check_interrupted_run_continues("gdpo", tmp_path / "cut", whole, after=20.0)
