"""Trainers of TRL over a random model that is small enough to train in a test.

A test of one process builds `tiny_trainer`. A test that two processes do what one does runs a
script with `run_worker`, once in this process and once under torchrun; the script takes one step
with `worker_trainer`, whose completions don't depend on how many processes share the work.
Importing this imports nothing of TRL.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

__all__ = [
    "even_ids",
    "first_id",
    "indexed_rollout",
    "last_id",
    "run_worker",
    "tiny_trainer",
    "worker_main",
    "worker_trainer",
]

WORDS = "abcdefghijkl"
WORKER_SAMPLES = 12
WORKER_GROUP = 4  # with two processes the second of the three groups lies in both
LIMIT = 300  # seconds for two processes; most of them pass while both import TRL

_SETTINGS: Mapping[str, Any] = {
    "use_cpu": True, "bf16": False, "report_to": [], "gradient_checkpointing": False,
    "disable_tqdm": True, "save_strategy": "no", "seed": 7,
}  # fmt: skip


def even_ids(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: the number of even token ids."""
    return [float(sum(token % 2 == 0 for token in ids)) for ids in completion_ids]


def first_id(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float | None]:
    """Reward: the first token id; missing where that is divisible by three."""
    return [None if ids[0] % 3 == 0 else float(ids[0]) for ids in completion_ids]


def last_id(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: a hundredth of the last token id."""
    return [ids[-1] / 100 for ids in completion_ids]


def tiny_trainer(
    trainer: Callable[..., Any],
    folder: Path,
    *,
    config: Callable[..., Any] | None = None,
    rewards: Sequence[Any] = (even_ids, first_id),
    rollout_func: Any = None,
    prompts: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """Build a trainer over a random 4 k-parameter Llama: three steps of eight completions.

    Args:
        trainer: Class of the trainer.
        folder: Where it may write.
        config: Class of its arguments; None: ``trl.GRPOConfig``.
        rewards: Reward functions.
        rollout_func: TRL's.
        prompts: The data set's; None: pairs of letters, which are words of the tokenizer.
        options: Fields of the config that differ from the defaults here.
    """
    from datasets import Dataset
    from trl import GRPOConfig

    settings: dict[str, Any] = {
        **_SETTINGS, "per_device_train_batch_size": 8, "num_generations": 4,
        "max_completion_length": 6, "learning_rate": 1e-2, "logging_steps": 1, "max_steps": 3,
    }  # fmt: skip
    build: Callable[..., Any] = config or GRPOConfig
    prompts = prompts or [f"{a} {b}" for a in WORDS for b in "ab"]
    return trainer(
        reward_funcs=list(rewards),
        args=build(output_dir=str(folder), **{**settings, **options}),
        train_dataset=Dataset.from_dict({"prompt": list(prompts)}),
        eval_dataset=Dataset.from_dict({"prompt": ["a c", "d e"]}),
        rollout_func=rollout_func,
        **_tiny_model(),
    )


def _tiny_model() -> dict[str, Any]:
    from icml.core.models.tiny import causal_lm, word_tokenizer

    model = causal_lm(16, d=16, layers=1, heads=2, ctx=32)
    return {"model": model, "processing_class": word_tokenizer(list(WORDS))}


def worker_trainer(
    trainer: Callable[..., Any],
    folder: Path,
    world: int,
    *,
    config: Callable[..., Any] | None = None,
    rewards: Sequence[Any] = (even_ids,),
    rollout_func: Any = None,
    **options: Any,
) -> Any:
    """Build the trainer of one of ``world`` processes that share a step of twelve completions.

    Args:
        trainer: Class of the trainer.
        folder: Where it may write.
        world: Number of processes.
        config: Class of its arguments; None: ``trl.GRPOConfig``.
        rewards: Reward functions.
        rollout_func: TRL's; None: `indexed_rollout`.
        options: Fields of the config that differ from the defaults here.
    """
    from datasets import Dataset
    from trl import GRPOConfig

    settings: dict[str, Any] = {
        **_SETTINGS, "max_steps": 1, "max_completion_length": 8, "num_generations": WORKER_GROUP,
        "per_device_train_batch_size": WORKER_SAMPLES // world,
        "ddp_backend": "gloo" if world > 1 else None,
    }  # fmt: skip
    build: Callable[..., Any] = config or GRPOConfig
    built = trainer(
        reward_funcs=list(rewards),
        args=build(output_dir=str(folder), **{**settings, **options}),
        train_dataset=Dataset.from_dict({"prompt": [f"{a} b" for a in WORDS]}),
        rollout_func=rollout_func or indexed_rollout,
        **_tiny_model(),
    )
    assert built.accelerator.num_processes == world
    return built


def indexed_rollout(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
    """Complete by the prompt and the index in the group, for any number of processes alike."""
    ids = trainer.processing_class(prompts)["input_ids"]
    first = trainer.accelerator.process_index * len(prompts)
    completions = []
    for row, prompt in enumerate(ids):
        member = (first + row) % WORKER_GROUP
        completions.append([4 + (prompt[0] * k + member) % 12 for k in range(2 + member)] + [2])
    logps = [[0.0] * len(c) for c in completions]
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": logps}


def worker_main(step: Callable[[Path, int], Mapping[str, Any]]) -> Callable[[Path, int], None]:
    """Make a worker script's ``main(out, world)``.

    ``step(folder, world)`` builds a trainer, takes a step and returns what came out; the first
    process writes that to ``out`` as JSON.
    """

    def main(out: Path, world: int) -> None:
        import torch

        found = step(out.parent, world)
        if world == 1 or torch.distributed.get_rank() == 0:
            out.write_text(json.dumps(found))
        if world > 1:
            # What DDP holds must go before the group, and no process before the others.
            gc.collect()
            torch.distributed.barrier()
            torch.distributed.destroy_process_group()

    return main


def run_worker(script: Path, out: Path, world: int) -> Any:
    """Run a worker script in ``world`` processes, 1 or 2, and return what its first one wrote.

    The script defines ``main`` by `worker_main` and, run as a program, calls it with the two
    arguments it is given: the file to write and the number of processes.
    """
    if world == 1:
        runpy.run_path(str(script))["main"](out, 1)
    else:
        _torchrun(str(script), str(out), str(world), world=world)
    return json.loads(out.read_text())


def _torchrun(*command: str, world: int) -> None:
    """Run a script in processes that must end within the limit; no child is left behind."""
    launch = [
        sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={world}",
        "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", *command,
    ]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen(launch, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        if process.poll() is None:
            parent = psutil.Process(process.pid)
            for child in [*parent.children(recursive=True), parent]:
                child.kill()
            process.wait()
    assert process.returncode == 0, output.decode()[-4000:]
