"""What ``icml agent-omit replay`` prints for a log of BabyAI's expert, and how fast it reads.

``python packages/icml-agent-omit/benchmarks/replay.py`` writes the log into a temporary folder, and
replay.txt and replay.json beside this file.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from icml.agent_omit.babyai import expert_thought
from icml.agent_omit.format import write_turn
from icml.core.envs.babyai import BabyAI
from icml.core.process import run_child

LEVEL, EPISODES = "PutNextLocal", 25
COPIES = 100
ICML = [sys.executable, "-m", "icml.core.cli", "agent-omit", "replay"]


def messages(seed: int) -> list[dict[str, str]]:
    """Return the expert's episode as OpenAI's chat interface has it."""
    env = BabyAI(LEVEL)
    seen = env.reset(seed)
    task = seen.task or ""
    found = [{"role": "user", "content": task}, {"role": "user", "content": seen.text}]
    for action in env.expert_actions():
        thought = expert_thought(task, seen.text, action)
        found.append({"role": "assistant", "content": write_turn(thought, action=action)})
        seen = env.step(action).observation
        found.append({"role": "user", "content": seen.text})
    return found


def main() -> None:
    """Write the log, read it, and read it again a hundredfold."""
    here = Path(__file__)
    lines = [json.dumps({"messages": messages(seed)}) + "\n" for seed in range(EPISODES)]
    with tempfile.TemporaryDirectory() as folder:
        log, large = Path(folder, "expert.jsonl"), Path(folder, "large.jsonl")
        log.write_text("".join(lines))
        with large.open("w") as file:
            for _ in range(COPIES):
                file.writelines(lines)
        shown = subprocess.run([*ICML, "expert.jsonl"], cwd=folder, check=True, capture_output=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        read = run_child([*ICML, str(large)], timeout_s=600, env=os.environ)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        if read.exit != 0:
            raise SystemExit(read.stderr)
        megabytes = large.stat().st_size / 1e6
    text = shown.stdout.decode()
    here.with_suffix(".txt").write_text(f"$ icml agent-omit replay expert.jsonl\n{text}")
    numbers = {
        "log (MB)": megabytes,
        "CPU time (s)": seconds,
        "memory (MiB)": read.max_rss_mb,
    }
    here.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(text, numbers)


if __name__ == "__main__":
    main()
