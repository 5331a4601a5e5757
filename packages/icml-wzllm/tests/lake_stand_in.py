"""Stands in for ``lake env repl``: speaks the REPL's protocol, answers through the wheel's Lean.

Run as a script: ``lake_stand_in.py PATH_OF_LAKE env REPL``. A file ``trap`` beside the lake makes
it die (``die``) or fall silent (``sleep``) once.
"""

import json
import sys
import time
from pathlib import Path

from icml.wzllm.kernel.base import compiled_base, lean_path
from icml.wzllm.kernel.wheel_lean import messages, run_lean


def wheel_says(text: str) -> list[dict]:
    """Run the wheel's Lean on a whole file and answer as a REPL does."""
    with lean_path(compiled_base().olean) as folder:
        result = run_lean(
            ["--stdin", "--json"],
            lean_path=folder,
            text=text,
            timeout_s=60,
            memory_mb=512,
            foreign=True,
        )
    return [
        {
            "severity": "info" if said.severity == "information" else said.severity,
            "data": said.text,
            "pos": {"line": said.line, "column": 0},
            "endPos": {"line": said.line, "column": 1},
        }
        for said in messages(result)
    ]


def main(lake: str, *arguments: str) -> None:
    if "env" not in arguments:
        return
    trap = Path(lake).with_name("trap")
    for line in filter(str.strip, sys.stdin):
        if trap.exists():
            word = trap.read_text()
            trap.unlink()
            if word == "die":
                raise SystemExit(3)
            time.sleep(600)
        answer = {"env": 0, "messages": wheel_says(json.loads(line)["cmd"])}
        print(json.dumps(answer) + "\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
