"""Tokenizers by name, without the model that they belong to where that can be spared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from icml.core.errors import UserError, require
from icml.core.models.local import first_line

__all__ = ["load_tokenizer"]

_PATIENCE = 10.0  # seconds for the hub's answer about a name


def load_tokenizer(source: str) -> Any:
    """Return a tokenizer of transformers.

    Args:
        source: A ``tokenizer.json``, a folder, a hub id, or a source of `icml.core.models.load`.

    Raises:
        UserError: If there is none.
        MissingExtra: If transformers is not installed.
    """
    path = Path(source)
    if path.suffix == ".json":
        return _from_file(path)
    if ":" in source or path.suffix == ".gguf":
        from icml.core.models.load import load

        return load(source, device="cpu").tokenizer
    if not source or (not path.is_dir() and (source[0] in "./~" or source.count("/") > 1)):
        raise UserError(f"no tokenizer {source!r}: there is no such folder, and it is no hub id")
    transformers = require("transformers", extra="icml-core[hf]")
    if not path.is_dir():
        _ask_hub(source)
    try:
        return transformers.AutoTokenizer.from_pretrained(source)
    # What a folder without a tokenizer, a hub that isn't reached and a broken file raise.
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"no tokenizer in {source}: {first_line(error)}") from error


def _ask_hub(name: str) -> None:
    """Refuse a name at once that is in neither the hub's cache nor the hub.

    Transformers asks for each file of a tokenizer by itself, and tries each again: without a
    connection that takes a minute, and says nothing about the name.
    """
    import huggingface_hub

    if huggingface_hub.try_to_load_from_cache(name, "tokenizer_config.json"):
        return
    try:
        huggingface_hub.HfApi().model_info(name, timeout=_PATIENCE)
    except Exception as error:  # of the hub's library, of its HTTP client's
        raise UserError(
            f"no tokenizer {name!r}: there is no such folder, it is not in the hub's cache, and "
            "the hub has no such model or can't be reached"
        ) from error


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise UserError(f"there is no tokenizer file {path}")
    transformers = require("transformers", extra="icml-core[hf]")
    try:
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    except Exception as error:  # tokenizers raises its own bare Exception for a broken file
        raise UserError(f"{path} is no tokenizer.json: {first_line(error)}") from error
