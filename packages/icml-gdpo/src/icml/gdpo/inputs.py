"""Check what the public functions are given, once, at the border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from icml.core.rl.functional import group_ids_from_size


def prepare(
    rewards: Tensor, groups: Tensor | int, weights: Sequence[float] | Tensor | None
) -> tuple[Tensor, Tensor | int, Tensor]:
    """Return rewards in the dtype of the computation, the checked groups and weights."""
    if not isinstance(rewards, Tensor):
        raise TypeError(f"rewards must be a torch.Tensor, got {type(rewards).__name__}")
    if rewards.ndim != 2 or 0 in rewards.shape:
        raise ValueError(
            "rewards must be 2-D (completions, rewards) and not empty, "
            f"got shape {tuple(rewards.shape)}"
        )
    if rewards.is_complex():
        raise TypeError(f"rewards must be real, got {rewards.dtype}")
    dtype = torch.float64 if rewards.dtype == torch.float64 else torch.float32
    rewards = rewards.detach().to(dtype)
    check_size("rewards", rewards)
    return rewards, _groups(groups, rewards), _weights(weights, rewards)


def _groups(groups: Tensor | int, rewards: Tensor) -> Tensor | int:
    """Return the group size, or one integer id for each row on the rewards' device."""
    rows = rewards.shape[0]
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups < 1 or rows % groups:
            raise ValueError(
                f"groups={groups} must be a positive group size that divides the "
                f"{rows} rows of rewards"
            )
        return groups
    if not isinstance(groups, Tensor) or groups.dtype == torch.bool or groups.is_floating_point():
        got = groups.dtype if isinstance(groups, Tensor) else type(groups).__name__
        raise TypeError(f"groups must be an int or a tensor of integer ids, got {got}")
    if groups.shape != (rows,):
        raise ValueError(
            f"groups must have one id for each of the {rows} rows of rewards, "
            f"got shape {tuple(groups.shape)}"
        )
    return groups.to(rewards.device)


def group_ids(groups: Tensor | int, rows: int, device: torch.device) -> Tensor:
    """Return ids for groups that passed the check."""
    if isinstance(groups, int):
        return group_ids_from_size(rows, groups).to(device)
    return groups


def _weights(weights: Sequence[float] | Tensor | None, rewards: Tensor) -> Tensor:
    """Return one weight for each reward."""
    count = rewards.shape[1]
    if weights is None:
        return rewards.new_ones(count)
    if isinstance(weights, Tensor) and weights.is_complex():
        raise TypeError(f"weights must be real, got {weights.dtype}")
    try:
        weight = torch.as_tensor(weights, dtype=rewards.dtype, device=rewards.device).detach()
    except (TypeError, ValueError) as error:
        raise TypeError(f"weights must be numbers, got {weights!r}") from error
    if weight.shape != (count,):
        raise ValueError(
            f"weights must have one number for each of the {count} rewards, "
            f"got shape {tuple(weight.shape)}"
        )
    check_size("weights", weight)
    if not bool((weight >= 0).all()) or not bool(weight.any()):
        raise ValueError(f"weights must be finite, >= 0 and not all 0, got {weight.tolist()}")
    return weight


def check_token_counts(
    token_counts: Tensor | None, batch_norm: str, rewards: Tensor
) -> Tensor | None:
    """Return the counts in the dtype of ``rewards``, or None where none are needed."""
    if (token_counts is not None) != (batch_norm == "token"):
        state = "missing" if token_counts is None else "given"
        raise ValueError(
            "token_counts must be given with batch_norm='token' and only then, "
            f"but it is {state} with batch_norm={batch_norm!r}"
        )
    if token_counts is None:
        return None
    if isinstance(token_counts, Tensor) and token_counts.is_complex():
        raise TypeError(f"token_counts must be real, got {token_counts.dtype}")
    try:
        counts = torch.as_tensor(token_counts).detach().to(rewards)
    except (TypeError, ValueError) as error:
        raise TypeError(f"token_counts must be numbers, got {token_counts!r}") from error
    if counts.shape != rewards.shape[:1]:
        raise ValueError(
            f"token_counts must have one number for each of the {rewards.shape[0]} rows of "
            f"rewards, got shape {tuple(counts.shape)}"
        )
    if not bool((counts.isfinite() & (counts >= 0)).all()):
        bad = counts[~(counts.isfinite() & (counts >= 0))][0].item()
        raise ValueError(f"token_counts must be finite and >= 0, got {bad}")
    return counts


def check_choice(name: str, value: str, choices: object) -> None:
    """Refuse a value that the ``Literal`` does not list."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")


def check_eps(name: str, value: float) -> None:
    """Refuse a negative, infinite or NaN epsilon, and what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number >= 0, got {value!r}")
    if not 0.0 <= value < float("inf"):
        raise ValueError(f"{name} must be a finite number >= 0, got {value}")


def check_names(names: Sequence[str], rewards: int) -> None:
    """Refuse anything but one text a reward."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"names must be a list with one name for each reward, got {names!r}")
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"names must be texts, got {list(names)}")
    if len(names) != rewards:
        raise ValueError(f"names must have {rewards} entries, got {len(names)}")


def check_size(name: str, values: Tensor) -> None:
    """Refuse infinities and numbers whose squares could leave the range of the dtype."""
    limit = 1e150 if values.dtype == torch.float64 else 1e15
    low, high = values.aminmax()
    if -limit <= low and high <= limit:  # not so if a value is NaN, which is allowed
        return
    wrong = values.abs() > limit
    if bool(wrong.any()):
        raise ValueError(
            f"{name} must be finite, at most {limit:.0e} in size ({values.dtype}), or NaN where "
            f"missing, got {values[wrong][0].item()}"
        )
