"""Episodes for TRL: played by the policy in training, and written down step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icml.core.envs.babyai import BabyAI
from icml.core.journal import write_atomic
from icml.core.rl.episodes import join
from icml.core.rl.functional import segments_from_mask
from icml.core.rl.rollout import EnvTask, HFSampler, Trajectory, collect
from icml.core.rl.trl import TRLBatch
from icml.empg.train.dialogue import Dialogue, parse_action
from icml.empg.train.recipe import EnvironmentPart
from icml.empg.trainer import EMPGTrainer


def environment_reward(environment_reward: Sequence[float | None], **columns: Any) -> list[Any]:
    """Reward: the sum of what the environment gave in the episode."""
    return list(environment_reward)


class EpisodeTrainer(EMPGTrainer):
    """An ``EMPGTrainer`` that plays episodes in an environment and logs them.

    Each generation batch becomes a file ``episodes/step-00000.jsonl`` that ``icml empg explain``
    reads, named by the optimizer steps done before.

    Args:
        model: As in ``GRPOTrainer``.
        environment: What to play in.
        options: Keyword arguments of ``EMPGTrainer``.
    """

    def __init__(self, model: Any, environment: EnvironmentPart, **options: Any) -> None:
        """Build the trainer."""
        self._environment = environment
        self._played: list[Trajectory] = []
        super().__init__(model, environment_reward, rollout_func=self.play, **options)

    def play(self, prompts: Sequence[str], trainer: EMPGTrainer) -> dict[str, Any]:
        """Play an episode for each task key; what TRL calls a ``rollout_func``."""
        tokenizer: Any = self.processing_class
        place = self._environment
        model = self.accelerator.unwrap_model(self.model)
        with torch.no_grad():
            self._played = collect(
                HFSampler(model, tokenizer, temperature=self.args.temperature),
                lambda _: BabyAI(place.babyai, max_steps=place.max_turns),
                [EnvTask.from_key(prompt) for prompt in prompts],
                group_size=1,  # TRL has repeated the prompts
                max_turns=place.max_turns,
                max_new_tokens=place.max_new_tokens,
                render=Dialogue(tokenizer, place.instructions).render,
                parse=parse_action,
                seed=_mixed(self.args.seed, self.state.global_step, self.accelerator.process_index),
            )
        return _as_trl(self._played, tokenizer.eos_token_id)

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        """Return EMPG's advantages, and write the batch down."""
        advantages = super().compute_advantages(batch)
        if batch.training:
            self._write_episodes(batch)
        return advantages

    def _write_episodes(self, batch: TRLBatch) -> None:
        from accelerate.utils import gather_object

        lines = gather_object(_logged(batch, self._played, self.processing_class))
        if self.accelerator.is_main_process:
            folder = Path(str(self.args.output_dir)) / "episodes"
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / f"step-{batch.step:05}.jsonl", "\n".join(lines) + "\n")


def _mixed(*numbers: int) -> int:
    """Make one seed of several numbers."""
    import numpy as np

    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint32)[0])


def _as_trl(played: Sequence[Trajectory], eos_id: int) -> dict[str, Any]:
    """Lay episodes out as TRL wants them: one sequence each, the policy's tokens marked."""
    result: dict[str, list[Any]] = {
        "prompt_ids": [], "completion_ids": [], "logprobs": [], "env_mask": [],
        "environment_reward": [],
    }  # fmt: skip
    for episode in played:
        if episode.steps:
            joined = join(episode.steps)
            prompt, completion, mask = joined.prompt_ids, joined.completion_ids, joined.mask()
            drawn = iter(torch.cat([step.logps for step in episode.steps]).tolist())
        else:  # its environment failed at once: nothing to train on
            prompt, completion, mask, drawn = [eos_id], [eos_id], [0], iter(())
        result["prompt_ids"].append(prompt)
        result["completion_ids"].append(completion)
        result["logprobs"].append([next(drawn) if own else 0.0 for own in mask])
        result["env_mask"].append(mask)
        failed = episode.error is not None
        result["environment_reward"].append(None if failed else episode.total_reward)
    return result


def _logged(batch: TRLBatch, played: Sequence[Trajectory], tokenizer: Any) -> list[str]:
    """Return a line of JSON for each episode of this process."""
    entropies = batch.entropies
    assert entropies is not None
    lines = []
    for row, pieces in enumerate(segments_from_mask(batch.mask)):
        texts = [
            tokenizer.decode(s.response_ids, skip_special_tokens=True) for s in played[row].steps
        ]
        steps = [
            {"text": text, "entropies": entropies[row, start:end].tolist()}
            for text, (start, end) in zip(texts, pieces, strict=False)
        ]
        lines.append(json.dumps({"advantage": float(batch.advantages[row]), "steps": steps}))
    return lines
