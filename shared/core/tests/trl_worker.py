"""One optimizer step of a trainer of ours, alone or in each process of torchrun.

Samples, weights and the update must not depend on how many processes share the work.
"""

import sys
from pathlib import Path

from torch import Tensor
from torch.nn.utils import parameters_to_vector
from trl import GRPOTrainer

from icml.core.rl.trl import AdvantageMixin, TRLBatch
from icml.core.testing.trl import worker_main, worker_trainer


class Standardised(AdvantageMixin, GRPOTrainer):
    """Reward standardised over all samples of all processes, times the token's entropy."""

    needs_entropy = True

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        assert batch.entropies is not None
        reward = batch.rewards[:, 0]
        self.standardised = (reward - reward.mean()) / reward.std()
        return self.standardised[batch.local][:, None] * batch.entropies


def step(folder: Path, world: int):
    trainer = worker_trainer(
        Standardised, folder, world, optim="sgd", learning_rate=0.1, max_grad_norm=0.0
    )
    before = parameters_to_vector(trainer.model.parameters()).detach().clone()
    trainer.train()
    after = parameters_to_vector(trainer.model.parameters()).detach()
    return {
        "standardised": trainer.standardised.tolist(),
        "logged": list(trainer._logs["advantages"]),
        "update": (after - before).tolist(),
    }


main = worker_main(step)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
