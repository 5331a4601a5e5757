"""One step of GDPOTrainer, alone or in each process of torchrun: ``gdpo_worker.py OUT WORLD``.

Completions, and with them rewards and token counts, are a function of the prompt and of the index
in the group, so they don't depend on how many processes share the work.
"""

import gc
import json
import sys
from pathlib import Path

import torch
from datasets import Dataset

from icml.core.models.tiny import causal_lm, word_tokenizer
from icml.gdpo import GDPOConfig, GDPOTrainer

SAMPLES = 12
GROUP = 4  # with two processes the second of the three groups lies in both


def rollout(prompts, trainer):
    ids = trainer.processing_class(prompts)["input_ids"]
    first = trainer.accelerator.process_index * len(prompts)
    completions = []
    for row, prompt in enumerate(ids):
        member = (first + row) % GROUP
        completions.append([4 + (prompt[0] * k + member) % 12 for k in range(2 + member)] + [2])
    logps = [[0.0] * len(c) for c in completions]
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": logps}


def even_ids(completion_ids, **columns):
    return [float(sum(token % 2 == 0 for token in ids)) for ids in completion_ids]


def first_id(completion_ids, **columns):
    return [None if ids[0] % 3 == 0 else float(ids[0]) for ids in completion_ids]


def step(folder: Path, world: int) -> str:
    """Train one step and return, as JSON, what was logged."""
    config = GDPOConfig(
        str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        disable_tqdm=True, save_strategy="no", max_steps=1, seed=7, max_completion_length=8,
        per_device_train_batch_size=SAMPLES // world, num_generations=GROUP,
        gdpo_batch_norm="token", ddp_backend="gloo" if world > 1 else None,
    )  # fmt: skip
    trainer = GDPOTrainer(
        causal_lm(16, d=16, layers=1, heads=2, ctx=32), [even_ids, first_id], config,
        train_dataset=Dataset.from_dict({"prompt": [f"{a} b" for a in "abcdefghijkl"]}),
        processing_class=word_tokenizer(list("abcdefghijkl")), rollout_func=rollout,
    )  # fmt: skip
    assert trainer.accelerator.num_processes == world
    trainer.train()
    rows = [row for row in trainer.state.log_history if "gdpo/distinct" in row]
    numbers = {k: v for k, v in rows[0].items() if k.startswith("gdpo/")}
    return json.dumps({"advantages": list(trainer._logs["advantages"]), "numbers": numbers})


def main(out: Path, world: int) -> None:
    logged = step(out.parent, world)
    if world == 1 or torch.distributed.get_rank() == 0:
        out.write_text(logged)
    if world > 1:
        # What DDP holds must go before the group does, and no process may go before the others.
        gc.collect()
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
