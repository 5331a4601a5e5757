"""Bad input is refused with one sentence that names the argument."""

from typing import Any

import pytest
import torch

from icml.gdpo import gdpo_advantages, grpo_advantages

REWARDS = torch.rand(6, 2, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (torch.zeros(6), r"rewards must be 2-D .* got shape \(6,\)"),
        (torch.zeros(2, 3, 1), r"rewards must be 2-D"),
        (torch.zeros(0, 2), r"not empty, got shape \(0, 2\)"),
        (torch.zeros(6, 0), r"not empty, got shape \(6, 0\)"),
        (torch.tensor([[1.0], [float("inf")]]), r"rewards must be finite.* got inf"),
        (torch.tensor([[1.0], [-float("inf")]]), r"got -inf"),
        (torch.tensor([[3e38], [-3e38]]), r"rewards must be finite, at most 1e\+15 .*float32"),
    ],
)
def test_rewards_of_wrong_shape_or_value_are_refused(rewards, message):
    with pytest.raises(ValueError, match=message):
        gdpo_advantages(rewards, 1 if rewards.ndim != 2 else max(len(rewards), 1))


@pytest.mark.parametrize("rewards", [[[1.0]], torch.zeros(2, 1, dtype=torch.complex64)])
def test_rewards_of_wrong_type_are_refused(rewards):
    with pytest.raises(TypeError, match="rewards must be"):
        gdpo_advantages(rewards, 1)


@pytest.mark.parametrize("groups", [0, -2, 4, 7])
def test_group_size_must_divide_the_rows(groups):
    with pytest.raises(ValueError, match=rf"groups={groups} must be a positive group size"):
        gdpo_advantages(REWARDS, groups)


@pytest.mark.parametrize("groups", [True, 2.0, "2", None, torch.zeros(6), torch.zeros(6).bool()])
def test_groups_of_wrong_type_are_refused(groups):
    with pytest.raises(TypeError, match="groups must be an int or a tensor of integer ids"):
        gdpo_advantages(REWARDS, groups)


def test_groups_need_one_id_a_row():
    with pytest.raises(ValueError, match=r"groups must have one id for each of the 6 rows"):
        gdpo_advantages(REWARDS, torch.zeros(5, dtype=torch.long))


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, 2.0, 3.0], [[1.0, 1.0]], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]]
)
@pytest.mark.parametrize("function", [gdpo_advantages, grpo_advantages])
def test_weights_of_wrong_shape_or_value_are_refused(function, weights):
    with pytest.raises(ValueError, match="weights must"):
        function(REWARDS, 3, weights=weights)


@pytest.mark.parametrize("name", ["batch_norm", "singleton", "single_reward"])
def test_unknown_choice_is_refused_with_the_known_ones(name):
    options: dict[str, Any] = {name: "best"}
    with pytest.raises(ValueError, match=rf"{name} must be one of \w+, .*got 'best'"):
        gdpo_advantages(REWARDS, 3, **options)


@pytest.mark.parametrize("name", ["eps", "whiten_eps"])
@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("inf")])
def test_epsilon_must_be_finite_and_not_negative(name, value):
    options: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=rf"{name} must be a finite number >= 0"):
        gdpo_advantages(REWARDS, 3, **options)


@pytest.mark.parametrize("name", ["eps", "whiten_eps"])
@pytest.mark.parametrize("value", ["x", None, True])
def test_epsilon_that_is_no_number_is_named(name, value):
    options: dict[str, Any] = {name: value}
    with pytest.raises(TypeError, match=rf"{name} must be a number >= 0, got"):
        gdpo_advantages(REWARDS, 3, **options)


def test_token_counts_and_token_norm_need_each_other():
    with pytest.raises(ValueError, match=r"token_counts must be given .* missing"):
        gdpo_advantages(REWARDS, 3, batch_norm="token")
    with pytest.raises(ValueError, match=r"given with batch_norm='rollout'"):
        gdpo_advantages(REWARDS, 3, token_counts=torch.ones(6))


@pytest.mark.parametrize("counts", [torch.ones(5), torch.ones(6, 1), -torch.ones(6)])
def test_bad_token_counts_are_refused(counts):
    with pytest.raises(ValueError, match="token_counts must"):
        gdpo_advantages(REWARDS, 3, batch_norm="token", token_counts=counts)


def test_weighted_sum_too_large_to_square_is_refused():
    with pytest.raises(ValueError, match="the weighted sum of rewards must be finite, at most"):
        grpo_advantages(REWARDS * 1e10, 3, weights=[1e10, 1.0])


def test_large_float64_rewards_are_fine():
    rewards = REWARDS.double()
    plain = gdpo_advantages(rewards, 3, eps=0.0)
    torch.testing.assert_close(gdpo_advantages(rewards * 1e100, 3, eps=0.0), plain)


@pytest.mark.parametrize("weights", [["a", "b"], "ab", [None, 1.0], torch.tensor([1j, 1])])
def test_weights_that_are_no_real_numbers_are_named(weights):
    with pytest.raises(TypeError, match="weights must be"):
        gdpo_advantages(torch.ones(4, 2), 2, weights=weights)


@pytest.mark.parametrize("counts", ["x", [1, "a", 1, 1, 1, 1], torch.ones(6) * 1j])
def test_token_counts_that_are_no_real_numbers_are_named(counts):
    with pytest.raises(TypeError, match="token_counts must be"):
        gdpo_advantages(REWARDS, 3, batch_norm="token", token_counts=counts)
