"""The units that a circuit is made of, and how they are multiplied by a factor in a live model.

A head is gated at the input of the attention's output projection, where the heads' outputs lie
side by side: a gate behind that projection, as in the authors' code, would hit slices in which all
heads are already mixed. A channel of the feed-forward layer is gated at the input of the down
projection. ``linear-output``, the authors' "neuron", is an output feature of any linear layer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from icml.core.errors import UserError
from icml.core.models import hidden
from icml.core.models.blocks import attn_out_proj, decoder_layers, head_layout, mlp_down_proj

__all__ = [
    "KINDS", "CircuitSpec", "Kind", "Site", "linear_features", "refuse_compiled", "unit_counts",
    "unit_factors",
]  # fmt: skip

Kind = Literal["head", "mlp-channel", "linear-output"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Site(NamedTuple):
    """A place that holds units of one kind, one gate each."""

    layer: int
    """Block, counted from 0."""
    kind: Kind
    module: str = ""
    """For ``linear-output``: the linear layer's name in the block, ``self_attn.q_proj`` say."""

    @property
    def key(self) -> str:
        """The site as a text, ``2/head`` or ``0/linear-output/mlp.up_proj``."""
        return "/".join((str(self.layer), self.kind, *([self.module] if self.module else [])))

    @classmethod
    def of(cls, key: str) -> Site:
        """Read `key` back.

        Raises:
            UserError: If the text names no site.
        """
        layer, _, rest = key.partition("/")
        kind, _, module = rest.partition("/")
        if (
            str(int(layer) if layer.isdecimal() else "") != layer
            or kind not in KINDS
            or (kind == "linear-output") != bool(module)
        ):
            raise UserError(f"{key!r} is no site: 2/head, 0/mlp-channel and the like are")
        return cls(int(layer), kind, module)


@dataclass(frozen=True)
class CircuitSpec:
    """Which units get a gate."""

    granularity: Sequence[Kind] = ("head", "mlp-channel")
    """Kinds of units, at least one of `KINDS`."""
    layers: Sequence[int] | None = None
    """Blocks whose units are gated, counted from 0; None takes all."""

    def __post_init__(self) -> None:
        """Check the kinds and put them in order."""
        kinds = self.granularity
        if not isinstance(kinds, Sequence) or isinstance(kinds, str) or not kinds:
            raise _no_kinds(kinds)
        if any(kind not in KINDS for kind in kinds):
            raise _no_kinds(kinds)
        object.__setattr__(self, "granularity", tuple(k for k in KINDS if k in self.granularity))
        if self.layers is not None:
            if (
                not isinstance(self.layers, Sequence)
                or isinstance(self.layers, str)
                or any(type(n) is not int for n in self.layers)
            ):
                raise UserError(f"layers must be whole numbers, got {self.layers!r}")
            if not self.layers:
                raise UserError("no layer is named: give at least one, or None for all")
            object.__setattr__(self, "layers", tuple(sorted(set(self.layers))))


def _no_kinds(got: Any) -> UserError:
    return UserError(f"granularity must be one or more of {', '.join(KINDS)}, got {got!r}")


def unit_counts(model: Any, spec: CircuitSpec) -> dict[Site, int]:
    """Return the sites of a model that a specification asks for, and their numbers of units.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        spec: What to gate.

    Raises:
        UserError: If the family is another, the model has no such layer, its weights aren't
            loaded or aren't tensors.
    """
    if hasattr(model, "peft_config") and not isinstance(model, PreTrainedModel):
        raise UserError(
            "the model is wrapped in an adapter of PEFT: merge it with merge_and_unload() and give "
            "the merged model"
        )
    if not isinstance(model, nn.Module):
        raise UserError(f"a model of transformers is wanted, got {type(model).__name__}")
    try:
        blocks = decoder_layers(model)
    except UserError as error:
        names = dict.fromkeys(name.split(".")[-1] for name, _ in model.named_modules() if name)
        seen = ", ".join(name for name in names if not name.isdecimal())
        raise UserError(f"{error}; the model's modules are called {seen}") from error
    layers = range(len(blocks)) if spec.layers is None else spec.layers
    for layer in layers:
        if not 0 <= layer < len(blocks):
            raise UserError(f"layers must be in [0, {len(blocks)}), got {layer}")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UserError(
            "weights of the model are on the meta device, that is nowhere: load it whole, with "
            "from_pretrained and without offloading"
        )
    counts: dict[Site, int] = {}
    for layer in layers:
        _check_linear(blocks[layer])
        for kind in spec.granularity:
            counts |= _block_counts(model, blocks[layer], layer, kind)
    return counts


def _check_linear(block: nn.Module) -> None:
    """Refuse weights that are no tensors; those of torch.ao's quantisation are packed."""
    for linear in (attn_out_proj(block), mlp_down_proj(block)):
        if not isinstance(getattr(linear, "weight", None), Tensor):
            raise UserError(
                f"the model's projections are of the kind {type(linear).__module__}."
                f"{type(linear).__name__}, whose weights are no tensors: give it without that "
                "quantisation"
            )


def refuse_compiled(model: Any) -> None:
    """Refuse a compiled model: its graph leaves hooks out that come after its compilation.

    Raises:
        UserError: If the model or a part of it is compiled.
    """
    for module in model.modules():
        if type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None:
            raise UserError(
                "the model is compiled by torch.compile, whose graph leaves gates out in silence: "
                "give the model itself and compile it afterwards"
            )


def _block_counts(model: Any, block: nn.Module, layer: int, kind: Kind) -> dict[Site, int]:
    if kind == "head":
        return {Site(layer, kind): head_layout(model.config).heads}
    if kind == "mlp-channel":
        return {Site(layer, kind): linear_features(mlp_down_proj(block))[0]}
    linear = {n: m for n, m in block.named_modules() if isinstance(m, nn.Linear | Conv1D)}
    return {Site(layer, kind, name): linear_features(module)[1] for name, module in linear.items()}


def linear_features(linear: Any) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a linear layer, of GPT-2's kind as well."""
    if isinstance(linear, Conv1D):  # its weight is (inputs, outputs)
        return linear.weight.shape[0], linear.weight.shape[1]
    return linear.in_features, linear.out_features


@contextmanager
def unit_factors(
    model: Any, factors: Mapping[Site, Tensor], offsets: Mapping[Site, Tensor] | None = None
) -> Generator[None]:
    """Multiply what units send by a factor, during a ``with`` block; the model is not edited.

    Gradients flow to the factors. Sites whose factors are all 1 and need no gradient are left
    alone, so that nothing is paid for them.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`.
        factors: A number a unit, ``(units,)``, for each site.
        offsets: Added after the multiplication, a number a feature (``heads * head_dim`` for
            heads, else as many as units); sites without one get none.

    Raises:
        UserError: If the model is compiled.
    """
    refuse_compiled(model)
    width = head_layout(model.config).head_dim
    offsets = offsets or {}
    per_feature = {
        site: factor.repeat_interleave(width) if site.kind == "head" else factor
        for site, factor in factors.items()
        if site in offsets or factor.requires_grad or not bool((factor == 1).all())
    }

    def scale(site: Site, x: Tensor) -> Tensor:
        scaled = x * per_feature[site].to(x)
        return scaled + offsets[site].to(x) if site in offsets else scaled

    with ExitStack() as stack:
        stack.enter_context(_at_inputs(model, per_feature, scale))
        stack.enter_context(_at_outputs(model, per_feature, scale))
        yield


_PARTS: Mapping[str, Literal["heads", "neurons"]] = {"head": "heads", "mlp-channel": "neurons"}


def _at_inputs(model: Any, sites: Iterable[Site], fn: Any) -> Any:
    inner = {hidden.Site(s.layer, _PARTS[s.kind]): s for s in sites if s.kind in _PARTS}
    return hidden.gate_inputs(model, list(inner), lambda place, x: fn(inner[place], x))


@contextmanager
def _at_outputs(model: Any, sites: Iterable[Site], fn: Any) -> Generator[None]:
    blocks = decoder_layers(model)

    def hook(site: Site) -> Any:
        return lambda module, inputs, output: fn(site, output)

    with ExitStack() as hooks:
        for site in sites:
            if site.kind == "linear-output":
                module = blocks[site.layer].get_submodule(site.module)
                hooks.callback(module.register_forward_hook(hook(site)).remove)
        yield
