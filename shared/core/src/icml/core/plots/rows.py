"""Rows: an estimate with its interval, or a bar from zero, for each arm within each group."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from icml.core.plots.layout import LINE, Canvas, Header, text_width, wrap
from icml.core.plots.style import PALETTE, Arm, Look, Plot, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, GAP, RIGHT = 17, 13, 44
"""Pixels a row takes, between two groups, and right of the axes."""


class Estimate(NamedTuple):
    """A value with its interval. ``group`` is the row's label, e.g. a learning rate."""

    arm: str
    value: float
    low: float
    high: float
    group: str = ""


class Bar(NamedTuple):
    """A count or another quantity that is not negative."""

    arm: str
    value: float
    group: str = ""


def intervals(  # choices are keyword-only
    estimates: Sequence[Estimate],
    *,
    title: str,
    arms: Sequence[Arm],
    x_label: str,
    note: str,
    reference: float | None = None,
) -> Plot:
    """Draw points with intervals, a row an arm within each group.

    Args:
        estimates: At most one for each arm and group; groups are drawn in the order they come in.
        title: The claim that the figure supports.
        arms: The order of the rows in a group.
        x_label: Name of the quantity with its unit.
        note: What the interval is, e.g. ``"95 % t interval over 8 seeds"``.
        reference: Where "no effect" is, drawn as a line.

    Raises:
        ValueError: If there is no estimate, a number isn't finite, an interval doesn't hold its
            value, an arm is unknown, or an arm stands twice in a group.
    """
    _check(estimates, arms)
    for e in estimates:
        if not e.low <= e.value <= e.high:
            raise ValueError(f"{e.arm}: the interval [{e.low}, {e.high}] doesn't hold {e.value}")
    said = [f"{_who(e, arms)}: {e.value:.3g} [{e.low:.3g}, {e.high:.3g}]" for e in estimates]
    paint = partial(_paint_intervals, reference=reference)
    return Plot(
        title=title,
        alt=f"{x_label}; {note}. {'; '.join(said)}.",
        columns=("group", "arm", "value", "low", "high"),
        rows=tuple((e.group, e.arm, e.value, e.low, e.high) for e in estimates),
        draw=_Rows(estimates, title, arms, x_label, note, paint).draw,
    )


def bars(
    values: Sequence[Bar], *, title: str, arms: Sequence[Arm], x_label: str, note: str = ""
) -> Plot:
    """Draw bars that start at zero, with their values, a row an arm within each group.

    Args:
        values: At most one for each arm and group; groups are drawn in the order they come in.
        title: The claim that the figure supports.
        arms: The order of the bars in a group.
        x_label: Name of the quantity with its unit.
        note: What a reader must know besides, e.g. how it was counted.

    Raises:
        ValueError: If there is no bar, a value is negative or not finite, an arm is unknown, or
            an arm stands twice in a group.
    """
    _check(values, arms)
    for bar in values:
        if bar.value < 0:
            raise ValueError(f"a bar starts at zero and can't show {bar.value}: use intervals")
    said = [f"{_who(bar, arms)}: {bar.value:.4g}" for bar in values]
    return Plot(
        title=title,
        alt=f"{x_label}. {note and note + ' '}{'; '.join(said)}.",
        columns=("group", "arm", "value"),
        rows=tuple((bar.group, bar.arm, bar.value) for bar in values),
        draw=_Rows(values, title, arms, x_label, note, _paint_bars).draw,
    )


def _who(row: Estimate | Bar, arms: Sequence[Arm]) -> str:
    label = next(arm.text for arm in arms if arm.name == row.arm)
    return f"{row.group}, {label}" if row.group else label


def _check(rows: Sequence[Estimate] | Sequence[Bar], arms: Sequence[Arm]) -> None:
    known = looks(arms)
    if not rows:
        raise ValueError("there is nothing to draw")
    seen = set()
    for row in rows:
        numbers = [v for v in row if isinstance(v, int | float)]
        if row.arm not in known:
            raise ValueError(f"arm {row.arm!r} is not one of {sorted(known)}")
        if not all(math.isfinite(v) for v in numbers):
            raise ValueError(f"{row.arm}: numbers must be finite, got {numbers}")
        if (row.group, row.arm) in seen:
            raise ValueError(f"arm {row.arm!r} stands twice in group {row.group!r}")
        seen.add((row.group, row.arm))


@dataclass(frozen=True)
class _Rows:
    """Draws blocks of rows, labelled at the left."""

    rows: Sequence[Estimate] | Sequence[Bar]
    title: str
    arms: Sequence[Arm]
    x_label: str
    note: str
    paint: Callable[..., None]

    def draw(self, width: int) -> Figure:
        grouped = any(row.group for row in self.rows)
        header = Header(width, self.title, self.note, self.arms if grouped else [])
        look = looks(self.arms)
        placed = self._place(width * 0.3)
        left = max(text_width(line) for _, text in placed.labels for line in text) + 12
        name = wrap(self.x_label, width - left)
        canvas = Canvas(width, header.height + placed.height + (len(name) + 2) * LINE)
        header.draw(canvas, look)
        axes = canvas.axes(left, header.height, width - left - RIGHT, placed.height)
        axes.set_ylim(placed.height, 0)
        ticks = [y for y, _ in placed.labels]
        axes.set_yticks(ticks, ["\n".join(text) for _, text in placed.labels])
        axes.tick_params(axis="y", labelcolor=PALETTE["ink"], pad=6)
        axes.set_xlabel("\n".join(name))
        axes.grid(axis="x")
        axes.locator_params(axis="x", nbins=4 if width < 500 else 7)
        self.paint(axes, placed.at, look)
        return canvas.figure

    def _place(self, label_width: float) -> _Places:
        """Stack blocks: a group, or one row labelled with its arm where there is no group."""
        order = [arm.name for arm in self.arms]
        names = {arm.name: arm.text for arm in self.arms}
        groups = list(dict.fromkeys(row.group for row in self.rows))
        blocks: dict[tuple[str, str], list[Estimate | Bar]] = {}
        for row in sorted(self.rows, key=lambda r: (groups.index(r.group), order.index(r.arm))):
            blocks.setdefault((row.group, "" if row.group else row.arm), []).append(row)
        at, labels, y = [], [], GAP / 2
        for (group, arm), members in blocks.items():
            text = wrap(group or names[arm], label_width)
            height = max(len(members) * ROW, len(text) * LINE)
            top = y + (height - len(members) * ROW) / 2
            at += [(top + (n + 0.5) * ROW, row) for n, row in enumerate(members)]
            labels.append((y + height / 2, text))
            y += height + (GAP if group else GAP / 2)
        return _Places(at, labels, y)


class _Places(NamedTuple):
    """Rows and labels with their place in pixels below the axes' top."""

    at: list[tuple[float, Estimate | Bar]]
    labels: list[tuple[float, list[str]]]
    height: float


def _paint_intervals(
    axes: Axes,
    at: list[tuple[float, Estimate]],
    look: Mapping[str, Look],
    *,
    reference: float | None,
) -> None:
    if reference is not None:
        axes.axvline(reference, color=PALETTE["muted"], linewidth=1, zorder=1)
    for y, e in at:
        style = look[e.arm]
        axes.plot([e.low, e.high], [y, y], color=style.color, linewidth=style.width)
        axes.plot([e.value], [y], **style.point)


def _paint_bars(axes: Axes, at: list[tuple[float, Bar]], look: Mapping[str, Look]) -> None:
    for y, bar in at:
        axes.barh(y, bar.value, height=ROW - 4, color=look[bar.arm].color)
        axes.annotate(
            f"{bar.value:,}" if isinstance(bar.value, int) else f"{bar.value:.3g}",
            xy=(bar.value, y),
            xytext=(3, -0.5),
            textcoords="offset points",
            va="center",
        )
    axes.set_xlim(0, max(max(bar.value for _, bar in at) * 1.02, 1e-12))
