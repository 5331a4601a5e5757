"""Crash reports, comparisons and bugs as lines for a reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import ParamSpec

from icml.kenv.models import (
    CrashReport,
    Equivalence,
    Frame,
    PublicBug,
    RunResult,
    Verdict,
)

_MOST_FRAMES = 12

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff]"
)
"""Controls, invisible marks, directions, halves of characters."""

_Arguments = ParamSpec("_Arguments")


def visible(text: str) -> str:
    """Replace what steers a terminal, or makes a line read as another one."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def for_terminals(
    lines: Callable[_Arguments, Iterator[str]],
) -> Callable[_Arguments, Iterator[str]]:
    """Make the lines of untrusted text safe to print."""

    @wraps(lines)
    def shown(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Iterator[str]:
        return map(visible, lines(*args, **kwargs))

    return shown


@for_terminals
def report_lines(reports: Sequence[CrashReport]) -> Iterator[str]:
    """Yield what the reports say: titles, circumstances, and the certain frames."""
    if not reports:
        yield "no crash"
    for number, report in enumerate(reports, 1):
        yield f"{number}. {report.title}"
        for other in report.alt_titles:
            yield f"   also called {other}"
        if report.comm is not None:
            yield f"   in {report.comm} (process {report.pid})"
        facts = [
            *(["it ended in a panic"] if report.panicked else []),
            *(["the report is incomplete"] if report.corrupted else []),
        ]
        yield f"   lines {report.start + 1}-{report.end}" + "".join(f", {fact}" for fact in facts)
        for name, frames in report.stacks.items():
            certain = [frame for frame in frames if not frame.question]
            yield f"   {name}: " + " < ".join(_frame(f) for f in certain[:_MOST_FRAMES])


def _frame(frame: Frame) -> str:
    return f"{frame.func} [{frame.module}]" if frame.module else frame.func


@for_terminals
def equivalence_lines(found: Equivalence) -> Iterator[str]:
    """Yield an answer, what it rests on, and the scores, which prove nothing."""
    yield f"{found.answer} ({found.evidence.replace('_', ' ')})"
    if found.witness:
        yield f"  {found.witness}"
    if found.votes:
        yield "  votes: " + ", ".join(f"{count} {name}" for name, count in found.votes.items())
    if found.scores is not None:
        for name, score in found.scores.model_dump().items():
            shown = "-" if score is None else f"{score:.2f}"
            yield f"  {name.replace('_', ' '):17} {shown}"


@for_terminals
def bug_lines(bug: PublicBug) -> Iterator[str]:
    """Yield what is public of a bug."""
    yield f"{bug.id}: {bug.title}"
    yield f"  kernel      {bug.source.ref} {bug.source.version}"
    yield f"  source      {bug.directory}"
    yield f"  modules     {', '.join(bug.modules) or 'none'}"
    for other in bug.alt_titles:
        yield f"  also called {other}"
    yield ""
    yield from bug.crash_report.rstrip().splitlines()


@for_terminals
def run_lines(run: RunResult) -> Iterator[str]:
    """Yield what one boot came to and what the reproducer saw."""
    state = "ran to its end" if run.finished else "booted" if run.booted else "did not boot"
    seen = run.crash.title if run.crash else run.infra or "no crash"
    yield f"{seen} ({state}, {run.seconds:.1f} s)"
    for line in run.transcript or []:
        yield f"  {line}"
    if run.console is not None:
        yield f"  console: {run.console}"


@for_terminals
def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield a verdict, what it rests on, and how the patch relates to the developers' fix."""
    marks = [
        *(["recorded: nothing ran"] if verdict.recorded else []),
        *([] if verdict.verified else ["unverified backend"]),
    ]
    yield verdict.kind + "".join(f" [{mark}]" for mark in marks)
    if verdict.reason:
        yield f"  {verdict.reason}"
    if verdict.plausible and verdict.false_plausible_bound is not None:
        bound = verdict.false_plausible_bound
        yield f"  a patch that changes nothing passes with a chance of at most {bound:.2g}"
    if verdict.build is not None:
        kept = ", kept" if verdict.build.cache_hit else ""
        yield f"  build {verdict.build.seconds:.1f} s{kept}"
    if verdict.runs:
        seconds = ", ".join(f"{run.seconds:.1f}" for run in verdict.runs)
        yield f"  {len(verdict.runs)} boots with {verdict.backend} ({seconds} s)"
    if verdict.isolation:
        yield f"  isolation: {verdict.isolation}"
    if verdict.equivalence is not None:
        yield "compared with the developers' fix:"
        yield from (f"  {line}" for line in equivalence_lines(verdict.equivalence))
