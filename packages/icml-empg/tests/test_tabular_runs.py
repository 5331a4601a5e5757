from dataclasses import replace

import numpy as np
import pytest
import torch

from icml.empg.experiment.arms import ARMS, step_advantages
from icml.empg.experiment.corridor import Episodes
from icml.empg.experiment.tabular import Training, step_batch, train, updates

SMALL = Training(iterations=4, eval_every=2, tasks=2, group_size=4)

# Four steps of two episodes: Hn = (0, .5, 1, .25).
ADVANTAGES = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
ENTROPY = torch.tensor([0.0, 1.0, 2.0, 0.5], dtype=torch.float64)
NEXT = torch.tensor([1, -1, 3, -1])


def by_hand(*, scales: bool, zeta: float) -> torch.Tensor:
    weights = torch.exp(-torch.tensor([0.0, 0.5, 1.0, 0.25], dtype=torch.float64))
    g = weights / weights.mean() if scales else torch.ones_like(weights)
    bonus = zeta * torch.tensor([weights[1], 0.0, weights[3], 0.0], dtype=torch.float64)
    modulated = ADVANTAGES * g + bonus
    return modulated - modulated.mean()


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        ("grpo", ADVANTAGES),
        ("empg", by_hand(scales=True, zeta=0.1)),
        ("scaling", by_hand(scales=True, zeta=0.0)),
        ("bonus", by_hand(scales=False, zeta=0.1)),
    ],
)
def test_the_arms_give_the_advantages_worked_out_by_hand(arm, expected):
    found = step_advantages(ARMS[arm], ADVANTAGES, ENTROPY, NEXT)
    # The method's own eps of 1e-8 in two denominators.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


def test_steps_are_taken_out_of_episodes_turn_by_turn():
    # Two episodes of one task: the first wins in its second turn, the second takes all three.
    episodes = Episodes(
        states=np.array([[5, 6], [7, 8], [0, 9]]),
        actions=np.array([[0, 1], [3, 2], [0, 1]]),
        alive=np.array([[True, True], [True, True], [False, True]]),
        success=np.array([1.0, 0.0]),
    )
    entropies = np.arange(10) / 10
    batch = step_batch(episodes, entropies, group_size=2)
    assert batch.states.tolist() == [5, 6, 7, 8, 9]
    assert batch.actions.tolist() == [0, 1, 3, 2, 1]
    assert batch.next.tolist() == [2, 3, -1, 4, -1]
    assert batch.entropy.tolist() == [0.5, 0.6, 0.7, 0.8, 0.9]
    # Rewards 1 and 0: mean 1/2, unbiased standard deviation 1/sqrt(2), eps 1e-4.
    size = 0.5 / (0.5**0.5 + 1e-4)
    expected = torch.tensor([size, -size, size, -size, -size], dtype=torch.float64)
    torch.testing.assert_close(batch.advantages, expected)


def test_steps_of_a_real_batch_follow_each_other_in_their_episode():
    _, batch = next(updates(SMALL, None, 1.0, 0))
    followed = batch.next[batch.next >= 0].tolist()
    assert len(set(followed)) == len(followed)
    # Each of the 8 episodes has one first step, which follows none, and one last.
    assert len(batch.states) - len(followed) == 8
    assert (batch.next == -1).sum() == 8


def test_all_arms_and_rates_begin_with_the_same_batch():
    _, grpo = next(updates(SMALL, ARMS["grpo"], 1.0, 3))
    _, empg = next(updates(SMALL, ARMS["empg"], 9.0, 3))
    assert np.array_equal(grpo.states, empg.states)
    assert np.array_equal(grpo.actions, empg.actions)


def test_an_update_is_the_mean_over_steps_of_advantage_times_score():
    run = updates(SMALL, None, 2.0, 1)
    policy, batch = next(run)
    before, p = policy.logits.copy(), policy.probabilities()
    for state, action, weight in zip(batch.states, batch.actions, batch.advantages, strict=True):
        score = np.eye(4)[action] - p[state]
        before[state] += 2.0 * float(weight) * score / len(batch.states)
    next(run)
    np.testing.assert_allclose(policy.logits, before, atol=1e-12)


def test_every_batch_was_drawn_by_the_policy_that_comes_with_it():
    # The entropies that a batch carries are those of its own policy, also after the last update.
    steps = 0
    for policy, batch in updates(SMALL, None, 50.0, 0):
        assert np.array_equal(batch.entropy.numpy(), policy.entropies()[batch.states])
        steps += 1
    assert steps == SMALL.iterations + 1


def test_auc_is_the_mean_of_the_evaluations():
    rows = []
    result = train(SMALL, ARMS["empg"], 8.0, 0, log=lambda step, **row: rows.append((step, row)))
    assert [step for step, _ in rows] == [0, 2, 4]
    assert result["AUC"] == pytest.approx(np.mean([row["success"] for _, row in rows]))
    assert result["last success"] == rows[-1][1]["success"]
    # The table's exact rate at the start, which other tests compare with played episodes.
    start = SMALL.corridor.success_rate(np.exp(SMALL.start()))
    assert rows[0][1]["success"] == pytest.approx(start, abs=1e-12)


def test_equal_seeds_give_equal_runs_and_other_seeds_other_ones():
    first, again, other = (train(SMALL, None, 8.0, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_start_can_be_sure_where_it_sees_what_it_looks_for():
    wide = replace(SMALL, noise=0.9, sure_noise=0.1)
    chances = np.unique(np.exp(wide.start()).max(1).round(6))
    # 1 - noise + noise / 4.
    np.testing.assert_allclose(chances, [0.325, 0.925])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"eval_every": 0}, "eval_every must be at least 1"),
        ({"tasks": 0}, "tasks must be at least 1"),
        ({"group_size": 1}, "group_size must be at least 2"),
        ({"noise": 0.0}, r"noise must be in \(0, 1\]"),
        ({"sure_noise": 1.5}, r"sure_noise must be in \(0, 1\]"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **wrong)
