import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from icml.agent_omit.experiment.picture import Spot, pareto
from icml.agent_omit.experiment.training import VaultTraining, train_arm, warm_start
from icml.agent_omit.experiment.verdict import judge
from icml.agent_omit.reproduce import SIZES, TITLE, run_experiment
from icml.core.experiment import Run
from icml.core.plots import Arm
from icml.core.stats import t_interval
from icml.core.testing import check_interrupted_run_continues, check_reproduce

SMALL = VaultTraining(turns=3, width=16, base_steps=50, cold_steps=2, iterations=2, tasks=2,
                      group_size=2, evaluated=8)  # fmt: skip


def test_report_seeds_are_none_of_those_it_was_developed_on():
    for config in SIZES.values():
        assert not set(range(10)) & set(config.seeds)
        assert len(config.seeds) >= 3


def test_sizes_can_be_read_without_torch():
    code = "import icml.agent_omit.reproduce, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": (1, 2)}, "seeds must be at least 3 different ones, got [1, 2]"),
        ({"weights": (0.2, 0.5)}, "weights must hold 0 and 0.2, got [0.2, 0.5]"),
    ],
)
def test_a_design_that_allows_no_comparison_is_refused(tmp_path, change, message):
    config = replace(SIZES["quick"], **change)
    with (
        Run.open("agent-omit", config, title=TITLE, out=tmp_path / "run") as run,
        pytest.raises(ValueError, match=f"^{re.escape(message)}$"),
    ):
        run_experiment(config, run)


def test_stages_hand_models_on_and_repeat_bit_for_bit(tmp_path):
    told: list = []

    def log(step, **metrics):
        told.append((step, metrics))

    first = warm_start(SMALL, tmp_path / "a", 0, log=log)
    again = warm_start(SMALL, tmp_path / "b", 0, log=log)
    assert repr(first) == repr(again)
    assert first["segments"]["exactness"] < 1e-5
    assert first["segments"]["miscounted"] == 0
    assert first["no thoughts"]["thought note"] == 1
    found = [train_arm(SMALL, tmp_path / name, 0.2, 0, log=log) for name in "ab"]
    assert repr(found[0]) == repr(found[1])
    assert {row["arm"] for _, row in told} == {"base", "w=0.2"}


def evaluation(success, tokens, **changes):
    shares = {f"{what} {kind}": 0.0 for what in ("thought", "observation")
              for kind in ("note", "walk", "keypad", "final")}  # fmt: skip
    read = {"prompt": tokens * 0.8, "output": tokens * 0.2, "tokens": tokens}
    return {"success": success, **read, **shares, **changes}


def judged(tmp_path, ours, control):
    lost = evaluation(0.0, math.nan)
    segments = {"exactness": 1e-6, "miscounted": 0, "outside": 0.9, "nats": 5.0, "segments": 1.7,
                "steps": 2.9}  # fmt: skip
    starts = {
        seed: {"base": evaluation(1.0, 340.0 + seed), "no thoughts": lost, "keep last": lost,
               "cold start": evaluation(0.9, 330.0), "segments": segments}
        for seed in range(3)
    }  # fmt: skip
    trained = {"w=0": dict.fromkeys(range(3), control), "w=0.2": dict.fromkeys(range(3), ours)}
    with Run.open("agent-omit", SIZES["quick"], title=TITLE, out=tmp_path / "run") as run:
        judge(run, starts, trained)
        claims = {claim.id: claim for claim in run.finish().claims}
    return claims


def test_claims_hold_for_an_agent_that_saves_and_fail_for_one_that_does_not(tmp_path):
    good = evaluation(0.99, 230.0, **{"thought note": 1.0})
    claims = judged(tmp_path / "good", good, evaluation(0.99, 339.0))
    assert all(claim.holds for claim in claims.values())
    assert claims["saving"].value == pytest.approx(
        1 - 230 * sum(1 / (340 + s) for s in range(3)) / 3
    )
    bad = evaluation(0.8, 339.0, **{"thought keypad": 0.5, "observation note": 0.5})
    claims = judged(tmp_path / "bad", bad, evaluation(0.99, 230.0))
    failed = {name for name, claim in claims.items() if not claim.holds}
    assert failed == {"success", "saving", "control", "reward", "keypad", "note"}


def test_an_agent_that_never_succeeds_has_saved_nothing(tmp_path):
    claims = judged(tmp_path, evaluation(0.0, math.nan), evaluation(0.99, 339.0))
    assert claims["saving"].value == 0
    assert not claims["success"].holds


def test_the_picture_has_a_point_an_arm_and_says_it_in_words():
    spots = {"ours": Spot(t_interval([230.0, 250.0]), t_interval([0.9, 1.0]))}
    arms = [Arm("ours", "ours", "Ours"), Arm("never", "other", "Never succeeds")]
    plot = pareto(spots, title="Saves", arms=arms, note="95 % t intervals")
    assert [row[0] for row in plot.rows] == ["ours"]
    assert "Ours: 240 tokens, success 0.95" in plot.alt
    for width in (760, 340):
        assert plot.svg(width).startswith("<?xml")


@pytest.mark.slow
def test_the_quick_run_from_end_to_end_and_again_after_ctrl_c(tmp_path):
    whole = check_reproduce("agent-omit", tmp_path / "whole")
    check_interrupted_run_continues("agent-omit", tmp_path / "cut", whole, after=20)
