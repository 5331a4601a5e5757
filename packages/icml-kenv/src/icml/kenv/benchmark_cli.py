"""``icml kenv stats | dashboard``: the commands of whoever keeps a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg


def _required(name: str) -> Any:
    return arg(metavar=name, help_behavior_hint="(required)")


@dataclass(frozen=True)
class _Results:
    """Which results."""

    results: Annotated[Positional[tuple[Path, ...]], _required("RESULTS")]
    """Files of result rows (JSON lines), folders of icml kenv reproduce."""
    models: Path | None = None
    """TOML with a table a model: cutoff (a date) and source."""


@dataclass(frozen=True)
class StatsOptions(_Results):
    """What to count."""


def stats(options: StatsOptions) -> None:
    """Print each system's rates, pass@k and gap at its model's knowledge cutoff, with intervals."""
    from icml.kenv.cutoff import read_models
    from icml.kenv.leaderboard import standing_lines, standings
    from icml.kenv.results import read_results

    models = {} if options.models is None else read_models(options.models)
    print("\n".join(standing_lines(standings(read_results(options.results), models))))


@dataclass(frozen=True)
class DashboardOptions(_Results):
    """What to show, and where."""

    out: Annotated[Path, arg(aliases=["-o"])] = Path("dashboard")
    """Folder of the pages; an older dashboard in it is replaced."""


def dashboard(options: DashboardOptions) -> None:
    """Write the public pages of a result set: static, without scripts, for a browser or a host."""
    from icml.kenv.cutoff import read_models
    from icml.kenv.dashboard import write_dashboard
    from icml.kenv.results import read_results

    models = {} if options.models is None else read_models(options.models)
    print(write_dashboard(read_results(options.results), options.out, models=models))


benchmark_commands: Mapping[str, Callable[[Any], int | None]] = {
    "stats": stats,
    "dashboard": dashboard,
}
