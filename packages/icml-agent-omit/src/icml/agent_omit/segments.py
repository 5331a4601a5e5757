"""Dual sampling, exact: an edited episode as the token sequences that the policy saw.

An episode is cut where its prompt no longer continues what came before, which is after every turn
that left an observation out. Each piece is one training sequence, its mask on the outputs that were
drawn in it. So every output token is trained once, under the very context it was drawn in. The last
piece is the full trajectory, whose context made the task succeed or fail; the pieces before are the
partial ones, in whose contexts the omissions were decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from icml.agent_omit.episode import Episode
from icml.core.rl.batch import Rows
from icml.core.rl.episodes import Step, Trajectory, join
from icml.core.rl.sampling import pad_right

__all__ = ["Segment", "SegmentBatch", "to_segment_batch", "to_segments"]


@dataclass(frozen=True, eq=False)
class Segment:
    """Consecutive turns whose prompts continue one another."""

    prompt_ids: list[int]
    """What the policy saw in the first of them."""
    ids: list[int]
    """What follows: its outputs and, between them, observations."""
    loss_mask: list[int]
    """1 for each of these tokens that the policy drew, 0 for the others."""
    logps: list[float]
    """Log-probability, in nats, at which a token was drawn; 0 for the others."""
    entropies: list[float]
    """Entropy, in nats, of the distribution it was drawn from; 0 for the others."""
    turns: range
    """Numbers of its turns, from 1."""
    kind: Literal["partial", "full"]
    """``full`` for an episode's last segment."""


def to_segments(trajectory: Trajectory) -> list[Segment]:
    """Cut an episode into the sequences that its policy saw.

    Only recorded token ids are used; nothing is decoded or encoded. There are as many segments as
    one plus the turns, but for the last, that left an observation out; none for an episode without
    turns.
    """
    pieces: list[list[Step]] = []
    sequence: list[int] | None = None
    for step in trajectory.steps:
        if sequence is None or step.prompt_ids[: len(sequence)] != sequence:
            pieces.append([])
        pieces[-1].append(step)
        sequence = step.prompt_ids + step.response_ids
    segments, first = [], 1
    for number, piece in enumerate(pieces, 1):
        turns = range(first, first + len(piece))
        segments.append(_segment(piece, turns, "full" if number == len(pieces) else "partial"))
        first = turns.stop
    return segments


def _segment(piece: Sequence[Step], turns: range, kind: Literal["partial", "full"]) -> Segment:
    joined = join(piece)
    logps, entropies = ([0.0] * len(joined.completion_ids) for _ in range(2))
    for step, (start, end) in zip(piece, joined.segments, strict=True):
        logps[start:end] = step.logps.tolist()
        entropies[start:end] = step.entropies.tolist()
    return Segment(
        joined.prompt_ids,
        joined.completion_ids,
        loss_mask=joined.mask(),
        logps=logps,
        entropies=entropies,
        turns=turns,
        kind=kind,
    )


@dataclass(frozen=True, eq=False)
class SegmentBatch(Rows):
    """Segments of M episodes as rows, those of an episode contiguous and in order."""

    traj: Tensor
    """``(rows,)`` int64: the row's episode, 0 to M - 1."""
    partial: Tensor
    """``(rows,)`` bool: whether it is a partial trajectory."""
    rewards: Tensor
    """``(M,)`` float32: reward of each episode."""
    traj_group: Tensor
    """``(M,)`` int64: episodes with equal numbers had the same task, environment and seed."""
    episodes: tuple[Episode, ...]
    """What each episode cost."""

    def metrics(self) -> dict[str, float]:
        """Return what a training loop logs about these rows."""
        count = len(self.episodes)
        turns = sum(len(episode.turns) for episode in self.episodes)
        return super().metrics() | {
            "train/reward": self.rewards.mean().item(),
            "train/success": sum(episode.success for episode in self.episodes) / count,
            "train/prompt_tokens": sum(e.prompt_tokens for e in self.episodes) / count,
            "train/output_tokens": sum(e.output_tokens for e in self.episodes) / count,
            "train/segments": len(self.traj) / count,
            "train/thoughts_omitted": sum(
                turn.thought_omitted for episode in self.episodes for turn in episode.turns
            )
            / max(turns, 1),
            "train/observations_omitted": sum(
                len(turn.omitted) for episode in self.episodes for turn in episode.turns
            )
            / max(turns, 1),
            "train/bad_omissions": sum(
                len(turn.bad) for episode in self.episodes for turn in episode.turns
            )
            / max(turns, 1),
        }

    def describe(self, row: int) -> str:
        """Say which row this is, for an error message."""
        episode = int(self.traj[row])
        return f"row {row}, of episode {episode} with reward {self.rewards[episode]}"


def to_segment_batch(
    trajectories: Sequence[Trajectory], episodes: Sequence[Episode], rewards: Tensor
) -> SegmentBatch:
    """Lay the segments of episodes out as rows.

    Args:
        trajectories: M episodes.
        episodes: What they cost.
        rewards: ``(M,)``.

    Raises:
        ValueError: If no episode has a turn.
    """
    cut = [to_segments(trajectory) for trajectory in trajectories]
    segments = [segment for pieces in cut for segment in pieces]
    if not segments:
        raise ValueError(f"none of the {len(trajectories)} episodes has a turn")
    # A row's prompt is its first token, all others its completion: prompts differ so much in length
    # that padding them and what follows apart would double the width.
    ids = [segment.prompt_ids + segment.ids for segment in segments]
    read = [len(segment.prompt_ids) - 1 for segment in segments]
    completion_ids, _ = pad_right([row[1:] for row in ids])
    shape = completion_ids.shape
    return SegmentBatch(
        prompt_ids=torch.tensor([row[:1] for row in ids]),
        prompt_lengths=torch.ones(len(ids), dtype=torch.long),
        completion_ids=completion_ids,
        mask=_rows([segment.loss_mask for segment in segments], read, shape).bool(),
        old_logp=_rows([segment.logps for segment in segments], read, shape),
        entropy=_rows([segment.entropies for segment in segments], read, shape),
        traj=torch.tensor([number for number, pieces in enumerate(cut) for _ in pieces]),
        partial=torch.tensor([segment.kind == "partial" for segment in segments]),
        rewards=rewards,
        traj_group=torch.tensor([trajectory.group_id for trajectory in trajectories]),
        episodes=tuple(episodes),
    )


def _rows(values: Sequence[Sequence[float]], start: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Put each row's values behind as many zeros as the policy only read."""
    rows = torch.zeros(*shape)
    for row, first, numbers in zip(rows, start, values, strict=True):
        row[first : first + len(numbers)] = torch.tensor(numbers)
    return rows
