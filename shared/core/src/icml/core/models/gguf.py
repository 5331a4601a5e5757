"""GGUF files, converted once to a cached safetensors folder.

Reading GGUF through transformers costs 20 seconds for a vocabulary of 49 thousand tokens, the
converted folder loads in one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from icml.core.errors import UserError, require
from icml.core.journal import (
    cache_dir,
    cannot_write,
    remove_drafts,
    replace_folder,
    whole_folder,
    write_atomic,
)
from icml.core.models.gguf_header import GGUFHeader, read_header
from icml.core.models.local import content_errors, first_line

_BYTES = {"float32": 4, "bfloat16": 2}
_SPARE_BYTES = 50_000_000  # ours: room for the tokenizer's files


def convert_gguf(path: Path | str, *, dtype: str = "float32") -> Path:
    """Return a folder with the weights of a GGUF file as plain numbers, and its tokenizer.

    It is made once and kept in ``$ICML_CACHE`` or the platform's cache folder, under the hash of
    the file's content. Of several processes at once one converts and the others wait; a process
    that is killed leaves nothing that a later one takes for whole. Delete the folder to convert
    anew.

    Args:
        path: A GGUF file with a causal language model and its tokenizer.
        dtype: Number type of the folder: ``float32`` is exact, ``bfloat16`` takes half the room.

    Returns:
        A folder that `icml.core.models.load` and transformers' ``from_pretrained`` read. Its
        ``meta.json`` says what it was made from.

    Raises:
        UserError: If the file is missing, damaged or of an architecture that transformers doesn't
            know, the folder cannot be written, or the number type is another.
        MissingExtra: If transformers or gguf is not installed.
    """
    if dtype not in _BYTES:
        raise UserError(f"a GGUF file is kept in {' or '.join(_BYTES)}, got {dtype}")
    path = Path(path).expanduser().resolve()
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    digest = _digest(path)
    home = cache_dir("icml-core") / "models" / digest[:16]
    target = home / dtype
    if target.is_dir():
        return target
    header = read_header(path)
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = FileLock(home / "lock")
        lock.acquire()
    except OSError as error:
        raise cannot_write(home, error) from error
    try:
        if whole_folder(target) is None:
            remove_drafts(home)
            _check_room(home, header, dtype)
            with replace_folder(target) as draft:
                _convert(path, draft, dtype)
                write_atomic(
                    draft / "meta.json", json.dumps(_origin(path, digest, header), indent=2)
                )
    finally:
        lock.release()
    return target


def _convert(path: Path, folder: Path, dtype: str) -> None:
    """Write the model and the tokenizer of a GGUF file into a folder."""
    transformers = require("transformers", extra="icml-core[hf]")
    require("accelerate", extra="icml-core[hf]")
    torch = require("torch", extra="icml-core[hf]")
    # An absolute path leads out of the empty folder, so that no other file is read by accident.
    origin = {"pretrained_model_name_or_path": str(folder), "gguf_file": str(path)}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(**origin)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            **origin,
            dtype=getattr(torch, dtype),
            quantization_config=transformers.GgufConfig(dequantize=True),
            output_loading_info=True,
        )
    except content_errors() as error:
        raise UserError(f"cannot convert {path}: {first_line(error)}") from error
    if report["missing_keys"]:
        raise UserError(f"{path} lacks the weights {', '.join(sorted(report['missing_keys'])[:3])}")
    _forget_quantisation(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _forget_quantisation(model: Any) -> None:
    """Let transformers save a model that it read from GGUF: the weights are plain floats now."""
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def _check_room(home: Path, header: GGUFHeader, dtype: str) -> None:
    wanted = header.parameters * _BYTES[dtype] + _SPARE_BYTES
    free = shutil.disk_usage(home).free
    if free < wanted:
        raise UserError(
            f"the converted model needs {wanted / 1e6:.0f} MB in {home}, {free / 1e6:.0f} MB are "
            "free: set ICML_CACHE to a folder with more room"
        )


def _origin(path: Path, digest: str, header: GGUFHeader) -> dict[str, Any]:
    return {
        "source": path.name,
        "sha256": digest,
        "architecture": header.metadata["general.architecture"],
        "name": header.metadata.get("general.name"),
        "licence": header.metadata.get("general.license"),
        "versions": {name: version(name) for name in ("icml-core", "transformers", "torch")},
    }


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; kept, so that an unchanged file is not read again."""
    state = path.stat()
    key = hashlib.sha256(f"{path}\n{state.st_size}\n{state.st_mtime_ns}".encode()).hexdigest()
    memory = cache_dir("icml-core") / "digests" / key
    if memory.is_file():
        return memory.read_text()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    write_atomic(memory, digest)
    return digest
