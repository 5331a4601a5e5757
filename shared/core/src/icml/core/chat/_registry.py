"""What inspect-ai finds in this distribution (entry point ``inspect_ai``)."""

from __future__ import annotations

from typing import Any

from inspect_ai.model import modelapi


@modelapi("scripted")
def scripted() -> type[Any]:
    """Return the provider of ``scripted/<any name>``, imported when it is asked for."""
    from icml.core.chat.provider import ScriptedAPI

    return ScriptedAPI
