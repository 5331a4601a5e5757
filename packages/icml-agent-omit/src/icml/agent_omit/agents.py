"""Agents that act in text environments with their history edited, by themselves or by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from icml.agent_omit.context import OmitContext
from icml.agent_omit.format import action_of
from icml.agent_omit.rules import OmissionRule
from icml.agent_omit.templates import ChatTranscript, chat_transcript
from icml.agent_omit.transcript import OmitTranscript
from icml.core.rl.episodes import Trajectory
from icml.core.rl.rollout import EnvFactory, EnvTask, HFSampler, Sample, Sampler, collect

__all__ = ["Agent", "load_agent", "plain_transcript", "play", "tokens_of", "transcript_of"]


@dataclass(frozen=True, eq=False)
class Agent:
    """A policy and how it is shown its history."""

    sampler: Sampler
    transcript: OmitTranscript
    max_turns: int
    """Longest episode, in turns."""
    max_new_tokens: int
    """Longest output, in tokens."""


def plain_transcript(tokenizer: Any) -> OmitTranscript:
    """Return what renders episodes for a model without a chat template: one message a line."""

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    begin = () if tokenizer.bos_token_id is None else (tokenizer.bos_token_id,)
    special = {tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token}
    return OmitTranscript(
        encode,
        tokenizer.decode,
        opening="{text}\n",
        following="\n{text}\n",
        begin=begin,
        special=tuple(sorted(token for token in special if token and not token.startswith("</"))),
    )


def transcript_of(
    tokenizer: Any, *, on_change: Literal["refuse", "account"] = "refuse"
) -> OmitTranscript:
    """Return what renders episodes for a model: by its chat template, plainly without one.

    Args:
        tokenizer: Of transformers.
        on_change: See `chat_transcript`.

    Raises:
        UserError: If the template changes what the agent writes and isn't to be accounted for.
    """
    if tokenizer.chat_template:
        return chat_transcript(tokenizer, on_change=on_change)
    return plain_transcript(tokenizer)


def load_agent(
    source: str,
    *,
    max_turns: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    on_change: Literal["refuse", "account"] = "refuse",
) -> Agent:
    """Load a model of transformers as an agent.

    Args:
        source: See `icml.core.models.load.load`; a folder that ``icml agent-omit sft`` wrote, say.
        max_turns: Longest episode, in turns.
        max_new_tokens: Longest output, in tokens.
        temperature: Of the samples.
        on_change: See `chat_transcript`.

    Raises:
        UserError: If there is no such model, or its chat template changes what the agent writes.
    """
    from icml.core.models.load import load

    found = load(source)
    transcript = transcript_of(found.tokenizer, on_change=on_change)
    sampler = HFSampler(found.model, found.tokenizer, temperature=temperature)
    return Agent(sampler, transcript, max_turns, max_new_tokens)


@dataclass(eq=False)
class _Ruled:
    """Begins the outputs of some turns with an empty thought; asked once a turn."""

    agent: Agent
    rule: OmissionRule | None
    turn: int = 0

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        generators: Sequence[torch.Generator],
    ) -> list[Sample]:
        self.turn += 1
        agent, forced = self.agent, list[int]()
        if self.rule and self.rule.omits_thought(self.turn, turns=agent.max_turns):
            forced = empty_thought(agent.transcript)
        drawn = agent.sampler.sample(
            [[*prompt, *forced] for prompt in prompts],
            max_new_tokens=max_new_tokens,
            generators=generators,
        )
        unknown = torch.full((len(forced),), torch.nan)
        samples = []
        for sample in drawn:
            ids = [*forced, *sample.ids]
            numbers = (torch.cat([unknown, own]) for own in (sample.logps, sample.entropies))
            samples.append(Sample(ids, *numbers, agent.transcript.decode(ids)))
        return samples


def empty_thought(transcript: OmitTranscript) -> list[int]:
    """Return the token ids of a thought left empty, as far as the agent writes them."""
    opened = isinstance(transcript, ChatTranscript) and transcript.opened
    return list(transcript.encode("</think>" if opened else "<think></think>"))


def play(
    agent: Agent,
    env_factory: EnvFactory,
    tasks: Sequence[EnvTask],
    *,
    rule: OmissionRule | None = None,
    group_size: int = 1,
    seed: int,
) -> list[Trajectory]:
    """Let an agent act, left to itself or under a rule.

    A rule's empty thoughts are put before what the agent writes, so their log-probabilities are
    unknown (NaN): such episodes can be looked at, not trained on as they are. A rule that draws
    draws the same for all episodes.

    Args:
        agent: The agent.
        env_factory: `EnvTask` to environment.
        tasks: What to play.
        rule: What is left out whatever the agent says.
        group_size: Episodes a task.
        seed: Determines every draw.

    Returns:
        ``len(tasks) * group_size`` episodes.
    """
    transcript = agent.transcript
    if rule is not None:
        transcript = replace(transcript, rule=lambda context: _hide(context, rule))
    return collect(
        _Ruled(agent, rule),
        env_factory,
        tasks,
        group_size=group_size,
        max_turns=agent.max_turns,
        max_new_tokens=agent.max_new_tokens,
        render=transcript,
        parse=action_of,
        seed=seed,
    )


def _hide(context: OmitContext, rule: OmissionRule) -> None:
    """Leave out what is gone by the turn that the newest observation begins."""
    now = len(context.observations)
    for number in range(1, now):
        turn = rule.gone_from(number)
        if turn is not None and turn <= now:
            context.omit(number)


def tokens_of(episode: Trajectory) -> int:
    """Return the tokens of an episode, prompts and outputs of all turns."""
    return sum(len(step.prompt_ids) + len(step.response_ids) for step in episode.steps)
