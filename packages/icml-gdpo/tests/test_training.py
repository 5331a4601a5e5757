from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from icml.core.errors import UserError
from icml.core.models.tiny import TinyGPT
from icml.core.rl.batch import Batch
from icml.gdpo.advantages import gdpo_advantages
from icml.gdpo.experiment.tasks import CALLS, VOCABULARY
from icml.gdpo.experiment.training import ADVANTAGES, evaluate, format_say, train_arm, warm_start
from icml.gdpo.reproduce import SIZES

SMALL = replace(
    SIZES["quick"], iterations=3, eval_every=2, prompts=4, group_size=4, width=16, sft_steps=4
)


def batch(rewards: list[list[float]], groups: list[int]) -> Batch:
    ids = torch.zeros(len(groups), 1, dtype=torch.long)
    zeros = torch.zeros(len(groups), 1)
    return Batch(
        prompt_ids=ids,
        prompt_lengths=ids[:, 0],
        completion_ids=ids,
        mask=ids == 0,
        old_logp=zeros,
        entropy=zeros,
        rewards=torch.tensor(rewards),
        groups=torch.tensor(groups),
        tasks=(),
    )


def test_the_arms_give_the_advantages_worked_out_by_hand():
    mixed = batch([[0.0, 3.0], [1.0, 3.0], [0.0, -3.0], [0.0, -3.0]], [7, 7, 7, 7])
    # Sums 3, 4, -3, -3: mean .25, unbiased std sqrt((7.5625 + 14.0625 + 2 * 10.5625) / 3).
    std = (42.75 / 3) ** 0.5
    grpo = torch.tensor([2.75, 3.75, -3.25, -3.25]) / (std + 1e-4)
    torch.testing.assert_close(ADVANTAGES["grpo"](mixed), grpo)
    # Sums with format x 6: 3, 9, -3, -3: mean 1.5, unbiased std sqrt((2.25 + 56.25 + 40.5) / 3).
    weighted = torch.tensor([1.5, 7.5, -4.5, -4.5]) / (33.0**0.5 + 1e-4)
    torch.testing.assert_close(ADVANTAGES["grpo-weighted"](mixed), weighted)
    expected = gdpo_advantages(mixed.rewards, mixed.groups)
    assert torch.equal(ADVANTAGES["gdpo"](mixed), expected)


def test_formats_say_worked_out_by_hand():
    # Group 0: both vary, two of four completions each. GRPO's parts are |1/2| and |3| over one
    # standard deviation, so format has 1/7; GDPO's are equal. Group 1: only correctness varies.
    scores = torch.tensor(
        [[1.0, 3.0], [1.0, -3.0], [0.0, 3.0], [0.0, -3.0]] + [[0.0, 3.0], [0.0, -3.0]] * 2
    )
    say = format_say(scores, torch.tensor([4, 4, 4, 4, 2, 2, 2, 2]))
    assert (say.mixed, say.raised) == (1, 1)
    alone = format_say(scores[:4], torch.zeros(4, dtype=torch.long))
    assert alone.share_by_grpo == pytest.approx(1 / 7)
    assert alone.share_by_gdpo == pytest.approx(1 / 2, rel=1e-3)  # eps of 1e-4 in the deviations
    assert say.share_by_gdpo == pytest.approx(1 / 3, rel=1e-3)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([-3.0, -1.0, 1.0, 3.0])),
        min_size=2,
        max_size=8,
    )
)
def test_format_never_has_less_say_by_gdpo_where_both_rewards_vary(rows):
    # Unbiased variances of n completions: format at most n / (4 (n - 1)), correctness, in steps of
    # 2, at least 4 / n, which is larger up to n = 14. Dividing by the deviations helps format.
    say = format_say(torch.tensor(rows), torch.zeros(len(rows), dtype=torch.long))
    assert say.raised == say.mixed


def ignore(*_: object, **__: object) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints")
    for seed in (0, 1):
        warm_start(SMALL, path, seed, log=ignore)
    return path


def run(folder: Path, arm: str = "gdpo", seed: int = 0):
    rows = []
    result = train_arm(
        SMALL, folder, arm, 1e-3, seed, log=lambda step, **row: rows.append((step, row))
    )
    return result, rows


def test_a_warm_start_is_decided_by_its_seed(folder, tmp_path):
    warm_start(SMALL, tmp_path, 0, log=ignore)
    first = load_file(folder / "warm-start-seed=0" / "model.safetensors")
    again = load_file(tmp_path / "warm-start-seed=0" / "model.safetensors")
    other = load_file(folder / "warm-start-seed=1" / "model.safetensors")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_all_arms_start_from_the_same_model(folder):
    starts = {arm: run(folder, arm)[1][0] for arm in ADVANTAGES}
    assert {step for step, _ in starts.values()} == {0}
    assert len({(row["format"], row["correctness"]) for _, row in starts.values()}) == 1


def test_auc_is_the_mean_of_the_evaluations(folder):
    result, rows = run(folder)
    assert [step for step, _ in rows] == [0, 2, 3]
    assert all(row["arm"] == "gdpo" and row["seed"] == 0 for _, row in rows)
    for name in ("format", "correctness"):
        assert result[f"{name} AUC"] == pytest.approx(sum(row[name] for _, row in rows) / 3)
        assert result[f"last {name}"] == rows[-1][1][name]


def test_a_warm_start_that_is_gone_is_named(folder):
    with pytest.raises(UserError, match="the warm start of seed 7 is gone from"):
        run(folder, seed=7)


def test_equal_seeds_give_equal_runs(folder):
    assert run(folder) == run(folder)


def test_evaluation_asks_every_question_once_and_always_with_the_same_chances():
    model = TinyGPT(len(VOCABULARY), d=16, ctx=16)
    first = evaluate(model)
    torch.manual_seed(1)
    assert evaluate(model) == first
    # Shares of 288 answers.
    assert (first["format"] * len(CALLS)) % 1 == pytest.approx(0, abs=1e-9)
    assert -3 <= first["correctness"] <= 3
