"""What READMEs take from elsewhere: tables out of shipped results, and examples that are run.

The READMEs call `claims` and `packages` between cog markers; ``nox -s readmes`` fails when the
text after such a call isn't what the call gives now.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.workspace import ROOT, TEMPLATE, members, project_file

if TYPE_CHECKING:  # the noxfile runs where icml.core isn't installed
    from icml.core.summary import Claim, Summary


SHIPPED = Path("results", "reproduce")
"""Where a package keeps the measured run that its README shows."""


def python_blocks(readme: Path) -> list[str]:
    """Return the ``python`` code blocks of a Markdown file."""
    text = readme.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def shipped_summary(folder: Path, run: str = SHIPPED.name) -> Summary | None:
    """Return the summary of a measured run that a package ships, or None if it doesn't."""
    from icml.core.summary import read_summary

    results = folder / SHIPPED.parent / run
    return read_summary(results) if results.is_dir() else None


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _interval(claim: Claim) -> str:
    if claim.interval is None:
        return "exact"
    low, high = claim.interval
    return f"{low:.3g} to {high:.3g}"


def claims_table(summary: Summary) -> list[str]:
    """Return, as Markdown lines, each claim of a run with its interval and outcome."""
    lines = [_row("claim", "value", "interval", "outcome"), _row("---", "---", "---", "---")]
    for claim in summary.claims:
        row = _row(claim.statement, f"{claim.value:.3g}", _interval(claim), claim.verdict)
        lines.append(row)
    seconds, memory = summary.timing.wall_seconds, summary.timing.peak_memory_mb
    return [*lines, "", f"`{summary.command}`: {seconds:.0f} s, {memory:.0f} MB at most."]


def claims(distribution: str, run: str = SHIPPED.name) -> str:
    """Return the table of the claims of a run that a distribution ships."""
    summary = shipped_summary(members()[distribution], run)
    if summary is None:
        words = distribution if run == SHIPPED.name else f"{distribution} FOLDER {run}"
        return f"No measured run is shipped yet: `nox -s results -- {words}` adds one."
    return "\n".join(claims_table(summary))


def _outcome(folder: Path) -> str:
    summary = shipped_summary(folder)
    if summary is None:
        return "not measured yet"
    held = sum(claim.holds for claim in summary.claims)
    minutes = summary.timing.wall_seconds / 60
    return f"{held} of {len(summary.claims)} claims hold, in {minutes:.1f} min"


def packages() -> str:
    """Return the table of all paper packages with the outcome of the run that each ships."""
    lines = [_row("package", "what it does", "its experiment on a CPU"), _row("---", "---", "---")]
    for name, folder in members().items():
        if name not in {"icml-core", TEMPLATE}:
            link = f"[{name}]({folder.relative_to(ROOT)}/README.md)"
            about = project_file(folder)["project"]["description"]
            lines.append(_row(link, about, _outcome(folder)))
    return "\n".join(lines)
