"""What an episode cost and what it left out, turn by turn: what its reward is made of.

Everything is counted on the recorded token ids. What the prompts would have been with nothing left
out is found by putting the observations back in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from icml.agent_omit.context import OmitContext, apply_commands
from icml.agent_omit.format import parse_turn
from icml.agent_omit.transcript import OmitTranscript
from icml.core.rl.episodes import Step, Trajectory

__all__ = ["Episode", "TurnCost", "full_steps", "read_episode"]


@dataclass(frozen=True)
class TurnCost:
    """One turn, in tokens unless it says otherwise."""

    prompt: int
    """What the agent read."""
    full_prompt: int
    """What it would have read with no observation left out."""
    output: int
    """What it wrote."""
    thought: int
    """The thought in that, tags not counted."""
    thought_omitted: bool
    """Whether the thought's tags are there and empty."""
    omitted: tuple[int, ...] = ()
    """Observations that its commands left out."""
    bad: tuple[int, ...] = ()
    """Observations that it named in vain."""
    reward: float = 0.0
    """What the environment gave."""
    message_chars: tuple[int, ...] = ()
    """Characters of the messages up to this output, as they stood before its commands."""
    omitted_chars: int = 0
    """Characters of the observations that its commands left out."""


@dataclass(frozen=True)
class Episode:
    """An episode's turns and outcome."""

    turns: tuple[TurnCost, ...]
    score: float
    """Reward of the task, 0 to 1."""
    success: bool

    @property
    def prompt_tokens(self) -> int:
        """P: prompt tokens summed over turns, which is what an API bills."""
        return sum(turn.prompt for turn in self.turns)

    @property
    def output_tokens(self) -> int:
        """G: tokens that the agent wrote."""
        return sum(turn.output for turn in self.turns)

    @property
    def full_prompt_tokens(self) -> int:
        """P of the same episode with no observation left out."""
        return sum(turn.full_prompt for turn in self.turns)

    @property
    def thoughts(self) -> list[int]:
        """Lengths of the thoughts that aren't empty."""
        return [turn.thought for turn in self.turns if turn.thought]


def read_episode(trajectory: Trajectory, transcript: OmitTranscript) -> Episode:
    """Read what an episode cost from its record.

    Args:
        trajectory: As `icml.core.rl.rollout.collect` gives it.
        transcript: What rendered it.

    Raises:
        ValueError: If a prompt isn't what the transcript renders: it is another one's.
    """
    turns = []
    for step, context, responses in _replay(trajectory, transcript):
        if transcript.prompt(context, responses, context.omitted) != step.prompt_ids:
            number = len(turns) + 1
            raise ValueError(f"the prompt of turn {number} isn't what this transcript renders")
        text = transcript.decode(step.response_ids)
        did = apply_commands(
            parse_turn(text), observations=len(context.observations), omitted=context.omitted
        )
        seen = [len(message["content"]) for message in context.messages()]
        gone = (context.shown(n, context.observations[n - 1], False) for n in did.omitted)
        turns.append(
            TurnCost(
                prompt=len(step.prompt_ids),
                full_prompt=len(transcript.prompt(context, responses, frozenset())),
                output=len(step.response_ids),
                thought=len(transcript.encode(did.turn.thought)),
                thought_omitted=did.turn.thought_omitted,
                omitted=did.omitted,
                bad=did.bad,
                reward=step.reward,
                message_chars=(*seen, len(text)),
                omitted_chars=sum(map(len, gone)),
            )
        )
    return Episode(tuple(turns), trajectory.total_reward, trajectory.success)


def full_steps(trajectory: Trajectory, transcript: OmitTranscript) -> list[Step]:
    """Return the turns with every observation put back into their prompts.

    No policy saw these prompts where something was left out: they show what training on one
    unedited sequence an episode would score.
    """
    return [
        replace(step, prompt_ids=transcript.prompt(context, responses, frozenset()))
        for step, context, responses in _replay(trajectory, transcript)
    ]


def _replay(
    trajectory: Trajectory, transcript: OmitTranscript
) -> Iterator[tuple[Step, OmitContext, list[list[int]]]]:
    """Yield each turn with the history that it answered and the responses in that."""
    responses: list[list[int]] = []
    context: OmitContext | None = None
    for step, seen in zip(trajectory.steps, trajectory.observations, strict=False):
        context = context or transcript.begin_context(seen.task)
        context.add_observation(seen.text)
        if transcript.rule is not None:
            transcript.rule(context)
        yield step, context, responses
        context.add_output(transcript.decode(step.response_ids))
        responses.append(step.response_ids)
