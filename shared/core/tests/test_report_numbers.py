"""How the report writes numbers: digits, intervals, and what reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.report import numbers
from icml.core.report.views import grid
from icml.core.stats import Interval
from icml.core.summary import Table


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (0.28312, (0.2289, 0.3371), "0.283 [0.229, 0.337]"),
        (-0.0352, (-0.0911, 0.0207), "-0.035 [-0.091, 0.021]"),
        (1234.5, (1200.1, 1301.0), "1,234 [1,200, 1,301]"),
        (5.0, (4.0, 6.0), "5.0 [4.0, 6.0]"),
        (0.5, (0.5, 0.5), "0.5 [0.5, 0.5]"),
        (2e-7, (1e-7, 3e-7), "2e-7 [1e-7, 3e-7]"),
        (-0.00004, (-0.004, 0.004), "0.0000 [-0.0040, 0.0040]"),
        (1.0, (float("-inf"), float("inf")), "1 [-\N{INFINITY}, \N{INFINITY}]"),
        (float("nan"), None, "NaN"),
        (10.0, None, "10"),
        (0.00002, None, "2e-5"),
        (0.1 + 0.2, None, "0.3"),
    ],
)
def test_a_value_has_the_digits_its_interval_gives_a_meaning_to(value, interval, text):
    assert numbers.with_interval(value, interval).replace(numbers.MINUS, "-") == text


FINITE = st.floats(-1e9, 1e9)


@given(FINITE)
def test_a_number_reads_back_within_half_a_unit_of_its_third_digit(value):
    back = float(numbers.number(value).replace(",", "").replace(numbers.MINUS, "-"))
    assert back == pytest.approx(value, rel=0.5e-2 + 1e-9)


@given(st.lists(FINITE, min_size=1, max_size=6))
def test_a_column_of_numbers_reads_back_within_its_last_digit(values):
    for value, text in zip(values, numbers.column(values), strict=True):
        plain = text.replace(",", "").replace(numbers.MINUS, "-")
        digits = len(plain.partition(".")[2])
        assert float(plain) == pytest.approx(value, rel=0.5e-2 + 1e-9, abs=0.51 * 10**-digits)


def test_the_columns_of_an_interval_are_shown_as_one_with_its_limits():
    found = Interval(0.5, 0.25, 0.75)
    row = {"arm": "ours"} | found.columns("success")
    table = Table(name="t", caption="", columns=list(row), rows=[list(row.values())])
    arm, success = grid(table).columns
    assert arm.name == "arm"
    assert success == ("success", [numbers.with_interval(0.5, (0.25, 0.75))], True)
