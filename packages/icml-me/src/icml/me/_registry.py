"""What inspect-ai finds in this distribution (entry point ``inspect_ai``)."""

from __future__ import annotations

from typing import Any

from inspect_ai.model import modelapi


@modelapi("icml-me")
def icml_me() -> type[Any]:
    """Return the provider of ``icml-me/<any name>``, imported when it is asked for."""
    from icml.me.inspect_model import EnsembleAPI

    return EnsembleAPI
