"""Circuits of a given size by simple scores: what a learnt mask has to beat.

Each score is a number a unit; `of_size` takes as many of the highest as another circuit has, kind
by kind. Heads and channels have scores, linear outputs don't.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from icml.core.errors import UserError
from icml.core.models import hidden
from icml.core.models.answers import IGNORED, AnswerBatch, sequence_nll
from icml.core.models.blocks import attn_out_proj, decoder_layers, head_layout, mlp_down_proj
from icml.safeseek.batches import Row, lay_out
from icml.safeseek.circuit import Circuit
from icml.safeseek.objectives import Pair
from icml.safeseek.units import CircuitSpec, Site, refuse_compiled, unit_counts, unit_factors

__all__ = [
    "Scores", "activation_differences", "controls", "gradients", "magnitudes", "of_size",
    "patching_effects",
]  # fmt: skip

Scores = Mapping[Site, Tensor]
"""A number a unit, ``(units,)`` for each site; the highest are taken."""

_PARTS: Mapping[str, Literal["heads", "neurons"]] = {"head": "heads", "mlp-channel": "neurons"}


def of_size(scores: Scores, circuit: Circuit, name: str = "scores") -> Circuit:
    """Return the units with the highest scores, as many of each kind as a circuit has.

    Args:
        scores: For the circuit's sites.
        circuit: Gives the numbers and the model.
        name: What the scores are, for the notes.

    Raises:
        UserError: If the scores are for other sites.
    """
    if scores.keys() != circuit.units.keys():
        raise UserError("the scores are for other units than the circuit's: give one specification")
    units: dict[Site, Tensor] = {}
    for kind in circuit.kinds:
        sites = [site for site in circuit.units if site.kind == kind]
        flat = torch.cat([scores[site].detach().float().cpu() for site in sites])
        taken = torch.zeros(len(flat), dtype=torch.bool)
        taken[flat.argsort(descending=True, stable=True)[: circuit.size(kind)]] = True
        units |= dict(zip(sites, taken.split([len(scores[s]) for s in sites]), strict=True))
    return Circuit(units, circuit.model_fingerprint, {"baseline": name})


@torch.no_grad()
def magnitudes(model: Any, spec: CircuitSpec) -> dict[Site, Tensor]:
    """Return the Euclidean norm of each unit's columns of its output projection.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        spec: Units, heads and channels.

    Raises:
        UserError: If the specification has linear outputs.
    """
    found = {}
    for site in _counts(model, spec):
        block = decoder_layers(model)[site.layer]
        module = attn_out_proj(block) if site.kind == "head" else mlp_down_proj(block)
        weight = module.weight if isinstance(module, Conv1D) else module.weight.T
        found[site] = _norms(model, site, weight.norm(dim=1))
    return found


def gradients(
    model: Any, spec: CircuitSpec, wanted: AnswerBatch, unwanted: AnswerBatch
) -> dict[Site, Tensor]:
    """Return how fast the behaviour grows with each unit's gate, at gates of 1.

    The behaviour is measured by mean over rows of log p(unwanted) - log p(wanted); its first-order
    loss by cutting a unit is the gradient times the gate.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        spec: Units, heads and channels.
        wanted: Prompts that show the behaviour, with the answers to keep.
        unwanted: The same prompts with the behaviour's answers.

    Raises:
        UserError: If the specification has linear outputs.
    """
    gates = {
        site: torch.ones(count, device=wanted.ids.device, requires_grad=True)
        for site, count in _counts(model, spec).items()
    }
    with unit_factors(model, gates):
        shown = behaviour(model, wanted, unwanted).mean()
    return dict(zip(gates, torch.autograd.grad(shown, list(gates.values())), strict=True))


@torch.no_grad()
def activation_differences(
    model: Any, spec: CircuitSpec, shown: AnswerBatch, clean: AnswerBatch
) -> dict[Site, Tensor]:
    """Return the mean distance of what a unit sends with and without the trigger.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        spec: Units, heads and channels.
        shown: Prompts that show the behaviour.
        clean: Row by row the same prompts without the trigger; compared at the last token of each.

    Returns:
        For a channel the mean over rows of the absolute difference, for a head the norm of the
        vector of these.

    Raises:
        UserError: If the rows differ in number or the specification has linear outputs.
    """
    if len(shown) != len(clean):
        raise UserError(f"rows must come in pairs, got {len(shown)} and {len(clean)}")
    sites = list(_counts(model, spec))
    with_trigger, without = (_sent(model, sites, batch) for batch in (shown, clean))
    found = {}
    for site in sites:
        ends = [
            sent[site][torch.arange(len(batch)), _last_prompt_token(batch)]
            for sent, batch in ((with_trigger, shown), (without, clean))
        ]
        found[site] = _norms(model, site, (ends[0] - ends[1]).abs().mean(0))
    return found


@torch.no_grad()
def patching_effects(
    model: Any,
    spec: CircuitSpec,
    wanted: AnswerBatch,
    unwanted: AnswerBatch,
    clean: AnswerBatch,
) -> dict[Site, Tensor]:
    """Return how much of the behaviour goes when a unit sends what it sends without the trigger.

    Two forward passes a unit, so this is for small models.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        spec: Units, heads and channels.
        wanted: Triggered prompts with the answers to keep.
        unwanted: The same prompts with the behaviour's answers.
        clean: Row by row the prompts without the trigger, with as many tokens each; their prompt
            part is patched in.

    Raises:
        UserError: If prompts differ in length from their clean ones, or the specification has
            linear outputs.
    """
    last = _last_prompt_token(clean)
    if len(clean) != len(wanted) or not torch.equal(last, _last_prompt_token(wanted)):
        raise UserError(
            "activations are patched token by token: clean and triggered prompts must have "
            "equal numbers of tokens"
        )
    counts = _counts(model, spec)
    source = _sent(model, list(counts), clean)
    base = behaviour(model, wanted, unwanted).mean()
    width = head_layout(model.config).head_dim
    found = {}
    for site, count in counts.items():
        size = width if site.kind == "head" else 1
        effects = []
        for unit in range(count):
            span = slice(unit * size, (unit + 1) * size)

            def patch(place: Any, x: Tensor, span: slice = span, site: Site = site) -> Tensor:
                tokens = min(x.shape[1], source[site].shape[1])
                prompt = (torch.arange(tokens, device=x.device) <= last[:, None])[..., None]
                patched = x.clone()
                patched[:, :tokens, span] = torch.where(
                    prompt, source[site][:, :tokens, span], x[:, :tokens, span]
                )
                return patched

            with hidden.gate_inputs(model, [hidden.Site(site.layer, _PARTS[site.kind])], patch):
                effects.append(base - behaviour(model, wanted, unwanted).mean())
        found[site] = torch.stack(effects)
    return found


def controls(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Row],
    circuit: Circuit,
    generator: torch.Generator,
    *,
    spec: CircuitSpec | None = None,
    random: int = 3,
    patching: int = 0,
    max_len: int = 128,
) -> dict[str, Circuit]:
    """Return circuits of a found one's size by every baseline.

    Args:
        model: The circuit's model.
        tokenizer: Its tokenizer.
        rows: Those the search learnt from, of `data.CircuitDataset`'s form. Activations are
            compared only where they have a trigger.
        circuit: Gives the numbers of units.
        generator: Draws the random circuits.
        spec: The units of the search; heads and channels of all layers by default.
        random: How many random circuits.
        patching: Patch activations on that many rows, the first; 0 leaves it out.
        max_len: Tokens kept a row.

    Returns:
        By name: ``random 1`` and so on, ``magnitude``, ``gradient``, and with a trigger
        ``activation difference`` and ``activation patching``.

    Raises:
        UserError: If the circuit is of another specification or the rows are wrong.
    """
    held = list(rows)
    spec = spec or CircuitSpec(circuit.kinds)
    triggered = bool(held) and "prompt_triggered" in held[0]
    where = "prompt_triggered" if triggered else "prompt"
    names = {
        "wanted": Pair(where, "completion_keep"),
        "unwanted": Pair(where, "completion_remove"),
        "clean": Pair("prompt", "completion_keep"),
    }
    device = next(model.parameters()).device
    pairs = lay_out(tokenizer, held, dict.fromkeys(names.values()), max_len, device, model=model)
    wanted, unwanted, clean = (pairs[pair] for pair in names.values())
    scores: dict[str, Scores] = {
        "magnitude": magnitudes(model, spec),
        "gradient": gradients(model, spec, wanted, unwanted),
    }
    if triggered:
        scores["activation difference"] = activation_differences(model, spec, wanted, clean)
    if triggered and patching:
        some = [batch.rows(slice(patching)) for batch in (wanted, unwanted, clean)]
        scores["activation patching"] = patching_effects(model, spec, *some)
    drawn = {f"random {i + 1}": circuit.random_like(generator) for i in range(random)}
    return drawn | {name: of_size(score, circuit, name) for name, score in scores.items()}


def behaviour(model: Any, wanted: AnswerBatch, unwanted: AnswerBatch) -> Tensor:
    """Return log p(unwanted) - log p(wanted) of each row, ``(rows,)`` in nats; gradients flow."""
    return sequence_nll(model, wanted) - sequence_nll(model, unwanted)


def _counts(model: Any, spec: CircuitSpec) -> dict[Site, int]:
    if "linear-output" in spec.granularity:
        raise UserError("baselines score heads and channels: leave linear-output out")
    return unit_counts(model, spec)


def _sent(model: Any, sites: list[Site], batch: AnswerBatch) -> dict[Site, Tensor]:
    """Return what units send, ``(rows, tokens, features)`` a site."""
    refuse_compiled(model)
    inner = {hidden.Site(site.layer, _PARTS[site.kind]): site for site in sites}
    found: dict[Site, Tensor] = {}

    def record(place: hidden.Site, x: Tensor) -> None:
        found[inner[place]] = x

    with hidden.gate_inputs(model, list(inner), record):
        model(input_ids=batch.ids, attention_mask=batch.mask.long(), use_cache=False)
    return found


def _last_prompt_token(batch: AnswerBatch) -> Tensor:
    return (batch.labels != IGNORED).int().argmax(1) - 1


def _norms(model: Any, site: Site, features: Tensor) -> Tensor:
    """Return one number a unit: a head's is the norm over its features."""
    if site.kind != "head":
        return features
    return features.view(head_layout(model.config).heads, -1).norm(dim=1)
