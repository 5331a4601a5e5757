"""Safety Circuit Tuning: fine-tuning that trains only a circuit, or everything but it.

**Differs from the paper:** its text names the method and its repository has no code of it; which
entries of which weights are a unit's own is decided here (`unit_slices`).
"""

from __future__ import annotations

from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.pytorch_utils import Conv1D

from icml.core.errors import UserError
from icml.core.models.blocks import attn_out_proj, decoder_layers, head_layout, mlp_down_proj
from icml.safeseek.circuit import Circuit
from icml.safeseek.running import RunningTraining
from icml.safeseek.tunable import bare_model, check_tunable, refuse_spread
from icml.safeseek.units import Site

__all__ = ["CircuitTuner", "SafetyCircuitCallback", "Tune", "site_slices", "unit_slices"]

Tune = Literal["circuit", "complement"]
"""``circuit``: train the circuit's entries alone. ``complement``: train all entries but those."""


def unit_slices(model: Any, circuit: Circuit) -> dict[str, Tensor]:
    """Return which entries of which parameters are the circuit's own.

    A head: its rows of the query projection, its columns of the output projection, and the rows
    of keys and values that it reads if all query heads of that group are in the circuit, because
    the others read them too. A channel: its rows of the projections that lead in, its column of
    the one that leads out. A linear output: its row. Bias entries go with their rows; the biases
    of output projections belong to no head or channel.

    Args:
        model: The circuit's model, or one of the same shape.
        circuit: Its units.

    Returns:
        Booleans of a parameter's shape by its name; parameters without such entries are left out.

    Raises:
        UserError: If a layer that holds entries has no weight of its own, or shares it.
    """
    found: dict[int, Tensor] = {}
    for site, member in circuit.units.items():
        if bool(member.any()):
            for module, side, index in site_slices(model, site, member):
                if bool(index.any()):
                    _mark(found, module, side, index)
    named: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if id(parameter) in found:
            named[name] = found.pop(id(parameter))
    if found:
        raise UserError(
            "some of the circuit's weights are no parameters of the model: give the model itself, "
            "without adapters or quantisation"
        )
    return named


def site_slices(
    model: Any, site: Site, member: Tensor
) -> list[tuple[nn.Module, Literal["rows", "columns"], Tensor]]:
    """Return layers, whether outputs (rows) or inputs (columns) are meant, and which of them.

    Args:
        model: A decoder that has the site.
        site: Where the units lie.
        member: Booleans ``(units,)``: whose entries are wanted.
    """
    block: Any = decoder_layers(model)[site.layer]
    if site.kind == "linear-output":
        return [(block.get_submodule(site.module), "rows", member)]
    if site.kind == "mlp-channel":
        mlp: Any = block.mlp
        into = [mlp.c_fc] if hasattr(mlp, "c_fc") else [mlp.gate_proj, mlp.up_proj]
        return [*((m, "rows", member) for m in into), (mlp_down_proj(block), "columns", member)]
    layout = head_layout(model.config)
    queries = member.repeat_interleave(layout.head_dim)
    groups = member.view(layout.kv_heads, -1).all(1).repeat_interleave(layout.head_dim)
    out = (attn_out_proj(block), "columns", queries)
    fused: Any = getattr(block, "attn", None)
    if fused is not None:  # GPT-2: queries, keys and values side by side in one layer
        return [(fused.c_attn, "rows", torch.cat([queries, groups, groups])), out]
    attention: Any = block.self_attn
    return [
        (attention.q_proj, "rows", queries), (attention.k_proj, "rows", groups),
        (attention.v_proj, "rows", groups), out,
    ]  # fmt: skip


def _mark(found: dict[int, Tensor], module: Any, side: str, index: Tensor) -> None:
    if type(module) not in (nn.Linear, Conv1D) or type(module.weight) is not nn.Parameter:
        raise UserError(
            f"the circuit lies in a {type(module).__name__}: tune a model of plain float weights, "
            "without adapters or quantisation"
        )
    weight = module.weight
    mask = found.setdefault(
        id(weight), torch.zeros(weight.shape, dtype=torch.bool, device=weight.device)
    )
    index = index.to(weight.device)
    # a weight is (outputs, inputs), GPT-2's Conv1D has the transpose
    if (side == "rows") == isinstance(module, Conv1D):
        mask[:, index] = True
    else:
        mask[index] = True
    if side == "rows" and module.bias is not None:
        bias = found.setdefault(id(module.bias), torch.zeros_like(module.bias, dtype=torch.bool))
        bias[index] = True


class CircuitTuner:
    """Keeps the protected entries of a model as they are while any optimizer trains it.

    Gradients of protected entries are zeroed as they arrive, so that accumulation, the norm that
    clipping uses and the moments of the optimizer know nothing of them. Weight decay moves an
    entry without a gradient too, and so does momentum from before; hence `restore` writes the
    entries back after each step, bit for bit. Made within ``Trainer.train`` it protects nothing
    once that is over, though an exception ended it.

    Example:
        >>> from icml.core.models.tiny import causal_lm
        >>> model = causal_lm(9, d=8, layers=1, heads=2)
        >>> circuit = Circuit.of(model, {Site(0, "head"): [1]})
        >>> tuner = CircuitTuner(model, circuit, tune="complement")
        >>> optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
        >>> before = model.model.layers[0].self_attn.o_proj.weight.detach().clone()
        >>> model(torch.tensor([[4, 5]])).logits.sum().backward()
        >>> optimizer.step()
        >>> tuner.restore()
        >>> after = model.model.layers[0].self_attn.o_proj.weight
        >>> torch.equal(before[:, 4:], after[:, 4:]), torch.equal(before[:, :4], after[:, :4])
        (True, False)
    """

    def __init__(self, model: Any, circuit: Circuit, *, tune: Tune) -> None:
        """Remember the protected entries and hook their gradients.

        Args:
            model: The circuit's model, or one of its shape; it may be wrapped for data parallelism.
            circuit: Its units.
            tune: What is trained.

        Raises:
            UserError: If ``tune`` is unknown, the circuit is empty, its entries can't be told
                apart in this model, or all that may be trained is frozen.
        """
        model = bare_model(model)
        self._training = RunningTraining()
        self._stepping = False
        for other in _TUNERS.get(model, ()):
            if other._training.over:
                other.detach()
        own = _tuned_slices(model, circuit, tune)
        self._kept: list[tuple[nn.Parameter, Tensor, Tensor]] = []
        self._hooks: list[Any] = []
        learns = False
        for name, parameter in model.named_parameters():
            mask = own.get(name)
            if tune == "complement":
                if mask is None:
                    learns |= parameter.requires_grad
                    continue
            elif mask is None:
                mask = torch.ones_like(parameter, dtype=torch.bool)
            else:
                mask = ~mask
            learns |= parameter.requires_grad and not bool(mask.all())
            self._kept.append((parameter, mask, parameter.detach()[mask].clone()))
            if parameter.requires_grad:
                self._hooks.append(parameter.register_hook(self._zeroing(mask)))
        if not learns:
            self.remove()
            raise UserError(
                f"there is nothing to train with tune={tune!r}: all those weights are frozen "
                "(requires_grad is False)"
            )
        _TUNERS.setdefault(model, WeakSet()).add(self)

    def begin_step(self) -> None:
        """Note that ``optimizer.step()`` comes next, for `detach` after an exception in it."""
        self._stepping = True

    @torch.no_grad()
    def restore(self) -> None:
        """Write the protected entries back; call it after each ``optimizer.step()``."""
        for parameter, mask, values in self._kept:
            parameter[mask] = values.to(parameter.device)
        self._stepping = False

    def detach(self) -> None:
        """Take the hooks off; entries that a step had moved when it was broken off are put back."""
        if self._stepping:
            self.restore()
        self.remove()

    def remove(self) -> None:
        """Take the hooks off the model's parameters."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _zeroing(self, mask: Tensor) -> Any:
        def zero(gradient: Tensor) -> Tensor:
            if self._training.over:  # the model is trained by somebody else
                self.remove()
                return gradient
            return gradient.masked_fill(mask.to(gradient.device), 0)

        return zero


_TUNERS: WeakKeyDictionary[nn.Module, WeakSet[CircuitTuner]] = WeakKeyDictionary()


def _tuned_slices(model: Any, circuit: Circuit, tune: str) -> dict[str, Tensor]:
    """Return `unit_slices` of what can be tuned; the model is bare."""
    if tune not in get_args(Tune):
        raise UserError(f"tune must be circuit or complement, got {tune!r}")
    if not circuit.size():
        raise UserError("the circuit is empty: there is nothing to train or to protect")
    check_tunable(model)
    circuit.check_layout(model)
    return unit_slices(model, circuit)


class SafetyCircuitCallback(TrainerCallback):
    """Safety Circuit Tuning in ``Trainer`` of transformers and in the trainers of TRL.

    ``SFTTrainer(..., callbacks=[SafetyCircuitCallback(circuit, tune="complement")])``. Works with
    any optimizer, accumulation and clipping; the norm that clips is that of the trained entries.
    With data parallelism each process zeroes its own gradients before they are summed. After a
    training that an exception or Ctrl-C broke off, the model may be trained by any other trainer,
    or by the same one again: nothing of this is left. Call `detach` before saving the model then,
    because the exception may have come in the middle of an optimizer's step.
    """

    def __init__(self, circuit: Circuit, tune: Tune = "complement") -> None:
        """Hold the settings; the model is met when training begins.

        Args:
            circuit: Found in the model that is trained, or moved to it by ``transfer``.
            tune: ``complement`` keeps the circuit as it is, ``circuit`` keeps all else.

        Raises:
            UserError: If ``tune`` is unknown.
        """
        if tune not in get_args(Tune):
            raise UserError(f"tune must be circuit or complement, got {tune!r}")
        self.circuit, self.tune = circuit, tune
        self._tuner: CircuitTuner | None = None

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Refuse, before anything is trained, what can't be: weights spread or adapted.

        Raises:
            UserError: If entries can't be kept in this model or by this trainer's settings.
        """
        refuse_spread(args)
        _tuned_slices(bare_model(kwargs["model"]), self.circuit, self.tune)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Hook the model.

        Raises:
            UserError: As `on_init_end`, which a callback that was added later hasn't seen.
        """
        refuse_spread(args)
        self.detach()  # from a training that was broken off
        self._tuner = CircuitTuner(kwargs["model"], self.circuit, tune=self.tune)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note that a step begins."""
        if self._tuner is not None:
            self._tuner.begin_step()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the protected entries back."""
        if self._tuner is not None:
            self._tuner.restore()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the model without hooks."""
        self.detach()

    def detach(self) -> None:
        """Leave the model without hooks, its protected entries as they were before training."""
        if self._tuner is not None:
            self._tuner.detach()
            self._tuner = None
