"""Episodes as TRL wants them: one sequence each, policy and environment told apart."""

import torch

from icml.core.rl.rollout import Step, Trajectory
from icml.empg.train.episodes import _as_trl, environment_reward


def step(prompt, response, reward):
    n = len(response)
    logps = -torch.arange(1.0, n + 1)
    return Step(prompt, response, logps, torch.ones(n), "go forward", reward, {})


def trajectory(*steps, error=None):
    total = sum(s.reward for s in steps)
    return Trajectory(0, 0, [*steps], total, True, False, total > 0, error)


def test_an_episode_becomes_one_sequence_with_its_reward():
    first, second = step([5, 6], [7, 2], 0.0), step([5, 6, 7, 2, 8], [9], 0.75)
    found = _as_trl([trajectory(first, second)], eos_id=2)
    assert found["prompt_ids"] == [[5, 6]]
    assert found["completion_ids"] == [[7, 2, 8, 9]]
    assert found["env_mask"] == [[1, 1, 0, 1]]
    assert found["logprobs"] == [[-1.0, -2.0, 0.0, -1.0]]
    assert environment_reward(found["environment_reward"], prompts=["x"]) == [0.75]


def test_an_episode_whose_environment_failed_has_no_reward():
    played = [trajectory(step([5], [7], 0.5), error="boom"), trajectory(error="boom")]
    found = _as_trl(played, eos_id=2)
    assert found["environment_reward"] == [None, None]
    assert found["completion_ids"] == [[7], [2]]
    assert found["env_mask"] == [[1], [0]]
