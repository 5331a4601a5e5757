"""One step of DAPOTrainer, alone or in each process of torchrun."""

import sys
from pathlib import Path

from icml.core.testing.trl import even_ids, worker_main, worker_trainer
from icml.wzllm.training.dapo import DAPOConfig, DAPOTrainer


def even_ids_of_some(completion_ids, prompts, **columns):
    """Reward: the number of even ids, but one number for all completions of most prompts."""
    scores = even_ids(completion_ids, **columns)
    return [s if p[0] in "bfik" else 1.0 for p, s in zip(prompts, scores, strict=True)]


def step(folder: Path, world: int):
    """Train one step and return what was logged and learned."""
    trainer = worker_trainer(
        DAPOTrainer, folder, world, config=DAPOConfig, rewards=[even_ids_of_some],
        dapo_rounds=2, logging_steps=1,
    )  # fmt: skip
    trainer.train()
    rows = [row for row in trainer.state.log_history if "dapo/dead" in row]
    numbers = {k: v for k, v in rows[0].items() if k.startswith("dapo/")}
    model = trainer.accelerator.unwrap_model(trainer.model)
    learned = [p.detach().double().sum().item() for p in model.parameters()]
    return {"numbers": numbers, "learned": learned, "loss": rows[0]["loss"]}


main = worker_main(step)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
