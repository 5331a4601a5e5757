"""A circuit as a picture: which heads of which layer, and how dense its neurons are in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icml.core.plots import Plot
from icml.core.plots.layout import LINE, Canvas, Header
from icml.core.plots.style import PALETTE
from icml.safeseek.units import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from icml.safeseek.circuit import Circuit

__all__ = ["circuit_map", "layer_rows"]

_ROW, _SMALL_ROW, _LABEL, _GAP, _RIGHT, _STACKED = 20, 9, 26, 40, 40, 500
"""Pixels: a layer's height (in models of over 16 layers the small one), room for its number, room
between two panels and right of bars, and the width below which panels lie one above the other."""

_NAMES: Mapping[Kind, str] = {
    "head": "head",
    "mlp-channel": "channels in the circuit (%)",
    "linear-output": "linear outputs in the circuit (%)",
}


def layer_rows(circuit: Circuit) -> list[dict[str, str | int | float]]:
    """Return a row for each layer and kind of unit: how many are in the circuit, and which.

    Returns:
        ``layer``, ``kind``, ``in circuit``, ``gated`` (counts), ``share`` (of the layer's units of
        that kind) and ``which``: the units' numbers, for linear outputs their layers' names only.
    """
    found: dict[tuple[int, Kind], list[tuple[str, Any]]] = {}
    for site, member in circuit.units.items():
        found.setdefault((site.layer, site.kind), []).append((site.module, member))
    rows: list[dict[str, str | int | float]] = []
    for (layer, kind), parts in sorted(found.items()):
        inside = sum(int(member.sum()) for _, member in parts)
        gated = sum(len(member) for _, member in parts)
        if kind == "linear-output":
            which = " ".join(f"{name}:{int(m.sum())}" for name, m in parts if m.any())
        else:
            which = " ".join(map(str, parts[0][1].nonzero().flatten().tolist()))
        rows.append(
            {"layer": layer, "kind": kind, "in circuit": inside, "gated": gated}
            | {"share": inside / gated, "which": which}
        )
    return rows


def circuit_map(circuit: Circuit, *, title: str, note: str = "") -> Plot:
    """Draw a map of layers and heads, and for neurons the share of each layer in the circuit.

    Args:
        circuit: What to draw; a panel for each kind of unit that had a gate.
        title: The claim that the figure supports.
        note: What a reader must know besides.

    Example:
        >>> from icml.core.models.tiny import causal_lm
        >>> from icml.safeseek.circuit import Circuit
        >>> from icml.safeseek.units import Site
        >>> found = Circuit.of(causal_lm(9, d=8, layers=2, heads=2), {Site(1, "head"): [0]})
        >>> circuit_map(found, title="One head carries it").rows[-1]
        (1, 'mlp-channel', 0, 16, 0.0, '')
    """
    rows = layer_rows(circuit)
    columns = tuple(rows[0])
    sizes = [f"{circuit.size(k)} of {circuit.total(k)} units ({k})" for k in circuit.kinds]
    said = [
        f"layer {row['layer']} head {row['which']}"
        for row in rows
        if row["kind"] == "head" and row["which"]
    ]
    heads = {site.layer: len(m) for site, m in circuit.units.items() if site.kind == "head"}
    return Plot(
        title=title,
        alt=". ".join(filter(None, [f"In the circuit: {', '.join(sizes)}", note, *said])),
        columns=columns,
        rows=tuple(tuple(row.values()) for row in rows),
        draw=_Drawing(title, note, rows, heads).draw,
    )


@dataclass(frozen=True)
class _Drawing:
    title: str
    note: str
    rows: Sequence[Mapping[str, Any]]
    heads: Mapping[int, int]

    def draw(self, width: int) -> Figure:
        kinds = list(dict.fromkeys(sorted((r["kind"] for r in self.rows), key=list(_NAMES).index)))
        layers = sorted({row["layer"] for row in self.rows})
        tall = len(layers) * (_ROW if len(layers) <= 16 else _SMALL_ROW)
        header = Header(width, self.title, self.note, [])
        stacked = width < _STACKED or len(kinds) == 1
        step = tall + 4 * LINE
        top = header.height + LINE
        canvas = Canvas(width, top + (step * len(kinds) if stacked else step) - LINE)
        header.draw(canvas, {})
        panel = width if stacked else (width - _GAP * (len(kinds) - 1)) / len(kinds)
        for number, kind in enumerate(kinds):
            x, y = (0, number * step) if stacked else (number * (panel + _GAP), 0)
            axes = canvas.axes(x + _LABEL, top + y, panel - _LABEL - _RIGHT, tall)
            _name_layers(axes, layers)
            axes.set_xlabel(_NAMES[kind])
            paint = self._paint_heads if kind == "head" else self._paint_shares
            paint(axes, kind, layers)
        return canvas.figure

    def _paint_heads(self, axes: Axes, kind: Kind, layers: Sequence[int]) -> None:
        """Draw a cell for each head, filled if it is in the circuit."""
        most = max(self.heads.values())
        for row in self._of(kind):
            inside = set(str(row["which"]).split())
            y = layers.index(row["layer"])
            for head in range(self.heads[row["layer"]]):
                color = PALETTE["ours" if str(head) in inside else "grid"]
                axes.barh(y, 0.88, left=head - 0.44, height=0.84, color=color)
        axes.set_xlim(-0.5, most - 0.5)
        axes.set_xticks(range(0, most, 1 + (most - 1) // 12))

    def _paint_shares(self, axes: Axes, kind: Kind, layers: Sequence[int]) -> None:
        """Draw a bar for each layer, with the count at its end."""
        shares = [100 * row["share"] for row in self._of(kind)]
        room = max([*shares, 1e-9])
        for row, share in zip(self._of(kind), shares, strict=True):
            y = layers.index(row["layer"])
            axes.barh(y, share, height=0.7, color=PALETTE["ours"])
            if len(layers) <= 16:
                text = f"{row['in circuit']}"
                style: dict[str, Any] = {"va": "center", "textcoords": "offset points"}
                axes.annotate(text, xy=(share, y), xytext=(3, -0.5), **style)
        axes.set_xlim(0, room * 1.02)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="x")

    def _of(self, kind: Kind) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind]


def _name_layers(axes: Axes, layers: Sequence[int]) -> None:
    """Put the first layer on top; a tall model's layers are named every fourth."""
    shown = [n for n in range(len(layers)) if len(layers) <= 16 or layers[n] % 4 == 0]
    axes.set_yticks(shown, [str(layers[n]) for n in shown])
    axes.set_ylim(len(layers) - 0.5, -0.5)
    axes.tick_params(axis="y", labelcolor=PALETTE["ink"], pad=6)
    axes.set_ylabel("layer", rotation=0, ha="left", va="bottom", color=PALETTE["ink"])
    axes.yaxis.set_label_coords(0, 1.0)
