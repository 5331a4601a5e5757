"""From builds and runs to a verdict: how many runs it takes, and what they say. Nothing runs here.

**Differs from the paper:** the authors' code runs every patch 25 times and calls it plausible if
nothing crashed, also where the kernel never booted. Here a run counts only if it booted and then
crashed or ended, and the number of runs follows from how often the unpatched kernel crashes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from icml.core.errors import UserError
from icml.kenv.models import Baseline, BuildResult, CrashReport, RunResult, VerdictKind

FEWEST_RUNS, MOST_RUNS = 3, 25
"""Of a patched kernel; 25 is the number of the authors' code."""

WANTED_BOUND = 0.01
"""Chance of passing that a patch which changes nothing is left with (ours)."""

RETRIES = 2
"""Of a run that doesn't count."""


class ReproducerDoesNotReproduce(UserError):
    """The unpatched kernel never crashed: whatever a patch does, nothing can be said about it."""


class Plan(NamedTuple):
    """How often a patched kernel has to run."""

    runs: int
    """Valid runs without a crash that make a patch plausible."""
    crash_rate_low: float
    """Lower end of the 95 % Wilson interval of the unpatched kernel's crash rate."""

    @property
    def false_plausible_bound(self) -> float:
        """Chance at most that a patch which changes nothing passes all runs."""
        return (1 - self.crash_rate_low) ** self.runs


class Decision(NamedTuple):
    """A verdict's kind, the reason in a sentence, and the crash that decided it."""

    kind: VerdictKind
    reason: str
    crash: CrashReport | None = None


def plan_runs(crashes: int, runs: int, *, wanted: int | None = None) -> Plan:
    """Choose N, the smallest with ``(1 - p_L)^N <= 0.01``, from 3 to 25.

    Args:
        crashes: Valid baseline runs that crashed with the bug's title.
        runs: Valid baseline runs.
        wanted: N, where the caller chooses it; the bound then says what it is worth.

    Raises:
        ReproducerDoesNotReproduce: If no baseline run crashed.
        ValueError: If the counts or ``wanted`` make no sense.

    Example:
        >>> plan_runs(15, 15).runs, round(plan_runs(15, 15).false_plausible_bound, 4)
        (3, 0.0085)
    """
    from icml.core.stats import wilson

    if wanted is not None and wanted < 1:
        raise ValueError(f"runs must be at least 1, got {wanted}")
    if crashes == 0:
        raise ReproducerDoesNotReproduce(f"none of {runs} runs of the unpatched kernel crashed")
    low = wilson(crashes, runs).low
    if wanted is None:
        needed = math.ceil(math.log(WANTED_BOUND) / math.log1p(-low)) if low < 1 else 1
        wanted = min(max(needed, FEWEST_RUNS), MOST_RUNS)
    return Plan(wanted, low)


def freeze_baseline(
    backend: str,
    runs: Sequence[RunResult],
    titles: Sequence[str],
    *,
    fixed_transcript: Sequence[str] | None = None,
) -> Baseline:
    """Sum up the runs of the unpatched kernel, those alone that count.

    Raises:
        ReproducerDoesNotReproduce: If none counts, or none crashed with one of ``titles``.
    """
    valid = [run for run in runs if run.valid]
    same = sum(run.crash is not None and run.crash.matches(titles) for run in valid)
    if not same:
        seen = sorted({run.crash.title for run in valid if run.crash is not None})
        raise ReproducerDoesNotReproduce(
            f"{len(valid)} of {len(runs)} runs of the unpatched kernel count and none crashed with"
            f" {titles[0]!r}; titles seen: {', '.join(seen) or 'none'}"
        )
    counts = Counter(run.crash.title if run.crash is not None else "" for run in valid)
    return Baseline(
        backend=backend,
        runs=len(valid),
        crashes=same,
        titles=dict(counts),
        fixed_transcript=None if fixed_transcript is None else list(fixed_transcript),
    )


def decide_build(build: BuildResult) -> Decision | None:
    """Return the verdict of a build, None if there is something to boot."""
    if build.ok:
        return None
    if build.timed_out:
        return Decision("build_timeout", f"the build did not end in {build.seconds:.0f} s")
    first = build.errors[0] if build.errors else None
    place = f"{first.file}:{first.line}: " if first and first.file else ""
    return Decision("build_failed", f"{place}{first.message}" if first else "the build failed")


def decide_runs(
    runs: Sequence[RunResult], *, wanted: int, titles: Sequence[str]
) -> Decision | None:
    """Return the verdict of the runs so far, None if another run is needed.

    The first crash of a valid run decides. A run that doesn't count is tried again twice; three
    of them in a row end the evaluation: ``flaky`` if one of them booted, ``infra_error`` if none
    got as far as the kernel, else ``boot_failed``.

    Args:
        runs: In the order in which they ran.
        wanted: Valid runs without a crash that make a patch plausible.
        titles: The bug's title and its alternatives.
    """
    clean = 0
    failed: list[RunResult] = []
    for run in runs:
        if not run.valid:
            failed.append(run)
            if len(failed) > RETRIES:
                return _give_up(failed, clean, wanted)
            continue
        failed = []
        if run.crash is not None:
            if run.crash.matches(titles):
                return Decision("crash_same", f"it still crashes: {run.crash.title}", run.crash)
            return Decision("crash_other", f"another crash: {run.crash.title}", run.crash)
        clean += 1
        if clean >= wanted:
            return Decision("plausible", f"no crash in {clean} runs")
    return None


def _give_up(failed: Sequence[RunResult], clean: int, wanted: int) -> Decision:
    tries = f"{len(failed)} times in a row"
    if any(run.booted for run in failed):
        reason = f"it booted, but {tries} the reproducer neither ended nor crashed the kernel"
        return Decision("flaky", f"{reason} ({clean} of {wanted} runs were clean)")
    if all(run.infra is not None for run in failed):
        return Decision("infra_error", f"{tries}: {failed[-1].infra}")
    crash = next((run.crash for run in failed if run.crash is not None), None)
    what = f": {crash.title}" if crash else ""
    return Decision("boot_failed", f"the patched kernel did not boot, {tries}{what}", crash)
