"""Models whose entries can be kept in training, and those that can't: spread or adapted weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from icml.core.errors import UserError

__all__ = ["bare_model", "check_tunable", "refuse_spread"]


def bare_model(model: Any) -> Any:
    """Return the model below the wrappers of data parallelism and of ``torch.compile``."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def check_tunable(model: Any) -> None:
    """Refuse a model whose own weights aren't what is trained, or not whole in this process.

    Raises:
        UserError: If it carries an adapter, or its weights are spread over processes.
    """
    if hasattr(model, "peft_config") or any(hasattr(m, "base_layer") for m in model.modules()):
        raise UserError(
            "the model carries an adapter of PEFT, whose low-rank changes have no entries of a "
            "circuit's own: tune the model itself without peft_config, or merge an adapter that "
            "it has with merge_and_unload() and requires_grad_(True)"
        )
    flat = any("FullyShardedDataParallel" in type(m).__name__ for m in model.modules())
    if flat or any(hasattr(p, "device_mesh") or hasattr(p, "ds_id") for p in model.parameters()):
        raise _spread("FSDP, ZeRO-3 or tensor parallelism")


def refuse_spread(args: Any) -> None:
    """Refuse the settings of a trainer of transformers that would spread the weights.

    Call it once the trainer is built: its accelerator knows what ``accelerate launch`` asks for.

    Args:
        args: The trainer's arguments.

    Raises:
        UserError: If it is FSDP, DeepSpeed of any stage (its optimizer writes weights from copies
            of its own), or Megatron.
    """
    from accelerate.state import AcceleratorState, is_initialized

    kind = AcceleratorState().distributed_type.value if is_initialized() else "NO"
    asked = {"FSDP": getattr(args, "fsdp", None), "DEEPSPEED": getattr(args, "deepspeed", None)}
    for name in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        if kind == name or asked.get(name):
            raise _spread(name)


def _spread(how: str) -> UserError:
    return UserError(
        f"the model's weights are spread over processes ({how}), where entries can't be kept: "
        "train with data parallelism (torchrun without FSDP or DeepSpeed) or in one process"
    )
