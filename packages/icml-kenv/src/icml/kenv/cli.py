"""``icml kenv …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from icml.core.reproduce import ReproduceOptions


def _required(name: str) -> Any:
    return arg(metavar=name, help_behavior_hint="(required)")


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.kenv.reproduce import SIZES, TITLE, run_experiment

    return run("kenv", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


@dataclass(frozen=True)
class ParseOptions:
    """Which console to read."""

    log: Annotated[Positional[Path], _required("LOG")]
    """What a kernel printed: x86 or User-Mode Linux, with or without time stamps."""
    json: bool = False
    """Print the reports as JSON, a line each."""


def parse(options: ParseOptions) -> int:
    """Show the crashes on a kernel's console; exits with 1 if there is none."""
    from icml.kenv.report import parse_report
    from icml.kenv.show import report_lines

    reports = parse_report(_text(options.log))
    if options.json:
        for report in reports:
            print(report.model_dump_json())
    else:
        print("\n".join(report_lines(reports)))
    return 0 if reports else 1


@dataclass(frozen=True)
class CompareOptions:
    """Which patches to compare, of which source."""

    patch: Annotated[Positional[Path], _required("PATCH")]
    """A unified diff."""
    fix: Annotated[Positional[Path], _required("FIX")]
    """The developers' fix, a unified diff of the same source."""
    tree: Path = Path()
    """Root of the unpatched source."""
    json: bool = False
    """Print the comparison as JSON."""


def compare(options: CompareOptions) -> None:
    """Compare a patch with a fix by their text: equivalent, or unknown with scores.

    What the patched kernels do refutes an equivalence: icml kenv eval knows that.
    """
    from icml.kenv.equivalence import compare_patches
    from icml.kenv.models import Patch
    from icml.kenv.show import equivalence_lines

    agent, fix = (Patch(diff=_text(path)) for path in (options.patch, options.fix))
    found = compare_patches(agent, fix, options.tree)
    print(found.model_dump_json() if options.json else "\n".join(equivalence_lines(found)))


@dataclass(frozen=True)
class BugsOptions:
    """Which bug to show."""

    id: Annotated[
        Positional[str], arg(metavar="[ID]", help_behavior_hint="(default: list all)")
    ] = ""
    """For example phonet-autobind."""
    json: bool = False
    """Print what an agent may see of it as JSON."""


def bugs(options: BugsOptions) -> None:
    """List the bugs, or show what is public of one: never its fix."""
    from icml.kenv.bugs import bug_ids, load_bug
    from icml.kenv.show import bug_lines

    chosen = [load_bug(name).public() for name in ([options.id] if options.id else bug_ids())]
    for bug in chosen:
        if options.json:
            print(bug.model_dump_json())
        elif options.id:
            print("\n".join(bug_lines(bug)))
        else:
            print(f"{bug.id:20} {bug.title}")


def _text(path: Path) -> str:
    from icml.core.errors import UserError

    try:
        return path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


app: Mapping[str, Callable[[Any], int | None]] = {
    "reproduce": reproduce,
    "bugs": bugs,
    "parse": parse,
    "compare": compare,
}
