"""What READMEs take from elsewhere: tables out of shipped results, and examples that are run.

The READMEs call the functions named ``print_…`` between cog markers; ``nox -s readmes`` fails
when the text between the markers isn't what they print now.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.workspace import ROOT, TEMPLATE, members, project_file

_SHIPPED = "results/summary.json"


def python_blocks(readme: Path) -> list[str]:
    """Return the ``python`` code blocks of a Markdown file."""
    text = readme.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def shipped_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of the measured run that a package ships, or None if it ships none."""
    file = folder / _SHIPPED
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _interval(claim: dict[str, Any]) -> str:
    if claim["interval"] is None:
        return "exact"
    low, high = claim["interval"]
    return f"{low:.3g} to {high:.3g}"


def _verdict(claim: dict[str, Any]) -> str:
    if claim["kind"] == "required":
        return "holds" if claim["holds"] else "FAILED"
    return "supported" if claim["holds"] else "not supported at this scale"


def claims_table(summary: dict[str, Any]) -> list[str]:
    """Return, as Markdown lines, each claim of a run with its interval and outcome."""
    lines = [_row("claim", "value", "interval", "outcome"), _row("---", "---", "---", "---")]
    for claim in summary["claims"]:
        value = f"{claim['value']:.3g}"
        lines.append(_row(claim["statement"], value, _interval(claim), _verdict(claim)))
    seconds, memory = summary["timing"]["wall_seconds"], summary["timing"]["peak_memory_mb"]
    return [*lines, "", f"`{summary['command']}`: {seconds:.0f} s, {memory:.0f} MB at most."]


def print_claims(distribution: str) -> None:
    """Print the table of the claims of the run that a distribution ships."""
    summary = shipped_summary(members()[distribution])
    if summary is None:
        print(f"No measured run is shipped yet: `nox -s results -- {distribution}` adds one.")
    else:
        print("\n".join(claims_table(summary)))


def _outcome(folder: Path) -> str:
    summary = shipped_summary(folder)
    if summary is None:
        return "not measured yet"
    held = sum(claim["holds"] for claim in summary["claims"])
    minutes = summary["timing"]["wall_seconds"] / 60
    return f"{held} of {len(summary['claims'])} claims hold, in {minutes:.1f} min"


def print_packages() -> None:
    """Print the table of all paper packages with the outcome of the run that each ships."""
    print(_row("package", "what it does", "its experiment on a CPU"))
    print(_row("---", "---", "---"))
    for name, folder in members().items():
        if name not in {"icml-core", TEMPLATE}:
            link = f"[{name}]({folder.relative_to(ROOT)}/README.md)"
            print(_row(link, project_file(folder)["project"]["description"], _outcome(folder)))
