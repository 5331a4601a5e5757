"""Whether two object files are the same code: what the kernel loads, and how it is linked."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from io import BytesIO
from typing import Any

from icml.core.errors import UserError

_BUG_ENTRY = 12  # bytes of a struct bug_entry with relative pointers: two of 4, line, flags
_ALLOCATED = 0x2  # SHF_ALLOC: it takes memory when the code is loaded
_EMPTY = "SHT_NOBITS"


class NotAnObject(UserError):
    """A file that cannot be read as a relocatable object file."""


def loaded_code(data: bytes) -> dict[str, tuple[int, bytes, list[tuple[int, int, str, int]]]]:
    """Return what an object file brings into memory: per section size, bytes and relocations.

    A relocation is offset, type, target and addend, the target a symbol's name or, for a nameless
    symbol, that of its section. Left out are the build id and the lines of ``BUG()`` and
    ``WARN_ON()`` tables, which a comment above them changes.

    Raises:
        NotAnObject: If it is no ELF file, or a broken one.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(BytesIO(data))
        found = {}
        for index, section in enumerate(elf.iter_sections()):
            if section["sh_flags"] & _ALLOCATED and section.name != ".note.gnu.build-id":
                found[f"{section.name}#{index}"] = _section(elf, section)
        return _renumbered(found)
    except (ELFError, struct.error, KeyError, UnicodeDecodeError, AssertionError) as error:
        raise NotAnObject(f"not an object file: {error or type(error).__name__}") from error


def _renumbered(found: dict[str, Any]) -> dict[str, Any]:
    """Number sections of one name by their order: other sections between them don't matter."""
    seen: dict[str, int] = {}
    renamed = {}
    for key, value in found.items():
        name = key.rpartition("#")[0]
        seen[name] = seen.get(name, 0) + 1
        renamed[name if seen[name] == 1 else f"{name}#{seen[name]}"] = value
    return renamed


def _section(elf: Any, section: Any) -> tuple[int, bytes, list[tuple[int, int, str, int]]]:
    data = b"" if section["sh_type"] == _EMPTY else section.data()
    if section.name == "__bug_table" and len(data) % _BUG_ENTRY == 0:
        entries = [data[i : i + _BUG_ENTRY] for i in range(0, len(data), _BUG_ENTRY)]
        data = b"".join(entry[:8] + b"\0\0" + entry[10:] for entry in entries)
    return section["sh_size"], data, sorted(_relocations(elf, section.name))


def _relocations(elf: Any, name: str) -> Iterable[tuple[int, int, str, int]]:
    for prefix in (".rela", ".rel"):
        table = elf.get_section_by_name(f"{prefix}{name}")
        if table is None:
            continue
        symbols = elf.get_section(table["sh_link"])
        for entry in table.iter_relocations():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            target = symbol.name
            if not target and isinstance(symbol["st_shndx"], int):
                target = f"section {elf.get_section(symbol['st_shndx']).name}"
            addend = entry["r_addend"] if entry.is_RELA() else 0
            yield entry["r_offset"], entry["r_info_type"], target, addend


def same_code(a: bytes, b: bytes) -> bool:
    """Say whether two object files load the same bytes with the same relocations.

    Sound, for a compiler that is given both sources under the same path: equal code behaves
    equally. Unequal code says nothing, and many equivalent sources compile to unequal code.

    Raises:
        NotAnObject: If one of them is no object file.
    """
    return loaded_code(a) == loaded_code(b)
