"""A folder with a safetensors checkpoint, checked before anything in it is interpreted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from icml.core.errors import UserError, require

if TYPE_CHECKING:
    import torch

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "tokenizer_config.json",
)  # fmt: skip


class ModelAndTokenizer(NamedTuple):
    """What a source comes to."""

    model: Any
    tokenizer: Any


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds no complete safetensors checkpoint.

    Pickled weights (.bin, .pt) can run code when they are read, so they never are.

    Raises:
        UserError: If the weights are pickled or missing, the folder is an adapter, or the
            configuration or the tokenizer is missing.
    """
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(file.name for kind in _PICKLES for file in folder.glob(kind))
        if pickled:
            raise UserError(
                f"{folder} has its weights in {pickled[0]}, which can run code when it is read: "
                "save the model as safetensors"
            )
        raise UserError(f"{folder} holds no *.safetensors file")
    if (folder / "adapter_config.json").exists():
        raise UserError(f"{folder} is an adapter: merge it into its base model and save that")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json")
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise UserError(f"{folder} holds no tokenizer: save it there with save_pretrained")


def read_folder(
    folder: Path,
    *,
    dtype: torch.dtype,
    trust_remote_code: bool = False,
    attn_implementation: str | None = None,
) -> ModelAndTokenizer:
    """Load a checkpoint and its tokenizer on the CPU, in eval mode.

    Args:
        folder: A folder in the format of transformers' ``save_pretrained``.
        dtype: Number type of the weights.
        trust_remote_code: Run the Python files that the configuration names.
        attn_implementation: How attention is computed; None takes transformers' choice.

    Raises:
        UserError: If the folder fails `check_folder`, is damaged, lacks a weight (transformers
            would draw it at random), wants to run code of its own unasked, is to run its own code
            and brings a ``custom_generate`` folder (never run), or is neither a causal language
            model nor a plain encoder.
        MissingExtra: If transformers is not installed.
    """
    check_folder(folder)
    if trust_remote_code and (folder / "custom_generate").exists():
        # transformers would run it in place of generate; of what a model brings, that is too much.
        raise UserError(f"{folder} brings code for generate: move its custom_generate folder away")
    transformers = require("transformers", extra="icml-core[hf]")
    try:
        loader = getattr(transformers, _loader_name(folder))
        model, report = loader.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            attn_implementation=attn_implementation,
            output_loading_info=True,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust_remote_code
        )
    except UserError:
        raise
    except content_errors() as error:
        raise UserError(_reason(folder, error)) from error
    if report["missing_keys"]:
        raise UserError(
            f"{folder} lacks the weights {', '.join(sorted(report['missing_keys'])[:3])}"
        )
    return ModelAndTokenizer(model, tokenizer)


def _loader_name(folder: Path) -> str:
    """Return the class of transformers that loads what the configuration names."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = config.get("architectures") or ["ForCausalLM"]
    if names[0].endswith(("ForCausalLM", "LMHeadModel")):
        return "AutoModelForCausalLM"
    if names[0].endswith("Model"):
        return "AutoModel"
    raise UserError(
        f"{folder} holds a {names[0]}; a causal language model or a plain encoder is wanted"
    )


def content_errors() -> tuple[type[Exception], ...]:
    """Return what transformers raises over content that it cannot make sense of."""
    strict = require("huggingface_hub.errors", extra="icml-core[hf]").StrictDataclassError
    damaged = require("safetensors", extra="icml-core[hf]").SafetensorError
    usual = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError)
    # transformers asks for a library that an option needs and that is missing by ImportError.
    return (*usual, ImportError, ValueError, strict, damaged)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _reason(folder: Path, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"{folder} wants to run code of its own: read that code, and if you trust it pass "
            "trust_remote_code=True"
        )
    return f"cannot load {folder}: {first_line(error)}"
