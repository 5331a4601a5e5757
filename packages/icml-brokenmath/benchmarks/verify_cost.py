"""Seconds that one process takes to make the frozen set, and to verify it.

``python packages/icml-brokenmath/benchmarks/verify_cost.py`` writes ``verify.json`` beside itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

from icml.brokenmath.families import FAMILIES
from icml.brokenmath.verified import FROZEN_N, FROZEN_SEED, generate, verify


def main() -> None:
    """Measure the processor's time, which another program doesn't change much."""
    start = process_time()
    items = generate(FROZEN_N, FROZEN_SEED)
    made = process_time() - start
    start = process_time()
    for item in items:
        verify(item)
    found = {
        "items": len(items),
        "families": len(FAMILIES),
        "generate_s": round(made, 2),
        "verify_s": round(process_time() - start, 2),
    }
    Path(__file__).with_name("verify.json").write_text(json.dumps(found, indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    main()
