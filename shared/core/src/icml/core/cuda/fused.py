"""Log-probability and entropy of chosen tokens straight from hidden states and the output layer.

The logits (rows, vocabulary) are the largest tensor of language-model training, and their gradient
is as large again. Here they exist a tile at a time: a block of rows against a block of the
vocabulary. The backward pass computes each tile again. Plain torch operations throughout, so CPU
and GPU run the same code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["TokenScores", "score_tokens"]

ROWS_AT_ONCE, VOCABULARY_AT_ONCE = 1024, 4096  # ours: float32 tiles of 16 MiB


class TokenScores(NamedTuple):
    """What `score_tokens` returns; both in the shape of the chosen ids, at least float32."""

    logp: Tensor
    """Log-probability of each chosen token, in nats."""
    entropy: Tensor
    """Entropy of each next-token distribution, in nats, in [0, log(vocabulary)]."""


def score_tokens(
    hidden: Tensor,
    weight: Tensor,
    ids: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
    vocabulary_at_once: int = VOCABULARY_AT_ONCE,
) -> TokenScores:
    """Score chosen tokens under ``softmax(logits / temperature)`` without making the logits.

    The logits are ``hidden @ weight.T + bias``, then ``softcap * tanh(logits / softcap)`` where a
    cap is given (Gemma's). Half-precision inputs are multiplied and summed in float32. Gradients
    flow to ``hidden``, ``weight`` and ``bias``, once (no second derivatives), and are summed in
    the same precision before they take the type of their input.

    Args:
        hidden: The states that the output layer reads, ``(..., width)``.
        weight: The output layer's weight, ``(vocabulary, width)``.
        ids: The chosen tokens, integers in [0, vocabulary), ``(...)``.
        bias: ``(vocabulary,)``; -inf gives a token probability 0.
        temperature: Divides the logits, > 0.
        softcap: Bound of the logits before the temperature, > 0.
        rows_at_once: Rows of a tile, >= 1.
        vocabulary_at_once: Tokens of the vocabulary in a tile, >= 1.

    Raises:
        ValueError: If shapes do not fit or a value is out of range.

    Example:
        >>> hidden, weight = torch.zeros(2, 8), torch.zeros(4, 8)
        >>> score_tokens(hidden, weight, torch.tensor([0, 3]))
        TokenScores(logp=tensor([-1.3863, -1.3863]), entropy=tensor([1.3863, 1.3863]))
    """
    _check_shapes(hidden, weight, ids, bias)
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    if softcap is not None and not 0 < softcap < math.inf:
        raise ValueError(f"softcap must be > 0, got {softcap}")
    if min(rows_at_once, vocabulary_at_once) < 1:
        raise ValueError(f"tiles must be >= 1, got {rows_at_once} by {vocabulary_at_once}")
    head = _Head(temperature, softcap, rows_at_once, vocabulary_at_once)
    flat = hidden.reshape(-1, hidden.shape[-1])
    logp, entropy = _Scores.apply(flat, weight, bias, ids.reshape(-1), head)
    return TokenScores(logp.view(ids.shape), entropy.view(ids.shape))


def _check_shapes(hidden: Tensor, weight: Tensor, ids: Tensor, bias: Tensor | None) -> None:
    if weight.ndim != 2 or hidden.shape[-1:] != weight.shape[1:]:
        raise ValueError(
            "hidden must be (..., width) and weight (vocabulary, width), "
            f"got {tuple(hidden.shape)} and {tuple(weight.shape)}"
        )
    if hidden.shape[:-1] != ids.shape:
        raise ValueError(f"ids must be {tuple(hidden.shape[:-1])}, got {tuple(ids.shape)}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must be {tuple(weight.shape[:1])}, got {tuple(bias.shape)}")
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(weight):
        raise ValueError(
            f"ids must be in [0, {len(weight)}), got {int(ids.min())} to {int(ids.max())}"
        )


class _Block(NamedTuple):
    """A part of the vocabulary."""

    columns: slice
    weight: Tensor
    bias: Tensor | None

    def chosen(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return which rows chose a token of this block, and its place in the block."""
        local = ids - self.columns.start
        return (local >= 0) & (local < len(self.weight)), local.clamp(0, len(self.weight) - 1)


class _Tile(NamedTuple):
    """Some rows against a part of the vocabulary."""

    rows: slice
    hidden: Tensor
    logits: Tensor
    """After cap and temperature."""
    slope: Tensor | float
    """Derivative of the logits by ``hidden @ weight.T``."""


class _Head(NamedTuple):
    """What happens to the product of states and weights, and in which pieces."""

    temperature: float
    softcap: float | None
    rows: int
    columns: int

    def blocks(self, weight: Tensor, bias: Tensor | None, wide: torch.dtype) -> Iterator[_Block]:
        """Yield the parts of the vocabulary."""
        for columns in _slices(len(weight), self.columns):
            part = None if bias is None else bias[columns].to(wide)
            yield _Block(columns, weight[columns].to(wide), part)

    def tiles(self, hidden: Tensor, block: _Block) -> Iterator[_Tile]:
        """Yield all rows against one part of the vocabulary."""
        for rows in _slices(len(hidden), self.rows):
            states = hidden[rows].to(block.weight.dtype)
            logits, slope = states @ block.weight.T, 1 / self.temperature
            if block.bias is not None:
                logits += block.bias
            if self.softcap is not None:
                bounded = logits.div_(self.softcap).tanh_()
                slope = (1 - bounded.square()).mul_(slope)
                logits = bounded.mul_(self.softcap)
            if self.temperature != 1:
                logits /= self.temperature
            yield _Tile(rows, states, logits, slope)


class _Scores(torch.autograd.Function):
    """Scores of rows, one pass over the tiles forward and one backward."""

    @staticmethod
    def forward(  # noqa: PLR0917 - torch passes by position only
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, head: _Head
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies, ``(rows,)``.

        A row keeps its largest logit m so far, s = sum exp(z - m) and u = sum exp(z - m) (z - m).
        At the end logp = (z_chosen - m) - log s, and the entropy is log s - u / s: no difference
        of large numbers, whatever the size of the logits.
        """
        wide = _wide(hidden, weight)
        picked, total, moment = (hidden.new_zeros(len(hidden), dtype=wide) for _ in range(3))
        top = torch.full_like(total, torch.finfo(wide).min)
        with torch.autocast(hidden.device.type, enabled=False):
            for block in head.blocks(weight, bias, wide):
                inside, token = block.chosen(ids)
                for rows, _, logits, _ in head.tiles(hidden, block):
                    found = logits.gather(1, token[rows, None])[:, 0]
                    picked[rows] = torch.where(inside[rows], found, picked[rows])
                    _include(logits, top[rows], total[rows], moment[rows])
        log_total = total.log()
        entropy = log_total - moment / total
        ctx.head = head
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, bias, ids, top, log_total, entropy)
        return picked - top - log_total, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, on_logp: Tensor | None, on_entropy: Tensor | None) -> tuple[Any, ...]:
        """Return the gradients of hidden states, weight and bias.

        With p = exp(l) the distribution of a row and H its entropy,
        d logp / dz_j = 1[j chosen] - p_j and dH / dz_j = -p_j (l_j + H).
        """
        hidden, weight, bias, ids, top, log_total, entropy = ctx.saved_tensors
        wide, needed = top.dtype, ctx.needs_input_grad
        for_hidden = torch.zeros_like(hidden, dtype=wide) if needed[0] else None
        for_weight = torch.empty_like(weight) if needed[1] else None
        for_bias = torch.zeros_like(bias, dtype=wide) if needed[2] else None
        with torch.autocast(hidden.device.type, enabled=False):
            for block in ctx.head.blocks(weight, bias, wide):
                inside, token = block.chosen(ids)
                summed = torch.zeros_like(block.weight)
                for rows, states, logits, slope in ctx.head.tiles(hidden, block):
                    logs = logits.sub_(top[rows, None]).sub_(log_total[rows, None])
                    pulls = _pulls(
                        logs,
                        None if on_logp is None else on_logp[rows, None],
                        None if on_entropy is None else on_entropy[rows, None],
                        entropy[rows, None],
                    )
                    if on_logp is not None:
                        direct = (on_logp[rows] * inside[rows])[:, None]
                        pulls.scatter_add_(1, token[rows, None], direct)
                    pulls *= slope
                    if for_hidden is not None:
                        for_hidden[rows].addmm_(pulls, block.weight)
                    if for_weight is not None:
                        summed.addmm_(pulls.T, states)
                    if for_bias is not None:
                        for_bias[block.columns] += pulls.sum(0)
                if for_weight is not None:
                    for_weight[block.columns] = summed
        return for_hidden, for_weight, for_bias, None, None


def _pulls(
    logs: Tensor, on_logp: Tensor | None, on_entropy: Tensor | None, entropy: Tensor
) -> Tensor:
    """Return the gradient of a tile's logits but for the chosen tokens' own; ``logs`` is lost."""
    logs.clamp_(min=torch.finfo(logs.dtype).min)  # 0 * -inf would be NaN
    pulls = torch.zeros_like(logs)
    if on_entropy is not None:
        pulls -= (logs + entropy) * on_entropy
    if on_logp is not None:
        pulls -= on_logp
    return pulls.mul_(logs.exp_())


def _include(logits: Tensor, top: Tensor, total: Tensor, moment: Tensor) -> None:
    """Add more logits to what each row has kept, in place (see `_Scores.forward`)."""
    lowest = torch.finfo(logits.dtype).min
    highest = torch.maximum(logits.amax(1), top)
    shift = top - highest
    shrink = shift.exp()
    moment.add_(total * shift.clamp(min=lowest)).mul_(shrink)
    total.mul_(shrink)
    shifted = logits.sub_(highest[:, None]).clamp_(min=lowest)  # 0 * -inf would be NaN
    weights = shifted.exp()
    total.add_(weights.sum(1))
    moment.add_(torch.linalg.vecdot(weights, shifted))
    top.copy_(highest)


def _slices(length: int, size: int) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, start + size)


def _wide(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """Return the number type of all sums."""
    return torch.promote_types(torch.promote_types(hidden.dtype, weight.dtype), torch.float32)
