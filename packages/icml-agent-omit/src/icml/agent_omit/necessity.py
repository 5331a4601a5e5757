"""Which thoughts and observations an agent needs, found by leaving each out and playing on.

For one task, an agent plays K episodes as it is and K more for each element, with that thought left
empty or that observation gone once it was read. The element's necessity is what success falls by;
its interval is Newcombe's for a difference of proportions, two-sided at 90 %. An element is
*redundant* if even the upper end is below 0.05 and successful episodes get shorter, *needed* if the
lower end is above 0, else it is not decided. K below 52 can never show redundancy: 52 successes of
52, twice, leave an upper end just below 0.05.

**Reading it.** Success can fall because the agent has never been in a history with such a gap, not
because it needs what is missing. The in-distribution score, the share of the agent's own episodes
in which it left the element out by itself, says how far to trust a drop: at 0, not at all.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from icml.agent_omit.agents import Agent, play, tokens_of
from icml.agent_omit.format import parse_turn
from icml.agent_omit.rules import LeaveOut
from icml.core.errors import UserError
from icml.core.rl.episodes import Trajectory
from icml.core.rl.rollout import EnvFactory, EnvTask
from icml.core.stats import Interval, newcombe

__all__ = ["FEWEST", "LIMIT", "Element", "Kind", "NecessityReport", "TaskReport", "analyse"]

Kind = Literal["thought", "observation"]
Verdict = Literal["redundant", "needed", "not decided"]

FEWEST = 52
"""Roll-outs below which redundancy can't be shown."""
LIMIT = 0.05
"""Largest fall in success that counts as none."""
_LEVEL = 0.9
_TRUSTED = 0.5  # ours: an agent that fails more often than that needs nothing that it has


class Element(NamedTuple):
    """One thought or observation of a task."""

    kind: Kind
    turn: int
    """From 1: the thought's turn, or the turn in which the observation came."""
    necessity: Interval
    """Success as it is less success without the element."""
    tokens: float
    """Mean tokens of a successful episode without it, less those as it is; NaN if none is."""
    in_distribution: float
    """Share of the agent's own episodes, among those that got there, in which it was left out."""
    trusted: bool
    """Whether the agent itself succeeds in half of its episodes at least."""

    @property
    def verdict(self) -> Verdict:
        """What was shown."""
        if self.trusted and self.necessity.high < LIMIT and self.tokens < 0:
            return "redundant"
        return "needed" if self.necessity.low > 0 else "not decided"

    @property
    def rule(self) -> LeaveOut:
        """What leaves this element out."""
        numbers = (self.turn,)
        return LeaveOut(numbers) if self.kind == "thought" else LeaveOut((), numbers)


@dataclass(frozen=True, eq=False)
class TaskReport:
    """The elements of one task."""

    task: EnvTask
    success: float
    """Share of the agent's own episodes that succeeded."""
    episodes: tuple[Trajectory, ...]
    """These episodes."""
    elements: tuple[Element, ...]

    def redundant(self) -> list[Element]:
        """Return what was shown to be redundant."""
        return [element for element in self.elements if element.verdict == "redundant"]


@dataclass(frozen=True, eq=False)
class NecessityReport:
    """What was found; its `lines` are what the command prints."""

    tasks: tuple[TaskReport, ...]
    rollouts: int

    def lines(self) -> Iterator[str]:
        """Return the report, line by line."""
        for task in self.tasks:
            yield f"task {task.task.seed}: success {task.success:.2f} of {self.rollouts} roll-outs"
            yield "element        success falls by    90 % interval  tokens  by itself  verdict"
            for element in task.elements:
                low, high = element.necessity.low, element.necessity.high
                yield (
                    f"{element.kind:<12}{element.turn:>2}{element.necessity.estimate:>17.3f}"
                    f"{low:>9.3f} to {high:>6.3f}{element.tokens:>8.1f}"
                    f"{element.in_distribution:>11.2f}  {element.verdict}"
                )
            yield ""
        counts = {
            verdict: sum(e.verdict == verdict for task in self.tasks for e in task.elements)
            for verdict in ("redundant", "needed", "not decided")
        }
        yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        yield (
            "Success can fall because the agent doesn't know histories with such a gap. 'by "
            "itself' is the share of its own episodes in which it left the element out: where that "
            "is 0, 'needed' may mean only that."
        )


def analyse(
    agent: Agent,
    env_factory: EnvFactory,
    tasks: Sequence[EnvTask],
    *,
    rollouts: int = 64,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> NecessityReport:
    """Find out which elements of tasks an agent needs.

    Args:
        agent: The agent.
        env_factory: `EnvTask` to environment.
        tasks: Analysed one by one.
        rollouts: Episodes of each task, and again of each element; at least 52.
        seed: Determines every draw.
        progress: Told what is being played.

    Raises:
        UserError: If there are too few roll-outs for redundancy ever to be shown.
    """
    if rollouts < FEWEST:
        raise UserError(
            f"{rollouts} roll-outs can't show that anything is redundant: give at least {FEWEST}"
        )
    reports = []
    for number, task in enumerate(tasks):
        if progress:
            progress(f"task {number + 1} of {len(tasks)}")
        reports.append(_task(agent, env_factory, task, rollouts, seed + 10_000 * number))
    return NecessityReport(tuple(reports), rollouts)


def _task(
    agent: Agent, env_factory: EnvFactory, task: EnvTask, rollouts: int, seed: int
) -> TaskReport:
    base = play(agent, env_factory, [task], group_size=rollouts, seed=seed)
    # An element belongs to the task if half of the episodes get there.
    turns = sorted((len(episode.steps) for episode in base), reverse=True)[rollouts // 2]
    elements = []
    for number, (kind, turn) in enumerate(_elements(turns), 1):
        rule = LeaveOut((turn,)) if kind == "thought" else LeaveOut((), (turn,))
        without = play(
            agent, env_factory, [task], rule=rule, group_size=rollouts, seed=seed + number
        )
        elements.append(_element(agent, kind, turn, base, without))
    return TaskReport(task, _successes(base) / rollouts, tuple(base), tuple(elements))


def _elements(turns: int) -> Iterator[tuple[Kind, int]]:
    """Yield a task's elements; the last observation is gone in no prompt."""
    yield from (("thought", turn) for turn in range(1, turns + 1))
    yield from (("observation", turn) for turn in range(1, turns))


def _element(
    agent: Agent, kind: Kind, turn: int, base: Sequence[Trajectory], without: Sequence[Trajectory]
) -> Element:
    kept, left = _successes(base), _successes(without)
    there = [episode for episode in base if len(episode.steps) >= turn]
    own = [_left_out(agent, kind, turn, episode) for episode in there]
    return Element(
        kind=kind,
        turn=turn,
        necessity=newcombe(kept, len(base), left, len(without), level=_LEVEL),
        tokens=_tokens(without) - _tokens(base),
        in_distribution=sum(own) / len(own),
        trusted=kept >= _TRUSTED * len(base),
    )


def _left_out(agent: Agent, kind: Kind, turn: int, episode: Trajectory) -> bool:
    """Return whether an agent left an element of an episode out by itself."""
    read = (parse_turn(agent.transcript.decode(step.response_ids)) for step in episode.steps)
    said = list(read)
    if kind == "thought":
        return said[turn - 1].thought_omitted
    return any(turn in output.omit for output in said[turn - 1 :])


def _successes(episodes: Sequence[Trajectory]) -> int:
    return sum(episode.success for episode in episodes)


def _tokens(episodes: Sequence[Trajectory]) -> float:
    """Return the mean tokens of successful episodes: failed ones end early."""
    won = [tokens_of(episode) for episode in episodes if episode.success]
    return statistics.fmean(won) if won else float("nan")
