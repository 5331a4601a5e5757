"""Core's own commands: ``icml doctor``, ``icml report`` and ``icml reproduce --all``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from icml.core.reproduce_all import reproduce_all


@dataclass(frozen=True)
class DoctorOptions:
    """Nothing to choose."""


@dataclass(frozen=True)
class ReportOptions:
    """Which reports to render."""

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of finished runs."""
    index: Path = Path("runs/index.html")
    """The page that lists the reports, written when there are several folders."""

    def __post_init__(self) -> None:
        """Refuse an empty list."""
        if not self.folders:
            raise ValueError("name at least one folder of a run, such as runs/gdpo/default")


def doctor(options: DoctorOptions) -> int:
    """Show what this machine has, and what a missing tool would enable."""
    from icml.core.doctor import examine, layout

    print(layout(examine()))
    return 0


def report(options: ReportOptions) -> int:
    """Render the reports of finished runs again, and an index if there are several."""
    from icml.core.report import write_index, write_report
    from icml.core.summary import read_summary

    for folder in options.folders:
        read_summary(folder)  # one sentence before anything is written
    pages = [write_report(folder) for folder in options.folders]
    if len(pages) > 1:
        pages.append(write_index(options.folders, options.index))
    print("\n".join(str(page.resolve()) for page in pages))
    return 0


app: Mapping[str, Callable[[Any], int | None]] = {
    "doctor": doctor,
    "report": report,
    "reproduce": reproduce_all,
}
