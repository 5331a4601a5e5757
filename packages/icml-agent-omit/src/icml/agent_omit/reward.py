"""The reward of an episode: what the task gives, and what omission saved where it succeeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from icml.agent_omit.episode import Episode
from icml.core.errors import UserError

__all__ = ["OmissionReward", "RewardMode", "RewardParts", "mean_thought"]

RewardMode = Literal["exact", "relative", "official"]


class RewardParts(NamedTuple):
    """A reward and what it is made of."""

    task: float
    """The environment's, 0 to 1."""
    saved: float
    """The share of tokens that omission saved, 0 to 1; 0 where the task failed."""
    total: float
    """``(1 - weight) task + weight saved``."""


class OmissionReward:
    """``(1 - w) task + w saved``, where ``saved`` counts in successful episodes alone.

    ============  =================================================================================
    mode          ``saved``
    ============  =================================================================================
    ``exact``     prompt tokens saved by each observation over the turns at which it was absent,
                  plus the mean length of a thought for each empty one; over the prompt tokens of
                  the same episode with nothing left out
    ``relative``  one minus the tokens, read and written, over those of a reference episode
    ``official``  as the authors' code computes it: characters of the observations that the last
                  message leaves out over those of all messages, if that step is rewarded
    ============  =================================================================================

    **Differs from the authors' code** in all modes but the last, which is there to compare with:
    tokens, not characters; every turn's omissions, not the last one's; thoughts count too. Its own
    bonus for thoughts looks for a pattern that the format doesn't produce, so it is left out.

    Example:
        >>> from icml.agent_omit.episode import Episode, TurnCost
        >>> turn = TurnCost(prompt=60, full_prompt=80, output=9, thought=0, thought_omitted=True)
        >>> OmissionReward()(Episode((turn,), score=1.0, success=True), mean_thought=20.0)
        RewardParts(task=1.0, saved=0.5, total=0.9)
    """

    def __init__(
        self,
        weight: float = 0.2,
        success_threshold: float = 1.0,
        mode: RewardMode = "exact",
        *,
        reference_tokens: int | None = None,
    ) -> None:
        """Decide how much omission counts.

        Args:
            weight: w, 0 to 1; the authors' code has 0.2.
            success_threshold: Smallest reward of the task that counts as success, above 0.
            mode: See the table.
            reference_tokens: For ``relative``: what a full episode reads and writes.

        Raises:
            UserError: If a value is out of its range, or ``reference_tokens`` is missing or has no
                meaning.
        """
        if not 0 <= weight <= 1:
            raise UserError(f"the reward's weight must be 0 to 1, got {weight}")
        if not 0 < success_threshold <= 1:
            raise UserError(
                f"success_threshold must be above 0, at most 1, got {success_threshold}"
            )
        if mode not in get_args(RewardMode):
            raise UserError(f"mode must be one of {get_args(RewardMode)}, got {mode!r}")
        if (mode == "relative") != (reference_tokens is not None):
            raise UserError(
                "reference_tokens is what mode='relative' compares with, and no other does: got "
                f"{mode=} and {reference_tokens=}"
            )
        if reference_tokens is not None and reference_tokens < 1:
            raise UserError(f"reference_tokens must be at least 1, got {reference_tokens}")
        self.weight, self.success_threshold = weight, success_threshold
        self.mode, self.reference_tokens = mode, reference_tokens

    def __call__(self, episode: Episode, *, mean_thought: float = 0.0) -> RewardParts:
        """Reward an episode.

        Args:
            episode: What it cost and how it ended.
            mean_thought: Mean length of the thoughts, in tokens, of its group (`mean_thought`);
                ``exact`` alone reads it.
        """
        saved = 0.0
        if episode.turns and episode.score >= self.success_threshold:
            measure: dict[RewardMode, Callable[[Episode, float], float]] = {
                "exact": _exact,
                "relative": self._relative,
                "official": _official,
            }
            saved = min(max(measure[self.mode](episode, mean_thought), 0.0), 1.0)
        total = (1 - self.weight) * episode.score + self.weight * saved
        return RewardParts(episode.score, saved, total)

    def _relative(self, episode: Episode, mean_thought: float) -> float:
        assert self.reference_tokens is not None
        return 1 - (episode.prompt_tokens + episode.output_tokens) / self.reference_tokens


def mean_thought(episodes: Sequence[Episode]) -> float:
    """Return the mean length, in tokens, of a group's thoughts that aren't empty; 0 without any."""
    lengths = [length for episode in episodes for length in episode.thoughts]
    return fmean(lengths) if lengths else 0.0


def _exact(episode: Episode, mean_thought: float) -> float:
    full = episode.full_prompt_tokens
    empty = sum(turn.thought_omitted for turn in episode.turns)
    return (full - episode.prompt_tokens + empty * mean_thought) / full


def _official(episode: Episode, mean_thought: float) -> float:
    last = episode.turns[-1]
    return last.omitted_chars / sum(last.message_chars) if last.reward > 0 else 0.0
