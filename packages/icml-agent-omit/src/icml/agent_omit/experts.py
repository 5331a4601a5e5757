"""Demonstrations: an expert's actions in an environment, with thoughts and omissions written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import torch

from icml.agent_omit.format import action_of, omit_command, write_turn
from icml.agent_omit.ledger import NOTHING, Omissions
from icml.agent_omit.templates import ChatTranscript
from icml.agent_omit.transcript import OmitTranscript
from icml.core.envs.protocol import Observation, TextEnv
from icml.core.rl.episodes import Step, Trajectory

__all__ = ["Plan", "Think", "expert_episode", "write_episode"]

Think = Callable[[str, str, str], str]
"""Task, observation and action to the thought that leads from the first two to the last."""


class Plan(Protocol):
    """Chooses what is left out, told how many turns the episode has."""

    def __call__(self, turns: int) -> Omissions:
        """Return it."""
        ...


class _Expert(Protocol):
    def expert_actions(self) -> list[str]: ...


def expert_episode(
    env: TextEnv,
    seed: int,
    think: Think,
    *,
    transcript: OmitTranscript,
    plan: Plan | None = None,
    commands: bool = False,
) -> Trajectory:
    """Play an episode as the environment's expert would, and write it in the format.

    Args:
        env: An environment that offers ``expert_actions()``.
        seed: Its episode.
        think: Writes thoughts.
        transcript: Puts histories into tokens.
        plan: What is left out; nothing if None.
        commands: Whether the outputs say so: an observation leaves by a command in the turn before
            it is gone. Otherwise it is gone without a word, as under a rule.

    Returns:
        The episode; its log-probabilities and entropies are 0, since nothing was drawn.
    """
    first = env.reset(seed)
    actions = cast(_Expert, env).expert_actions()
    omissions = plan(len(actions)) if plan else NOTHING
    observations, outputs, rewards, infos = [first], [], [], []
    for turn, action in enumerate(actions, 1):
        seen = observations[-1]
        thought = "" if turn in omissions.thoughts else think(first.task or "", seen.text, action)
        outputs.append(write_turn(thought, action=action))
        answered = env.step(action)
        rewards.append(float(answered.reward))
        infos.append(answered.info)
        observations.append(answered.observation)
    return write_episode(
        observations,
        outputs,
        transcript=transcript,
        omissions=omissions,
        commands=commands,
        rewards=rewards,
        infos=infos,
    )


def write_episode(
    observations: Sequence[Observation],
    outputs: Sequence[str],
    *,
    transcript: OmitTranscript,
    omissions: Omissions = NOTHING,
    commands: bool = False,
    rewards: Sequence[float],
    infos: Sequence[Mapping[str, Any]],
) -> Trajectory:
    """Put an episode that is known as text into tokens, with observations left out.

    Args:
        observations: Before each output, and after the last.
        outputs: Of the agent; ``commands`` puts the commands into them.
        transcript: Puts histories into tokens.
        omissions: When observations are gone; thoughts are taken as the outputs have them.
        commands: See `expert_episode`.
        rewards: One an output.
        infos: One an output; the last one's ``success`` is the episode's.
    """
    context = transcript.begin_context(observations[0].task)
    steps: list[Step] = []
    for turn, output in enumerate(outputs, 1):
        context.add_observation(observations[turn - 1].text)
        context.omit(*(number for number, gone in omissions.gone.items() if gone == turn))
        leaving = [number for number, gone in omissions.gone.items() if gone == turn + 1]
        said = _with_commands(output, leaving) if commands and turn < len(outputs) else output
        ids = _ids(said, transcript)
        nothing = torch.zeros(len(ids))
        prompt = transcript.prompt(context, [step.response_ids for step in steps], context.omitted)
        steps.append(
            Step(prompt, ids, nothing, nothing, action_of(said), rewards[turn - 1], infos[turn - 1])
        )
        context.add_output(said)
    return Trajectory(
        task_id=0,
        group_id=0,
        steps=steps,
        total_reward=sum(rewards),
        done=True,
        truncated=bool(infos[-1].get("truncated")) if infos else False,
        success=bool(infos[-1].get("success")) if infos else False,
        observations=tuple(observations),
    )


def _with_commands(output: str, numbers: Sequence[int]) -> str:
    thought, closing, rest = output.partition("</think>")
    return f"{thought}{closing}{''.join(map(omit_command, numbers))}{rest}"


def _ids(output: str, transcript: OmitTranscript) -> list[int]:
    """Return an output's ids, closed as the agent would; what the template opens is not its own."""
    if not isinstance(transcript, ChatTranscript):
        return list(transcript.encode(output))
    own = output.removeprefix("<think>") if transcript.opened else output
    return [*transcript.encode(own), *([] if transcript.eos_id is None else [transcript.eos_id])]
