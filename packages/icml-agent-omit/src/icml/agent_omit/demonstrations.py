"""Demonstrations by name: an expert of an environment, a tokenizer, and chance omissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from icml.agent_omit.agents import transcript_of
from icml.agent_omit.babyai import expert_thought
from icml.agent_omit.environments import environment
from icml.agent_omit.experts import Think, expert_episode
from icml.agent_omit.rules import Random, omissions
from icml.agent_omit.vault import Vault
from icml.core.envs.protocol import TextEnv
from icml.core.errors import UserError
from icml.core.models.tokenizers import load_tokenizer
from icml.core.rl.episodes import Trajectory

__all__ = ["demonstrations"]


def demonstrations(
    env: str,
    model: str,
    *,
    seeds: Iterable[int],
    drop: float,
    on_change: Literal["refuse", "account"] = "refuse",
) -> list[Trajectory]:
    """Return an expert's successful episodes, which say what they leave out.

    Args:
        env: See `environment`.
        model: See `load_tokenizer`.
        seeds: Of the episodes.
        drop: Chance of each thought to be empty, and of each observation to be left out by a
            command once it was read. What is needed is dropped too: actions are the expert's, who
            doesn't read them.
        on_change: See `chat_transcript`.

    Raises:
        UserError: If there is no such environment or tokenizer, or no episode succeeded.
    """
    make, _ = environment(env)
    transcript = transcript_of(load_tokenizer(model), on_change=on_change)
    rule, found = Random(drop), []
    played = make(None)
    for seed in seeds:
        try:
            episode = expert_episode(
                played,
                seed,
                _think(played, seed),
                transcript=transcript,
                plan=lambda turns, seed=seed: omissions(rule, turns, episode=seed),
                commands=True,
            )
        except RuntimeError:  # BabyAI's bot can be at a loss
            continue
        if episode.success:
            found.append(episode)
    if not found:
        raise UserError(f"the expert of {env} succeeded in none of these episodes")
    return found


def _think(env: TextEnv, seed: int) -> Think:
    """Return what writes an environment's thoughts."""
    if not isinstance(env, Vault):
        return expert_thought
    thoughts = {room.text: room.thought for room in env.rooms(seed)}
    return lambda task, observation, action: thoughts[observation]
