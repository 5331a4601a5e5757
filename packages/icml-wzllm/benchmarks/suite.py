"""What the kernel tier makes of the 78 shipped identities, every accepted file checked again.

Writes ``suite.json`` beside itself, in some minutes::

    python packages/icml-wzllm/benchmarks/suite.py
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from icml.core.provenance import cores
from icml.wzllm.identities import suite
from icml.wzllm.kernel_bench import is_certified, outcome, run_kernel_bench


def main() -> None:
    """Run the suite in a folder of its own and write the file."""
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        records = run_kernel_bench(suite(), Path(folder) / "bench")
    certified = [record for record in records if is_certified(record)]
    again = [record["recheck"] for record in certified if record["file"]]
    result = {
        "wall_s": round(time.perf_counter() - started),
        "cores": cores(),
        "slowest_check_s": round(max(check["seconds"] for check in again), 1),
        "largest_check_mb": round(max(check["max_rss_mb"] or 0 for check in again)),
        "axioms": sorted({axiom for check in again for axiom in check["axioms"]}),
        "rows": [_row(record) for record in certified],
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def _row(record: dict[str, Any]) -> dict[str, str]:
    word, said = outcome(record)
    return {"id": record["id"], "identity": record["statement"], "outcome": word, "said": said}


if __name__ == "__main__":
    main()
