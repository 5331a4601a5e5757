"""Small drawings for the dashboard as SVG text: everything written into them is a number of ours.

Colours are classes that the page's style sheet knows, so that a dark page redraws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from markupsafe import Markup, escape

from icml.kenv.cutoff import Rate

FEW = 5
"""A month with fewer bugs is drawn pale and without its interval, which would fill the panel."""


class Size(NamedTuple):
    """Of a drawing of months, in CSS pixels."""

    width: int
    height: int
    every: int
    """Months from one label to the next."""


WIDE, NARROW = Size(760, 190, 3), Size(340, 170, 6)
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 22, 24
_SERIES = (("plausible", -2.5), ("equivalent", 2.5))
"""Class and shift in pixels, so that the two do not cover each other."""


def interval_bar(rate: Rate, name: str) -> Markup:
    """Draw a rate as a bar from 0 to 1 with its interval as a line."""
    estimate, low, high = (100 * value for value in rate.interval)
    return Markup(
        f'<svg class="rate {name}" viewBox="0 0 100 10" preserveAspectRatio="none" '
        'aria-hidden="true" focusable="false">'
        '<rect class="track" width="100" height="10"/>'
        f'<rect class="fill" width="{estimate:.1f}" height="10"/>'
        f'<rect class="whisker" x="{low:.1f}" y="4" width="{max(high - low, 0.4):.1f}" height="2"/>'
        "</svg>"
    )


def months_chart(
    months: Sequence[tuple[date, Rate, Rate]],
    *,
    first: date,
    last: date,
    cutoff: date | None,
    size: Size,
    label: str,
) -> Markup:
    """Draw two rates against the month of the fix, with a line at the knowledge cutoff.

    Args:
        months: First day, plausible, equivalent.
        first: First day of the first month on the axis.
        last: First day of the last one.
        cutoff: The model's last day, drawn where it lies on the axis.
        size: Of the drawing.
        label: What a screen reader says of it.
    """
    return Markup("").join(_Chart(size, first, last).parts(months, cutoff, label))


class _Chart:
    def __init__(self, size: Size, first: date, last: date) -> None:
        self.size, self.first = size, first
        self.count = _months(first, last) + 1
        self.step = (size.width - _LEFT - _RIGHT) / self.count

    def x(self, day: date) -> float:
        """Return the place of a day; a month's rates stand in its middle."""
        return _LEFT + (_months(self.first, day) + (day.day - 1) / 31) * self.step

    def y(self, rate: float) -> float:
        return _TOP + (1 - rate) * (self.size.height - _TOP - _BOTTOM)

    def parts(
        self, months: Sequence[tuple[date, Rate, Rate]], cutoff: date | None, label: str
    ) -> list[Markup]:
        width, height = self.size.width, self.size.height
        return [
            Markup(
                '<svg class="months" role="img" viewBox="0 0 {} {}" width="{}" height="{}" '
                'aria-label="{}">'
            ).format(width, height, width, height, label),
            *self._grid(),
            *(self._cutoff(cutoff) if cutoff is not None else []),
            *self._series(months),
            Markup("</svg>"),
        ]

    def _grid(self) -> list[Markup]:
        right, parts = self.size.width - _RIGHT, []
        for share in (0, 0.5, 1):
            y = self.y(share)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{share:.0%}</text>')
        # No label so near the end that it would leave the drawing.
        for n in range(0, self.count, self.size.every):
            year, month = divmod(self.first.year * 12 + self.first.month - 1 + n, 12)
            x = _LEFT + (n + 0.5) * self.step
            name = f"{date(year, month + 1, 1):%b}"
            text = f"{name} {year}" if n == 0 or month < self.size.every else name
            if x + len(text) * 3.4 < self.size.width:
                y = self.size.height - 6
                parts.append(f'<text class="middle" x="{x:.1f}" y="{y}">{text}</text>')
        return [Markup(part) for part in parts]

    def _cutoff(self, day: date) -> list[Markup]:
        x = self.x(day)
        if not _LEFT <= x <= self.size.width - _RIGHT:
            return []
        left = x > self.size.width / 2
        text = f'class="{"end" if left else ""} mark" x="{x + (-5 if left else 5):.1f}"'
        bottom = self.size.height - _BOTTOM
        return [
            Markup(f'<rect class="past" x="{_LEFT}" y="{_TOP}" width="{x - _LEFT:.1f}" '
                   f'height="{bottom - _TOP}"/>'),
            Markup(f'<path class="cutoff" d="M{x:.1f} {_TOP - 14}V{bottom}"/>'),
            Markup(f'<text {text} y="{_TOP - 8}">cutoff {escape(day)}</text>'),
        ]  # fmt: skip

    def _series(self, months: Sequence[tuple[date, Rate, Rate]]) -> list[Markup]:
        parts = []
        for index, (name, shift) in enumerate(_SERIES):
            for month, *rates in months:
                rate = rates[index]
                x = self.x(month) + self.step / 2 + shift
                y, few = self.y(rate.interval.estimate), rate.bugs < FEW
                drawn = _circle(x, y) if index == 0 else _diamond(x, y)
                whisker = "" if few else (
                    f'<path d="M{x:.1f} {self.y(rate.interval.high):.1f}'
                    f'V{self.y(rate.interval.low):.1f}"/>'
                )  # fmt: skip
                told = f"{month:%b %Y}: {rate.interval.estimate:.0%} {name}, {rate.bugs} bugs"
                parts.append(
                    Markup(
                        f'<g class="{name}{" few" if few else ""}"><title>{told}</title>'
                        f"{whisker}{drawn}</g>"
                    )
                )
        return parts


def _circle(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>'


def _diamond(x: float, y: float) -> str:
    return f'<path class="dot" d="M{x:.1f} {y - 4:.1f}l4 4l-4 4l-4 -4z"/>'


def _months(first: date, day: date) -> int:
    return (day.year - first.year) * 12 + day.month - first.month
