"""``icml kenv bugs … | stats | dashboard``: the commands of whoever keeps a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg


def _required(name: str) -> Any:
    return arg(metavar=name, help_behavior_hint="(required)")


@dataclass(frozen=True)
class _Results:
    """Which results."""

    results: Annotated[Positional[tuple[Path, ...]], _required("RESULTS")]
    """Files of result rows (JSON lines), of a server's results, inspect-ai's logs (.eval), folders
    of icml kenv reproduce."""
    models: Path | None = None
    """TOML with a table a model: cutoff (a date) and source."""
    bugs: Path | None = None
    """For a server's results and logs: the folder of bugs that they had; None is the package's."""


@dataclass(frozen=True)
class StatsOptions(_Results):
    """What to count."""


def stats(options: StatsOptions) -> None:
    """Print each system's rates, pass@k and gap at its model's knowledge cutoff, with intervals."""
    from icml.kenv.cutoff import read_models
    from icml.kenv.leaderboard import standing_lines, standings
    from icml.kenv.results import read_results

    models = {} if options.models is None else read_models(options.models)
    rows = read_results(options.results, bugs=options.bugs)
    print("\n".join(standing_lines(standings(rows, models))))


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
    rows = read_results(options.results, bugs=options.bugs)
    print(write_dashboard(rows, options.out, models=models))


@dataclass(frozen=True)
class ImportOptions:
    """What was saved, and where to freeze it."""

    folder: Annotated[Positional[Path], _required("FOLDER")]
    """JSON of syzbot (json=1), lists and single bugs, with the files they link to beside it."""
    out: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Folder of a new snapshot of what is kept; None only tells."""
    day: date = field(default_factory=date.today)
    """Of the snapshot."""


def import_syzbot(options: ImportOptions) -> int:
    """Filter saved bugs of syzbot, each dropped one with its reason; exits with 1 if none is kept.

    Nothing is fetched.
    """
    from icml.kenv.curate import curate, summary_lines
    from icml.kenv.snapshot import freeze

    found = curate(options.folder)
    print("\n".join(summary_lines(found)))
    if options.out is not None and found.kept:
        manifest = freeze(found.kept, options.out, day=options.day, dropped=found.dropped)
        print(f"{options.out} sha256 {manifest.sha256}")
    return 0 if found.kept else 1


@dataclass(frozen=True)
class FreezeOptions:
    """Which bugs, and where to."""

    out: Annotated[Positional[Path], _required("OUT")]
    """Folder of the new snapshot."""
    bugs: Path | None = None
    """Folder of bugs, as icml kenv bugs inject writes one; None takes the package's."""
    day: date = field(default_factory=date.today)
    """Of the snapshot."""


def freeze_bugs(options: FreezeOptions) -> None:
    """Freeze bugs as a dated snapshot with a hash of every record, and print its digest."""
    from icml.kenv.bugs import BUGS, bug_ids, load_bug
    from icml.kenv.snapshot import freeze

    shelf = options.bugs or BUGS
    chosen = [load_bug(name, shelf) for name in bug_ids(shelf)]
    manifest = freeze(chosen, options.out, day=options.day)
    print(f"{options.out}: {len(chosen)} bugs, sha256 {manifest.sha256}")


@dataclass(frozen=True)
class VerifyOptions:
    """Which snapshot."""

    snapshot: Annotated[Positional[Path], _required("SNAPSHOT")]
    """Its folder."""
    sha256: str | None = None
    """The digest that was published; None checks that the snapshot agrees with itself."""


def verify(options: VerifyOptions) -> None:
    """Check every hash of a frozen snapshot and list its bugs."""
    from icml.kenv.snapshot import load_snapshot

    manifest, found = load_snapshot(options.snapshot, sha256=options.sha256)
    for bug in found:
        print(f"{bug.id:42} {bug.title}")
    print(f"{len(found)} bugs frozen on {manifest.frozen}, sha256 {manifest.sha256}")


@dataclass(frozen=True)
class InjectOptions:
    """Which bug, and where to."""

    id: Annotated[Positional[str], _required("ID")]
    """A bug whose fix is recorded, for example omfs-sysblock."""
    out: Annotated[Positional[Path], _required("OUT")]
    """Folder of bugs to write it to, for --bugs."""


def inject_bug(options: InjectOptions) -> None:
    """Take a fix out of the release that has it: a bug whose ground truth is exact."""
    from icml.kenv.bugs import load_bug
    from icml.kenv.injection import inject, write_bug

    print(write_bug(inject(load_bug(options.id)), options.out))


@dataclass(frozen=True)
class MineOptions:
    """Which sources to compare."""

    old: Annotated[Positional[str], _required("OLD")]
    """A fetched version, for example 6.1.170-3, or a folder."""
    new: Annotated[Positional[str], _required("NEW")]
    """The newer one."""
    config: Path | None = None
    """Kernel configuration that says what is a module; None takes that of the fetched kernel."""
    lines: int = 600
    """Changed lines of a directory at most: more is a rewrite."""
    json: bool = False
    """Print the candidates as JSON, a line each."""


def mine_bugs(options: MineOptions) -> int:
    """List changes between two sources that may fix a crash: small, in modules, adding a check."""
    import json

    from icml.kenv.mine import built_as_modules, mine
    from icml.kenv.sources import kernel_config, tree_named

    modules = built_as_modules(options.config or kernel_config())
    found = mine(
        tree_named(options.old), tree_named(options.new), modules=modules, most_lines=options.lines
    )
    for one in found:
        place = f"{one.path} hunk {one.hunk}"
        told = f"{place:58} {', '.join(one.why):32} +{one.added} -{one.removed}  {one.function}"
        print(json.dumps(one._asdict()) if options.json else told)
    if not options.json:
        print(f"{len(found)} candidates in {len({one.path for one in found})} files")
    return 0 if found else 1


benchmark_commands: Mapping[str, Callable[[Any], int | None]] = {
    "bugs mine": mine_bugs,
    "bugs inject": inject_bug,
    "bugs import-syzbot": import_syzbot,
    "bugs freeze": freeze_bugs,
    "bugs verify": verify,
    "stats": stats,
    "dashboard": dashboard,
}
