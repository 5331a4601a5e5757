"""What is measured on a model in the vault: success, tokens, omissions, and exactness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import torch
from torch import nn

from icml.agent_omit.context import OmitContext
from icml.agent_omit.episode import Episode, full_steps, read_episode
from icml.agent_omit.format import action_of
from icml.agent_omit.loop import ClosingSampler
from icml.agent_omit.segments import to_segment_batch, to_segments
from icml.agent_omit.transcript import OmitTranscript
from icml.agent_omit.vault import Kind, Room
from icml.core.models.logprobs import sequence
from icml.core.rl.episodes import Step, Trajectory, join, to_step_batch
from icml.core.rl.rollout import EnvTask, ModelSampler, collect
from icml.core.rl.sampling import pad_right, score

if TYPE_CHECKING:
    from icml.agent_omit.experiment.training import VaultTraining

__all__ = ["GREEDY", "evaluate", "keep_last", "on_segments"]

GREEDY = 1e-3
"""A temperature so low that the likeliest token is drawn, but for ties."""
_FIRST_SEED = 10**7
_CLIP = 0.2


def keep_last(context: OmitContext) -> None:
    """Leave out all observations but the newest."""
    context.omit(*range(1, len(context.observations)))


def evaluate(
    setting: VaultTraining,
    model: nn.Module,
    *,
    rule: Callable[[OmitContext], None] | None = None,
    forced: tuple[int, ...] = (),
) -> dict[str, float]:
    """Let a model play, greedily, episodes that training never draws.

    Args:
        setting: Task and number of episodes.
        model: The policy.
        rule: Leaves observations out by itself.
        forced: Tokens that every output begins with.

    Returns:
        ``success``, the rate; ``prompt``, ``output`` and ``tokens``, the sum of both, of a
        successful episode (NaN without one); ``thought <kind>`` and ``observation <kind>``, the
        share of turns of a kind whose thought was empty, and whose observation the agent left out.
    """
    transcript = replace(setting.transcript, rule=rule)
    trajectories = _play(
        setting, model, transcript, count=setting.evaluated, temperature=GREEDY, forced=forced
    )
    episodes = [read_episode(trajectory, transcript) for trajectory in trajectories]
    won = [episode for episode in episodes if episode.success]
    prompt = _mean([episode.prompt_tokens for episode in won])
    output = _mean([episode.output_tokens for episode in won])
    found = {"success": len(won) / len(episodes), "prompt": prompt, "output": output}
    env = setting.environment()
    rooms = [env.rooms(_FIRST_SEED + number) for number in range(len(episodes))]
    return found | {"tokens": prompt + output} | _omissions(episodes, rooms)


def _omissions(episodes: list[Episode], rooms: list[tuple[Room, ...]]) -> dict[str, float]:
    turns, thoughts, observations = Counter[str](), Counter[str](), Counter[str]()
    for episode, passed in zip(episodes, rooms, strict=True):
        gone = {number for turn in episode.turns for number in turn.omitted}
        for number, (turn, room) in enumerate(zip(episode.turns, passed, strict=False), 1):
            turns[room.kind] += 1
            thoughts[room.kind] += turn.thought_omitted
            observations[room.kind] += number in gone
    found: dict[str, float] = {}
    for kind in get_args(Kind):
        found[f"thought {kind}"] = thoughts[kind] / turns[kind] if turns[kind] else float("nan")
        seen = observations[kind] / turns[kind] if turns[kind] else float("nan")
        found[f"observation {kind}"] = seen
    return found


def on_segments(setting: VaultTraining, model: nn.Module, seed: int) -> dict[str, float]:
    """Compare segments with one unedited sequence an episode, on a model's own samples.

    Returns:
        ``exactness``: largest difference, in nats, between the log-probability a token was drawn
        at and what its segment scores; ``miscounted``: output tokens not in exactly one segment;
        ``outside``: share of turns with an edited context whose probability ratio under the
        unedited one lies outside the clipping range; ``nats``: mean absolute log ratio of these
        turns; ``segments`` and ``steps``: tokens to train on, over those of one sequence.
    """
    transcript = setting.transcript
    trajectories = _play(setting, model, transcript, count=64, temperature=1.0)
    trajectories = [trajectory for trajectory in trajectories if trajectory.steps]
    episodes = [read_episode(trajectory, transcript) for trajectory in trajectories]
    batch = to_segment_batch(trajectories, episodes, torch.zeros(len(episodes)))
    rows = batch.prompt_ids, batch.prompt_lengths, batch.completion_ids
    with torch.no_grad():
        apart = (score(model, *rows) - batch.old_logp)[batch.mask].abs().max()
    drawn = sum(episode.output_tokens for episode in episodes)
    whole = [(t, full_steps(t, transcript)) for t in trajectories]
    ratios = [ratio for played, put_back in whole for ratio in _log_ratios(model, played, put_back)]
    outside = sum(not 1 - _CLIP <= float(torch.tensor(r).exp()) <= 1 + _CLIP for r in ratios)
    single = sum(_length(put_back) for _, put_back in whole)
    pieces = [segment for trajectory in trajectories for segment in to_segments(trajectory)]
    steps = to_step_batch(trajectories)
    stepwise = int(steps.prompt_lengths.sum() + steps.mask.sum())
    return {
        "exactness": float(apart),
        "miscounted": float(abs(int(batch.mask.sum()) - drawn)),
        "outside": outside / len(ratios) if ratios else float("nan"),
        "nats": _mean([abs(ratio) for ratio in ratios]),
        "segments": sum(len(s.prompt_ids) + len(s.ids) for s in pieces) / single,
        "steps": stepwise / single,
    }


@torch.no_grad()
def _log_ratios(model: nn.Module, played: Trajectory, put_back: list[Step]) -> list[float]:
    """Log ratio, unedited over edited context, of each turn's output whose context was edited."""
    joined = join(put_back)
    ids, _ = pad_right([joined.prompt_ids + joined.completion_ids])
    mask, _ = pad_right([[0] * len(joined.prompt_ids) + joined.mask()])
    scored = sequence(model, ids, mask)[0, len(joined.prompt_ids) :]
    return [
        float((scored[start:end] - step.logps).sum())
        for step, back, (start, end) in zip(played.steps, put_back, joined.segments, strict=True)
        if step.prompt_ids != back.prompt_ids
    ]


def _play(
    setting: VaultTraining,
    model: nn.Module,
    transcript: OmitTranscript,
    *,
    count: int,
    temperature: float,
    forced: tuple[int, ...] = (),
) -> list[Trajectory]:
    words = setting.words
    sampler = ModelSampler(model, words.decode, words.closing_id, temperature)
    return collect(
        ClosingSampler(sampler, forced),
        lambda _: setting.environment(),
        [EnvTask(_FIRST_SEED + number) for number in range(count)],
        group_size=1,
        max_turns=setting.turns,
        max_new_tokens=setting.max_new_tokens,
        render=transcript,
        parse=action_of,
        seed=0,
    )


def _length(steps: list[Step]) -> int:
    return len(steps[-1].prompt_ids) + len(steps[-1].response_ids)


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / len(values) if values else float("nan")
