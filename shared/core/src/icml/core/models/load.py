"""One door for every model: the hub, a folder, a GGUF file, a package, or random weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError, require
from icml.core.models.gguf import convert_gguf
from icml.core.models.hub import fetch
from icml.core.models.local import ModelAndTokenizer, check_folder, first_line, read_folder
from icml.core.models.packaged import ModelNotInstalled, PackagedModel, available, packaged
from icml.core.models.source import Source, SourceKind, parse_random, parse_source

if TYPE_CHECKING:
    import torch

__all__ = [
    "LoadedModel", "ModelNotInstalled", "ModelSpec", "PackagedModel", "available",
    "convert_gguf", "load",
]  # fmt: skip

_DTYPES = ("float32", "bfloat16", "float16", "float64")
# Other names make transformers download kernels, that is code, from the hub.
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


@dataclass(frozen=True)
class ModelSpec:
    """What was asked for, with the defaults filled in; ``load(**asdict(spec))`` loads it again."""

    source: str
    dtype: str
    """Number type of the weights, as ``float32``."""
    device: str
    """Where the model is, as ``cpu`` or ``cuda:0``."""
    revision: str | None
    """Branch, tag or commit of a hub model."""
    trust_remote_code: bool
    """Whether Python files of the model were allowed to run."""
    attn_implementation: str
    """How attention is computed, as ``sdpa``."""
    cache_dtype: str | None
    """Number type that a GGUF file's weights were kept in; None for other sources."""


@dataclass(frozen=True)
class LoadedModel:
    """A model and its tokenizer.

    A tokenizer's padding token may be its end token (it is in SmolLM2): leave out padding by the
    attention mask or by lengths, never by the id.
    """

    model: Any
    """Of transformers, in eval mode."""
    tokenizer: Any
    spec: ModelSpec
    source_kind: SourceKind

    @property
    def fingerprint(self) -> str:
        """Hash of the configuration and the weights as they are now (see `fingerprint`)."""
        from icml.core.models.fingerprint import fingerprint

        return fingerprint(self.model)


def load(
    source: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    attn_implementation: str | None = None,
    cache_dtype: str | None = None,
) -> LoadedModel:
    """Load a causal language model or a plain encoder.

    Only safetensors and GGUF are read, never a pickle. A GGUF file is converted once, into
    ``$ICML_CACHE`` or the platform's cache folder.

    Args:
        source: A hub id, a folder, a ``.gguf`` file, ``pkg:smollm2``, ``pkg:minilm`` or
            ``random:llama?layers=2&hidden=64&vocab=256&seed=0``.
        dtype: ``float32``, ``bfloat16``, ``float16``, ``float64``; None takes bfloat16 on a GPU
            that computes in it and float32 elsewhere.
        device: As torch names it; None takes the best there is.
        revision: Branch, tag or commit of a hub model.
        trust_remote_code: Run Python files that come with the model, of a folder or the hub.
        attn_implementation: ``eager`` (gives attention weights), ``sdpa``, ``flash_attention_2``,
            ``flash_attention_3`` or ``flex_attention``; None takes transformers' choice.
        cache_dtype: Number type in which a GGUF file's weights are kept on disk: ``float32``,
            exact and the default, or ``bfloat16``, half as large.

    Raises:
        UserError: If the source is unknown, missing, damaged or pickled, or an option doesn't fit.
        ModelNotInstalled: If a package is missing; the message has the command.
        MissingExtra: If transformers or gguf is not installed.

    Example:
        >>> tiny = load("random:llama?layers=1&hidden=8", device="cpu")
        >>> tiny.spec.dtype, len(tiny.tokenizer("hi").input_ids)
        ('float32', 2)
    """
    wanted = parse_source(source)
    _check_options(wanted.kind, revision, trust_remote_code, attn_implementation)
    path = _path(wanted)
    if path is not None and path.suffix == ".gguf":
        cache_dtype = cache_dtype or "float32"
        path = convert_gguf(path, dtype=cache_dtype)
    elif cache_dtype is not None:
        raise UserError(f"cache_dtype is for GGUF files, and {source} is none")
    elif wanted.kind == "hub":
        path = fetch(wanted.name, revision=revision, trust_remote_code=trust_remote_code)
    if path is not None:
        check_folder(path)
    where, number = _placement(device, dtype)
    found = _read(wanted, path, number, trust_remote_code, attn_implementation)
    spec = ModelSpec(
        str(source),
        str(number).removeprefix("torch."),
        str(where),
        revision,
        trust_remote_code,
        found.model.config._attn_implementation,
        cache_dtype,
    )
    return LoadedModel(found.model.to(where), found.tokenizer, spec, wanted.kind)


def _check_options(
    kind: SourceKind, revision: str | None, trust_remote_code: bool, attention: str | None
) -> None:
    if revision is not None and kind != "hub":
        raise UserError(f"revision is for models of the hub, this source is of kind {kind}")
    if trust_remote_code and kind not in ("hub", "local"):
        raise UserError(f"trust_remote_code is set, but a source of kind {kind} holds no code")
    if attention not in (None, *_ATTENTION):
        raise UserError(
            f"attn_implementation must be one of {', '.join(_ATTENTION)}, got {attention}"
        )


def _path(source: Source) -> Path | None:
    """Return where a source lies on this machine, None for the hub and random ones."""
    if source.kind == "random":
        parse_random(source.name)
    if source.kind in ("random", "hub"):
        return None
    return packaged(source.name).locate() if source.kind == "package" else Path(source.name)


def _placement(
    device: str | torch.device | None, dtype: str | torch.dtype | None
) -> tuple[torch.device, torch.dtype]:
    torch = require("torch", extra="icml-core[hf]")
    from icml.core.cuda.device import choose, choose_dtype

    where = choose(None if device is None else str(device))
    if dtype is None:
        return where, choose_dtype(where)
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise UserError(f"dtype must be one of {', '.join(_DTYPES)}, got {name}")
    return where, getattr(torch, name)


def _read(
    source: Source,
    folder: Path | None,
    dtype: torch.dtype,
    trust_remote_code: bool,
    attention: str | None,
) -> ModelAndTokenizer:
    if folder is not None:
        return read_folder(
            folder, dtype=dtype, trust_remote_code=trust_remote_code, attn_implementation=attention
        )
    from icml.core.models.random_llama import build

    model, tokenizer = build(parse_random(source.name))
    if attention is not None:
        try:
            model.set_attn_implementation(attention)
        except (ImportError, ValueError) as error:  # a library that is missing, say
            raise UserError(f"attn_implementation {attention}: {first_line(error)}") from error
    return ModelAndTokenizer(model.to(dtype), tokenizer)
