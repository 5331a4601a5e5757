"""``icml reproduce --all``: the experiment of every installed paper, and one index page."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from icml.core import installed
from icml.core.errors import UserError
from icml.core.reproduce import INTERRUPTED, ReproduceOptions, arguments

# -P keeps the current folder off sys.path, as the `icml` script does.
ICML = (sys.executable, "-P", "-m", "icml.core.cli")


@dataclass(frozen=True)
class ReproduceAllOptions:
    """How to run every installed paper's experiment."""

    all: bool = False
    """Run every installed paper; for one of them: icml <paper> reproduce."""
    quick: bool = False
    """Run the small sizes: done within two minutes a paper, with wider intervals."""
    out: Path = Path("runs")
    """Folder of the runs (<paper>/<size>) and of index.html."""
    strict: bool = False
    """Exit with 1 if a required claim fails."""

    def __post_init__(self) -> None:
        """Refuse to start hours of work that were not asked for in so many words."""
        if not self.all:
            raise ValueError("give --all, or name a paper: icml <paper> reproduce")

    def of(self, paper: str) -> ReproduceOptions:
        """Return the options of one paper's run."""
        return ReproduceOptions(quick=self.quick, strict=self.strict, out=self.folder(paper))

    def folder(self, paper: str) -> Path:
        """Return the folder of one paper's run."""
        return self.out / paper / ("quick" if self.quick else "default")


def reproduce_all(options: ReproduceAllOptions) -> int:
    """Run the experiment of every installed paper, each in its own process.

    A paper that fails stops none of the others. The index page lists the runs that finished.

    Returns:
        0 if all went well, 1 if a paper crashed or, under ``strict``, a required claim
        failed, else 2 if a paper was refused (a missing tool), 130 after Ctrl-C.

    Raises:
        UserError: If no paper is installed.
    """
    papers = list(installed.papers())
    if not papers:
        raise UserError("no paper is installed; try: pip install icml-gdpo")
    statuses: dict[str, int] = {}
    for number, paper in enumerate(papers, start=1):
        print(f"\n== {paper} ({number} of {len(papers)})", flush=True)
        statuses[paper] = run_icml(arguments(paper, options.of(paper)))
        if statuses[paper] == INTERRUPTED:
            print(f"\nContinue with all papers:\n  {_same_command(options)}", file=sys.stderr)
            return INTERRUPTED
    print("\n".join(["\n== all papers", *_outcomes(options, statuses)]))
    _write_index(options, statuses)
    return overall(statuses.values())


def run_icml(args: Sequence[str]) -> int:
    """Run ``icml`` with ``args`` in a process of its own and return its exit status.

    Ctrl-C reaches the child as well; it gets the time to say how its run is continued.
    """
    with subprocess.Popen([*ICML, *args]) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.wait()
            return INTERRUPTED


def overall(statuses: Iterable[int]) -> int:
    """Return the exit status of all papers from those of each: the worst, 1 before 2.

    Example:
        >>> overall([0, 2, -9]), overall([0, 2]), overall([0])
        (1, 2, 0)
    """
    bad = {status for status in statuses if status != 0}
    return 0 if not bad else 2 if bad == {2} else 1


def _outcomes(options: ReproduceAllOptions, statuses: Mapping[str, int]) -> list[str]:
    width = max(map(len, statuses))
    return [
        f"  {paper:<{width}}  {_outcome(options.folder(paper), status)}"
        for paper, status in statuses.items()
    ]


def _outcome(folder: Path, status: int) -> str:
    """Say in words how a paper's run ended."""
    if status == 2:
        return "could not run: see its message above"
    if status not in {0, 1} or not _finished(folder):
        return f"crashed (exit status {status})"
    from icml.core.summary import read_summary

    summary = read_summary(folder)
    if wrong := summary.failed:
        return f"required claims FAILED: {', '.join(claim.id for claim in wrong)}"
    if status == 1:
        return "crashed after its run had finished"
    return f"required claims hold: {sum(claim.kind == 'required' for claim in summary.claims)}"


def _write_index(options: ReproduceAllOptions, statuses: Mapping[str, int]) -> None:
    from icml.core.report import write_index

    ran = [options.folder(paper) for paper, status in statuses.items() if status in {0, 1}]
    finished = [folder for folder in ran if _finished(folder)]
    if finished:
        print(f"\nindex: {write_index(finished, options.out / 'index.html').resolve()}")


def _finished(folder: Path) -> bool:
    return (folder / "summary.json").exists()


def _same_command(options: ReproduceAllOptions) -> str:
    words = ["icml", "reproduce", "--all"]
    words += [f"--{name}" for name in ("quick", "strict") if getattr(options, name)]
    words += ["--out", str(options.out)] if options.out != Path("runs") else []
    return shlex.join(words)
