"""Which groups carry no signal, and what takes their place: the arithmetic of dynamic sampling.

A batch is a mapping from TRL's names to tensors with a row a completion: prompts are padded on the
left, everything else on the right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import gcd

import torch
from torch import Tensor
from torch.nn.functional import pad

from icml.core.errors import UserError

__all__ = ["candidate_groups", "dead_groups", "joined", "new_prompts", "rows_of", "trimmed"]

LEFT = ("prompt_ids", "prompt_mask")
RIGHT = (
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "old_per_token_logps",
    "ref_per_token_logps",
    "sampling_per_token_logps",
    "importance_sampling_ratio",
)
ROWS = (*LEFT, *RIGHT, "advantages")
"""What a batch may hold besides ``num_items_in_batch``."""


def dead_groups(rewards: Tensor, weights: Tensor, group_size: int) -> Tensor:
    """Say which groups give every completion the advantage 0: all scored ones have equal rewards.

    Args:
        rewards: ``(completions, rewards)``, NaN where a function gave None; groups are contiguous.
        weights: ``(rewards,)``, the weights of the rewards.
        group_size: Completions a prompt.

    Returns:
        ``(groups,)`` bool.

    Example:
        >>> dead_groups(torch.tensor([[1.0], [0.0], [1.0], [1.0]]), torch.ones(1), 2)
        tensor([False,  True])
    """
    total = (rewards * weights).nansum(dim=1)
    scored = ~rewards.isnan().all(dim=1)
    lowest = total.masked_fill(~scored, torch.inf).view(-1, group_size).amin(dim=1)
    highest = total.masked_fill(~scored, -torch.inf).view(-1, group_size).amax(dim=1)
    return highest <= lowest  # also where nothing was scored


def candidate_groups(dead: int, group_size: int, processes: int) -> int:
    """Return how many groups to draw for ``dead`` ones, so that each process gets as many rows.

    Example:
        >>> candidate_groups(1, group_size=3, processes=2)
        2
    """
    step = processes // gcd(processes, group_size)
    return -(-dead // step) * step


def new_prompts(
    count: int, key: Callable[[int], Hashable], used: set[Hashable], seed: str
) -> Iterator[int]:
    """Draw numbers of prompts, without those that are used, until there are no more.

    Args:
        count: Number of prompts.
        key: Tells a prompt by its number; equal prompts have equal keys.
        used: Keys that are not to be drawn.
        seed: Decides the order.
    """
    draw = random.Random(seed)
    tried: set[int] = set()
    used = set(used)
    while len(tried) < count:
        number = draw.randrange(count)
        if number not in tried:
            tried.add(number)
            if key(number) not in used:
                used.add(key(number))
                yield number


def rows_of(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what has a row a completion, which is all but ``num_items_in_batch``.

    Raises:
        UserError: If the batch holds something else, such as images.
    """
    strange = sorted(batch.keys() - {*ROWS, "num_items_in_batch"})
    if strange:
        raise UserError(
            f"dynamic sampling can't refill a batch with {', '.join(strange)}: train on text"
        )
    return {name: batch[name] for name in ROWS if name in batch}


def joined(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor], *, pad_id: int
) -> dict[str, Tensor]:
    """Return the rows of two batches, one after the other.

    Args:
        first: Rows.
        second: Others, with the same names.
        pad_id: Fills up token ids; all else is filled up with 0.
    """
    return {
        name: torch.cat(_padded(name, [rows, second[name]], pad_id)) for name, rows in first.items()
    }


def _padded(name: str, parts: Sequence[Tensor], pad_id: int) -> list[Tensor]:
    if parts[0].dim() == 1:
        return list(parts)
    width = max(part.shape[1] for part in parts)
    value = pad_id if name.endswith("_ids") else 0
    missing = [width - part.shape[1] for part in parts]
    sides = [(m, 0) if name in LEFT else (0, m) for m in missing]
    return [pad(part, side, value=value) for part, side in zip(parts, sides, strict=True)]


def trimmed(batch: Mapping[str, Tensor], multiple: int | None) -> dict[str, Tensor]:
    """Return a batch without the columns that no row needs.

    Args:
        batch: The batch.
        multiple: Widths stay multiples of that; None: of 1.
    """
    widths = {
        "prompt_mask": _width(batch["prompt_mask"].flip(1), multiple),
        "completion_mask": _width(batch["completion_mask"], multiple),
    }
    found = dict(batch)
    for name, tensor in batch.items():
        if name in LEFT:
            found[name] = tensor[:, tensor.shape[1] - widths["prompt_mask"] :]
        elif name in RIGHT and tensor.shape[1] > 1:  # a ratio a sequence has one column
            found[name] = tensor[:, : widths["completion_mask"]]
    return found


def _width(mask: Tensor, multiple: int | None) -> int:
    columns = mask.any(dim=0).nonzero()
    needed = int(columns[-1]) + 1 if len(columns) else 1
    step = multiple or 1
    return min(-(-needed // step) * step, mask.shape[1])
