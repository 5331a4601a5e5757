"""Train SmolLM2 in BabyAI by its recipe, explain a batch, and keep what both commands print.

``python benchmarks/real_run.py`` writes ``benchmarks/babyai_smollm2``: the output of the two
commands, the run's numbers and the log of the first batch. The README shows them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).with_name("babyai_smollm2")
RUN = Path("runs/empg/train/babyai_smollm2")
FIRST = RUN / "episodes" / "step-00000.jsonl"


def icml(arguments: list[str], folder: Path) -> str:
    """Run ``icml`` in a folder and return the command and what it printed, for a README."""
    command = [sys.executable, "-m", "icml.core.cli", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    threads = os.environ.get("OMP_NUM_THREADS")
    setting = f"OMP_NUM_THREADS={threads} " if threads else ""
    return f"$ {setting}icml {' '.join(arguments)}\n{done.stdout}"


def main() -> None:
    """Run both commands in a folder of their own and keep the results."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        printed = {
            "train.txt": icml(["empg", "train", "babyai_smollm2"], folder),
            "explain.txt": icml(["empg", "explain", str(FIRST), "--episodes", "1"], folder),
        }
        for kept in (RUN / "result.json", FIRST):
            shutil.copy(folder / kept, RESULTS)
    for file, text in printed.items():
        (RESULTS / file).write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
