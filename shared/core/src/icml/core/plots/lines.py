"""Curves: the mean over seeds and the band from the lowest to the highest seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from icml.core.plots.layout import LINE, Canvas, Header, spread, text_width, wrap
from icml.core.plots.style import NARROW, PALETTE, Arm, Look, Plot, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LEFT, BETWEEN = 40, 52
"""Pixels left of the first panel, and between two panels."""


class Point(NamedTuple):
    """One drawn point of a curve."""

    x: float
    mean: float
    low: float
    high: float
    seeds: int


Series = dict[tuple[str, str], list[Point]]
"""(metric, arm) -> its points, sorted by x."""


def curves(
    rows: Iterable[Mapping[str, object]],
    *,
    title: str,
    arms: Sequence[Arm],
    panels: Mapping[str, str],
    x_label: str,
) -> Plot:
    """Draw metrics against steps, a panel a metric, a curve an arm.

    Args:
        rows: What `Run.metrics` returns: mappings with ``step``, ``arm``, ``seed`` and metrics. A
            row without a metric adds nothing to its panel; arms that aren't asked for are left
            out. NaN makes a gap.
        title: The claim that the figure supports.
        arms: In the order of drawing; up to three are labelled at their curves' ends.
        panels: Metric -> name of its axis with the unit, e.g. ``"right format (share)"``.
        x_label: Name of the step axis with its unit.

    Raises:
        ValueError: If an arm has no value of a metric, a value is infinite, or two rows give the
            same metric for one arm, seed and step (rows of two settings mixed up).
    """
    look = looks(arms)
    series = _aggregate(rows, arms=[arm.name for arm in arms], metrics=list(panels))
    table = [(metric, arm, *point) for (metric, arm), ps in series.items() for point in ps]
    return Plot(
        title=title,
        alt=_alt(series, arms, panels, x_label),
        columns=("metric", "arm", "step", "mean", "low", "high", "seeds"),
        rows=tuple(table),
        draw=_Curves(series, title, arms, look, panels, x_label).draw,
    )


def _aggregate(
    rows: Iterable[Mapping[str, object]], *, arms: list[str], metrics: list[str]
) -> Series:
    values: dict[tuple[str, str], dict[float, dict[object, float]]]
    values = {(metric, arm): {} for metric in metrics for arm in arms}
    for row in rows:
        for metric in metrics:
            steps = values.get((metric, str(row["arm"])))
            if steps is None or metric not in row:
                continue
            seeds = steps.setdefault(_number(row["step"], "step"), {})
            if row["seed"] in seeds:
                raise ValueError(
                    f"{metric} of arm {row['arm']!r}, seed {row['seed']}, step {row['step']} is"
                    " given twice: select one setting before drawing"
                )
            seeds[row["seed"]] = _number(row[metric], metric)
    for (metric, arm), steps in values.items():
        if not steps:
            raise ValueError(f"no row has {metric!r} of arm {arm!r}")
    return {
        key: [_point(step, list(steps[step].values())) for step in sorted(steps)]
        for key, steps in values.items()
    }


def _number(value: object, name: str) -> float:
    number = float(value)  # ty: ignore[invalid-argument-type]
    if math.isinf(number):
        raise ValueError(f"{name} must be finite or NaN, got {value}")
    return number


def _point(x: float, values: list[float]) -> Point:
    if any(math.isnan(value) for value in values):
        return Point(x, math.nan, math.nan, math.nan, len(values))
    mean = math.fsum(values) / len(values)
    return Point(x, mean, min(values), max(values), len(values))


def _note(series: Series) -> str:
    counts = [point.seeds for points in series.values() for point in points]
    low, high = min(counts), max(counts)
    if high == 1:
        return "One seed."
    seeds = f"{high} seeds" if low == high else f"{low} to {high} seeds"
    return f"Line: mean of {seeds}. Band: lowest to highest seed."


def _alt(series: Series, arms: Sequence[Arm], panels: Mapping[str, str], x_label: str) -> str:
    parts = [f"Curves against {x_label}. {_note(series)}"]
    for metric, label in panels.items():
        ends = (f"{arm.text} {series[metric, arm.name][-1].mean:.3g}" for arm in arms)
        parts.append(f"{label}, last point: {', '.join(ends)}.")
    return " ".join(parts)


@dataclass(frozen=True)
class _Curves:
    """Draws the panels: side by side on a wide page, below each other on a phone."""

    series: Series
    title: str
    arms: Sequence[Arm]
    look: Mapping[str, Look]
    panels: Mapping[str, str]
    x_label: str

    def draw(self, width: int) -> Figure:
        direct = len(self.arms) <= 3
        header = Header(width, self.title, _note(self.series), [] if direct else self.arms)
        narrow = width <= NARROW
        columns = 1 if narrow else len(self.panels) if len(self.panels) <= 3 else 2
        labels = {arm.name: wrap(arm.text, 84, bold=arm.role == "ours") for arm in self.arms}
        margin = max(text_width(line, bold=True) for label in labels.values() for line in label)
        margin = margin + 10 if direct else 8
        plot_width = (width - LEFT - margin - BETWEEN * (columns - 1)) / columns
        plot_height = 150 if narrow else 210
        names = {m: wrap(label, plot_width + LEFT) for m, label in self.panels.items()}
        above = 8 + LINE * max(len(name) for name in names.values())
        pitch = plot_height + above + 50
        canvas = Canvas(width, header.height + pitch * math.ceil(len(names) / columns) - 4)
        header.draw(canvas, self.look)
        for n, (metric, name) in enumerate(names.items()):
            row, column = divmod(n, columns)
            x, y = LEFT + column * (plot_width + BETWEEN), header.height + row * pitch + above
            axes = canvas.axes(x, y, plot_width, plot_height)
            points = {arm.name: self.series[metric, arm.name] for arm in self.arms}
            _panel(axes, points, self.look)
            _name_axes(axes, self.x_label, "\n".join(name), (-LEFT, plot_width, plot_height))
            if direct and column == columns - 1:
                self._label_ends(axes, points, labels, plot_height)
        return canvas.figure

    def _label_ends(
        self,
        axes: Axes,
        points: Mapping[str, list[Point]],
        labels: Mapping[str, list[str]],
        height: float,
    ) -> None:
        """Write each arm's name right of its last drawn point."""
        low, high = axes.get_ylim()
        ends = {name: [p for p in ps if not math.isnan(p.mean)][-1:] for name, ps in points.items()}
        shown = [arm for arm in self.arms if ends[arm.name]]
        wanted = [(ends[arm.name][0].mean - low) / (high - low) * height for arm in shown]
        heights = [len(labels[arm.name]) * (LINE - 1.0) for arm in shown]
        for arm, y in zip(shown, spread(wanted, heights, height), strict=True):
            axes.annotate(
                "\n".join(labels[arm.name]),
                xy=(1, y / height),
                xytext=(5, 0),
                xycoords="axes fraction",
                textcoords="offset points",
                va="center",
                color=self.look[arm.name].color,
                weight=arm.weight,
                annotation_clip=False,
            )


def _name_axes(axes: Axes, x: str, y: str, place: tuple[float, float, float]) -> None:
    """Name the y axis above its top, where it reads without turning one's head."""
    left, width, height = place
    axes.set_xlabel(x)
    axes.set_ylabel(y, rotation=0, ha="left", va="bottom", color=PALETTE["ink"])
    axes.yaxis.set_label_coords(left / width, 1 + 6 / height)


def _panel(axes: Axes, points: Mapping[str, list[Point]], look: Mapping[str, Look]) -> None:
    for arm, ps in points.items():
        style = look[arm]
        xs = [p.x for p in ps]
        band = axes.fill_between(xs, [p.low for p in ps], [p.high for p in ps])
        band.set(color=style.color, alpha=0.14, linewidth=0)
        (line,) = axes.plot(xs, [p.mean for p in ps], **style.line)
        if len(ps) == 1:
            line.set(marker=style.marker, markersize=4)
    axes.grid(axis="y")
    axes.margins(x=0.01)
