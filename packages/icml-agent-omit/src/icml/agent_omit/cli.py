"""``icml agent-omit …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from icml.core.errors import UserError
from icml.core.reproduce import ReproduceOptions


@dataclass(frozen=True)
class ReplayOptions:
    """Which logs to count, and how."""

    logs: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="LOG...", help_behavior_hint="(required)")
    ]
    """Logs of agents: OpenAI-style messages as JSON Lines or JSON, or inspect-ai's .eval."""
    keep_last: int = 2
    """Observations that the rule "keep the last" shows."""
    tokenizer: Annotated[
        str | None, arg(metavar="SOURCE", help_behavior_hint="(default: words and marks)")
    ] = None
    """What counts: a tokenizer.json, a model's folder or hub id, or pkg:smollm2."""
    turns: int = 10
    """Rows of the table by turn, at least 2."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not self.logs:
            raise ValueError("give at least one LOG")
        if self.keep_last < 1:
            raise ValueError(f"--keep-last must be >= 1, got {self.keep_last}")
        if self.turns < 2:
            raise ValueError(f"--turns must be >= 2, got {self.turns}")


def replay(options: ReplayOptions) -> None:
    """Say what omission would save on logs that you have: tokens by rule and by turn."""
    from icml.agent_omit.replay import replay as run
    from icml.agent_omit.replay import standard_rules, token_counter

    rules = standard_rules(options.keep_last)
    found = run(options.logs, rules=rules, count=token_counter(options.tokenizer))
    for line in found.lines(options.turns):
        print(line)


@dataclass(frozen=True)
class AnalyseOptions:
    """What to play, by whom, and how often."""

    env: Annotated[Positional[str], arg(metavar="ENV", help_behavior_hint="(required)")]
    """vault, vault/TURNS-DIGITS-MODULUS, or babyai/LEVEL."""
    model: Annotated[str, arg(metavar="SOURCE", help_behavior_hint="(required)")]
    """A folder with a model of transformers, a hub id, or pkg:smollm2."""
    tasks: int = 3
    """Number of tasks, by their seeds."""
    first_seed: int = 0
    """Seed of the first."""
    rollouts: int = 64
    """Episodes of each task and of each of its thoughts and observations, at least 52."""
    max_new_tokens: int = 64
    """Longest output, in tokens."""
    max_turns: Annotated[
        int | None, arg(metavar="INT", help_behavior_hint="(default: the environment's)")
    ] = None
    """Longest episode, in turns."""
    temperature: float = 1.0
    """Of the samples."""
    account: bool = False
    """Go on with a chat template that changes thoughts: the history stays as it was written."""
    seed: int = 0
    """Determines every draw."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        lowest = {"tasks": 1, "first_seed": 0, "rollouts": 52, "max_new_tokens": 1}
        for name, least in lowest.items():
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise ValueError(f"--{option} must be >= {least}, got {getattr(self, name)}")
        if self.max_turns is not None and self.max_turns < 1:
            raise ValueError(f"--max-turns must be >= 1, got {self.max_turns}")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"--temperature must be above 0 and finite, got {self.temperature}")


def analyse(options: AnalyseOptions) -> None:
    """Find out which thoughts and observations an agent needs, by playing on without each."""
    for line in _analyse(options)[0].lines():
        print(line)


def _analyse(options: AnalyseOptions) -> tuple[Any, Any, Any]:
    """Return the report, the agent and what makes environments."""
    import sys

    from icml.agent_omit.agents import load_agent
    from icml.agent_omit.environments import environment
    from icml.agent_omit.necessity import analyse as run
    from icml.core.rl.rollout import EnvTask

    make, longest = environment(options.env)
    agent = load_agent(
        options.model,
        max_turns=longest if options.max_turns is None else options.max_turns,
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        on_change="account" if options.account else "refuse",
    )
    seeds = range(options.first_seed, options.first_seed + options.tasks)
    report = run(
        agent,
        make,
        [EnvTask(seed) for seed in seeds],
        rollouts=options.rollouts,
        seed=options.seed,
        progress=lambda text: print(text, file=sys.stderr, flush=True),
    )
    return report, agent, make


@dataclass(frozen=True)
class SynthesizeOptions(AnalyseOptions):
    """What to play, by whom, and where the data goes."""

    out: Annotated[Path, arg(metavar="FILE")] = Path("coldstart.jsonl")
    """JSON Lines: input_ids and completion_mask, for icml agent-omit sft or TRL."""
    draws: int = 8
    """Outputs that the judge draws a turn, and episodes of each step towards several omissions."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if self.draws < 1:
            raise ValueError(f"--draws must be >= 1, got {self.draws}")


def synthesize(options: SynthesizeOptions) -> int:
    """Make cold-start data: successes of an agent that say what they leave out."""
    from icml.agent_omit.coldstart import synthesise
    from icml.agent_omit.sft import write_rows

    _check_parent(options.out)
    report, agent, make = _analyse(options)
    found = synthesise(report, agent, make, draws=options.draws, seed=options.seed)
    for line in (*report.lines(), "", *found.lines()):
        print(line)
    if not found.examples:
        print(f"nothing was written to {options.out}: there is no example of every kind")
        return 1
    write_rows(options.out, found.rows())
    print(f"wrote {options.out}")
    return 0


@dataclass(frozen=True)
class DemonstrateOptions:
    """What the expert plays, and where the data goes."""

    env: Annotated[Positional[str], arg(metavar="ENV", help_behavior_hint="(required)")]
    """vault, vault/TURNS-DIGITS-MODULUS, or babyai/LEVEL."""
    model: Annotated[str, arg(metavar="SOURCE", help_behavior_hint="(required)")]
    """Whose tokenizer and chat template are used: a folder, a hub id, or pkg:smollm2."""
    episodes: int = 200
    """Number of episodes, by their seeds."""
    first_seed: int = 0
    """Seed of the first."""
    drop: float = 0.25
    """Chance of each thought to be empty, and of each observation to be left out once read."""
    account: bool = False
    """Go on with a chat template that changes thoughts: the history stays as it was written."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("demonstrations.jsonl")
    """JSON Lines: input_ids and completion_mask, for icml agent-omit sft or TRL."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.episodes < 1 or self.first_seed < 0:
            given = f"{self.episodes} and {self.first_seed}"
            raise ValueError(f"--episodes must be >= 1 and --first-seed >= 0, got {given}")
        if not 0 <= self.drop <= 1:
            raise ValueError(f"--drop must be in [0, 1], got {self.drop}")


def demonstrate(options: DemonstrateOptions) -> None:
    """Write an expert's episodes in the format, with things left out at random, as data for sft."""
    from icml.agent_omit.demonstrations import demonstrations
    from icml.agent_omit.sft import segment_rows, write_rows

    _check_parent(options.out)
    episodes = demonstrations(
        options.env,
        options.model,
        seeds=range(options.first_seed, options.first_seed + options.episodes),
        drop=options.drop,
        on_change="account" if options.account else "refuse",
    )
    write_rows(options.out, segment_rows(episodes))
    print(f"wrote {len(episodes)} of {options.episodes} episodes, the successes, to {options.out}")


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent}: make it, or give another --out")


@dataclass(frozen=True)
class SFTOptions:
    """What to train on."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: sft_smollm2 runs on a CPU."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/agent-omit/RECIPE)")
    ] = None
    """Folder of the run and the model; the same command again continues."""


def sft(options: SFTOptions) -> int:
    """Fine-tune a model on cold-start data with TRL's SFTTrainer, by a recipe."""
    from icml.agent_omit.sft_recipe import sft as run

    return run(options.recipe, out=options.out)


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.agent_omit.reproduce import SIZES, TITLE, run_experiment
    from icml.core.reproduce import reproduce as run

    return run("agent-omit", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


@dataclass(frozen=True)
class TrainOptions:
    """What to train."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: tiny runs on a CPU in minutes."""
    out: Annotated[
        Path | None,
        arg(metavar="DIR", help_behavior_hint="(default: runs/agent-omit/train/RECIPE)"),
    ] = None
    """Folder of the run; the same command again continues from its last checkpoint."""


def train(options: TrainOptions) -> int:
    """Train an agent with TRL's GRPOTrainer and the omission reward, by a recipe."""
    from icml.agent_omit.train.launch import train as run

    return run(options.recipe, out=options.out)


app: Mapping[str, Callable[[Any], int | None]] = {
    "reproduce": reproduce,
    "replay": replay,
    "analyse": analyse,
    "synthesize": synthesize,
    "demonstrate": demonstrate,
    "sft": sft,
    "train": train,
}
