"""Text environments inside TRL: a ``rollout_func`` that plays episodes.

TRL hands a ``rollout_func`` nothing but the prompts, so the data set's ``prompt`` column holds each
episode's `EnvTask` as JSON, and the function plays it with the trainer's own generation (a model's
``generate``, or vLLM where the config asks for it)::

    tasks = [EnvTask(seed).key() for seed in range(1000)]
    trainer = GRPOTrainer(
        model,
        reward_funcs=episode_return,
        train_dataset=Dataset.from_dict({"prompt": tasks}),
        rollout_func=TextEnvRollout(lambda task: BabyAI("GoToLocal"), transcript, max_turns=16),
    )

An episode is one completion: the responses and, between them, what the environment said, which
``env_mask`` keeps out of the loss. The config's ``max_completion_length`` is the longest response
of *one turn*, in tokens; an episode may have ``max_turns`` of them and the environment's text
besides. Importing this imports nothing of TRL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from icml.core.errors import UserError
from icml.core.rl.episodes import Joined, Step, Trajectory, join
from icml.core.rl.rollout import EnvFactory, EnvTask, Parse, Render, Sample, collect

__all__ = ["TextEnvRollout", "episode_return", "episode_success"]


def episode_return(total_reward: Sequence[float | None], **columns: Any) -> list[float | None]:
    """Reward function for TRL: what the environment paid in the whole episode."""
    return list(total_reward)


def episode_success(success: Sequence[bool | None], **columns: Any) -> list[float | None]:
    """Reward function for TRL: 1 where the environment called the episode a success, else 0."""
    return [None if s is None else float(s) for s in success]


@dataclass(frozen=True)
class TextEnvRollout:
    """Plays the episodes of a generation batch; give it to a trainer as ``rollout_func``.

    Reward functions get, besides TRL's own, the columns ``total_reward``, ``success``, ``turns``
    and ``truncated``, one value an episode. An environment that fails before the first turn leaves
    a completion that isn't trained on, with None for the first two, which TRL takes as no reward.
    """

    env_factory: EnvFactory
    """`EnvTask` to environment."""
    render: Render
    """The next turn's prompt, which must continue the turn before: `Transcript` say."""
    parse: Parse = field(default=str.strip, kw_only=True)
    """Response text to action."""
    max_turns: int = field(kw_only=True)
    """Longest episode, in turns."""

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Play one episode for each prompt.

        Returns:
            What TRL asks of a ``rollout_func``, and the columns for the reward functions.

        Raises:
            UserError: If a prompt is no key of a task.
            RolloutError: If more than a fifth of this process's environments raise.
            ValueError: If a prompt doesn't continue the turn before.
        """
        sampler = _TrainersSampler(trainer)
        trajectories = collect(
            sampler,
            self.env_factory,
            [_task(prompt) for prompt in prompts],
            group_size=1,
            max_turns=self.max_turns,
            max_new_tokens=trainer.max_completion_length,
            render=self.render,
            parse=self.parse,
            seed=0,  # unused: the trainer draws from its own random state, which it checkpoints
        )
        sampler.finish()
        nothing = Joined([sampler.eos_id], [sampler.eos_id], [])
        kept = [self.trained(t) if t.steps else [] for t in trajectories]
        joined = [join(steps) if steps else nothing for steps in kept]
        return {
            "prompt_ids": [episode.prompt_ids for episode in joined],
            "completion_ids": [episode.completion_ids for episode in joined],
            "logprobs": _logprobs(kept, joined) if sampler.has_logps else None,
            "env_mask": [episode.mask() for episode in joined],
            "total_reward": [t.total_reward if t.steps else None for t in trajectories],
            "success": [t.success if t.steps else None for t in trajectories],
            "turns": [len(t.steps) for t in trajectories],
            "truncated": [t.truncated for t in trajectories],
            **self.columns(trajectories, trainer),
        }

    def trained(self, trajectory: Trajectory) -> Sequence[Step]:
        """Return the turns that become the completion: all of them, unless a subclass says less."""
        return trajectory.steps

    def columns(self, trajectories: Sequence[Trajectory], trainer: Any) -> dict[str, list[Any]]:
        """Return what else reward functions get, a value an episode: nothing here."""
        return {}


class _TrainersSampler:
    """The trainer's own generation as a `Sampler`.

    Where several processes train, all generate equally often and equally many: vLLM's server and
    sharded models wait for every process.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.eos_id = trainer.processing_class.eos_token_id
        self.has_logps = False

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        generators: Sequence[torch.Generator],
    ) -> list[Sample]:
        return self._generate([list(prompt) for prompt in prompts], self._most(len(prompts)))

    def finish(self) -> None:
        """Generate for nothing while another process still plays."""
        while rows := self._most(0):
            self._generate([], rows)

    def _most(self, rows: int) -> int:
        """Return the largest number of prompts that a process has now."""
        accelerator = self.trainer.accelerator
        mine = torch.tensor([rows], device=accelerator.device)
        return int(accelerator.gather(mine).max())

    def _generate(self, prompts: list[list[int]], rows: int) -> list[Sample]:
        filler = prompts[:1] or [[self.eos_id]]
        filled = prompts + filler * (rows - len(prompts))
        drawn, logps = self.trainer._generate_single_turn(filled, None, {}, num_generations=1)
        self.has_logps = logps is not None
        samples = []
        for row in range(len(prompts)):
            ids = list(drawn[row])
            unknown = torch.full((len(ids),), torch.nan)
            # vLLM gives None for a number that isn't finite.
            known = (
                unknown
                if logps is None
                else torch.tensor([torch.nan if x is None else x for x in logps[row]])
            )
            samples.append(Sample(ids, known, unknown, self._text(ids)))
        return samples

    def _text(self, ids: list[int]) -> str:
        ended = bool(ids) and ids[-1] in self.trainer.eos_token_ids
        return self.trainer.processing_class.decode(ids[:-1] if ended else ids)


def _task(prompt: str) -> EnvTask:
    try:
        return EnvTask.from_key(prompt)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the prompt column must hold EnvTask(...).key() for each episode, got {prompt!r}"
        ) from error


def _logprobs(kept: Sequence[Sequence[Step]], joined: Sequence[Joined]) -> list[list[float]]:
    """Return one number a completion token, 0 for the environment's."""
    rows = []
    for steps, episode in zip(kept, joined, strict=True):
        row = [0.0] * len(episode.completion_ids)
        for step, (start, end) in zip(steps, episode.segments, strict=True):
            row[start:end] = step.logps.tolist()
        rows.append(row)
    return rows
