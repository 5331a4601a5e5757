"""The Pareto picture: success against tokens, a point an arm, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from icml.core.plots.layout import Canvas, Header
from icml.core.plots.style import NARROW, PALETTE, Arm, Plot, looks

if TYPE_CHECKING:
    from icml.core.stats import Interval

__all__ = ["Spot", "pareto"]

X_LABEL = "tokens read and written, of a successful episode"
Y_LABEL = "success rate"


class Spot(NamedTuple):
    """Where an arm stands."""

    tokens: Interval
    success: Interval


def pareto(spots: Mapping[str, Spot], *, title: str, arms: Sequence[Arm], note: str) -> Plot:
    """Draw each arm at its tokens and success; high and left is good.

    Args:
        spots: By the arm's name; an arm without one isn't drawn.
        title: The claim that the figure supports.
        arms: In the order of the key.
        note: What the intervals are.
    """
    shown = [arm for arm in arms if arm.name in spots]
    said = [
        f"{arm.text}: {spots[arm.name].tokens.estimate:.4g} tokens, success "
        f"{spots[arm.name].success.estimate:.3g}"
        for arm in shown
    ]
    return Plot(
        title=title,
        alt=f"{Y_LABEL} against {X_LABEL}. {note}. {'; '.join(said)}.",
        columns=("arm", "tokens", "low", "high", "success", "success low", "success high"),
        rows=tuple((arm.name, *spots[arm.name].tokens, *spots[arm.name].success) for arm in shown),
        draw=_Pareto(spots, title, shown, note).draw,
    )


@dataclass(frozen=True)
class _Pareto:
    spots: Mapping[str, Spot]
    title: str
    arms: Sequence[Arm]
    note: str

    def draw(self, width: int) -> Any:
        header = Header(width, self.title, self.note, self.arms)
        look = looks(self.arms)
        height = 190 if width <= NARROW else 260
        canvas = Canvas(width, header.height + height + 70)
        header.draw(canvas, look)
        axes = canvas.axes(44, header.height + 24, width - 60, height)
        for arm in self.arms:
            tokens, success = self.spots[arm.name]
            style = look[arm.name]
            across = [tokens.low, tokens.high], [success.estimate] * 2
            along = [tokens.estimate] * 2, [success.low, success.high]
            for ends in (across, along):
                axes.plot(*ends, color=style.color, linewidth=style.width)
            axes.plot([tokens.estimate], [success.estimate], **style.point)
        axes.grid(axis="both")
        axes.set_ylim(-0.03, 1.06)
        axes.set_xlabel(X_LABEL)
        axes.set_ylabel(Y_LABEL, rotation=0, ha="left", va="bottom", color=PALETTE["ink"])
        axes.yaxis.set_label_coords(-44 / (width - 60), 1 + 6 / height)
        return canvas.figure
