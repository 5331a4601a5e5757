"""The prompt of an episode whose turns are one growing text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from icml.core.envs.protocol import Observation
from icml.core.rl.rollout import History

__all__ = ["Transcript"]


@dataclass(frozen=True)
class Transcript:
    r"""Renders the whole history: each prompt is the one before, its response, and what came back.

    Responses go in by the ids that were drawn, so the episode is one token sequence, as the
    concatenated layout and TRL need it. The two templates hold ``{text}`` and ``{task}`` of the
    observation and whatever else frames a turn, such as a chat model's special tokens::

        Transcript(
            partial(tokenizer.encode, add_special_tokens=False),
            opening="<|im_start|>user\n{task}\n{text}<|im_end|>\n<|im_start|>assistant\n",
            following="\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n",
        )
    """

    encode: Callable[[str], list[int]]
    """Text to token ids, without adding special tokens."""
    opening: str = "{task}\n{text}\n"
    """Template of the first observation."""
    following: str = "\n{text}\n"
    """Template of those that answer a response."""

    def __call__(self, history: History) -> list[int]:
        """Return the prompt of the next turn."""
        first, *others = history.observations
        ids = self._ids(self.opening, first)
        for response, seen in zip(history.responses, others, strict=True):
            ids += [*response, *self._ids(self.following, seen)]
        return ids

    def _ids(self, template: str, seen: Observation) -> list[int]:
        return list(self.encode(template.format(text=seen.text, task=seen.task or "")))
