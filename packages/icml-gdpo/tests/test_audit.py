"""Audits of the real log and of logs made by a known option."""

import csv
from pathlib import Path

import pytest
import torch

from icml.core.errors import UserError
from icml.gdpo import gdpo_advantages, grpo_advantages
from icml.gdpo.audit import audit, write_audit
from icml.gdpo.audit.logs import Log, LoggedBatch, read_log

DATA = Path(__file__).parent / "data" / "trl-completions"
NAMES = ["ans", "fmt", "length"]
REWARDS = torch.randint(0, 3, (16, 2), generator=torch.Generator().manual_seed(0)).double()


@pytest.fixture(scope="module")
def real():
    return audit(read_log([DATA], NAMES, group_size=8), NAMES, group_size=8)


def made_by(advantages):
    batch = LoggedBatch("log", 1, REWARDS.tolist(), advantages, True)
    return audit(Log([batch], 1), ["a", "b"], group_size=4)


def test_real_log_is_recognised_as_gdpo(real):
    # TRL computes in float32.
    assert real.off["GDPO"] <= 1e-5
    assert real.off["GRPO"] > 1
    assert "TRL's 'normalize_then_sum' (GDPO) made this log" in str(real)
    assert "6 batches found, 3 dropped as repeated, 3 kept" in str(real)


def test_real_log_shows_the_answer_drowned_under_grpo(real):
    answer = NAMES.index("ans")
    assert real.report.share_grpo[answer] < 0.1 < 0.3 < real.report.share_gdpo[answer]


def test_log_made_by_grpo_is_recognised():
    text = str(made_by(grpo_advantages(REWARDS, 4).float().tolist()))
    assert "TRL's 'sum_then_normalize' (GRPO) made this log" in text


def test_log_made_otherwise_is_told_with_the_closest():
    text = str(made_by((gdpo_advantages(REWARDS, 4) + 0.01).tolist()))
    assert "1.0e-02 from GDPO's" in text
    assert "neither to 1e-05, GDPO is closest" in text


def test_log_that_fits_both_says_so():
    zeros = LoggedBatch("log", 1, [[1.0, 1.0]] * 4, [0.0] * 4, True)
    result = audit(Log([zeros], 1), ["a", "b"], group_size=4)
    assert "both of TRL's options give these" in str(result)


def test_weights_are_those_of_the_run():
    weighted = gdpo_advantages(REWARDS, 4, weights=[3, 1]).tolist()
    log = Log([LoggedBatch("log", 1, REWARDS.tolist(), weighted, True)], 1)
    assert audit(log, ["a", "b"], group_size=4, weights=[3, 1]).off["GDPO"] == 0.0
    assert audit(log, ["a", "b"], group_size=4).off["GDPO"] > 0.01


def test_missing_logged_advantages_are_counted():
    advantages = [float("nan"), *gdpo_advantages(REWARDS, 4)[1:].tolist()]
    result = made_by(advantages)
    assert result.off["GDPO"] == 0.0
    assert "1 completions have no logged advantage" in str(result)


def test_log_without_advantages_prompts_and_steps_says_so():
    batch = LoggedBatch("log", None, REWARDS.tolist(), None, False)
    text = str(audit(Log([batch], 1), ["a", "b"], group_size=4))
    assert "no advantages are logged" in text
    assert "no prompt column: the groups could not be checked" in text
    assert "no step column: each file was taken as one batch" in text


@pytest.mark.parametrize("weights", [[1.0], [-1.0, 1.0], [0.0, 0.0]])
def test_weights_that_do_not_fit_are_refused(weights):
    batch = LoggedBatch("log", 1, REWARDS.tolist(), None, True)
    with pytest.raises(UserError, match="weights must"):
        audit(Log([batch], 1), ["a", "b"], group_size=4, weights=weights)


def test_rewards_too_large_to_square_are_refused():
    batch = LoggedBatch("log", 1, [[1e300], [0.0]], None, True)
    with pytest.raises(UserError, match="rewards must be finite, at most 1e\\+150"):
        audit(Log([batch], 1), ["a"], group_size=2)


def test_files_hold_every_completion_and_the_picture(real, tmp_path):
    paths = write_audit(real, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["shares.svg", "shares.csv", "advantages.csv"]
    assert "<svg" in paths[0].read_text(encoding="utf-8")
    with paths[2].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    assert max(abs(float(row["gdpo"]) - float(row["logged"])) for row in rows) <= 1e-5
    assert [row["group"] for row in rows[:9]] == ["1"] * 8 + ["2"]


def test_missing_numbers_are_empty_cells(tmp_path):
    batch = LoggedBatch("log", None, [[1.0], [float("nan")]], None, True)
    write_audit(audit(Log([batch], 1), ["a"], group_size=2), tmp_path)
    last = (tmp_path / "advantages.csv").read_text().splitlines()[-1]
    assert last == "1,,1,,0.0,0.0,"
