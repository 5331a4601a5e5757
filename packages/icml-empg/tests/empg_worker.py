"""One step of EMPGTrainer, alone or in each process of torchrun."""

import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import turns_rollout

from icml.core.testing.trl import worker_main, worker_trainer
from icml.empg import ClarityBonusWarning, EMPGConfig, EMPGTrainer

VARIANTS = {
    "empg_last_step_bonus": "mean", "empg_bonus_baseline": "turn",
    "empg_entropy_clip_quantile": 0.8, "empg_skip_zero_groups": True,
}  # fmt: skip


def step(folder: Path, world: int):
    """Train one step and return what was logged."""
    warnings.simplefilter("ignore", ClarityBonusWarning)
    trainer = worker_trainer(
        EMPGTrainer, folder, world, config=EMPGConfig, rollout_func=turns_rollout,
        max_completion_length=16, **(VARIANTS if os.environ.get("EMPG_TEST_OPTIONS") else {}),
    )  # fmt: skip
    trainer.train()
    rows = [row for row in trainer.state.log_history if "empg/h_max" in row]
    numbers = {k: v for k, v in rows[0].items() if k.startswith("empg/")}
    return {"advantages": list(trainer._logs["advantages"]), "numbers": numbers}


main = worker_main(step)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
