"""Episodes of one turn in the first process and of three in the second."""

import sys
from pathlib import Path

from trl import GRPOTrainer

from icml.core.envs.protocol import Observation, StepResult
from icml.core.rl.rollout import EnvTask
from icml.core.rl.transcript import Transcript
from icml.core.rl.trl_rollout import TextEnvRollout
from icml.core.testing.trl import worker_main, worker_trainer


class Clock:
    id = "clock"

    def __init__(self, max_steps: int) -> None:
        self.max_steps = max_steps

    def reset(self, seed: int) -> Observation:
        self.steps = 0
        return Observation("a b")

    def step(self, action: str) -> StepResult:
        self.steps += 1
        done = self.steps == self.max_steps
        info = {"success": done, "truncated": False, "steps": self.steps}
        return StepResult(Observation("c"), 1.0, done, info)

    def close(self) -> None:
        pass


def rollout(prompts, trainer):
    tokenizer, lengths = trainer.processing_class, (1, 3)
    env = lambda task: Clock(lengths[trainer.accelerator.process_index])  # noqa: E731
    render = Transcript(lambda text: tokenizer(text)["input_ids"])
    keys = [EnvTask(0).key() for _ in prompts]
    return TextEnvRollout(env, render, max_turns=5)(keys, trainer)


def count(turns, **columns):
    return [float(n) for n in turns]


def step(folder: Path, world: int):
    class Trainer(GRPOTrainer):
        def _calculate_rewards(self, *args, **kwargs):
            self.rewards = super()._calculate_rewards(*args, **kwargs)
            return self.rewards

    trainer = worker_trainer(
        Trainer, folder, world, rewards=[count], rollout_func=rollout, max_completion_length=3
    )
    trainer.train()
    return trainer.rewards[:, 0].tolist()


main = worker_main(step)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
