"""How long the dashboard of 1,000 rows takes, and how big it is; writes ``dashboard.json``.

``python benchmarks/dashboard.py [FOLDER]``: the results are made up (three systems on 334 bugs,
reports and diffs of the length that real ones have), the folder keeps the site to look at.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from icml.core.journal import write_atomic
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.cutoff import ModelCutoff
from icml.kenv.dashboard import write_dashboard
from icml.kenv.results import Result, read_results, write_results

BUGS, TRIES, SEED = 334, 5, 0
RATES = {
    "mini-agent": (0.74, 0.35, 0.12),
    "long-agent": (0.62, 0.28, 0.16),
    "template": (0.4, 0.05, 0.05),
}
"""Made up: plausible, equivalent before the cutoff, equivalent after it."""
MODELS = {"mini-agent": "model-a", "long-agent": "model-b", "template": "none"}
KINDS = ("KASAN: slab-use-after-free Read", "kernel BUG", "WARNING", "divide error",
         "general protection fault", "possible deadlock", "KASAN: slab-out-of-bounds Write",
         )  # fmt: skip
SUBSYSTEMS = ("net", "fs", "bluetooth", "io-uring", "usb", "mm", "bpf", "wireless", "kernel")


def made_up(bugs: int = BUGS) -> list[Result]:
    """Return the rows: one run of each system on each bug, always the same."""
    draw = random.Random(SEED)
    real = [load_bug(name) for name in bug_ids()]
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = []
    for number in range(bugs):
        kind, subsystem = draw.choice(KINDS), draw.choice(SUBSYSTEMS)
        fixed = start + timedelta(days=draw.randrange(730))
        report = real[number % len(real)].crash_report[:2500]
        for agent, (plausible, early, late) in RATES.items():
            same = early if fixed.year == 2024 else late
            ok = draw.random() < plausible
            head = f"--- a/{subsystem}/x.c\n+++ b/{subsystem}/x.c\n@@ -10,3 +10,5 @@\n \tint err;\n"
            line = f"\tif (state_{draw.randrange(10**6)} >= limit)\n"
            rows.append(
                Result(
                    agent=agent,
                    model=MODELS[agent],
                    feedback="full" if agent == "long-agent" else "none",
                    bug=f"bug-{number:03}",
                    title=f"{kind} in {subsystem.replace('-', '_')}_handler_{number}",
                    subsystems=[subsystem],
                    crash_type=kind,
                    fix_time=fixed,
                    report=report,
                    kind="plausible"
                    if ok
                    else draw.choice(("crash_same", "crash_other", "build_failed")),
                    answer=None
                    if not ok
                    else "equivalent"
                    if draw.random() < same / plausible
                    else "unknown",
                    evidence=None if not ok else "judge",
                    reason="no crash in 3 runs" if ok else "it still crashes",
                    diff=f"{head}+{line}+\t\treturn -EINVAL;\n \terr = 0;\n"
                    + " \tcontext_line();\n" * 12,
                    boots=3 if ok else 1,
                    seconds=42.0 if ok else 17.0,
                    backend="module",
                )
            )
    return rows


def main() -> None:
    """Measure and write the numbers."""
    rows = made_up()
    models = {
        name: ModelCutoff(cutoff=datetime(2024, 12, 31).date(), source="made up")
        for name in ("model-a", "model-b")
    }
    with tempfile.TemporaryDirectory() as work:
        site = Path(sys.argv[1] if len(sys.argv) > 1 else Path(work) / "site")
        write_results(Path(work) / "rows.jsonl", rows)
        seconds, cpu = [], []
        for _ in range(TRIES):
            start, used = time.perf_counter(), time.process_time()
            write_dashboard(read_results([Path(work) / "rows.jsonl"]), site, models=models)
            seconds.append(time.perf_counter() - start)
            cpu.append(time.process_time() - used)
        size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
        count = sum(file.is_file() for file in site.rglob("*"))
    found = {
        "rows": len(rows),
        "pages and files": count,
        "seconds, the longest of 5": round(max(seconds), 2),
        "CPU seconds": round(max(cpu), 2),
        "megabytes": round(size / 1e6, 2),
    }
    write_atomic(Path(__file__).with_suffix(".json"), json.dumps(found, indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    main()
