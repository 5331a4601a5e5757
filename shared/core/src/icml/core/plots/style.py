"""Colours by role, text in CSS pixels, and SVG whose bytes depend on the input alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Role = Literal["baseline", "ours", "other"]

WIDE, NARROW = 760, 340
"""Widths of the two drawings in CSS pixels: a page's text column, and a phone."""

PALETTE = {
    "ink": "#1d1f22",
    "muted": "#5b6067",
    "grid": "#e2e2de",
    "paper": "#ffffff",
    "baseline": "#737373",
    "ours": "#0072b2",
    "other-1": "#9a3200",
    "other-2": "#00503c",
    "other-3": "#5a1a48",
    "other-4": "#8c7020",
}
"""The hues of Okabe and Ito, darkened to a contrast of 4.5 on white, so that labels can have them
too, each to another depth, so that they stay apart for the colour-blind. The report replaces each
by the CSS variable ``--plot-<name>``, so that a dark page can redraw them."""

DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v")

_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "icml",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.parse_math": False,
    "text.color": PALETTE["ink"],
    "axes.labelcolor": PALETTE["muted"],
    "axes.edgecolor": PALETTE["muted"],
    "axes.linewidth": 0.75,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "xtick.color": PALETTE["muted"],
    "ytick.color": PALETTE["muted"],
    "ytick.major.size": 0.0,
    "grid.color": PALETTE["grid"],
    "grid.linewidth": 0.75,
}


class Arm(NamedTuple):
    """One of the things compared: the same role has the same colour in every figure."""

    name: str
    role: Role = "other"
    label: str = ""

    @property
    def text(self) -> str:
        """What the figure calls it: the label, or the name where there is none."""
        return self.label or self.name

    @property
    def weight(self) -> str:
        """Font weight of its label: ours stands out."""
        return "bold" if self.role == "ours" else "normal"


class Look(NamedTuple):
    """How an arm is drawn: never told apart by colour alone."""

    color: str
    dashes: str | tuple[float, tuple[float, ...]]
    marker: str
    width: float

    @property
    def line(self) -> dict[str, Any]:
        """Settings of its line."""
        return {"color": self.color, "linestyle": self.dashes, "linewidth": self.width}

    @property
    def point(self) -> dict[str, Any]:
        """Settings of its marker."""
        return {"color": self.color, "marker": self.marker, "markersize": 5, "linestyle": "none"}


def looks(arms: Sequence[Arm]) -> dict[str, Look]:
    """Give each arm its colour, dashes and marker.

    Raises:
        ValueError: If there is no arm, a name is used twice, two arms are the baseline or ours,
            or there are more others than colours.
    """
    roles = [arm.role for arm in arms]
    others = [arm.name for arm in arms if arm.role == "other"]
    if not arms or len({arm.name for arm in arms}) < len(arms):
        raise ValueError(f"arms need different names, at least one; got {[a.name for a in arms]}")
    if roles.count("baseline") > 1 or roles.count("ours") > 1:
        raise ValueError(f"at most one arm is the baseline and one is ours, got roles {roles}")
    if len(others) > 4:
        raise ValueError(f"at most 4 arms with role 'other' can be told apart, got {len(others)}")
    fixed = {"baseline": Look(PALETTE["baseline"], "solid", "o", 1.5)}
    fixed["ours"] = Look(PALETTE["ours"], "solid", "D", 2.25)
    result = {}
    for arm in arms:
        if arm.role == "other":
            n = others.index(arm.name) + 1
            result[arm.name] = Look(PALETTE[f"other-{n}"], DASHES[n], MARKERS[n], 1.5)
        else:
            result[arm.name] = fixed[arm.role]
    return result


@dataclass(frozen=True)
class Plot:
    """A figure that can be drawn at any width, and the numbers it is drawn from."""

    title: str
    alt: str
    """What the figure shows, for a reader who can't see it."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    draw: Callable[[int], Figure]
    """Width in CSS pixels -> matplotlib figure; call it within `own_settings`."""

    def csv(self) -> str:
        """Return the drawn numbers as CSV, floats in the shortest form that reads back equal."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        return text.getvalue()

    def svg(self, width: int = WIDE) -> str:
        """Return the drawing, ``width`` CSS pixels wide."""
        text = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with own_settings():
            self.draw(width).savefig(text, format="svg", metadata=nothing)
        label = escape(f"{self.title}. {self.alt}")
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join([*lines, ""]).replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)

    def save(self, folder: Path, name: str) -> None:
        """Write ``<name>.svg``, ``<name>.narrow.svg`` (for phones) and ``<name>.csv``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(self.svg(WIDE), encoding="utf-8", newline="\n")
        narrow = folder / f"{name}.narrow.svg"
        narrow.write_text(self.svg(NARROW), encoding="utf-8", newline="\n")
        (folder / f"{name}.csv").write_text(self.csv(), encoding="utf-8", newline="\n")


@contextmanager
def own_settings() -> Generator[None]:
    """Use our settings alone, whatever the user's matplotlibrc says; put them back after."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield
