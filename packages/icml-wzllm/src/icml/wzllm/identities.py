"""The 78 identities that ship with the package: 71 true ones, 7 that are false on purpose."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from icml.wzllm.parser import BadStatement
from icml.wzllm.statement import Identity

__all__ = ["Item", "read_item", "suite"]


@dataclass(frozen=True)
class Item:
    """An identity with a name for reports, and what is known of it."""

    id: str
    identity: Identity
    holds: bool | None = None
    """Whether it is true; None if that isn't known."""
    hypergeometric: bool | None = None
    """Whether the method is for it; None if that isn't known."""


def suite() -> tuple[Item, ...]:
    """Return the shipped identities, in order.

    Example:
        >>> len(suite()), sum(item.holds for item in suite())
        (78, 71)
    """
    text = (files("icml.wzllm") / "data" / "identities.jsonl").read_text(encoding="utf-8")
    return tuple(read_item(json.loads(line), line) for line in text.splitlines())


def read_item(fields: Any, line: str = "") -> Item:
    """Read a record with ``lhs`` and ``rhs``, or a ``statement``; the rest may be missing.

    Raises:
        BadStatement: If it isn't such a record or its identity isn't a statement.
    """
    if isinstance(fields, str):
        fields = {"statement": fields}
    if not isinstance(fields, dict):
        raise BadStatement(f"not an object with lhs and rhs: {line[:60]}")
    name = str(fields.get("name", ""))
    if "statement" in fields:
        identity = Identity.parse(_text(fields, "statement"), name=name)
    elif "vars" in fields:
        variables = tuple(map(str, fields["vars"]))
        identity = Identity(_text(fields, "lhs"), _text(fields, "rhs"), variables, name)
    else:
        both = f"{_text(fields, 'lhs')} = {_text(fields, 'rhs')}"
        identity = Identity.parse(both, name=name)
    return Item(
        str(fields.get("id", identity)), identity, fields.get("holds"), fields.get("hypergeometric")
    )


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields.get(name), str):
        raise BadStatement(
            f"the record has no text {name!r}: wanted 'statement', or 'lhs' and 'rhs'"
        )
    return fields[name]
