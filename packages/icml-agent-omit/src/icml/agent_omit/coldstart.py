"""Cold-start data: an agent's own successes, rewritten so that they say what they leave out.

A third of the examples leaves out one thought, a third one observation, a third several elements:
the redundant ones of a task in turn, each kept out while the agent still succeeds. The agent plays
the task with the elements missing; a successful episode is then written in the format, with
its commands. It becomes data only if a judge agrees that the omission kept the actions: shown the
rewritten history, the agent must choose the same action again in every turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from icml.agent_omit.agents import Agent, empty_thought, play
from icml.agent_omit.experts import write_episode
from icml.agent_omit.format import action_of, parse_turn
from icml.agent_omit.ledger import Omissions
from icml.agent_omit.necessity import LIMIT, NecessityReport, TaskReport
from icml.agent_omit.rules import LeaveOut, omissions
from icml.agent_omit.sft import segment_rows
from icml.core.rl.episodes import Trajectory
from icml.core.rl.rollout import EnvFactory

__all__ = ["ColdStart", "Example", "actions_kept", "synthesise"]

ExampleKind = Literal["one thought", "one observation", "several"]
KINDS: tuple[ExampleKind, ...] = ("one thought", "one observation", "several")
_MAJORITY = 0.5


@dataclass(frozen=True, eq=False)
class Example:
    """An episode that leaves something out."""

    kind: ExampleKind
    task: int
    """Seed of its task."""
    left_out: Omissions
    episode: Trajectory
    kept: float
    """Share of the judge's draws that repeat the action, in the turn where it is lowest."""

    def rows(self) -> list[dict[str, Any]]:
        """Return its segments for ``SFTTrainer``, with what it leaves out beside them."""
        about = {
            "kind": self.kind,
            "task": self.task,
            "thoughts": sorted(self.left_out.thoughts),
            "observations": sorted(self.left_out.gone),
            "kept": self.kept,
        }
        return [row | about for row in segment_rows([self.episode])]


@dataclass(frozen=True, eq=False)
class ColdStart:
    """The data and how it came about."""

    examples: tuple[Example, ...]
    """In equal thirds, as far as there are enough of each kind."""
    rejected: Counter[str]
    """Why candidates were not taken."""

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return [row for example in self.examples for row in example.rows()]

    def lines(self) -> Iterator[str]:
        """Return the summary, line by line."""
        counts = Counter(example.kind for example in self.examples)
        yield f"{len(self.examples)} examples: " + ", ".join(f"{counts[k]} {k}" for k in KINDS)
        for reason, count in self.rejected.most_common():
            yield f"not taken, {count}: {reason}"


def synthesise(
    report: NecessityReport,
    agent: Agent,
    env_factory: EnvFactory,
    *,
    draws: int = 8,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ColdStart:
    """Make data from what an analysis has shown to be redundant.

    Args:
        report: Of the same agent.
        agent: The agent.
        env_factory: `EnvTask` to environment.
        draws: The judge's, a turn; and roll-outs of each greedy step.
        seed: Determines every draw.
        progress: Told what is being played.

    Returns:
        Examples, one at most a kind and redundant element of a task, cut to equal thirds.
    """
    rejected: Counter[str] = Counter()
    found: dict[ExampleKind, list[Example]] = {kind: [] for kind in KINDS}
    for number, task in enumerate(report.tasks):
        if progress:
            progress(f"task {number + 1} of {len(report.tasks)}")
        if not task.redundant():
            rejected["nothing in the task was shown to be redundant"] += 1
        source = _Source(task, agent, env_factory, draws, seed + 1000 * number)
        for kind, rule in source.candidates():
            example = source.example(kind, rule)
            if isinstance(example, str):
                rejected[example] += 1
            else:
                found[kind].append(example)
    fewest = min(map(len, found.values()))
    for kind, examples in found.items():
        if len(examples) > fewest:
            rejected[f"more examples of {kind} than of the rarest kind"] += len(examples) - fewest
    kept = [example for kind in KINDS for example in found[kind][:fewest]]
    return ColdStart(tuple(kept), rejected)


@dataclass(frozen=True, eq=False)
class _Source:
    """A task and the agent that plays it."""

    task: TaskReport
    agent: Agent
    env_factory: EnvFactory
    draws: int
    seed: int

    def candidates(self) -> Iterator[tuple[ExampleKind, LeaveOut]]:
        for element in self.task.redundant():
            kind: ExampleKind = "one thought" if element.kind == "thought" else "one observation"
            yield kind, element.rule
        several = self.greedy()
        if len(several.thoughts) + len(several.observations) > 1:
            yield "several", several

    def greedy(self) -> LeaveOut:
        """Leave out one redundant element after the other, those that save most first.

        An element stays in if success falls by the limit or more.
        """
        chosen = LeaveOut()
        for element in sorted(self.task.redundant(), key=lambda element: element.tokens):
            more = element.rule
            tried = LeaveOut(
                (*chosen.thoughts, *more.thoughts), (*chosen.observations, *more.observations)
            )
            won = sum(episode.success for episode in self.play(tried, self.seed))
            if won / self.draws > self.task.success - LIMIT:
                chosen = tried
        return chosen

    def play(self, rule: LeaveOut, seed: int) -> list[Trajectory]:
        tasks = [self.task.task]
        return play(
            self.agent, self.env_factory, tasks, rule=rule, group_size=self.draws, seed=seed
        )

    def example(self, kind: ExampleKind, rule: LeaveOut) -> Example | str:
        """Return the example, or why there is none."""
        played = self.play(rule, self.seed + 1)
        won = [e for e in played if e.success and not e.error and not _malformed(self.agent, e)]
        if not won:
            return "no roll-out succeeded in the format"
        episode, decode = won[0], self.agent.transcript.decode
        left_out = omissions(rule, len(episode.steps))
        written = write_episode(
            episode.observations,
            [decode(step.response_ids) for step in episode.steps],
            transcript=self.agent.transcript,
            omissions=left_out,
            commands=True,
            rewards=[step.reward for step in episode.steps],
            infos=[step.info for step in episode.steps],
        )
        kept = actions_kept(self.agent, written, draws=self.draws, seed=self.seed + 2)
        if kept < _MAJORITY:
            return "shown the rewritten history, the agent acts otherwise"
        return Example(kind, self.task.task.seed, left_out, written, kept)


def _malformed(agent: Agent, episode: Trajectory) -> bool:
    texts = (agent.transcript.decode(step.response_ids) for step in episode.steps)
    return any(parse_turn(text).errors for text in texts)


def actions_kept(agent: Agent, episode: Trajectory, *, draws: int, seed: int) -> float:
    """Judge whether an agent, shown an episode's prompts, would act as it says.

    Where the episode's thought is empty, so is the agent's.

    Args:
        agent: The agent.
        episode: As it was rewritten.
        draws: Outputs a turn.
        seed: Determines them.

    Returns:
        The share of draws with the episode's action, in the turn where it is lowest; 1 for an
        episode without turns.
    """
    generator = torch.Generator().manual_seed(seed)
    lowest = 1.0
    for step in episode.steps:
        said = parse_turn(agent.transcript.decode(step.response_ids))
        forced = empty_thought(agent.transcript) if said.thought_omitted else []
        drawn = agent.sampler.sample(
            [[*step.prompt_ids, *forced]] * draws,
            max_new_tokens=agent.max_new_tokens,
            generators=[generator] * draws,
        )
        texts = [agent.transcript.decode([*forced, *sample.ids]) for sample in drawn]
        lowest = min(lowest, _share(texts, step.action))
    return lowest


def _share(texts: Sequence[str], action: str) -> float:
    same = 0
    for text in texts:
        try:
            same += action_of(text) == action
        except ValueError:
            continue
    return same / len(texts)
