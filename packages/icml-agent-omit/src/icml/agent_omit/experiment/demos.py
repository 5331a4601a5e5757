"""Demonstrations in the vault: an expert's episodes, with things left out, as sequences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from icml.agent_omit.segments import Segment, to_segments
from icml.agent_omit.transcript import OmitTranscript
from icml.agent_omit.vault import Room, Vault, expert_outputs, needed
from icml.core.models.logprobs import sequence
from icml.core.rl.episodes import Step, Trajectory
from icml.core.rl.sampling import pad_right

__all__ = ["Omissions", "base_omissions", "cold_omissions", "demonstrate", "fit"]


class Omissions(NamedTuple):
    """What an expert leaves out in an episode."""

    empty: frozenset[int]
    """Turns without a thought."""
    said: Mapping[int, list[int]]
    """Observations that a turn's commands leave out, by turn."""
    silent: frozenset[int]
    """Observations that are gone after their turn without a command of the expert's."""


def base_omissions(draw: random.Random, rooms: Sequence[Room]) -> Omissions:
    """Leave redundant things out by chance, so that histories with gaps are nothing new.

    Half of the episodes are full. In each of the others redundant thoughts and observations are
    missing at a rate that is drawn between 0 and 1, so a quarter is missing on average; every other
    observation goes by the expert's command, the rest silently.

    Args:
        draw: Decides.
        rooms: The episode.
    """
    truth = needed(rooms)
    turns = range(1, len(rooms) + 1)
    rate = draw.random() if draw.random() < 0.5 else 0.0
    empty = {t for t in turns if t not in truth.thoughts and draw.random() < rate}
    gone = [t for t in turns[:-1] if t not in truth.observations and draw.random() < rate]
    said = {t: [t] for t in gone if draw.random() < 0.5}
    return Omissions(frozenset(empty), said, frozenset(gone) - said.keys())


def cold_omissions(draw: random.Random, rooms: Sequence[Room]) -> Omissions:
    """Leave out by commands, as cold-start data does: one thought, one observation, or several.

    Several: redundant things go at a rate drawn between 0.2 and 1 for each episode, so that the
    shortest histories, with nothing redundant left, are known before RL finds them.
    """
    truth = needed(rooms)
    turns = range(1, len(rooms) + 1)
    thoughts = [t for t in turns if t not in truth.thoughts]
    seen = [t for t in turns[:-1] if t not in truth.observations]
    which = draw.random()
    if which < 0.2:
        empty, gone = {draw.choice(thoughts)}, set[int]()
    elif which < 0.4:
        empty, gone = set(), {draw.choice(seen)}
    else:
        rate = draw.uniform(0.2, 1.0)
        empty = {t for t in thoughts if draw.random() < rate}
        gone = {t for t in seen if draw.random() < rate}
    return Omissions(frozenset(empty), {t: [t] for t in gone}, frozenset())


def demonstrate(
    env: Vault, seed: int, choose: Callable[[Sequence[Room]], Omissions], render: OmitTranscript
) -> list[Segment]:
    """Return the segments of an expert's episode.

    Args:
        env: The vault.
        seed: Its episode.
        choose: Rooms to what is left out.
        render: Puts histories into tokens.
    """
    rooms = env.rooms(seed)
    omissions = choose(rooms)
    outputs = expert_outputs(rooms, empty=omissions.empty, omit=omissions.said)
    context = render.begin_context(env.task)
    steps: list[Step] = []
    for room, output in zip(rooms, outputs, strict=True):
        context.add_observation(room.text)
        responses = [step.response_ids for step in steps]
        ids = list(render.encode(output))
        nothing = torch.zeros(len(ids))
        prompt = render.prompt(context, responses, context.omitted)
        steps.append(Step(prompt, ids, nothing, nothing, room.action, 0.0, {}))
        context.add_output(output)
        context.omit(*(number for number in omissions.silent if number == len(steps)))
    played = Trajectory(0, 0, steps, 1.0, done=True, truncated=False, success=True)
    return to_segments(played)


def fit(
    model: nn.Module,
    batches: Iterator[Sequence[Segment]],
    rates: Sequence[float],
    *,
    optimizer: torch.optim.Optimizer,
    weights: Tensor | None = None,
) -> list[float]:
    """Train ``model`` in place, one step a batch, on the outputs in segments.

    Args:
        model: Causal model.
        batches: Segments; only tokens of their loss mask are learnt.
        rates: Learning rate of each step.
        optimizer: Of the model's parameters; it can go on with a second call.
        weights: ``(vocabulary,)`` how much each token counts; equally much if None.

    Returns:
        The loss of each step, in nats a token, before it.
    """
    losses = []
    for rate, batch in zip(rates, batches, strict=False):
        optimizer.param_groups[0]["lr"] = rate
        ids, _ = pad_right([segment.prompt_ids + segment.ids for segment in batch])
        seen = ([0] * len(segment.prompt_ids) for segment in batch)
        masks = [[*row, *segment.loss_mask] for row, segment in zip(seen, batch, strict=True)]
        mask = pad_right(masks)[0].bool()
        counts = mask.float() if weights is None else mask * weights[ids]
        loss = -(sequence(model, ids, mask) * counts).sum() / counts.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses
