"""How per-token losses become one number."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from icml.core.rl.masked import masked_mean, masked_sum

Aggregate = Literal["token_mean", "seq_mean_token_mean", "seq_sum_const", "seq_mean_token_sum"]


def aggregate_loss(
    per_token: Tensor, mask: Tensor, mode: Aggregate, *, const: float | None = None
) -> Tensor:
    """Reduce per-token losses to one number.

    ========================  ====================================================  ==============
    mode                      value                                                 TRL's name
    ========================  ====================================================  ==============
    ``token_mean``            sum of all trained tokens / their number              dapo, bnpo
    ``seq_mean_token_mean``   mean over rows of the row's token mean                grpo
    ``seq_mean_token_sum``    mean over rows of the row's token sum
    ``seq_sum_const``         sum of all trained tokens / (rows * const)            dr_grpo
    ========================  ====================================================  ==============

    A row without a trained token adds 0 and still counts as a row, as in TRL.

    Args:
        per_token: Losses, ``(samples, tokens)``.
        mask: Trained tokens, booleans or 0/1, ``(samples, tokens)``.
        mode: See the table.
        const: Tokens by which ``seq_sum_const`` divides, usually the longest completion
            allowed; > 0. For that mode only.

    Returns:
        A 0-dimensional tensor, at least float32; 0 where nothing is trained.

    Raises:
        ValueError: If the mode is unknown, ``const`` is missing, not positive or given to
            another mode, or the tensors are not 2-D of one shape.

    Example:
        >>> import torch
        >>> losses = torch.tensor([[1.0, 2.0], [6.0, 0.0]])
        >>> mask = torch.tensor([[1, 1], [1, 0]])
        >>> aggregate_loss(losses, mask, "token_mean")
        tensor(3.)
        >>> aggregate_loss(losses, mask, "seq_sum_const", const=9.0)
        tensor(0.5000)
    """
    if mode not in get_args(Aggregate):
        raise ValueError(f"aggregate must be one of {get_args(Aggregate)}, got {mode!r}")
    if per_token.ndim != 2:
        raise ValueError(f"losses must be 2-D (samples, tokens), got {tuple(per_token.shape)}")
    _check_const(mode, const)
    rows = max(len(per_token), 1)
    if mode == "token_mean":
        return masked_mean(per_token, mask)
    if mode == "seq_mean_token_mean":
        return masked_mean(per_token, mask, dim=1).sum() / rows
    return masked_sum(per_token, mask) / (rows * (const or 1.0))


def _check_const(mode: Aggregate, const: float | None) -> None:
    if mode == "seq_sum_const":
        if const is None or not const > 0:
            raise ValueError(f"aggregate='seq_sum_const' needs const > 0, got const={const}")
    elif const is not None:
        raise ValueError(f"const={const} has no meaning with aggregate={mode!r}")
