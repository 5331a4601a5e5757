"""Omit-aware RL in the readable loop: play, reward omission, cut into segments, update.

Each iteration plays groups of episodes of the same task. An episode's advantage is its reward less
the group's mean, over the group's standard deviation; it goes to every token of every segment of
the episode. The loss is PPO's clip averaged over all output tokens, plus ``kl_beta`` times the k3
estimate of the divergence from the model that training started from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from icml.agent_omit.episode import Episode, read_episode
from icml.agent_omit.format import action_of
from icml.agent_omit.reward import OmissionReward, mean_thought
from icml.agent_omit.segments import SegmentBatch, to_segment_batch
from icml.agent_omit.transcript import OmitTranscript
from icml.core.errors import UserError
from icml.core.rl.episodes import Trajectory
from icml.core.rl.groups import group_advantage
from icml.core.rl.loop import LoopConfig, TrainResult, iterate
from icml.core.rl.rollout import EnvFactory, EnvTask, ModelSampler, Sample, Sampler, collect

__all__ = ["ClosingSampler", "reward_groups", "segment_advantages", "train_omission"]

EPS = 1e-6  # added to the group's standard deviation, as verl does


@dataclass(frozen=True, eq=False)
class ClosingSampler:
    """A sampler whose end token closes a tag: its text belongs to the response."""

    sampler: ModelSampler
    forced: tuple[int, ...] = ()
    """Tokens with which every response begins, whatever the policy would have written; their
    log-probabilities are unknown (NaN), so such episodes can be looked at, not trained on."""

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        generators: Sequence[torch.Generator],
    ) -> list[Sample]:
        """Draw one response for each prompt; see `icml.core.rl.samplers.Sampler`."""
        drawn = self.sampler.sample(
            [[*prompt, *self.forced] for prompt in prompts],
            max_new_tokens=max_new_tokens,
            generators=generators,
        )
        unknown = torch.full((len(self.forced),), torch.nan)
        samples = []
        for sample in drawn:
            ids = [*self.forced, *sample.ids]
            logps, entropies = (
                torch.cat([unknown, numbers]) for numbers in (sample.logps, sample.entropies)
            )
            samples.append(Sample(ids, logps, entropies, self.sampler.decode(ids)))
        return samples


def reward_groups(
    trajectories: Sequence[Trajectory], episodes: Sequence[Episode], reward: OmissionReward
) -> Tensor:
    """Reward episodes, ``(M,)`` float32, each with the mean thought of its own group.

    Args:
        trajectories: M episodes.
        episodes: What they cost.
        reward: The reward.
    """
    groups: dict[int, list[Episode]] = {}
    for trajectory, episode in zip(trajectories, episodes, strict=True):
        groups.setdefault(trajectory.group_id, []).append(episode)
    means = {group: mean_thought(members) for group, members in groups.items()}
    return torch.tensor(
        [
            reward(episode, mean_thought=means[trajectory.group_id]).total
            for trajectory, episode in zip(trajectories, episodes, strict=True)
        ]
    )


def segment_advantages(batch: SegmentBatch, *, partial_weight: float = 1.0) -> Tensor:
    """Return the advantage of each segment, ``(rows,)``: that of its episode in its group.

    Args:
        batch: The segments.
        partial_weight: Factor on partial trajectories, whose loss it scales; 0 leaves them out,
            which is the paper's ablation.
    """
    advantages = group_advantage(batch.rewards, batch.traj_group, eps=EPS)[batch.traj]
    return torch.where(batch.partial, partial_weight * advantages, advantages)


def train_omission(
    model: nn.Module,
    sample_tasks: Callable[[torch.Generator, int], Sequence[EnvTask]],
    env_factory: EnvFactory,
    reward: OmissionReward,
    config: LoopConfig,
    *,
    transcript: OmitTranscript,
    max_turns: int,
    partial_weight: float = 1.0,
    seed: int,
    log: Callable[..., None] | None = None,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    checkpoint: Path | None = None,
) -> TrainResult:
    """Train ``model`` in place to leave out what it doesn't need.

    What `icml.core.rl.loop.train` says of ``log``, ``evaluate`` and ``checkpoint`` holds, and it
    raises the same. An episode whose environment raises has reward 0.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        sample_tasks: ``(generator, n)`` to ``n`` tasks; all its randomness is the generator's.
        env_factory: `EnvTask` to environment.
        reward: What an episode is worth.
        config: Sizes and step sizes; its prompts are tasks here, its completions the outputs of a
            turn, and ``eos_id`` is the id of ``</tool_call>``.
        transcript: Renders the edited history.
        max_turns: Longest episode, in turns.
        partial_weight: Factor on the loss of partial trajectories.
        seed: Seed of tasks and samples.
        log: Called once an iteration and after the last one.
        evaluate: Model to metrics.
        checkpoint: Folder for the loop's state.

    Returns:
        The rows that were logged.

    Raises:
        UserError: If groups have one episode, or ``partial_weight`` is negative.
        RolloutError: If more than a fifth of an iteration's environments raise.
    """
    if config.group_size < 2:
        raise UserError(f"group_size must be at least 2, got {config.group_size}")
    if not 0 <= partial_weight < float("inf"):
        raise UserError(f"partial_weight must be at least 0 and finite, got {partial_weight}")
    base = ModelSampler(model, transcript.decode, config.eos_id, config.temperature)
    sampler: Sampler = ClosingSampler(base)
    device = next(model.parameters()).device

    def draw_batch(generator: torch.Generator) -> SegmentBatch:
        trajectories = collect(
            sampler,
            env_factory,
            sample_tasks(generator, config.prompts_per_iteration),
            group_size=config.group_size,
            max_turns=max_turns,
            max_new_tokens=config.max_new_tokens,
            render=transcript,
            parse=action_of,
            seed=int(torch.randint(2**62, (), generator=generator)),
        )
        episodes = [read_episode(trajectory, transcript) for trajectory in trajectories]
        rewards = reward_groups(trajectories, episodes, reward)
        return to_segment_batch(trajectories, episodes, rewards).to(device)

    def advantages(batch: SegmentBatch) -> Tensor:
        return segment_advantages(batch, partial_weight=partial_weight)

    return iterate(
        model,
        draw_batch,
        advantages,
        config,
        identity={
            **asdict(config),
            **{f"reward_{name}": value for name, value in vars(reward).items()},
            "max_turns": max_turns,
            "partial_weight": partial_weight,
            "seed": seed,
        },
        seed=seed,
        log=log,
        evaluate=evaluate,
        checkpoint=checkpoint,
    )
