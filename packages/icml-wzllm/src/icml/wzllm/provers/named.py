"""Provers by name, as the command line gives them."""

from __future__ import annotations

from icml.core.errors import UserError
from icml.wzllm.provers.protocol import Prover
from icml.wzllm.provers.symbolic import HybridProver, SymbolicProver

__all__ = ["FORMS", "check_form", "prover_from_text"]

FORMS = "symbolic, model:MODEL or hybrid:MODEL"


def check_form(text: str) -> tuple[str, str]:
    """Return the kind of prover that a text asks for, and its model.

    Raises:
        UserError: If it asks for none.
    """
    kind, colon, model = text.partition(":")
    if text == "symbolic" or (kind in ("model", "hybrid") and colon and model):
        return kind, model
    raise UserError(
        f"no prover {text!r}: give {FORMS}, where MODEL is the folder of a training run, "
        "a model's folder or a hub id"
    )


def prover_from_text(
    text: str, *, max_order: int, budget_s: float, device: str | None = None
) -> Prover:
    """Return the prover that a text asks for, its model loaded.

    Args:
        text: ``symbolic``, ``model:MODEL`` or ``hybrid:MODEL``.
        max_order: Highest order of a recurrence that the symbolic search tries.
        budget_s: Seconds for each search.
        device: Where the model goes; the accelerator if there is one when None.

    Raises:
        UserError: If there is no such prover or model.
        MissingExtra: If torch or transformers is missing.

    Example:
        >>> prover_from_text("symbolic", max_order=4, budget_s=30.0).name
        'symbolic'
    """
    kind, model = check_form(text)
    symbolic = SymbolicProver(max_order=max_order, budget_s=budget_s)
    if kind == "symbolic":
        return symbolic
    from icml.wzllm.provers.model import TransformersProver

    learnt = TransformersProver.load(model, device=device)
    return learnt if kind == "model" else HybridProver(symbolic, learnt)
