"""``icml gdpo …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from icml.core.errors import UserError
from icml.core.reproduce import ReproduceOptions


def reproduce(options: ReproduceOptions) -> int:
    """Run the paper's experiment at CPU scale and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.gdpo.reproduce import SIZES, TITLE, run_experiment

    return run("gdpo", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


_NUMBER = arg(metavar="INT", help_behavior_hint="(default: the paper's sizes)")


@dataclass(frozen=True)
class TableOptions:
    """Which sizes to count."""

    rewards: Annotated[int | None, _NUMBER] = None
    """Number of binary rewards, 1 or more; give --group-size too."""
    group_size: Annotated[int | None, _NUMBER] = None
    """Completions in a group, 1 or more; give --rewards too."""

    def __post_init__(self) -> None:
        """Refuse half a size."""
        if (self.rewards is None) != (self.group_size is None):
            raise ValueError("--rewards and --group-size belong together: give both or none")


def table(options: TableOptions) -> None:
    """Count the distinct advantages of all groups of binary rewards, exactly."""
    from icml.gdpo.enumeration import PAPER_GRID, distinct_table

    sizes = PAPER_GRID
    if options.rewards is not None and options.group_size is not None:
        sizes = ((options.rewards, options.group_size),)
    try:
        counts = distinct_table(sizes)
    except ValueError as error:
        raise UserError(str(error)) from error
    print(f"{'rewards':>8}  {'group size':>10}  {'groups':>8}  {'GRPO':>8}  {'GDPO':>8}")
    for row in counts:
        print(
            f"{row.rewards:>8}  {row.group_size:>10}  {row.groups:>8}  {row.grpo:>8}  {row.gdpo:>8}"
        )


@dataclass(frozen=True)
class AuditOptions:
    """What to read and where to write."""

    logs: Annotated[
        Positional[tuple[Path, ...]],
        arg(metavar="LOG [LOG ...]", help_behavior_hint="(required)"),
    ]
    """Parquet, JSON Lines or CSV files as TRL logs completions, or folders of such files."""
    rewards: Annotated[str, arg(metavar="NAME,NAME")]
    """Columns that hold the rewards, separated by commas."""
    group_size: int
    """Completions a prompt: TRL's num_generations."""
    weights: Annotated[
        str, arg(metavar="NUMBER,NUMBER", help_behavior_hint="(default: 1 each)")
    ] = ""
    """One weight for each reward, 0 or more, separated by commas."""
    out: Path = Path("runs/gdpo/audit")
    """Folder for the picture and the CSV files; made if missing, files in it replaced."""

    def __post_init__(self) -> None:
        """Refuse an empty list of logs or names."""
        if not self.logs:
            raise ValueError("give at least one log file or folder")
        if not all(self.reward_names):
            raise ValueError(f"--rewards needs names separated by commas, got {self.rewards!r}")

    @property
    def reward_names(self) -> list[str]:
        """The columns' names."""
        return [name.strip() for name in self.rewards.split(",")]

    @property
    def weight_values(self) -> list[float] | None:
        """The weights, None where none are given."""
        if not self.weights:
            return None
        try:
            return [float(weight) for weight in self.weights.split(",")]
        except ValueError:
            raise UserError(
                f"--weights needs numbers separated by commas, got {self.weights!r}"
            ) from None


def audit(options: AuditOptions) -> None:
    """Say what GRPO and GDPO make of the rewards of a logged run."""
    weights = options.weight_values
    _check_folder(options.out)
    from icml.gdpo.audit.logs import read_log

    log = read_log(options.logs, options.reward_names, group_size=options.group_size)
    from icml.gdpo.audit import audit as run
    from icml.gdpo.audit import write_audit

    result = run(log, options.reward_names, group_size=options.group_size, weights=weights)
    print(result)
    print()
    for path in write_audit(result, options.out):
        print(path)


def _check_folder(out: Path) -> None:
    """Refuse a folder that can't be made because a file is in its way."""
    there = next((path for path in (out, *out.parents) if path.exists()), None)
    if there is not None and not there.is_dir():
        raise UserError(f"--out {out} must be a folder, but {there} is a file: give another one")


@dataclass(frozen=True)
class TrainOptions:
    """What to train."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: smollm2_chain_sum runs on a CPU in minutes."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/gdpo/train/RECIPE)")
    ] = None
    """Folder of the run; the same command again continues from its last checkpoint."""
    allow_import: bool = False
    """Import reward functions that the recipe names as module:function, which runs their code."""


def train(options: TrainOptions) -> int:
    """Train a model with TRL's GRPOTrainer and GDPO's advantages, by a recipe."""
    from icml.gdpo.train.launch import train as run

    return run(options.recipe, out=options.out, allow_import=options.allow_import)


app: Mapping[str, Callable[[Any], int | None]] = {
    "reproduce": reproduce,
    "table": table,
    "audit": audit,
    "train": train,
}
