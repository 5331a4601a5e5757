"""``icml <paper> reproduce``: one driver for the experiments of all papers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.summary import Claim, Summary

INTERRUPTED = 130  # 128 + SIGINT, what a shell reports after Ctrl-C


@dataclass(frozen=True)
class ReproduceOptions:
    """How to run a paper's experiment."""

    quick: bool = False
    """Run the small size: done within two minutes, with wider intervals."""
    slow: bool = False
    """Run the big size, where the paper has one."""
    out: Path | None = None
    """Folder of the run; None is runs/<paper>/<size>. The same folder continues the run."""
    fresh: bool = False
    """Start again; what is in the folder is moved aside, not deleted."""
    strict: bool = False
    """Exit with 1 if a required claim fails."""

    def __post_init__(self) -> None:
        """Refuse two sizes at once."""
        if self.quick and self.slow:
            raise ValueError("--quick and --slow exclude each other: give one of them")

    @property
    def size(self) -> str:
        """The size asked for: "quick", "default" or "slow"."""
        return "quick" if self.quick else "slow" if self.slow else "default"


def reproduce(
    paper: str,
    *,
    title: str,
    sizes: Mapping[str, Any],
    experiment: Callable[[Any, Run], None],
    options: ReproduceOptions,
) -> int:
    """Run or continue a paper's experiment, render its report, and say what came out.

    A finished run is not computed again: its claims and its report's path are printed anew.

    Args:
        paper: The paper's command, such as ``gdpo``.
        title: Title of the report.
        sizes: The experiment's config (a frozen dataclass) by size: "quick", "default" and,
            where there is one, "slow".
        experiment: Computes the tables, figures and claims of the run that it is given.
        options: What the user asked for.

    Returns:
        0 if the run finished, 1 if under ``strict`` a required claim failed, 130 if it was
        interrupted; then the command that continues it is printed.

    Raises:
        UserError: If the paper has no run of that size, or the run's folder holds a run with
            another config or is in use.
    """
    if options.size not in sizes:
        raise UserError(f"{paper} has no --{options.size} run; its sizes: {', '.join(sizes)}")
    command = continuing_command(paper, options)
    try:
        folder, summary = _complete(paper, title, sizes[options.size], experiment, options)
        print("\n".join(["", *conclusion(summary), "", f"report: {_report(folder)}"]))
    except KeyboardInterrupt:
        sys.stdout.flush()
        kept = "Interrupted; what was finished is kept. Continue with"
        print(f"\n{kept}\n  {command}", file=sys.stderr)
        return INTERRUPTED
    return 1 if options.strict and summary.failed else 0


def continuing_command(paper: str, options: ReproduceOptions) -> str:
    """Return the command line that continues the run which ``options`` started.

    Example:
        >>> continuing_command("gdpo", ReproduceOptions(quick=True, fresh=True, out=Path("a b")))
        "icml gdpo reproduce --quick --out 'a b'"
    """
    return shlex.join(["icml", *arguments(paper, options)])


def arguments(paper: str, options: ReproduceOptions) -> list[str]:
    """Return the arguments of ``icml`` that continue the run which ``options`` started."""
    flags = [f"--{name}" for name in ("quick", "slow", "strict") if getattr(options, name)]
    out = ["--out", str(options.out)] if options.out is not None else []
    return [paper, "reproduce", *flags, *out]  # not --fresh, which would start again


def conclusion(summary: Summary) -> list[str]:
    """Return the lines that say how the claims came out, required ones first.

    Each line has the verdict in words, the statement, and the measured value with its
    interval. A failed required claim is repeated at the end in plain words.
    """
    claims = sorted(summary.claims, key=lambda claim: claim.kind != "required")
    lines = [line for claim in claims for line in _claim_lines(claim)]
    if wrong := summary.failed:
        count = sum(claim.kind == "required" for claim in claims)
        names = ", ".join(claim.id for claim in wrong)
        lines += ["", f"{len(wrong)} of {count} required claims FAILED: {names}"]
    return lines or ["This run makes no claim."]


def _complete(
    paper: str,
    title: str,
    config: Any,
    experiment: Callable[[Any, Run], None],
    options: ReproduceOptions,
) -> tuple[Path, Summary]:
    """Bring the run to its end, if it is not there yet; return its folder and what it found."""
    from icml.core.experiment import Run

    with Run.open(
        paper,
        config,
        size=options.size,
        title=title,
        out=options.out,
        fresh=options.fresh,
        command=continuing_command(paper, options),
    ) as run:
        state = "already finished in" if run.finished else "in"
        print(f"{paper}, {options.size} size, {state} {run.dir}", flush=True)
        if not run.finished:
            experiment(config, run)
        return run.dir, run.finish()


def _report(folder: Path) -> Path:
    """Return the absolute path of the run's report, rendered anew.

    Rendering takes a moment and a report from an older version may look different, so even a
    finished run gets the report of the version at hand.
    """
    from icml.core.report import write_report

    return write_report(folder).resolve()


def _claim_lines(claim: Claim) -> Sequence[str]:
    from shutil import get_terminal_size
    from textwrap import wrap

    from icml.core.report.numbers import with_interval

    measured = with_interval(claim.value, claim.interval)
    text = f"{claim.verdict}: {claim.statement} ({measured})"
    return wrap(text, get_terminal_size().columns, initial_indent="- ", subsequent_indent="  ")
