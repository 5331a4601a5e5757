"""``icml empg …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from icml.core.reproduce import ReproduceOptions
from icml.empg.params import EMPGParams


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.empg.reproduce import SIZES, TITLE, run_experiment

    return run("empg", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


@dataclass(frozen=True)
class ExplainOptions:
    """What to explain, with which numbers."""

    log: Annotated[Positional[Path], arg(metavar="LOG", help_behavior_hint="(required)")]
    """JSON Lines, an episode a line and a batch a file, as icml empg train writes them."""
    episodes: int = 3
    """Episodes shown step by step, from the first; the summary is of all."""
    params: EMPGParams = field(default_factory=EMPGParams)

    def __post_init__(self) -> None:
        """Check the number."""
        if self.episodes < 0:
            raise ValueError(f"--episodes must be >= 0, got {self.episodes}")


def explain(options: ExplainOptions) -> None:
    """Show the steps of stored episodes with entropy, weight, and advantage before and after."""
    from icml.empg.explain import explain as run

    for line in run(options.log, options.params).lines(options.episodes):
        print(line)


@dataclass(frozen=True)
class TrainOptions:
    """What to train."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: babyai_smollm2 runs on a CPU in minutes."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/empg/train/RECIPE)")
    ] = None
    """Folder of the run; the same command again continues from its last checkpoint."""


def train(options: TrainOptions) -> int:
    """Train an agent with TRL's GRPOTrainer and EMPG's advantages, by a recipe."""
    from icml.empg.train.launch import train as run

    return run(options.recipe, out=options.out)


app: Mapping[str, Callable[[Any], int | None]] = {
    "reproduce": reproduce,
    "explain": explain,
    "train": train,
}
