"""Where things stand in a figure, in CSS pixels from its top left corner."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icml.core.plots.style import PALETTE, Arm, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXT, TITLE = 12, 14.5
"""Sizes of letters, in CSS pixels."""
LINE = 16
"""Height of a line of text, in CSS pixels."""


def text_width(text: str, *, bold: bool = False, size: float = TEXT) -> float:
    """Return the width of one line in DejaVu Sans, which is wider than what browsers use."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal", size=size)
    return TextToPath().get_text_width_height_descent(text, font, False)[0]


def wrap(text: str, width: float, *, bold: bool = False, size: float = TEXT) -> list[str]:
    """Break a text into lines of at most ``width`` pixels where its words allow."""
    letters = max(8, int(width / max(text_width("abcdefgh", bold=bold, size=size) / 8, 1)))
    return textwrap.wrap(text, letters, break_long_words=False) or [""]


class Canvas:
    """A figure that grows downwards: a header, then the axes placed by pixel."""

    def __init__(self, width: int, height: float) -> None:
        """Make an empty figure of this size."""
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / 96, height / 96), facecolor=PALETTE["paper"])

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add axes whose frame is this rectangle."""
        bottom = self.height - top - height
        w, h = self.width, self.height
        return self.figure.add_axes((left / w, bottom / h, width / w, height / h))

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write a text whose middle line is at ``y``."""
        at = (x / self.width, 1 - y / self.height)
        self.figure.text(*at, text, va="center", **style)

    def swatch(self, x: float, y: float, look: Look) -> None:
        """Draw the sample of an arm's line and marker."""
        from matplotlib.lines import Line2D

        xs = [x / self.width, (x + 18) / self.width]
        ys = [1 - y / self.height] * 2
        self.figure.add_artist(Line2D(xs, ys, **look.line))
        middle = [(x + 9) / self.width]
        self.figure.add_artist(Line2D(middle, ys[:1], **look.point))


class Header:
    """The claim, a note on what is drawn and, where arms aren't labelled in place, their key."""

    def __init__(self, width: int, title: str, note: str, key: Sequence[Arm]) -> None:
        """Break the texts for this width."""
        self.title = wrap(title, width - 8, bold=True, size=TITLE)
        self.note = wrap(note, width - 8) if note else []
        self.key: list[tuple[float, int, Arm]] = []
        x, row = 0.0, 0
        for arm in key:
            needed = 24 + text_width(arm.text, bold=arm.role == "ours")
            if x and x + needed > width:
                x, row = 0.0, row + 1
            self.key.append((x, row, arm))
            x += needed + 18
        self._key_rows = row + 1 if key else 0

    @property
    def height(self) -> float:
        """Pixels from the top of the figure to where the axes' part starts."""
        return len(self.title) * 19 + (len(self.note) + self._key_rows) * LINE + 14

    def draw(self, canvas: Canvas, looks: Mapping[str, Look]) -> None:
        """Write the header at the top of the canvas."""
        y = 10.0
        for line in self.title:
            canvas.text(0, y, line, fontsize=TITLE * 0.75, weight="bold")
            y += 19
        for line in self.note:
            canvas.text(0, y, line, color=PALETTE["muted"])
            y += LINE
        for x, row, arm in self.key:
            look, middle = looks[arm.name], y + 2 + row * LINE
            canvas.swatch(x, middle, look)
            canvas.text(x + 24, middle, arm.text, color=look.color, weight=arm.weight)


def spread(wanted: Sequence[float], heights: Sequence[float], room: float) -> list[float]:
    """Move labels apart so that none covers another, each as near its place as that allows.

    Args:
        wanted: Where the middle of each label should be, in pixels.
        heights: Height of each label, in pixels.
        room: The labels stay within 0..room where they fit.

    Returns:
        The middles, in the order of ``wanted``.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    floor = 0.0
    for i in order:
        placed[i] = max(wanted[i], floor + heights[i] / 2)
        floor = placed[i] + heights[i] / 2
    ceiling = max(room, sum(heights))
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling - heights[i] / 2)
        ceiling = placed[i] - heights[i] / 2
    return placed
