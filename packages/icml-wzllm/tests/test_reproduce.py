from dataclasses import replace

import pytest

from icml.core.experiment import Run
from icml.core.testing import check_interrupted_run_continues, check_reproduce
from icml.wzllm.reproduce import SIZES, TITLE, Config, run_experiment


@pytest.mark.slow
def test_the_quick_run_shows_what_the_package_stands_for(tmp_path):
    summary = check_reproduce("wzllm", tmp_path / "whole")
    claims = {claim.id: claim for claim in summary.claims}
    assert claims["refuted"].value == 7
    assert claims["kernel-rejects"].value == 0
    pages = tmp_path / "whole" / "proofs"
    assert len(list(pages.glob("wz*.html"))) == 78
    assert "Statement in Lean" in (pages / "wz01.html").read_text()
    check_interrupted_run_continues("wzllm", tmp_path / "cut", summary, after=5.0)


@pytest.mark.slow
def test_without_the_kernel_the_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("icml.wzllm.reproduce.find_spec", lambda name: None)
    config = replace(SIZES["quick"])
    with Run.open("wzllm", config, title=TITLE, out=tmp_path / "run") as run:
        run_experiment(config, run)
        summary = run.finish()
    assert not summary.failed
    assert any("icml-wzllm[kernel]" in note for note in summary.notes)


@pytest.mark.parametrize("wrong", [{"kernel_proofs": -1}, {"budget_s": 0.0}])
def test_a_size_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="must be 0 or more"):
        Config(**wrong)
