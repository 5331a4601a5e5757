"""Where a config or recipe differs from the one that a run was begun with."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["first_difference"]

_ABSENT = object()


def first_difference(old: Any, new: Any, name: str = "") -> str | None:
    """Name the first field whose value differs and give both values; None where all agree.

    Example:
        >>> first_difference({"loop": {"rate": 0.1}}, {"loop": {"rate": 0.2}})
        'loop.rate was 0.1, now 0.2'
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*new, *(key for key in old if key not in new)]:
            inner = f"{name}.{key}" if name else key
            found = first_difference(old.get(key, _ABSENT), new.get(key, _ABSENT), inner)
            if found is not None:
                return found
        return None
    # Text, since NaN differs from itself and 1 equals True.
    if _text(old) == _text(new):
        return None
    return f"{name} was {_text(old)}, now {_text(new)}"


def _text(value: Any) -> str:
    return "absent" if value is _ABSENT else json.dumps(value)
