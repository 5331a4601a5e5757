"""``icml empg explain``: what the modulation makes of the steps of a stored batch of episodes.

The log is JSON Lines, one episode a line, one generation batch a file::

    {"reward": 1.0, "group": 0, "steps": [
        {"text": "go forward", "entropy": 0.21}, {"text": "pick up", "entropies": [0.9, 0.1]}]}

``reward`` and ``group`` (episodes of the same task) give GRPO's advantage; ``advantage`` in their
place is taken as it is. A step has its mean token entropy, or those of its tokens, in nats.
``text`` may be left out.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator
from torch import Tensor

from icml.core.errors import UserError
from icml.core.rl.functional import group_advantage
from icml.core.rl.recipe import complaint
from icml.empg.diagnostics import UpdateReport, update_report
from icml.empg.effect import ClarityBonusWarning
from icml.empg.modulation import EMPGResult, empg_modulate
from icml.empg.params import EMPGParams
from icml.empg.segments import LOWEST_ENTROPY

Nats = Annotated[FiniteFloat, Field(ge=LOWEST_ENTROPY)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LoggedStep(_Line):
    """A step of a logged episode."""

    text: str = ""
    entropy: Nats | None = None
    entropies: Annotated[list[Nats], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> LoggedStep:
        if (self.entropy is None) == (self.entropies is None):
            raise ValueError("give entropy (nats) or entropies (nats, one a token)")
        return self

    @property
    def mean(self) -> float:
        """Mean entropy, in nats; what rounding made negative counts as 0, as in training."""
        values = [self.entropy] if self.entropies is None else self.entropies
        return statistics.fmean(max(value or 0.0, 0.0) for value in values)


class LoggedEpisode(_Line):
    """A line of the log."""

    steps: list[LoggedStep]
    advantage: FiniteFloat | None = None
    reward: FiniteFloat | None = None
    group: int | str | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> LoggedEpisode:
        rewarded = self.reward is not None and self.group is not None
        if rewarded == (self.advantage is not None):
            raise ValueError("give advantage, or reward and group")
        return self


@dataclass(frozen=True)
class Explanation:
    """A batch before and after the modulation; ``str(explanation)`` is what the command prints."""

    episodes: tuple[LoggedEpisode, ...]
    advantages: Tensor
    """``(steps,)``: each step's advantage before."""
    entropy: Tensor
    """``(steps,)`` in nats."""
    result: EMPGResult
    report: UpdateReport
    notes: tuple[str, ...]
    """What there was to warn about."""

    def __str__(self) -> str:
        """Return the tables of all episodes and the summary."""
        return "\n".join(self.lines(len(self.episodes)))

    def lines(self, episodes: int) -> Iterator[str]:
        """Return the tables of the first episodes, and the summary of all, line by line."""
        first = 0
        for number, episode in enumerate(self.episodes):
            if number < episodes:
                yield from self._table(number, first)
                yield ""
            first += len(episode.steps)
        if episodes < len(self.episodes):
            yield f"... and {len(self.episodes) - episodes} more episodes: --episodes shows more"
            yield ""
        yield from self._summary()

    def _table(self, number: int, first: int) -> Iterator[str]:
        episode, result = self.episodes[number], self.result
        reward = "" if episode.reward is None else f"reward {episode.reward:g}, "
        length = len(episode.steps)
        yield f"episode {number}: {reward}{length} step{'s' * (length != 1)}"
        if length:
            yield "step  entropy      g      f  bonus    before     after  text"
        for step, logged in enumerate(episode.steps):
            i = first + step
            yield (
                f"{step:>4}{self.entropy[i]:>9.4f}{result.g[i]:>7.3f}{result.f[i]:>7.3f}"
                f"{result.bonus[i]:>7.3f}{self.advantages[i]:>10.4f}{result.advantages[i]:>10.4f}"
                f"  {' '.join(logged.text.split())[:40]}"
            ).rstrip()

    def _summary(self) -> Iterator[str]:
        effect, stats = self.result.effect, self.result.stats
        yield f"{len(self.episodes)} episodes, {stats.count} steps, entropies in nats"
        yield f"subtracted from every step: {self.result.shift:.4f}"
        yield f"share of the bonus in the advantages: {effect.bonus_share:.1%}"
        yield f"last steps get {effect.last_step_shift:+.4f} of bonus against the mean step"
        yield f"steps skipped: {effect.skipped:.1%}"
        yield "size of the update, |advantage|, among steps of different entropy:"
        yield str(self.report)
        yield from (f"note: {note}" for note in self.notes)


def explain(log: Path, params: EMPGParams | None = None) -> Explanation:
    """Apply the modulation to a stored batch.

    Args:
        log: JSON Lines, see above.
        params: The paper's if None.

    Returns:
        Every step before and after.

    Raises:
        UserError: If the file can't be read, a line is no episode (the message has its number), or
            there is no step in it.
    """
    episodes = tuple(read_episodes(log))
    steps = [step for episode in episodes for step in episode.steps]
    if not steps:
        raise UserError(f"{log} has {len(episodes)} episodes and not one step")
    entropy = torch.tensor([step.mean for step in steps], dtype=torch.float64)
    lengths = torch.tensor([len(episode.steps) for episode in episodes])
    advantages = _advantages(episodes).repeat_interleave(lengths)
    ends = lengths.cumsum(0)[lengths > 0] - 1
    following = torch.arange(1, len(steps) + 1).index_fill(0, ends, -1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ClarityBonusWarning)
        result = empg_modulate(advantages, entropy, following, params)
    report = update_report(entropy, advantages, result.advantages)
    notes = tuple(str(w.message) for w in caught if w.category is ClarityBonusWarning)
    return Explanation(episodes, advantages, entropy, result, report, notes)


def read_episodes(log: Path) -> Iterator[LoggedEpisode]:
    """Read a log line by line; empty lines are skipped.

    Raises:
        UserError: If the file can't be read or a line is no episode.
    """
    try:
        # Not splitlines: a step's text may hold other line ends, such as U+2028.
        lines = log.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read the log {log}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            # JSON's strict mode of pydantic also refuses NaN, which Python's parser takes.
            yield LoggedEpisode.model_validate_json(line)
        except ValidationError as error:
            reasons = "; ".join(map(complaint, error.errors()[:3]))
            raise UserError(f"{log} line {number}: {reasons}") from error


def _advantages(episodes: tuple[LoggedEpisode, ...]) -> Tensor:
    """Return one advantage an episode, ``(episodes,)``."""
    given = [episode.advantage for episode in episodes]
    rewards = torch.tensor(
        [float("nan") if e.reward is None else e.reward for e in episodes], dtype=torch.float64
    )
    names = {name: i for i, name in enumerate(dict.fromkeys(e.group for e in episodes))}
    groups = torch.tensor([names[episode.group] for episode in episodes])
    of_rewards = group_advantage(rewards, groups)  # 0 where there is no reward
    own = torch.tensor([0.0 if a is None else a for a in given], dtype=torch.float64)
    return torch.where(torch.tensor([a is None for a in given]), of_rewards, own)
