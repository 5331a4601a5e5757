"""Claims, tables and figures are checked as they are stated."""

import math
from pathlib import Path

import numpy as np
import pytest

from icml.core.errors import UserError
from icml.core.findings import Findings, file_name
from icml.core.stats import Interval


class Drawing:
    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def save(self, folder: Path, name: str) -> None:
        for kind in self.kinds:
            (folder / f"{name}.{kind}").write_text(kind)


@pytest.fixture
def findings(tmp_path) -> Findings:
    return Findings(tmp_path)


def test_a_claim_takes_numpy_numbers_and_infinite_ends(findings):
    claim = findings.claim(
        "gain", "It gains.", value=np.float64(0.5), interval=(0, math.inf), holds=np.bool_(True)
    )
    assert (claim.value, claim.interval, claim.holds) == (0.5, (0.0, math.inf), True)
    assert (claim.kind, claim.verdict) == ("required", "holds")


@pytest.mark.parametrize(
    ("value", "interval", "message"),
    [
        (math.nan, None, "claim 'gain' has a NaN"),
        (0.5, (math.nan, 1.0), "claim 'gain' has a NaN"),
        (0.5, (0.5, 0.0, 1.0), r"claim 'gain' has interval .*: give \(low, high\) alone"),
        (0.5, (1.0, 0.0), r"claim 'gain' has interval \(1\.0, 0\.0\): the lower end comes first"),
    ],
)
def test_a_claim_without_a_meaning_is_refused(findings, value, interval, message):
    with pytest.raises(ValueError, match=message):
        findings.claim("gain", "It gains.", value=value, interval=interval, holds=True)


def test_an_estimate_is_a_value_with_its_interval(findings):
    estimate = Interval(0.5, 0.25, math.inf)
    one = findings.claim("a", "A.", estimate=estimate, holds=True, kind="reported", paper="p")
    other = findings.claim(
        "b", "A.", value=0.5, interval=(0.25, math.inf), holds=True, kind="reported", paper="p"
    )
    assert one.model_copy(update={"id": "b"}) == other
    with pytest.raises(ValueError, match="claim 'c' has a NaN"):
        findings.claim("c", "C.", estimate=Interval(0.5, math.nan, 1.0), holds=True)


@pytest.mark.parametrize(
    "measured",
    [
        {},
        {"value": 0.5},
        {"interval": None},
        {"value": None, "interval": None},
        {"estimate": Interval(0.5, 0.0, 1.0), "value": 0.5},
        {"estimate": Interval(0.5, 0.0, 1.0), "interval": None},
        {"estimate": Interval(0.5, 0.0, 1.0), "value": 0.5, "interval": (0.0, 1.0)},
    ],
    ids=repr,
)
def test_what_was_measured_is_given_in_one_way(findings, measured):
    with pytest.raises(ValueError, match="'a' needs either an estimate, or a value and its"):
        findings.claim("a", "A.", **measured, holds=True)


def test_names_are_unique_among_claims_tables_and_figures(findings):
    findings.claim("a", "A.", value=1, interval=None, holds=True)
    findings.table("a", [{"x": 1}], caption="")
    findings.figure("a", Drawing("svg", "csv"), caption="")
    with pytest.raises(ValueError, match="the claim 'a' is there already"):
        findings.claim("a", "A.", value=1, interval=None, holds=True)
    with pytest.raises(ValueError, match="the table 'a' is there already"):
        findings.table("a", [{"x": 1}], caption="")
    with pytest.raises(ValueError, match="the figure 'a' is there already"):
        findings.figure("a", Drawing("svg", "csv"), caption="")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "table 't' has no rows"),
        ([{"x": 1, "y": 2}, {"x": 1}], r"row 1 of table 't' has columns \['x'\]"),
        ([{"x": 1}, {"x": 1, "y": 2}], r"row 1 of table 't' has columns \['x', 'y'\]"),
    ],
)
def test_a_table_whose_rows_differ_is_refused(findings, rows, message):
    with pytest.raises(ValueError, match=message):
        findings.table("t", rows, caption="")


def test_a_table_cell_that_is_no_number_or_string_is_refused(findings):
    with pytest.raises(TypeError, match="row 0 of table 't', 'x' is a list"):
        findings.table("t", [{"x": [1]}], caption="")


def test_a_figure_that_saves_no_csv_is_refused(findings):
    with pytest.raises(ValueError, match=r"figure 'f' did not save figures/f\.csv"):
        findings.figure("f", Drawing("svg"), caption="")


def test_a_figure_that_cannot_be_written_is_one_sentence(findings, tmp_path):
    (tmp_path / "figures").write_text("a file in the way")
    with pytest.raises(UserError, match=r"cannot write .*figures/f: "):
        findings.figure("f", Drawing("svg", "csv"), caption="")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", ".hidden", "a b", "é", "a\n"])
def test_names_that_are_no_plain_file_name_are_refused(name):
    with pytest.raises(ValueError, match="cannot be a file name"):
        file_name(name)


def test_plain_file_names_pass():
    assert file_name("select_gdpo-lr=1e-3+seed=1.0") == "select_gdpo-lr=1e-3+seed=1.0"
