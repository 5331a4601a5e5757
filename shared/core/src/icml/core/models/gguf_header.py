"""The header of a GGUF file, read without its weights, so that a damaged file is refused early.

Layout (the GGUF specification of ggml, versions 2 and 3, little-endian): the magic bytes, the
version, the numbers of tensors and of metadata entries, the entries, one record a tensor, and from
the next multiple of the alignment the tensors' data.
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from icml.core.errors import UserError, require

_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "B",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4  # ggml's GGML_MAX_DIMS


class GGUFHeader(NamedTuple):
    """What a GGUF file says of itself."""

    metadata: dict[str, Any]
    """Numbers and texts by key; an array counts its entries."""
    parameters: int
    """Entries of all tensors."""


class _Damaged(Exception):
    """The file is not what its beginning says; the message goes on after "it"."""


def read_header(path: Path | str) -> GGUFHeader:
    """Read the header and check that the file is as long as it says.

    Args:
        path: A GGUF file.

    Raises:
        UserError: If it is no GGUF file, of a version or number type that is unknown, or damaged.
        MissingExtra: If the library gguf, which knows the number types, is not installed.
    """
    path = Path(path)
    size = path.stat().st_size
    try:
        if size == 0:
            raise _Damaged("is empty")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Cursor(data), size)
    except _Damaged as error:
        raise UserError(f"{path} cannot be read as GGUF: it {error}") from error


class _Cursor:
    """A place in the file; every read checks that there is enough of it left."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self.skip(count)
        return self.data[self.at - count : self.at]

    def skip(self, count: int) -> None:
        """Go on by some bytes."""
        if self.at + count > len(self.data):
            raise _Damaged("ends inside its header")
        self.at += count

    def number(self, kind: str) -> Any:
        """Return the next number, of a kind of `struct`."""
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)))[0]

    def text(self) -> str:
        """Return the next text."""
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError as error:
            raise _Damaged("has a text that is not UTF-8 in its header") from error

    def value(self) -> Any:
        """Return the next value of the metadata; of an array its length."""
        kind = self.number("I")
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY:
            raise _Damaged(f"has metadata of the unknown type {kind}")
        return self._skip_array()

    def _skip_array(self) -> int:
        kind, count = self.number("I"), self.number("Q")
        if kind in _NUMBERS:
            self.skip(count * struct.calcsize(_NUMBERS[kind]))
        elif kind == _TEXT:
            for _ in range(count):  # ends with the file at the latest
                self.skip(self.number("Q"))
        else:
            raise _Damaged(f"has an array of the unknown type {kind}")
        return count


def _parse(cursor: _Cursor, size: int) -> GGUFHeader:
    if size < 24 or cursor.take(4) != b"GGUF":
        raise _Damaged("does not begin like one")
    version = cursor.number("I")
    if version not in (2, 3):
        raise _Damaged(f"has version {version}, known are 2 and 3")
    tensors, entries = cursor.number("Q"), cursor.number("Q")
    metadata = {}
    for _ in range(entries):
        key = cursor.text()
        metadata[key] = cursor.value()
    if not isinstance(metadata.get("general.architecture"), str):
        raise _Damaged("does not name its architecture")
    table = [_tensor(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _Damaged(f"has the alignment {alignment}")
    start = -(-cursor.at // alignment) * alignment
    wanted = start + max((tensor.end for tensor in table), default=0)
    if size < wanted:
        raise _Damaged(f"has {size} bytes where its header promises {wanted}")
    return GGUFHeader(metadata, sum(tensor.entries for tensor in table))


class _Tensor(NamedTuple):
    entries: int
    end: int
    """Bytes from the start of the data."""


def _tensor(cursor: _Cursor) -> _Tensor:
    gguf = require("gguf", extra="icml-core[hf]")
    cursor.text()
    dimensions = cursor.number("I")
    if dimensions > _MOST_DIMENSIONS:
        raise _Damaged(f"has a tensor of {dimensions} dimensions")
    entries = prod(cursor.number("Q") for _ in range(dimensions))
    kind, offset = cursor.number("I"), cursor.number("Q")
    if kind not in {known.value for known in gguf.GGMLQuantizationType}:
        raise _Damaged(f"has numbers of the unknown type {kind}")
    block, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    return _Tensor(entries, offset + entries // block * width)
