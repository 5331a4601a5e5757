"""Time ME with one, two and three members on SmolLM2 and keep what ``icml me bench`` prints.

``python benchmarks/smollm2.py`` writes ``benchmarks/smollm2.txt``, which the README shows. Both
methods are timed in turn in one process on one thread; run it on a machine with nothing else to do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).with_suffix(".txt")
MEMBERS = ["pkg:smollm2", "pkg:smollm2?layers=28", "pkg:smollm2?layers=26"]


def icml(arguments: list[str]) -> str:
    """Run ``icml`` and return the command and what it printed, for a README."""
    command = [sys.executable, "-m", "icml.core.cli", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return f"$ icml {' '.join(arguments)}\n{done.stdout}"


def main() -> None:
    """Measure, print and write."""
    sizes = [["--batch", "1"]] * 3 + [["--batch", "8"]]
    counts = [1, 2, 3, 2]
    blocks = [
        icml(["me", "bench", "--models", *MEMBERS[:count], *size])
        for count, size in zip(counts, sizes, strict=True)
    ]
    text = "\n".join(blocks)
    print(text)
    OUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
