"""Record what the unpatched and the fixed kernel of each bug do, in the package's bug records.

``python benchmarks/freeze.py module`` boots each bug's unpatched kernel 15 times and its fixed one
3 times, and writes baseline, report, consoles and the fix's digest into ``data/bugs``.
"""

from __future__ import annotations

import argparse
import json
import shutil

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.kenv.backends.choose import backend_named
from icml.kenv.backends.replay import CONSOLES, UNPATCHED
from icml.kenv.bugs import BUGS, bug_ids, load_bug
from icml.kenv.models import Patch, RunResult
from icml.kenv.protocol import Backend, Limits
from icml.kenv.sources import derive_fix
from icml.kenv.verdict import freeze_baseline

RUNS, FIXED_RUNS = 15, 3


def freeze(name: str, backend: Backend) -> None:
    """Boot one bug's kernels and rewrite its record."""
    bug = load_bug(name)
    file = BUGS / name / "bug.json"
    record = json.loads(file.read_text())
    fix = derive_fix(bug)
    if fix is None:
        raise UserError(f"{name} records no fix")
    prepared = backend.prepare(bug)

    def runs(count: int, fixed: bool) -> list[RunResult]:
        build = backend.build(prepared, fix if fixed else None, limits=Limits())
        if build.image is None:
            raise UserError(f"{name} does not build: {build.log_tail[-500:]}")
        image = build.image
        return [backend.run(image, bug.reproducers[0], limits=Limits()) for _ in range(count)]

    fixed = runs(FIXED_RUNS, fixed=True)
    transcripts = {json.dumps(run.transcript) for run in fixed if run.valid and not run.crash}
    if len(transcripts) != 1:
        raise UserError(f"the fixed kernel of {name} said {len(transcripts)} things, wanted one")
    unpatched = runs(RUNS, fixed=False)
    baseline = freeze_baseline(
        backend.name,
        unpatched,
        [bug.title, *bug.alt_titles],
        fixed_transcript=json.loads(transcripts.pop()),
    )
    others = [old for old in record["baselines"] if old["backend"] != backend.name]
    record["baselines"] = sorted(
        [*others, baseline.model_dump(mode="json")], key=lambda found: found["backend"]
    )
    record["fix_source"]["sha256"] = fix.sha256
    crash = unpatched[0].crash
    if backend.name == "module" and crash is not None:
        write_atomic(file.with_name("report.txt"), crash.raw.rstrip() + "\n")
    if backend.name == "module":
        record_console(name, None, unpatched[0])
        record_console(name, fix, fixed[0])
    write_atomic(file, json.dumps(record, indent=1) + "\n")
    median = sorted(run.seconds for run in unpatched)[len(unpatched) // 2]
    print(f"{name}: {baseline.crashes} of {baseline.runs}, median {median:.1f} s")


def record_console(bug_id: str, patch: Patch | None, run: RunResult) -> None:
    """Keep one boot's console for the replay backend, with the nonce that it was booted with."""
    assert run.console is not None
    folder = BUGS / bug_id / CONSOLES / (UNPATCHED if patch is None else patch.sha256)
    shutil.rmtree(folder, ignore_errors=True)
    write_atomic(folder / "1.txt", run.console.read_text())
    write_atomic(folder / "nonce.txt", f"{run.console.stem}\n")


def main() -> None:
    """Freeze the bugs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=("module", "uml"))
    parser.add_argument("bugs", nargs="*", help="ids; all by default")
    options = parser.parse_args()
    for name in options.bugs or bug_ids():
        freeze(name, backend_named(options.backend))


if __name__ == "__main__":
    main()
