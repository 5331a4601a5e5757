import re
import subprocess
import sys
from dataclasses import replace

import pytest

from icml.core.errors import MissingExtra
from icml.core.experiment import Run
from icml.core.testing import check_interrupted_run_continues, check_reproduce
from icml.empg.reproduce import SIZES, TITLE, run_experiment

TINY = replace(
    SIZES["quick"],
    table=replace(SIZES["quick"].table, iterations=40, eval_every=20),
    model=None,
)


def test_seeds_that_choose_rates_are_never_shown():
    for config in SIZES.values():
        for part in (config.table, config.model, config.babyai):
            if part is not None:
                chosen, shown = set(part.select_seeds), set(part.report_seeds)
                assert not chosen & shown
                # Seeds on which the experiment was developed (NOTES.md).
                assert not set(range(10)) & (chosen | shown)


def test_the_default_gives_every_arm_four_rates_and_the_table_ten_seeds():
    config = SIZES["default"]
    assert len(config.table.report_seeds) >= 10
    assert config.model is not None
    assert len(config.table.rates) >= 4
    assert len(config.model.rates) >= 4


def test_sizes_can_be_read_without_torch():
    code = "import icml.empg.reproduce, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which nothing must be computed."""
    with Run.open("empg", TINY, title=TITLE, out=tmp_path_factory.mktemp("run") / "run") as run:
        yield run
    assert not (run.dir / "cells.jsonl").exists()


@pytest.mark.parametrize("part", ["table", "model", "babyai"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": ()}, "rates must be distinct and at least one, got []"),
        ({"rates": (1.0, -1.0)}, "rates must be positive and finite, got [1.0, -1.0]"),
        ({"report_seeds": (1, 2)}, "seeds must be at least 3, got 2"),
        ({"select_seeds": ()}, "select_seeds must be distinct and at least one, got []"),
        ({"select_seeds": (1001,)}, "seeds and select_seeds must be disjoint, both hold [1001]"),
    ],
)
def test_a_design_that_allows_no_comparison_is_refused_before_training(run, part, change, message):
    slow = SIZES["slow"]
    config = replace(slow, **{part: replace(getattr(slow, part), **change)})
    with pytest.raises(ValueError, match=f"^{re.escape(f'{part}: {message}')}$"):
        run_experiment(config, run)


def test_babyai_without_minigrid_is_refused_before_training(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=re.escape("pip install 'icml-empg[babyai]'")):
        run_experiment(SIZES["slow"], run)


@pytest.mark.slow
def test_a_tiny_run_makes_every_claim_of_the_table(tmp_path):
    with Run.open("empg", TINY, title=TITLE, out=tmp_path / "run") as run:
        run_experiment(TINY, run)
        summary = run.finish()
    kinds = {claim.id: claim.kind for claim in summary.claims}
    assert kinds.pop("auc-table") == "reported"
    assert set(kinds.values()) == {"required"}
    assert not summary.failed
    arms = {row[1] for table in summary.tables if table.name == "table: at the best rates"
            for row in table.rows}  # fmt: skip
    assert arms == {"GRPO", "EMPG", "scaling only", "bonus only"}


@pytest.mark.slow
def test_reproduce_from_beginning_to_end_and_when_interrupted(tmp_path):
    whole = check_reproduce("empg", tmp_path / "whole")
    check_interrupted_run_continues("empg", tmp_path / "cut", whole, after=20.0)
