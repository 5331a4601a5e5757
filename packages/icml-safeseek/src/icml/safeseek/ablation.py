"""A circuit cut out of a model: for the length of a ``with`` block, or in a checkpoint for good."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from icml.core.errors import UserError
from icml.core.journal import replace_folder
from icml.core.models.answers import AnswerBatch
from icml.core.models.blocks import attn_out_proj, decoder_layers, head_layout, mlp_down_proj
from icml.safeseek.circuit import Circuit
from icml.safeseek.outputs import check_replaceable, file_names, recorded_names
from icml.safeseek.units import Site, refuse_compiled, unit_factors

__all__ = ["Value", "ablate", "export_ablated", "mean_inputs"]

EXPORT = "ablated.json"

Value = Literal["zero", "mean"]
"""What an ablated unit sends: nothing, or its mean over a calibration text (mean ablation)."""


@contextmanager
def ablate(
    model: Any,
    circuit: Circuit,
    *,
    value: Value = "zero",
    calibration: AnswerBatch | None = None,
    check: bool = True,
) -> Generator[None]:
    """Cut a circuit out of a model during a ``with`` block; nothing in the model is edited.

    ``ablate(model, circuit.complement())`` leaves the circuit alone running. Biases of the output
    projections stay; they belong to no head and no channel.

    Args:
        model: The circuit's model.
        circuit: What to cut out.
        value: ``zero``, or ``mean`` over the calibration's tokens.
        calibration: Text for ``mean``, padding left out; on the model's device.
        check: Whether to compare the model's fingerprint, about a second for 500 MB; without it
            the caller knows.

    Raises:
        UserError: If the circuit is another model's, or calibration and value don't fit.
    """
    if value not in ("zero", "mean") or (value == "mean") != (calibration is not None):
        raise UserError(
            "value must be zero, or mean with a calibration text, got "
            f"{value!r} with{'out' if calibration is None else ''} one"
        )
    if check:
        circuit.check(model)
    members = {site: member for site, member in circuit.units.items() if bool(member.any())}
    factors = {site: (~member).float() for site, member in members.items()}
    offsets: dict[Site, Tensor] = {}
    if calibration is not None:
        width = head_layout(model.config).head_dim
        for site, mean in mean_inputs(model, list(members), calibration).items():
            member = members[site].to(mean)
            offsets[site] = mean * (
                member.repeat_interleave(width) if site.kind == "head" else member
            )
    with unit_factors(model, factors, offsets):
        yield


@torch.no_grad()
def mean_inputs(model: Any, sites: Sequence[Site], batch: AnswerBatch) -> dict[Site, Tensor]:
    """Return the mean of what the units of some sites send, over a text's tokens.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        sites: Where.
        batch: The text, prompts and answers alike; padding is left out.

    Returns:
        For each site ``(features,)``, ``heads * head_dim`` of them for heads.
    """
    refuse_compiled(model)
    found: dict[Site, Tensor] = {}

    def record(site: Site, x: Tensor) -> None:
        found[site] = x[batch.mask].mean(0)

    with ExitStack() as hooks:
        for site in sites:
            hooks.callback(_listen(model, site, record).remove)
        model(input_ids=batch.ids, attention_mask=batch.mask.long(), use_cache=False)
    return found


def _listen(model: Any, site: Site, record: Any) -> Any:
    module = _module(model, site)
    if site.kind == "linear-output":
        return module.register_forward_hook(lambda module, inputs, out: record(site, out))
    return module.register_forward_pre_hook(lambda module, inputs: record(site, inputs[0]))


def export_ablated(
    model: Any, circuit: Circuit, out_dir: Path | str, tokenizer: Any = None
) -> None:
    """Save an ordinary checkpoint without the circuit: its slices of the weights are zeros.

    Of a head and a channel the columns of the output projection are zeroed, of a linear output
    its row and bias. The saved model's logits are those of the ablated one, anywhere
    transformers runs.

    Args:
        model: The circuit's model; it stays as it is.
        circuit: What to cut out.
        out_dir: Folder for the checkpoint; an earlier export is replaced when all is written.
            ``ablated.json`` beside the weights says what was cut and which files are the export's.
        tokenizer: Saved beside the model if given.

    Raises:
        UserError: If the circuit is another model's, a weight is quantised, the folder holds
            something else than an export, or the system refuses.
    """
    check_replaceable(out_dir, recorded_names(out_dir, EXPORT))
    circuit.check_layout(model)
    _check_plain(model, circuit)
    circuit.check(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    edited: dict[str, Tensor] = {}
    for site, member in circuit.units.items():
        if bool(member.any()):
            for parameter, zero in _slices(model, site, member):
                name = names[id(parameter)]
                tensor = edited.setdefault(name, parameter.detach().clone())
                tensor[zero] = 0
    state: Mapping[str, Tensor] = {**model.state_dict(), **edited}
    with replace_folder(out_dir) as draft:
        model.save_pretrained(draft, state_dict=state)
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
        sizes = {kind: [circuit.size(kind), circuit.total(kind)] for kind in circuit.kinds}
        about = {"cut": sizes, "from": circuit.model_fingerprint, "files": file_names(draft)}
        (draft / EXPORT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _slices(model: Any, site: Site, member: Tensor) -> list[tuple[nn.Parameter, Any]]:
    """Return the parameters that hold a site's units, each with the index of what to zero."""
    module = _module(model, site)
    if site.kind == "head":
        member = member.repeat_interleave(head_layout(model.config).head_dim)
    member = member.to(module.weight.device)
    every = slice(None)
    outputs = site.kind == "linear-output"
    # a weight is (outputs, inputs), GPT-2's Conv1D has the transpose
    rows_are_outputs = not isinstance(module, Conv1D)
    index = member if outputs == rows_are_outputs else (every, member)
    found: list[tuple[nn.Parameter, Any]] = [(module.weight, index)]
    if outputs and module.bias is not None:
        found.append((module.bias, member))
    return found


def _module(model: Any, site: Site) -> Any:
    block = decoder_layers(model)[site.layer]
    if site.kind == "head":
        return attn_out_proj(block)
    return mlp_down_proj(block) if site.kind == "mlp-channel" else block.get_submodule(site.module)


def _check_plain(model: Any, circuit: Circuit) -> None:
    """Refuse weights that a zero can't be written into."""
    for site in circuit.units:
        module = _module(model, site)
        weight = getattr(module, "weight", None)
        plain = type(module) in (nn.Linear, Conv1D) and weight is not None
        if not plain or not weight.dtype.is_floating_point:
            kind = f"{type(module).__name__} with {getattr(weight, 'dtype', 'no weight')}"
            raise UserError(
                f"{site.key} lies in a {kind}: a circuit is exported from plain float weights; "
                "load the model without quantisation or adapters"
            )
