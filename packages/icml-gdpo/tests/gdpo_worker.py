"""One step of GDPOTrainer, alone or in each process of torchrun."""

import sys
from pathlib import Path

from icml.core.testing.trl import even_ids, first_id, worker_main, worker_trainer
from icml.gdpo import GDPOConfig, GDPOTrainer


def step(folder: Path, world: int):
    """Train one step and return what was logged."""
    trainer = worker_trainer(
        GDPOTrainer, folder, world, config=GDPOConfig, rewards=[even_ids, first_id],
        gdpo_batch_norm="token",
    )  # fmt: skip
    trainer.train()
    rows = [row for row in trainer.state.log_history if "gdpo/distinct" in row]
    numbers = {k: v for k, v in rows[0].items() if k.startswith("gdpo/")}
    return {"advantages": list(trainer._logs["advantages"]), "numbers": numbers}


main = worker_main(step)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
