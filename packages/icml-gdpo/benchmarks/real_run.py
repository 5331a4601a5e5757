"""Train SmolLM2 by its recipe, audit the log it wrote, and keep what both commands print.

``python benchmarks/real_run.py`` writes ``benchmarks/smollm2_chain_sum``: the output of the two
commands, the run's numbers and its completions log. The README shows them. On a busy machine set
``OMP_NUM_THREADS=1``: there two threads wait for each other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).with_name("smollm2_chain_sum")
RUN = Path("runs/gdpo/train/smollm2_chain_sum")
TRAIN = ["gdpo", "train", "smollm2_chain_sum"]
AUDIT = [
    "gdpo", "audit", str(RUN / "completions"), "--rewards", "answer,format,length",
    "--group-size", "8",
]  # fmt: skip


def icml(arguments: list[str], folder: Path) -> str:
    """Run ``icml`` in a folder and return the command and what it printed, for a README."""
    command = [sys.executable, "-m", "icml.core.cli", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    threads = os.environ.get("OMP_NUM_THREADS")
    setting = f"OMP_NUM_THREADS={threads} " if threads else ""
    return f"$ {setting}icml {' '.join(arguments)}\n{done.stdout}"


def main() -> None:
    """Run both commands in a folder of their own and keep the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        printed = {"train.txt": icml(TRAIN, folder), "audit.txt": icml(AUDIT, folder)}
        result = (folder / RUN / "result.json").read_text(encoding="utf-8")
        shutil.rmtree(RESULTS, ignore_errors=True)
        shutil.copytree(folder / RUN / "completions", RESULTS / "completions")
    for file, text in printed.items():
        (RESULTS / file).write_text(text, encoding="utf-8")
        print(text)
    (RESULTS / "result.json").write_text(result, encoding="utf-8")
    print(json.loads(result))


if __name__ == "__main__":
    main()
