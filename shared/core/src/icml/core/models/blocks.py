"""The blocks of a decoder and what lies in them, under one name in every known family."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from icml.core.errors import UserError

__all__ = [
    "FAMILIES", "HeadLayout", "attn_out_proj", "decoder_layers", "head_layout", "mlp_down_proj",
    "replace_blocks",
]  # fmt: skip

FAMILIES = frozenset(
    {"gemma", "gemma2", "gemma3_text", "gpt2", "llama", "mistral", "qwen2", "qwen3"}
)
"""Values of ``config.model_type`` whose blocks are known."""


class HeadLayout(NamedTuple):
    """Attention heads of a block."""

    heads: int
    kv_heads: int
    """Heads of keys and values; each serves ``heads // kv_heads`` of the queries'."""
    head_dim: int
    """Width of a head; ``heads * head_dim`` columns go into `attn_out_proj`."""


def decoder_layers(model: Any) -> nn.ModuleList:
    """Return the blocks of a decoder, in order; the list is the model's own.

    Args:
        model: A decoder of one of `FAMILIES`, with its output layer or without.

    Raises:
        UserError: If the family is another.
    """
    config = getattr(model, "config", None)
    if config is None:
        raise UserError(f"a model of transformers is wanted, got {type(model).__name__}")
    _check_family(config)
    base = model.base_model
    return base.h if config.model_type == "gpt2" else base.layers


def attn_out_proj(block: nn.Module) -> Any:
    """Return the layer that mixes a block's attention heads.

    Returns:
        A ``nn.Linear`` with weight ``(width, heads * head_dim)``; GPT-2's ``Conv1D`` has its
        transpose. Its input holds the heads' outputs one after the other.

    Raises:
        UserError: If it is no block of `FAMILIES`.
    """
    return _part(block, ("self_attn", "o_proj"), ("attn", "c_proj"))


def mlp_down_proj(block: nn.Module) -> Any:
    """Return the layer that leads from a block's feed-forward neurons back to its width.

    Returns:
        A ``nn.Linear`` with weight ``(width, neurons)``; GPT-2's ``Conv1D`` has its transpose.

    Raises:
        UserError: If it is no block of `FAMILIES`.
    """
    return _part(block, ("mlp", "down_proj"), ("mlp", "c_proj"))


def head_layout(config: Any) -> HeadLayout:
    """Return the number and width of the attention heads.

    Args:
        config: The configuration of a model of `FAMILIES`.

    Raises:
        UserError: If the family is another.
    """
    _check_family(config)
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return HeadLayout(heads, getattr(config, "num_key_value_heads", heads), width)


def replace_blocks(model: Any, blocks: Sequence[nn.Module]) -> None:
    """Give a decoder other blocks, in place, so that it runs, caches, saves and loads with them.

    The blocks are not copied: cut a copy of a model (``copy.deepcopy``), and copy a block that is
    to stand twice. The number of layers, the layers' types and each block's place in the cache
    follow; the configuration is a new object, so that models which shared the old one keep theirs.

    Args:
        model: A decoder of one of `FAMILIES`.
        blocks: At least one, each of the class that the model's own blocks have.

    Raises:
        UserError: If the family is another.
        ValueError: If there is no block, one of another class, one twice, one of an attention
            type that the model doesn't have, or one whose attention is scaled by its place.

    Example:
        >>> from icml.core.models.tiny import causal_lm
        >>> model = causal_lm(9, d=8, layers=3, heads=2)
        >>> replace_blocks(model, decoder_layers(model)[:2])
        >>> model.config.num_hidden_layers
        2
    """
    old = list(decoder_layers(model))
    new = list(blocks)
    _check_blocks(model.config, old, new)
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = len(new)
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = [_layer_type(block) for block in new]
    base = model.base_model
    setattr(base, "h" if config.model_type == "gpt2" else "layers", nn.ModuleList(new))
    for place, block in enumerate(new):
        _set_everywhere(block, "layer_idx", place)
    _set_everywhere(model, "config", config)


def _set_everywhere(module: nn.Module, name: str, value: Any) -> None:
    """Set an attribute of a module and of all modules in it, where they have it."""
    for part in module.modules():
        if hasattr(part, name):
            setattr(part, name, value)


def _check_blocks(config: Any, old: list[nn.Module], new: list[nn.Module]) -> None:
    if not new:
        raise ValueError("a decoder needs at least one block, got none")
    for block in new:
        if type(block) is not type(old[0]):
            raise ValueError(
                f"blocks must be of the class {type(old[0]).__name__}, got {type(block).__name__}"
            )
    if len({id(block) for block in new}) < len(new):
        raise ValueError("a block stands twice: give copy.deepcopy(block) for the second")
    foreign = {_layer_type(block) for block in new} - {_layer_type(block) for block in old}
    if foreign:
        raise ValueError(f"the model has no layers of the type {', '.join(sorted(foreign))}")
    moved = any(id(block) != id(was) for block, was in zip(new, old, strict=False))
    if moved and getattr(config, "scale_attn_by_inverse_layer_idx", False):
        raise ValueError(
            "scale_attn_by_inverse_layer_idx ties a block to its place: only blocks at the end "
            "can be cut"
        )


def _layer_type(block: nn.Module) -> str:
    """Return what kind of attention a block has; families without a choice have the full one."""
    return getattr(getattr(block, "self_attn", None), "layer_type", None) or "full_attention"


def _part(block: nn.Module, *paths: tuple[str, str]) -> Any:
    for outer, inner in paths:
        found = getattr(getattr(block, outer, None), inner, None)
        if found is not None:
            return found
    raise UserError(f"{type(block).__name__} is no block of {', '.join(sorted(FAMILIES))}")


def _check_family(config: Any) -> None:
    if config.model_type not in FAMILIES:
        raise UserError(
            f"blocks of the family {config.model_type} are not known; known are "
            f"{', '.join(sorted(FAMILIES))}"
        )
