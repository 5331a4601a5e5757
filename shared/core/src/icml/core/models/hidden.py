"""Hidden states of chosen blocks at chosen positions, without keeping all the others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from icml.core.models.blocks import decoder_layers

__all__ = ["capture"]


@contextmanager
def capture(
    model: Any, layers: Sequence[int], positions: Tensor | Sequence[int] | None = None
) -> Generator[dict[int, Tensor]]:
    """Record the outputs of blocks during the forward passes of a ``with`` block.

    Gradients flow through what is recorded. Layer i is the output of block i counted from 0, and
    -1 that of the last block *before* the final norm; transformers' ``hidden_states[i + 1]`` is
    the same but for its last entry, which is taken after the norm.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        layers: Indices of blocks; negative ones count from the end.
        positions: What to keep: indices of tokens ``(k,)``, negative ones from the end; or a
            boolean mask ``(batch, tokens)``, padding left out by it; None keeps all.

    Yields:
        A dictionary from each entry of ``layers`` to the hidden states of the latest forward pass:
        ``(batch, k, width)``, ``(marked, width)`` or ``(batch, tokens, width)``. It is empty
        before the first.

    Raises:
        IndexError: If there is no such block.
        UserError: If the family is another.

    Example:
        >>> from icml.core.models.tiny import causal_lm
        >>> model = causal_lm(9, d=8, layers=3, heads=2)
        >>> with capture(model, [0, -1], positions=[-1]) as states:
        ...     _ = model(torch.tensor([[4, 5, 6]]))
        >>> states[-1].shape
        torch.Size([1, 1, 8])
    """
    blocks = decoder_layers(model)
    for layer in layers:
        if not -len(blocks) <= layer < len(blocks):
            raise IndexError(f"layer must be in [-{len(blocks)}, {len(blocks)}), got {layer}")
    states: dict[int, Tensor] = {}
    with ExitStack() as hooks:
        for layer in layers:
            hook = _recorder(states, layer, positions)
            hooks.callback(blocks[layer].register_forward_hook(hook).remove)
        yield states


def _recorder(
    states: dict[int, Tensor], layer: int, positions: Tensor | Sequence[int] | None
) -> Callable[..., None]:
    def record(block: Any, inputs: Any, output: Tensor) -> None:
        states[layer] = output if positions is None else _select(output, positions)

    return record


def _select(hidden: Tensor, positions: Tensor | Sequence[int]) -> Tensor:
    index = torch.as_tensor(positions, device=hidden.device)
    return hidden[index] if index.dtype == torch.bool else hidden[:, index]
