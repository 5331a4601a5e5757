"""Agents that act in text environments with their history edited, by themselves or by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from icml.agent_omit.context import OmitContext
from icml.agent_omit.format import action_of
from icml.agent_omit.rules import OmissionRule
from icml.agent_omit.templates import ChatTranscript, chat_transcript
from icml.agent_omit.transcript import OmitTranscript
from icml.core.errors import UserError
from icml.core.rl.episodes import Trajectory
from icml.core.rl.rollout import (
    EnvFactory,
    EnvTask,
    HFSampler,
    History,
    Sample,
    Sampler,
    collect,
)

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
        UserError: If there is no such model, its chat template changes what the agent writes, or
            its context has no room for an output.
    """
    from icml.core.models.load import load

    found = load(source)
    room = getattr(found.model.config, "max_position_embeddings", None)
    if room is not None and max_new_tokens >= room:
        raise UserError(
            f"{source} reads at most {room} tokens, prompt and all, and max_new_tokens is "
            f"{max_new_tokens}: give fewer"
        )
    transcript = transcript_of(found.tokenizer, on_change=on_change)
    sampler = HFSampler(found.model, found.tokenizer, temperature=temperature)
    return Agent(sampler, transcript, max_turns, max_new_tokens)


@dataclass(eq=False)
class _Ruled:
    """Plays under a rule: renders each prompt by it, then begins outputs with empty thoughts.

    `collect` renders the prompts of all living episodes, then asks for their outputs in the same
    order; all live in the first turn, so that episodes are told apart by when they are first seen.
    """

    agent: Agent
    rule: OmissionRule
    turn: int = 0
    histories: list[History] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    """Numbers of the episodes whose prompts were rendered and that have no output yet."""

    def render(self, history: History) -> list[int]:
        if self.turn == 0:
            self.histories.append(history)
        number = next(n for n, known in enumerate(self.histories) if known is history)
        self.asked.append(number)
        rule = self.rule
        shown = replace(self.agent.transcript, rule=lambda context: _hide(context, rule, number))
        return shown(history)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        generators: Sequence[torch.Generator],
    ) -> list[Sample]:
        self.turn += 1
        numbers, self.asked = self.asked, []
        agent, rule, nothing = self.agent, self.rule, empty_thought(self.agent.transcript)
        beginnings = [
            nothing
            if rule.omits_thought(self.turn, turns=agent.max_turns, episode=number)
            else list[int]()
            for number in numbers
        ]
        drawn = agent.sampler.sample(
            [[*prompt, *forced] for prompt, forced in zip(prompts, beginnings, strict=True)],
            max_new_tokens=max_new_tokens,
            generators=generators,
        )
        samples = []
        for sample, forced in zip(drawn, beginnings, strict=True):
            unknown = torch.full((len(forced),), torch.nan)
            ids = [*forced, *sample.ids]
            scores = (torch.cat([unknown, own]) for own in (sample.logps, sample.entropies))
            samples.append(Sample(ids, *scores, agent.transcript.decode(ids)))
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
    draws for each episode anew: its number is the place in what is returned.

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
    ruled = None if rule is None else _Ruled(agent, rule)
    return collect(
        ruled or agent.sampler,
        env_factory,
        tasks,
        group_size=group_size,
        max_turns=agent.max_turns,
        max_new_tokens=agent.max_new_tokens,
        render=ruled.render if ruled else agent.transcript,
        parse=action_of,
        seed=seed,
    )


def _hide(context: OmitContext, rule: OmissionRule, episode: int) -> None:
    """Leave out what is gone by the turn that the newest observation begins."""
    now = len(context.observations)
    for number in range(1, now):
        turn = rule.gone_from(number, episode=episode)
        if turn is not None and turn <= now:
            context.omit(number)


def tokens_of(episode: Trajectory) -> int:
    """Return the tokens of an episode, prompts and outputs of all turns."""
    return sum(len(step.prompt_ids) + len(step.response_ids) for step in episode.steps)
