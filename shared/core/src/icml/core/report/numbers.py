"""Numbers for people: as many digits as the interval or the column gives a meaning to."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from icml.core.summary import Cell

MINUS = "\N{MINUS SIGN}"
SHORT = 3
"""Significant digits up to which a number is printed as it is."""


def _decimals(size: float, digits: int) -> int:
    """Return the decimals that show ``digits`` significant digits of a number of this size."""
    if size == 0 or not math.isfinite(size):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(size)))


def _plain(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "∞", "-inf": MINUS + "∞"}[str(value)]
    # Adding 0.0 turns a rounded -0.0 into 0.0.
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", MINUS)


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.{SHORT - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)


def number(value: float) -> str:
    """Write one number on its own: whole ones in full, others with three significant digits.

    Example:
        >>> number(1234567), number(0.28351), number(0.00031), number(3.0), number(2.5e9)
        ('1,234,567', '0.284', '0.00031', '3', '2,500,000,000')
    """
    if not math.isfinite(value):
        return _plain(value, 0)
    if value == int(value) and abs(value) < 1e15:
        return _plain(value, 0)
    if not 1e-4 <= abs(value) < 1e7:
        return _scientific(value)
    text = _plain(value, _decimals(abs(value), SHORT))
    return re.sub(r"0+$", "", text).rstrip(".") if "." in text else text


def with_interval(value: float, interval: tuple[float, float] | None) -> str:
    """Write a value and its interval with two significant digits of the interval's half width.

    Example:
        >>> with_interval(0.28312, (0.2289, 0.3371))
        '0.283 [0.229, 0.337]'
    """
    if interval is None:
        return number(value)
    low, high = interval
    half = (high - low) / 2
    shown = max(abs(value), abs(low), abs(high))
    if not math.isfinite(half) or half == 0 or not 1e-4 <= shown < 1e7 or half < 1e-6:
        return f"{number(value)} [{number(low)}, {number(high)}]"
    decimals = _decimals(half, 2)
    return f"{_plain(value, decimals)} [{_plain(low, decimals)}, {_plain(high, decimals)}]"


def column(values: Sequence[Cell]) -> list[str]:
    """Write a table's column: short numbers as they are, others with the same decimals.

    Example:
        >>> column([0.0003, 0.001, None]), column([0.61234, 10.5]), column([True, 1200])
        (['0.0003', '0.001', 'n/a'], ['0.61', '10.50'], ['yes', '1,200'])
    """
    floats = [v for v in values if isinstance(v, float) and math.isfinite(v)]
    largest = max(map(abs, floats), default=0.0)
    smallest = min((abs(v) for v in floats if v), default=1.0)
    own = all(number(v).replace(",", "").replace(MINUS, "-") == f"{v:g}" for v in floats)
    spread = own or smallest < 1e-4 or largest >= 1e7
    # One decimal more than the largest needs, so that 0.61 keeps its two digits beside 10.5.
    decimals = _decimals(largest, SHORT) if largest < 10 else _decimals(largest, SHORT + 1)
    return [_cell(value, None if spread else decimals) for value in values]


def _cell(value: Cell, decimals: int | None) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return _plain(value, 0)
    return number(value) if decimals is None else _plain(value, decimals)


def duration(seconds: float) -> str:
    """Write a time span.

    Example:
        >>> duration(4.21), duration(252), duration(7320)
        ('4.2 s', '4 min 12 s', '2 h 2 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
