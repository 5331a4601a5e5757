"""The members of an ensemble: loaded, checked, and named for error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from icml.core.errors import UserError
from icml.core.models.load import LoadedModel, load

NO_LIMIT = 1 << 62

_CUT = re.compile(r"(?P<source>.+)\?layers=(?P<layers>\d{1,4})")


@dataclass(frozen=True)
class Member:
    """One language model of an ensemble."""

    model: Any
    """A decoder of transformers, in eval mode."""
    tokenizer: Any
    """Its tokenizer, or None."""
    name: str

    @property
    def rows(self) -> int:
        """Number of logits that the model gives, which may be more than it has tokens."""
        return self.model.get_output_embeddings().weight.shape[0]

    @property
    def window(self) -> int:
        """Longest text that it can read, in tokens."""
        return getattr(self.model.config, "max_position_embeddings", None) or NO_LIMIT

    @property
    def device(self) -> Any:
        """Where it computes."""
        return self.model.device

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens with which it ends a text."""
        generation = getattr(self.model, "generation_config", None)
        found: set[int] = set()
        for ids in (
            getattr(generation, "eos_token_id", None),
            getattr(self.model.config, "eos_token_id", None),
            getattr(self.tokenizer, "eos_token_id", None),
        ):
            found.update(ids if isinstance(ids, list | tuple) else [] if ids is None else [ids])
        return frozenset(found)

    @property
    def pad_id(self) -> int:
        """What stands in places that nobody reads."""
        found = getattr(self.tokenizer, "pad_token_id", None)
        return found if found is not None else min(self.end_ids, default=0)


def load_members(
    models: Sequence[Any], *, tokenizers: Any = None, devices: Sequence[Any] | None = None
) -> list[Member]:
    """Return the members that sources, loaded models or plain models stand for.

    Args:
        models: Each a source as `icml.core.models.load.load` takes it, which may end in
            ``?layers=24`` for a copy without its middle blocks, so that 24 stay, a
            ``LoadedModel``, or a decoder of transformers.
        tokenizers: One for all, or one a member; None takes those that come with the models.
        devices: Where each member goes; None leaves models where they are.

    Raises:
        UserError: If there is no model, a list has the wrong length, or a model can't be a member.
    """
    if isinstance(models, str | Path) or not len(models):
        raise UserError(f"models must be a list with at least one model, got {models!r}")
    given = tokenizers if isinstance(tokenizers, list | tuple) else [tokenizers] * len(models)
    places = devices if devices is not None else [None] * len(models)
    for name, values in (("tokenizers", given), ("devices", places)):
        if len(values) != len(models):
            raise UserError(f"{name} must be one a model, {len(models)}, got {len(values)}")
    members = [
        _member(number, *each)
        for number, each in enumerate(zip(models, given, places, strict=True))
    ]
    for member in members:
        _check(member)
    return members


def _member(number: int, model: Any, tokenizer: Any, device: Any) -> Member:
    if isinstance(model, str | Path):
        model = load_source(model, device=device)
    if isinstance(model, LoadedModel):
        name = f"member {number + 1} ({model.spec.source})"
        model, tokenizer = model.model, tokenizer or model.tokenizer
    else:
        name = f"member {number + 1} ({type(model).__name__})"
    return Member(model if device is None else model.to(device), tokenizer, name)


def load_source(source: str | Path, *, device: Any = None) -> LoadedModel:
    """Load a model, or a copy with fewer blocks: ``pkg:smollm2?layers=24``.

    Args:
        source: As `icml.core.models.load.load` takes it; all but ``random:`` may end in
            ``?layers=`` and a number.
        device: As torch names it; None takes the best there is.

    Raises:
        UserError: As `icml.core.models.load.load` does, or if the model has fewer blocks.
    """
    cut = _CUT.fullmatch(str(source))
    if cut is None or str(source).startswith("random:"):
        return load(source, device=device)
    loaded = load(cut["source"], device=device)
    leave_out_middle(loaded.model, int(cut["layers"]))
    return replace(loaded, spec=replace(loaded.spec, source=str(source)))


def leave_out_middle(model: Any, layers: int) -> None:
    """Cut a decoder to so many blocks, in place: those in the middle go, both ends stay.

    A model stands this better than the loss of its last blocks, which turn what it has understood
    into words (NOTES.md has numbers for SmolLM2).

    Raises:
        UserError: If it has fewer blocks, or less than one is to stay.
    """
    from icml.core.models.blocks import decoder_layers, replace_blocks

    blocks = list(decoder_layers(model))
    if not 1 <= layers <= len(blocks):
        raise UserError(f"layers must be between 1 and {len(blocks)}, got {layers}")
    start = layers // 2
    replace_blocks(model, [*blocks[:start], *blocks[start + len(blocks) - layers :]])


def _check(member: Member) -> None:
    from transformers import GenerationMixin, PreTrainedModel

    if not isinstance(member.model, PreTrainedModel):
        raise UserError(
            f"{member.name} is no model of transformers: give a source, a LoadedModel or a "
            "PreTrainedModel"
        )
    if member.model.config.is_encoder_decoder:
        raise UserError(f"{member.name} is an encoder-decoder: an ensemble takes decoders only")
    if not isinstance(member.model, GenerationMixin):
        raise UserError(f"{member.name} doesn't generate text: a causal language model is wanted")
    member.model.eval()
