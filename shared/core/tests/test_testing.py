from pathlib import Path

import pytest

from icml.core.testing import (
    check_help_is_light,
    check_interrupted_run_continues,
    check_is_light,
    check_report,
    check_reproduce,
)


def test_good_paper_passes(tally, tmp_path: Path) -> None:
    summary = check_reproduce("tally", tmp_path / "run")
    assert summary.config["cells"] == 2


def test_paper_with_a_failed_claim_does_not_pass(tally, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("broken", "yes")
    with pytest.raises(AssertionError, match="gauss"):
        check_reproduce("tally", tmp_path / "run")


def test_paper_that_crashes_does_not_pass(tally, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("crash", "yes")
    with pytest.raises(AssertionError, match="the abacus broke"):
        check_reproduce("tally", tmp_path / "run")


@pytest.mark.slow
def test_interrupted_run_ends_in_the_same_summary(tally, tmp_path: Path) -> None:
    whole = check_reproduce("tally", tmp_path / "whole", "--slow")
    check_interrupted_run_continues("tally", tmp_path / "cut", whole, "--slow", after=0.3)


def test_light_paper_passes(tally) -> None:
    check_help_is_light("tally")


def test_slow_command_does_not_pass(site) -> None:
    with pytest.raises(AssertionError, match="of processor time"):
        check_is_light(["--help"], seconds=0.001, env=site.env)


def test_heavy_paper_does_not_pass(site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("heavy", "import numpy\napp = {}")
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    with pytest.raises(AssertionError, match="numpy"):
        check_help_is_light("heavy")


@pytest.mark.parametrize(
    "body",
    [
        "<p>text</p><a href='https://arxiv.org/abs/2601.05242'>paper</a>",
        "<style>p { fill: url(#gradient) }</style>",
        "<img src='data:image/png;base64,AAAA'>",
        "<svg><use href='#glyph'/><path clip-path='url(#p1)'/></svg>",
    ],
)
def test_self_contained_report_passes(tmp_path: Path, body: str) -> None:
    page = tmp_path / "report.html"
    page.write_text(f"<!doctype html><html><body>{body}</body></html>")
    check_report(page)


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        "<p onclick='alert(1)'>text</p>",
        "<img src='http://example.org/a.png'>",
        "<img src='figures/a.svg'>",
        "<link rel='stylesheet' href='https://example.org/a.css'>",
        "<style>@import 'https://example.org/a.css';</style>",
        "<p style='background: url(https://example.org/a.png)'>text</p>",
        "",
    ],
)
def test_report_that_loads_or_runs_something_does_not_pass(tmp_path: Path, body: str) -> None:
    page = tmp_path / "report.html"
    page.write_text(body)
    with pytest.raises(AssertionError):
        check_report(page)
