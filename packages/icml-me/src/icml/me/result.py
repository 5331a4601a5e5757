"""What a generation returns: the tokens and texts, who wrote what, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

FinishReason = Literal["stop", "length", "window", "interrupted"]
"""End token or stop string; ``max_new_tokens``; shortest context window; Ctrl-C."""


@dataclass(frozen=True)
class EnsembleStats:
    """What each member did in one generation."""

    members: tuple[str, ...]
    """Their names."""
    calls: tuple[int, ...]
    """Forward passes."""
    tokens: tuple[int, ...]
    """Tokens read in these passes, padding not counted."""
    seconds: tuple[float, ...]
    """Time spent in them, in seconds."""
    steps: int
    """Tokens that a row was given at most: what one model alone would have taken as passes."""
    total_seconds: float
    """Time of the whole generation, in seconds."""

    @property
    def calls_per_token(self) -> float:
        """Forward passes a step; an ensemble that averages has one a member, ME has 1."""
        return sum(self.calls) / max(self.steps, 1)

    @property
    def outside(self) -> float:
        """Share of the time spent outside the forward passes."""
        return 1 - sum(self.seconds) / self.total_seconds if self.total_seconds else 0.0

    def __str__(self) -> str:
        """Return a table, a line a member."""
        width = max(len("member"), *(len(name) for name in self.members))
        lines = [f"{'member':<{width}}  {'passes':>7}  {'tokens':>7}  {'seconds':>8}"]
        rows = zip(self.members, self.calls, self.tokens, self.seconds, strict=True)
        for name, calls, tokens, seconds in rows:
            lines.append(f"{name:<{width}}  {calls:>7}  {tokens:>7}  {seconds:>8.2f}")
        speed = self.steps / self.total_seconds if self.total_seconds else 0.0
        lines.append(
            f"{self.steps} tokens in {self.total_seconds:.2f} s ({speed:.1f} a second), "
            f"{self.calls_per_token:.2f} passes a token, "
            f"{self.outside:.1%} of the time outside them"
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class GenerateResult:
    """What an ensemble has written."""

    sequences: Tensor
    """``(batch, prompt + new tokens)`` ids of the first member's vocabulary. Prompts are padded on
    the left, rows that end early on the right."""
    texts: list[str]
    """The new text of each row without special tokens and without the stop string; empty when
    the ensemble has no tokenizers."""
    chosen_member: Tensor
    """``(batch, new tokens)``: who wrote it; -1 where all members did and after a row's end."""
    finish_reasons: tuple[FinishReason, ...]
    """Why each row ended."""
    stats: EnsembleStats
