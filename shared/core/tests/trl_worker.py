"""One optimizer step of a trainer of ours, alone or in each process of torchrun.

Samples, weights and the update must not depend on how many processes share the work:
``python trl_worker.py OUT WORLD`` writes what came out as JSON.
"""

import gc
import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.utils import parameters_to_vector
from trl import GRPOConfig, GRPOTrainer

from icml.core.models.tiny import causal_lm, word_tokenizer
from icml.core.rl.trl import AdvantageMixin, TRLBatch

SAMPLES = 12
GROUP = 4  # with two processes the second of the three groups lies in both


class Standardised(AdvantageMixin, GRPOTrainer):
    """Reward standardised over all samples of all processes, times the token's entropy."""

    needs_entropy = True

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        assert batch.entropies is not None
        reward = batch.rewards[:, 0]
        self.standardised = (reward - reward.mean()) / reward.std()
        return self.standardised[batch.local][:, None] * batch.entropies


def rollout(prompts, trainer):
    """Completions that the prompt and the index in the group determine."""
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


def step(folder: Path, world: int) -> str:
    words = list("abcdefghijkl")
    args = GRPOConfig(
        str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        disable_tqdm=True, save_strategy="no", max_steps=1, seed=7, optim="sgd", learning_rate=0.1,
        max_grad_norm=0.0, per_device_train_batch_size=SAMPLES // world, num_generations=GROUP,
        max_completion_length=8, ddp_backend="gloo" if world > 1 else None,
    )  # fmt: skip
    model = causal_lm(16, d=16, layers=1, heads=2, ctx=32)
    trainer = Standardised(
        model=model, reward_funcs=[even_ids], args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{a} b" for a in words]}),
        processing_class=word_tokenizer(words), rollout_func=rollout,
    )  # fmt: skip
    assert trainer.accelerator.num_processes == world
    before = parameters_to_vector(model.parameters()).detach().clone()
    trainer.train()
    after = parameters_to_vector(model.parameters()).detach()
    return json.dumps(
        {
            "standardised": trainer.standardised.tolist(),
            "logged": list(trainer._logs["advantages"]),
            "update": (after - before).tolist(),
        }
    )


def main(out: Path, world: int) -> None:
    found = step(out.parent, world)
    if world == 1 or torch.distributed.get_rank() == 0:
        out.write_text(found)
    if world > 1:
        # What DDP holds must go before the group does, and no process may go before the others.
        gc.collect()
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
