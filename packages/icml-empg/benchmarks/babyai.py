"""EMPG against GRPO on BabyAI, a fifth of what ``icml empg reproduce --slow`` trains.

Run from anywhere; an interrupted run continues::

    python packages/icml-empg/benchmarks/babyai.py [--out runs/empg-babyai]

The outcome goes to babyai.json beside this file. NOTES.md has what was fixed beforehand, and what
the runs of babyai.jsonl, which were stopped for time, say.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from icml.core.experiment import Run
from icml.empg.reproduce import ModelConfig, compare_babyai

CONFIG = ModelConfig(
    report_seeds=(1000, 1001, 1002, 1003),
    select_seeds=(2000,),
    rates=(3e-4, 1e-3, 3e-3, 1e-2),
    iterations=40,
    eval_every=10,
    evaluated=128,
)


def main() -> None:
    """Run the comparison and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/empg-babyai"))
    out = parser.parse_args().out
    with Run.open("empg", CONFIG, size="babyai", out=out) as run:
        run.seeds(CONFIG.report_seeds)
        compare_babyai(CONFIG, run)
        summary = run.finish()
    outcome = {
        "config": {name: getattr(CONFIG, name) for name in CONFIG.__dataclass_fields__},
        "claims": [claim.model_dump(mode="json") for claim in summary.claims],
        "tables": [table.model_dump(mode="json") for table in summary.tables],
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(outcome, indent=1) + "\n")
    for claim in summary.claims:
        print(f"{claim.statement}: {claim.value:+.4f} {claim.interval}, holds: {claim.holds}")


if __name__ == "__main__":
    main()
