"""The prompt of an episode whose history the agent edits: what `collect` renders turns by.

The agent's outputs stand in it by the ids that were drawn, never decoded and encoded again; each
observation is encoded alone, so that leaving one out changes its own tokens and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from icml.agent_omit.context import OmitContext
from icml.core.rl.rollout import History

__all__ = ["OmitTranscript"]


@dataclass(frozen=True)
class OmitTranscript:
    r"""Renders the history of an episode as the agent is to see it.

    For a chat model the two templates hold its special tokens::

        OmitTranscript(
            partial(tokenizer.encode, add_special_tokens=False),
            tokenizer.decode,
            opening="<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n",
            following="<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n",
            special=tokenizer.all_special_tokens,
        )
    """

    encode: Callable[[str], Sequence[int]]
    """Text to token ids, without adding special tokens."""
    decode: Callable[[Sequence[int]], str]
    """Token ids of an output to its text."""
    opening: str = "{text}"
    """Template of the first message: the task and the first observation."""
    following: str = "{text}"
    """Template of the others."""
    begin: tuple[int, ...] = ()
    """Token ids before everything."""
    tell_task: bool = True
    """Whether the first message holds the environment's task."""
    special: tuple[str, ...] = ()
    """Strings that observations must not bring in, such as the tokenizer's special tokens."""
    rule: Callable[[OmitContext], None] | None = None
    """Leaves observations out by itself, before each turn."""

    def __call__(self, history: History) -> list[int]:
        """Return the prompt of the next turn."""
        context = self.context(history)
        return self.prompt(context, history.responses, context.omitted)

    def context(self, history: History) -> OmitContext:
        """Return the edited history, with what the outputs so far have left out."""
        context = self.begin_context(history.observations[0].task)
        for seen, response in zip_longest(history.observations, history.responses):
            context.add_observation(seen.text)
            if self.rule is not None:
                self.rule(context)
            if response is not None:
                context.add_output(self.decode(response))
        return context

    def begin_context(self, task: str | None) -> OmitContext:
        """Return the history of an episode that hasn't begun."""
        return OmitContext((task or "") if self.tell_task else "", special=self.special)

    def prompt(
        self, context: OmitContext, responses: Sequence[Sequence[int]], omitted: frozenset[int]
    ) -> list[int]:
        """Return a history's token ids.

        Args:
            context: Its observations.
            responses: Token ids of the outputs, one an observation but for the last.
            omitted: Observations of which the placeholder is shown.
        """
        ids = list(self.begin)
        for number, text in enumerate(context.observations, 1):
            ids += self.message(context, number, text, number in omitted)
            if number <= len(responses):
                ids += responses[number - 1]
        return ids

    def message(self, context: OmitContext, number: int, text: str, omitted: bool) -> list[int]:
        """Return the token ids of an observation's message, or of what is left of it."""
        before, after = (self.opening if number == 1 else self.following).split("{text}")
        return list(self.encode(before + context.shown(number, text, omitted) + after))
