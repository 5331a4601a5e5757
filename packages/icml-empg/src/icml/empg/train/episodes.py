"""Episodes for TRL: played by the policy in training, and written down step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from icml.core.envs.babyai import BabyAI
from icml.core.journal import write_atomic
from icml.core.rl.functional import segments_from_mask
from icml.core.rl.trl import TRLBatch
from icml.core.rl.trl_rollout import TextEnvRollout, episode_return
from icml.empg.train.dialogue import Dialogue, parse_action
from icml.empg.train.recipe import EnvironmentPart
from icml.empg.trainer import EMPGTrainer


class EpisodeTrainer(EMPGTrainer):
    """An ``EMPGTrainer`` that plays episodes of BabyAI and logs them; the reward is the level's.

    Each generation batch becomes a file ``episodes/step-00000.jsonl`` that ``icml empg explain``
    reads, named by the optimizer steps done before.

    Args:
        model: As in ``GRPOTrainer``.
        environment: What to play in.
        options: Keyword arguments of ``EMPGTrainer``.
    """

    def __init__(self, model: Any, environment: EnvironmentPart, **options: Any) -> None:
        """Build the trainer."""
        super().__init__(model, episode_return, rollout_func=self._play, **options)
        self._completions: list[list[int]] = []
        self._rollout = TextEnvRollout(
            lambda _: BabyAI(environment.babyai, max_steps=environment.max_turns),
            Dialogue(self.processing_class, environment.instructions).render,
            parse=parse_action,
            max_turns=environment.max_turns,
        )

    def _play(self, prompts: Sequence[str], trainer: EMPGTrainer) -> dict[str, Any]:
        played = self._rollout(prompts, trainer)
        self._completions = played["completion_ids"]
        return played

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        """Return EMPG's advantages, and write the batch down."""
        advantages = super().compute_advantages(batch)
        if batch.training:
            self._write_episodes(batch)
        return advantages

    def _write_episodes(self, batch: TRLBatch) -> None:
        from accelerate.utils import gather_object

        lines = gather_object(_logged(batch, self._completions, self.processing_class))
        if self.accelerator.is_main_process:
            folder = Path(str(self.args.output_dir)) / "episodes"
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / f"step-{batch.step:05}.jsonl", "\n".join(lines) + "\n")


def _logged(batch: TRLBatch, completions: Sequence[list[int]], tokenizer: Any) -> list[str]:
    """Return a line of JSON for each episode of this process."""
    entropies = batch.entropies
    assert entropies is not None
    lines = []
    for row, pieces in enumerate(segments_from_mask(batch.mask)):
        steps = [
            {
                "text": tokenizer.decode(completions[row][start:end], skip_special_tokens=True),
                "entropies": entropies[row, start:end].tolist(),
            }
            for start, end in pieces
        ]
        lines.append(json.dumps({"advantage": float(batch.advantages[row]), "steps": steps}))
    return lines
