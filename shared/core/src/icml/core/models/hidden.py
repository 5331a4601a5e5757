"""Hidden states of chosen blocks at chosen positions, and gates on what heads and neurons send."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from icml.core.models.blocks import attn_out_proj, decoder_layers, mlp_down_proj

__all__ = ["Gate", "Site", "capture", "gate_inputs"]


class Site(NamedTuple):
    """A layer whose input can be gated: the heads' outputs, or the feed-forward neurons."""

    layer: int
    """Block, counted from 0; negative ones count from the end."""
    part: Literal["heads", "neurons"]
    """Input of `blocks.attn_out_proj`, the heads side by side, or of `blocks.mlp_down_proj`."""


Gate = Callable[[Site, Tensor], Tensor | None]
"""Gets a site and its input ``(batch, tokens, width)``; returns what stands in for it, or None."""


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
    _check_layers(layers, len(blocks))
    states: dict[int, Tensor] = {}
    with ExitStack() as hooks:
        for layer in layers:
            hook = _recorder(states, layer, positions)
            hooks.callback(blocks[layer].register_forward_hook(hook).remove)
        yield states


@contextmanager
def gate_inputs(model: Any, sites: Sequence[Site], fn: Gate) -> Generator[None]:
    """Let a function change the inputs of output projections during a ``with`` block.

    The model's modules and parameters stay as they are; hooks do it. A gate that multiplies the
    ``head_dim`` columns of one head leaves the other heads' contributions alone, because the heads
    are mixed only by the projection itself. Gradients flow through the function. With gradient
    checkpointing, ``backward`` belongs in the block too: it runs the layers again.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        sites: Where the function is called; each once a forward pass.
        fn: Called as ``fn(site, input)`` with the site as it was given; its result, of the input's
            shape, replaces the input. None leaves it as it is.

    Raises:
        IndexError: If there is no such block.
        ValueError: If a site comes twice or its part is another.
        UserError: If the family is another.

    Example:
        >>> from icml.core.models.tiny import causal_lm
        >>> model = causal_lm(9, d=8, layers=3, heads=2)
        >>> ids = torch.tensor([[4, 5, 6]])
        >>> with gate_inputs(model, [Site(0, "heads")], lambda site, x: torch.zeros_like(x)):
        ...     without = model(ids).logits
        >>> bool((without == model(ids).logits).all())
        False
    """
    blocks = decoder_layers(model)
    _check_layers([site.layer for site in sites], len(blocks))
    if len({(site.layer % len(blocks), site.part) for site in sites}) < len(sites):
        raise ValueError("a site comes twice: each input is gated by one function")
    with ExitStack() as hooks:
        for site in sites:
            module = _projection(blocks[site.layer], site.part)
            hooks.callback(module.register_forward_pre_hook(_gate(site, fn)).remove)
        yield


def _projection(block: Any, part: str) -> Any:
    if part == "heads":
        return attn_out_proj(block)
    if part == "neurons":
        return mlp_down_proj(block)
    raise ValueError(f"part must be heads or neurons, got {part!r}")


def _gate(site: Site, fn: Gate) -> Callable[..., Any]:
    def change(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        changed = fn(site, inputs[0])
        return None if changed is None else (changed, *inputs[1:])

    return change


def _check_layers(layers: Sequence[int], blocks: int) -> None:
    for layer in layers:
        if not -blocks <= layer < blocks:
            raise IndexError(f"layer must be in [-{blocks}, {blocks}), got {layer}")


def _recorder(
    states: dict[int, Tensor], layer: int, positions: Tensor | Sequence[int] | None
) -> Callable[..., None]:
    def record(block: Any, inputs: Any, output: Tensor) -> None:
        states[layer] = output if positions is None else _select(output, positions)

    return record


def _select(hidden: Tensor, positions: Tensor | Sequence[int]) -> Tensor:
    index = torch.as_tensor(positions, device=hidden.device)
    return hidden[index] if index.dtype == torch.bool else hidden[:, index]
