"""A circuit: a set of units of one model, with set operations and a file form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from icml.core.errors import UserError
from icml.core.journal import replace_folder, to_json, whole_folder
from icml.core.models.fingerprint import fingerprint
from icml.safeseek.outputs import check_replaceable, sha256_of
from icml.safeseek.units import KINDS, CircuitSpec, Kind, Site, unit_counts

__all__ = ["Circuit"]

FORMAT = 1
FILES = ("circuit.json", "circuit.safetensors")


@dataclass(frozen=True, eq=False)
class Circuit:
    """Units of one model that together carry a behaviour, among all units that had a gate."""

    units: Mapping[Site, Tensor]
    """For each gated site booleans ``(units,)`` on the CPU: whether the unit is in the circuit."""
    model_fingerprint: str
    """Of the model that the circuit was found in: `icml.core.models.fingerprint`."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Where the circuit comes from: objective, settings. JSON values."""

    def __post_init__(self) -> None:
        """Check the units and hold them on the CPU."""
        if not self.units:
            raise UserError("a circuit needs at least one gated site, got none")
        for site, member in self.units.items():
            if member.dtype != torch.bool or member.ndim != 1 or not len(member):
                raise UserError(
                    f"units of {site.key} must be booleans (units,), "
                    f"got {member.dtype} {tuple(member.shape)}"
                )
        # a byte of a file that is neither 0 nor 1 counts as 1, in sums as well
        held = {
            site: self.units[site].detach().cpu().view(torch.uint8) != 0
            for site in sorted(self.units)
        }
        object.__setattr__(self, "units", held)

    @classmethod
    def of(
        cls,
        model: Any,
        members: Mapping[Site, Iterable[int]],
        spec: CircuitSpec | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> Circuit:
        """Build a circuit by hand.

        Args:
            model: The model it belongs to.
            members: Numbers of the units in the circuit, by site; other sites have none.
            spec: All units that could be in it; by default heads and channels of all layers.
            notes: JSON values.

        Raises:
            UserError: If the model has no such site or unit.
        """
        counts = unit_counts(model, spec or CircuitSpec())
        units = {site: torch.zeros(count, dtype=torch.bool) for site, count in counts.items()}
        for site, numbers in members.items():
            if site not in units:
                raise UserError(f"no unit of {site.key} is gated in this model and specification")
            for number in numbers:
                if not 0 <= number < counts[site]:
                    raise UserError(f"{site.key} has units 0 to {counts[site] - 1}, got {number}")
                units[site][number] = True
        return cls(units, fingerprint(model), notes or {})

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of units that had a gate."""
        return tuple(kind for kind in KINDS if any(site.kind == kind for site in self.units))

    def size(self, kind: Kind | None = None) -> int:
        """Return the number of units in the circuit, of one kind or of all."""
        return sum(int(member.sum()) for member in self._of_kind(kind))

    def total(self, kind: Kind | None = None) -> int:
        """Return the number of units that had a gate, of one kind or of all."""
        return sum(len(member) for member in self._of_kind(kind))

    def fraction(self, kind: Kind | None = None) -> float:
        """Return `size` over `total`. Kinds differ in size: a share of all units mixes them.

        Raises:
            UserError: If no unit of the kind had a gate.
        """
        if not self.total(kind):
            raise UserError(f"no {kind} had a gate in this circuit; gated: {', '.join(self.kinds)}")
        return self.size(kind) / self.total(kind)

    def heads(self, layer: int) -> tuple[int, ...]:
        """Return the attention heads of a block that are in the circuit."""
        return self._numbers(Site(layer, "head"))

    def channels(self, layer: int) -> tuple[int, ...]:
        """Return the feed-forward channels of a block that are in the circuit."""
        return self._numbers(Site(layer, "mlp-channel"))

    def members(self) -> list[tuple[Site, int]]:
        """Return the circuit's units one by one, in order."""
        return [(site, number) for site in self.units for number in self._numbers(site)]

    def without(self, site: Site, number: int) -> Circuit:
        """Return the circuit less one unit."""
        member = self.units[site].clone()
        member[number] = False
        return Circuit({**self.units, site: member}, self.model_fingerprint, self.notes)

    def complement(self) -> Circuit:
        """Return all gated units that are not in the circuit."""
        units = {site: ~member for site, member in self.units.items()}
        return Circuit(units, self.model_fingerprint, {"complement of": dict(self.notes)})

    def union(self, other: Circuit) -> Circuit:
        """Return the units that are in either circuit; both must be of one model and one spec."""
        return self._with(other, "union", torch.logical_or)

    def intersection(self, other: Circuit) -> Circuit:
        """Return the units that are in both circuits, of one model and one specification."""
        return self._with(other, "intersection", torch.logical_and)

    def jaccard(self, other: Circuit) -> float:
        """Return the units in both over the units in either; 1 for two empty circuits."""
        either = self.union(other).size()
        return self.intersection(other).size() / either if either else 1.0

    def random_like(self, generator: torch.Generator) -> Circuit:
        """Return a circuit with as many units of each kind, drawn anew among all gated ones."""
        units = {}
        for kind in self.kinds:
            sites = {site: len(m) for site, m in self.units.items() if site.kind == kind}
            drawn = torch.zeros(self.total(kind), dtype=torch.bool)
            drawn[torch.randperm(len(drawn), generator=generator)[: self.size(kind)]] = True
            units |= dict(zip(sites, drawn.split(list(sites.values())), strict=True))
        return Circuit(units, self.model_fingerprint, {"random of the size of": dict(self.notes)})

    def check_layout(self, model: Any) -> None:
        """Refuse a model of another shape; its weights may differ.

        Raises:
            UserError: If its layers, heads or channels differ.
        """
        layers = sorted({site.layer for site in self.units})
        try:
            counts = unit_counts(model, CircuitSpec(self.kinds, layers))
        except UserError as error:
            raise UserError(f"the circuit belongs to another model: {error}") from error
        for site, member in self.units.items():
            if counts.get(site) != len(member):
                found = f"this model has {counts[site]}" if site in counts else "this model doesn't"
                raise UserError(
                    f"the circuit belongs to another model: it has {len(member)} units at "
                    f"{site.key}, {found}"
                )

    def check(self, model: Any) -> None:
        """Refuse a model that the circuit was not found in.

        Raises:
            UserError: If its layers, heads or channels differ, or a weight does.
        """
        self.check_layout(model)
        if fingerprint(model) != self.model_fingerprint:
            raise UserError(
                "the circuit belongs to a model with other weights (its fingerprint differs); "
                "load that model in the number type the circuit was found in, or move the circuit "
                "with circuit.transfer(model)"
            )

    def transfer(self, model: Any) -> Circuit:
        """Return the same units as a circuit of another model, one fine-tuned since say.

        Raises:
            UserError: If the model's layers, heads or channels differ.
        """
        self.check_layout(model)
        return Circuit(self.units, fingerprint(model), self.notes)

    def save(self, folder: Path | str) -> None:
        """Write ``circuit.safetensors`` and ``circuit.json`` into a folder of their own.

        Raises:
            UserError: If the folder holds something else than a circuit or the system refuses;
                what was there before stays.
        """
        about = {
            "format": FORMAT,
            "model_fingerprint": self.model_fingerprint,
            "sizes": self._sizes(),
            "units_sha256": self._digest(),
            "notes": to_json(dict(self.notes), "notes"),
        }
        check_replaceable(folder, FILES)
        with replace_folder(folder) as draft:
            tensors = {site.key: member.contiguous() for site, member in self.units.items()}
            save_file(tensors, str(draft / "circuit.safetensors"))
            (draft / "circuit.json").write_text(json.dumps(about, indent=2), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path | str, model: Any = None) -> Circuit:
        """Read a circuit.

        Args:
            folder: Written by `save`.
            model: If given, the circuit must be one of it: see `check`.

        Raises:
            UserError: If there is no circuit, it is damaged, or it is another model's.
        """
        place = whole_folder(folder)
        if place is None or not (place / "circuit.json").is_file():
            raise UserError(f"{folder} holds no circuit: circuit.json is not there")
        try:
            about = json.loads((place / "circuit.json").read_text("utf-8"))
            tensors = load_file(str(place / "circuit.safetensors"))
            format_, owner, notes = (about[k] for k in ("format", "model_fingerprint", "notes"))
            sizes, digest = about["sizes"], about.get("units_sha256")
        except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
            raise UserError(f"the circuit in {folder} is damaged: {error}") from error
        if type(format_) is not int or format_ != FORMAT:
            raise UserError(f"the circuit in {folder} has format {format_!r}; known is {FORMAT}")
        if type(owner) is not str or type(notes) is not dict:
            raise UserError(
                f"the circuit in {folder} is damaged: the fingerprint must be a text and the notes "
                f"an object, got {owner!r:.70} and {notes!r:.40}"
            )
        try:
            circuit = cls({Site.of(key): value for key, value in tensors.items()}, owner, notes)
        except UserError as error:
            raise UserError(f"the circuit in {folder} is damaged: {error}") from error
        if circuit._sizes() != sizes or digest not in (None, circuit._digest()):
            raise UserError(
                f"the circuit in {folder} is damaged: circuit.safetensors holds other units than "
                "circuit.json was written for"
            )
        if model is not None:
            circuit.check(model)
        return circuit

    def _sizes(self) -> dict[str, list[int]]:
        return {kind: [self.size(kind), self.total(kind)] for kind in self.kinds}

    def _digest(self) -> str:
        return sha256_of(
            [[site.key, self._numbers(site), len(m)] for site, m in self.units.items()]
        )

    def _of_kind(self, kind: Kind | None) -> list[Tensor]:
        return [member for site, member in self.units.items() if kind in (None, site.kind)]

    def _numbers(self, site: Site) -> tuple[int, ...]:
        member = self.units.get(site)
        return () if member is None else tuple(member.nonzero().flatten().tolist())

    def _with(self, other: Circuit, name: str, combine: Any) -> Circuit:
        sizes = [{s: len(m) for s, m in c.units.items()} for c in (self, other)]
        if self.model_fingerprint != other.model_fingerprint or sizes[0] != sizes[1]:
            raise UserError(
                f"the {name} needs two circuits of one model with the same gated units, "
                "got circuits of different ones"
            )
        units = {site: combine(member, other.units[site]) for site, member in self.units.items()}
        notes = {name: [dict(self.notes), dict(other.notes)]}
        return Circuit(units, self.model_fingerprint, notes)
