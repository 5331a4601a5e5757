"""The grammar of model sources: what a string or path asks for, checked before it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl

from icml.core.errors import UserError

SourceKind = Literal["hub", "local", "gguf", "package", "random"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

FORMS = (
    "a hub id (owner/name), a folder, a .gguf file, pkg:smollm2, pkg:minilm or "
    "random:llama?layers=2&hidden=64&vocab=256&seed=0"
)


class Source(NamedTuple):
    """What is to be loaded."""

    kind: SourceKind
    name: str
    """The hub id, the path, or what stands behind ``pkg:`` and ``random:``."""


def parse_source(source: str | Path) -> Source:
    """Tell what a source is; a path that exists is never taken for a hub id.

    Args:
        source: One of `FORMS`; a ``Path`` is a folder or a file, never a hub id.

    Raises:
        UserError: If it is none of them, or a path that does not exist.

    Example:
        >>> parse_source("HuggingFaceTB/SmolLM2-135M-Instruct").kind
        'hub'
    """
    text = str(source)
    scheme, colon, rest = text.partition(":")
    if isinstance(source, str) and colon and scheme in ("pkg", "random"):
        return Source("package" if scheme == "pkg" else "random", rest)
    try:
        path = Path(source).expanduser()
        if text and path.is_dir():  # Path("") is the current folder
            return Source("local", str(path))
        if path.suffix == ".gguf" and path.is_file():
            return Source("gguf", str(path))
        exists = path.exists()
    except (OSError, RuntimeError) as error:  # a name too long, a folder not ours, ~nobody
        raise UserError(f"no model at {text!r}: {error}") from error
    if text.endswith(".gguf"):
        raise UserError(f"there is no file {text}")
    if isinstance(source, str) and not exists and _HUB_ID.fullmatch(source):
        return Source("hub", source)
    raise UserError(f"no model at {text!r}: a source is {FORMS}")


@dataclass(frozen=True)
class RandomModel:
    """Sizes of a random model; the part of a ``random:`` source behind the question mark."""

    layers: int = 2
    """Number of blocks."""
    hidden: int = 64
    """Width; a multiple of heads."""
    heads: int = 4
    """Attention heads a block."""
    vocab: int = 256
    """Size of the vocabulary, in tokens; at least 5."""
    ctx: int = 256
    """Longest sequence, in tokens."""
    seed: int = 0
    """Seed of the weights, in [0, 2**64)."""

    def __post_init__(self) -> None:
        """Check the sizes."""
        least = {"layers": 1, "hidden": 1, "heads": 1, "vocab": 5, "ctx": 1, "seed": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise UserError(f"{name} must be at least {smallest}, got {getattr(self, name)}")
        if self.hidden % (2 * self.heads):  # rotary positions turn pairs of numbers
            raise UserError(
                "hidden must be an even multiple of heads, "
                f"got hidden={self.hidden} and heads={self.heads}"
            )
        if self.seed >= 2**64:
            raise UserError(f"seed must be below 2**64, got {self.seed}")


def parse_random(name: str) -> RandomModel:
    """Read the sizes of a ``random:`` source, for example ``llama?layers=2&hidden=64``.

    Raises:
        UserError: If the architecture or a key is unknown, a key comes twice, or a value is not
            a whole number in its range.
    """
    architecture, _, query = name.partition("?")
    if architecture != "llama":
        raise UserError(f"random: knows the architecture llama, got {architecture!r}")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise UserError(f"random: wants key=value&key=value after '?', got {query!r}") from error
    known = [field.name for field in fields(RandomModel)]
    unknown = sorted({key for key, _ in pairs} - set(known))
    if unknown:
        raise UserError(f"random:llama has no {', '.join(unknown)}; it has {', '.join(known)}")
    if len(dict(pairs)) < len(pairs):
        raise UserError(f"random: has a key twice in {query!r}")
    for key, value in pairs:
        if not re.fullmatch(r"[0-9]{1,20}", value):
            raise UserError(f"random: {key} must be a whole number, got {value!r}")
    return RandomModel(**{key: int(value) for key, value in pairs})
