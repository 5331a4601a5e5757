"""Omission inside TRL's ``GRPOTrainer``: a ``rollout_func`` whose episodes edit their history.

TRL trains one sequence an episode, and an edited history is no single sequence. So the last segment
alone is the completion, under the context that the policy saw: exact for its tokens. What is left
out of the loss is logged; the readable loop (`icml.agent_omit.loop`) trains all segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from icml.agent_omit.episode import Episode, read_episode
from icml.agent_omit.format import action_of
from icml.agent_omit.reward import OmissionReward, mean_thought
from icml.agent_omit.segments import to_segments
from icml.agent_omit.transcript import OmitTranscript
from icml.core.rl.episodes import Step, Trajectory
from icml.core.rl.rollout import Parse
from icml.core.rl.trl_rollout import TextEnvRollout

__all__ = ["OmitRollout", "omission_reward"]


def omission_reward(omission_reward: Sequence[float | None], **columns: Any) -> list[float | None]:
    """Reward function for TRL: the task's reward and what omission saved."""
    return list(omission_reward)


@dataclass(frozen=True)
class OmitRollout(TextEnvRollout):
    """Plays the episodes of a generation batch; give it to a trainer as ``rollout_func``.

    Reward functions get the columns of `TextEnvRollout` and ``omission_reward``. The mean thought
    that the reward needs is that of the episodes of the same task in this process.

    Among what the trainer logs are

    ======================  ====================================================================
    ``omit/left_out``       share of output tokens not trained on: those of partial trajectories
    ``omit/segments``       segments an episode
    ``omit/prompt_tokens``  tokens read in an episode
    ``omit/output_tokens``  tokens written in an episode
    ``omit/thoughts``       share of turns with an empty thought
    ``omit/observations``   observations left out, a turn
    ``omit/bad``            observations named in vain, a turn
    ======================  ====================================================================
    """

    render: OmitTranscript
    """Renders the edited history."""
    reward: OmissionReward = field(default_factory=OmissionReward, kw_only=True)
    """What an episode is worth."""
    parse: Parse = field(default=action_of, kw_only=True)
    """Response text to action."""

    def trained(self, trajectory: Trajectory) -> Sequence[Step]:
        """Return the turns of the last segment."""
        turns = to_segments(trajectory)[-1].turns
        return trajectory.steps[turns.start - 1 :]

    def columns(self, trajectories: Sequence[Trajectory], trainer: Any) -> dict[str, list[Any]]:
        """Return the omission reward, None for an episode without a turn; log what was left out."""
        played = [trajectory for trajectory in trajectories if trajectory.steps]
        costs = [read_episode(trajectory, self.render) for trajectory in played]
        groups: dict[tuple[int, ...], list[Episode]] = {}
        for trajectory, cost in zip(played, costs, strict=True):
            # The same task begins with the same prompt.
            groups.setdefault(tuple(trajectory.steps[0].prompt_ids), []).append(cost)
        means = {id(cost): mean_thought(group) for group in groups.values() for cost in group}
        worth = iter([self.reward(cost, mean_thought=means[id(cost)]).total for cost in costs])
        self._log(played, costs, trainer)
        return {"omission_reward": [next(worth) if t.steps else None for t in trajectories]}

    def _log(self, played: Sequence[Trajectory], costs: Sequence[Episode], trainer: Any) -> None:
        if not played:
            return
        trained = sum(len(step.response_ids) for t in played for step in self.trained(t))
        written = sum(cost.output_tokens for cost in costs)
        turns = [turn for cost in costs for turn in cost.turns]
        found = {
            "left_out": 1 - trained / written,
            "segments": fmean(len(to_segments(trajectory)) for trajectory in played),
            "prompt_tokens": fmean(cost.prompt_tokens for cost in costs),
            "output_tokens": written / len(costs),
            "thoughts": fmean(turn.thought_omitted for turn in turns),
            "observations": fmean(len(turn.omitted) for turn in turns),
            "bad": fmean(len(turn.bad) for turn in turns),
        }
        for name, value in found.items():
            trainer._log_metric(f"omit/{name}", value)
