import subprocess
import sys

import pytest

from icml.core.experiment import Run
from icml.core.testing import check_reproduce
from icml.safeseek.experiment.backdoor import ARMS
from icml.safeseek.experiment.clean import clean_model
from icml.safeseek.experiment.config import Config
from icml.safeseek.experiment.judge_alignment import judge_alignment
from icml.safeseek.experiment.judge_backdoor import best_control, judge_backdoor
from icml.safeseek.reproduce import SIZES, TITLE


def test_report_seeds_are_none_of_those_it_was_developed_on() -> None:
    looked_at = {*range(10), *range(2000, 2005), *range(2100, 2105)}  # NOTES.md
    assert not looked_at & set(SIZES["default"].seeds)


def test_sizes_can_be_read_without_torch() -> None:
    code = "import icml.safeseek.reproduce, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("wrong", [{"seeds": (3,)}, {"seeds": (3, 3)}, {"random": 0}])
def test_a_size_that_makes_no_sense_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"needs two different seeds|must be at least 1"):
        Config(**wrong)


def test_a_clean_model_is_trained_once_and_read_back_bit_for_bit(tmp_path) -> None:
    config = Config(people=2, fact_steps=2)
    (_, first), (_, second) = (clean_model(config, 5, tmp_path / "m") for _ in range(2))
    assert (tmp_path / "m" / "model.safetensors").is_file()
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert a.equal(b)


def test_the_best_control_is_one_that_keeps_the_clean_answers() -> None:
    controls = {"a": {"success": 0.0, "clean": 0.2}, "b": {"success": 0.4, "clean": 0.95}}
    poisoned = {"success": 0.9, "clean": 1.0}
    cell = {"poisoned": poisoned, "channels": {"controls": controls}}
    assert best_control(cell, "channels") == 0.4
    cell["channels"]["controls"] = {"a": controls["a"]}
    assert best_control(cell, "channels") == 0.9


def backdoor_cell(success: float) -> dict:
    """What a seed would give whose circuits leave this attack success, and controls 0.8."""

    def rates(x: float) -> dict:
        return {"success": x, "clean": 0.99, "repaired": 1 - x}

    search = {
        "removed": rates(success), "alone": rates(0.0), "alone, rest at its mean": rates(1.0),
        "random alone": rates(0.04 if success else 0.06),
        "controls": {"random 1": rates(0.7), "random 2": rates(0.9), "gradient": rates(0.8)},
        "units": {"0/mlp-channel": [1], "1/mlp-channel": []},
        "sizes": {"mlp-channel": [1, 8]}, "weights unchanged": True, "export difference": 0.0,
    }  # fmt: skip
    return {"poisoned": rates(1.0), **dict.fromkeys(ARMS, search)}


def test_claims_of_the_backdoor_follow_the_cells(tmp_path) -> None:
    verdicts = []
    for success in (0.0, 0.5):
        config = Config()
        with Run.open("safeseek", config, title=TITLE, out=tmp_path / str(success)) as run:
            judge_backdoor(run, [backdoor_cell(success), backdoor_cell(success)])
            verdicts.append({claim.id: claim for claim in run.finish().claims})
    good, bad = verdicts
    assert good["channels-success"].holds
    assert not bad["channels-success"].holds
    assert good["circuit-carries"].holds
    assert not bad["circuit-carries"].holds
    # the best control leaves 0.7
    assert good["channels-against-best-control"].value == pytest.approx(0.7)
    assert good["channels-controls"].holds
    assert not good["channels-sparsity"].holds  # 1 of 8
    assert good["sufficient-circuit-sparsity"].holds  # may be larger
    assert good["sufficient-circuit-faithfulness-mean"].holds
    assert not good["sufficient-circuit-faithfulness-zero"].holds
    assert not good["sufficient-circuit-random-alone"].holds
    assert bad["sufficient-circuit-random-alone"].holds
    assert bad["channels-completeness"].value == pytest.approx(0.5)


def test_claims_of_the_refusals_follow_the_cells(tmp_path) -> None:
    def rates(refused: float, told: float) -> dict:
        return {"refused": refused, "complied": 0.0, "told": told, "learnt": 0.5}

    cells = [
        {
            "guarded": rates(1.0, 1.0), "removed": rates(0.0, 0.8), "alone": rates(1.0, 0.0),
            "sizes": {"head": [1, 4]}, "moved": 0.0,
            "tuned": {
                "plain": rates(0.2, 1.0), "circuit protected": rates(kept, 1.0),
                "random protected": rates(kept + 0.05, 1.0),
            },
        }
        for kept in (0.7, 0.72)
    ]  # fmt: skip
    with Run.open("safeseek", Config(), title=TITLE, out=tmp_path / "r") as run:
        judge_alignment(run, cells)
        claims = {claim.id: claim for claim in run.finish().claims}
    assert claims["refusals-removed"].holds
    assert not claims["refusals-utility"].holds
    assert claims["tuning-against-plain"].holds
    assert claims["tuning-against-plain"].value == pytest.approx(0.51)
    assert not claims["tuning-against-random"].holds
    assert not claims["tuning-retained"].holds


@pytest.mark.slow
def test_the_quick_experiment_supports_its_required_claims(tmp_path) -> None:
    summary = check_reproduce("safeseek", tmp_path)
    claims = {claim.id: claim for claim in summary.claims}
    assert claims["channels-success"].value < 0.5
    assert claims["sufficient-circuit-faithfulness-zero"].value > 0.5
