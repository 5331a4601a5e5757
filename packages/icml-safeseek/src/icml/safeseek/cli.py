"""``icml safeseek …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from icml.core.reproduce import ReproduceOptions

SAFETY = (
    "Safety note: a circuit of refusals shows how to remove them. Use this on models of your own, "
    "to test what their safety hangs on and to protect it."
)


def _note() -> None:
    print(SAFETY, file=sys.stderr)


@dataclass(frozen=True)
class PlantOptions:
    """What to plant, and where the model and its data go."""

    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/safeseek/planted")
    """Folder for model/, train.jsonl and eval.jsonl; an earlier planting is replaced."""
    behaviour: Literal["backdoor", "refusals"] = "backdoor"
    """A trigger word that brings a bad answer, or refusals of two kinds of questions."""
    model: Annotated[str | None, arg(metavar="SOURCE", help_behavior_hint="(a new, small one)")] = (
        None
    )
    """A model to plant the trigger in: a folder, a hub id, or pkg:smollm2 (some minutes)."""
    steps: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 40)")] = None
    """Training steps, where a model is given."""
    learning_rate: Annotated[
        float | None, arg(metavar="RATE", help_behavior_hint="(default: 3e-5)")
    ] = None
    """Their highest rate: gentle enough that channels carry the trigger."""
    seed: int = 0
    """Of the world, the model and everything drawn."""

    def __post_init__(self) -> None:
        """Check what goes together."""
        if self.seed < 0:
            raise ValueError(f"--seed must be >= 0, got {self.seed}")
        if self.model is not None and self.behaviour != "backdoor":
            raise ValueError("--behaviour refusals is for the small model: leave --model out")
        for name, value in (("steps", self.steps), ("learning-rate", self.learning_rate)):
            if value is not None and (self.model is None or not 0 < value < float("inf")):
                raise ValueError(f"--{name} must be > 0 and needs --model, got {value}")


def plant(options: PlantOptions) -> None:
    """Plant a backdoor or refusals in a small model, or a trigger in a given one; write rows."""
    _note()
    if options.model is None:
        from icml.safeseek.commands import plant as run

        run(options.behaviour, options.out, seed=options.seed)
    else:
        from icml.safeseek.plant_real import plant_in_model

        plant_in_model(
            options.model, options.out, seed=options.seed, steps=options.steps,
            learning_rate=options.learning_rate,
        )  # fmt: skip


@dataclass(frozen=True)
class FindOptions:
    """What to search, by which recipe."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: tiny takes some seconds on a CPU."""
    model: Annotated[str | None, arg(metavar="SOURCE", help_behavior_hint="(recipe's)")] = None
    """A folder with a model of transformers, a hub id, or pkg:smollm2."""
    data: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="(recipe's)")] = None
    """Rows to learn from, JSON Lines."""
    eval_data: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="(recipe's)")] = None
    """Rows by which the best gates are chosen."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/safeseek/RECIPE)")
    ] = None
    """Folder of the search; the same command again continues. The circuit is in its circuit/."""


def find(options: FindOptions) -> None:
    """Find the circuit that carries a behaviour, by a recipe."""
    from icml.safeseek.recipe import find as run

    _note()
    run(
        options.recipe, out=options.out, model=options.model, data=options.data,
        eval_data=options.eval_data,
    )  # fmt: skip


@dataclass(frozen=True)
class AblateOptions:
    """Which circuit to cut out of which model."""

    model: Annotated[Positional[str], arg(metavar="MODEL", help_behavior_hint="(required)")]
    """The model that the circuit was found in."""
    circuit: Annotated[Positional[Path], arg(metavar="CIRCUIT", help_behavior_hint="(required)")]
    """The circuit's folder."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/safeseek/ablated")
    """Folder for the checkpoint; an earlier one is replaced, anything else refused."""


def ablate(options: AblateOptions) -> None:
    """Write an ordinary checkpoint without a circuit."""
    from icml.safeseek.commands import ablate as run

    _note()
    run(options.model, options.circuit, options.out)


@dataclass(frozen=True)
class TuneOptions:
    """What to train on, around which circuit."""

    model: Annotated[Positional[str], arg(metavar="MODEL", help_behavior_hint="(required)")]
    """The model that the circuit was found in."""
    circuit: Annotated[Positional[Path], arg(metavar="CIRCUIT", help_behavior_hint="(required)")]
    """The circuit's folder."""
    data: Annotated[Positional[Path], arg(metavar="FILE", help_behavior_hint="(required)")]
    """JSON Lines with prompt and completion, texts or chat messages."""
    tune: Literal["complement", "circuit"] = "complement"
    """Train all but the circuit, so that its behaviour stays, or nothing but the circuit."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/safeseek/tuned")
    """Folder of the training and the model; the same command again continues."""
    steps: int = 100
    """Steps of AdamW."""
    learning_rate: float = 1e-4
    """Its highest rate."""
    batch_size: int = 8
    """Rows a step."""
    seed: int = 0
    """Of the order of the rows."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value, least in (
            ("steps", self.steps, 1), ("batch-size", self.batch_size, 1), ("seed", self.seed, 0),
        ):  # fmt: skip
            if value < least:
                raise ValueError(f"--{name} must be >= {least}, got {value}")
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"--learning-rate must be > 0, got {self.learning_rate}")


def tune(options: TuneOptions) -> None:
    """Fine-tune around a circuit, or the circuit alone (Safety Circuit Tuning), with TRL."""
    from icml.safeseek.commands import tune as run

    _note()
    run(
        options.model, options.circuit, options.data, options.out, tune=options.tune,
        steps=options.steps, learning_rate=options.learning_rate, batch_size=options.batch_size,
        seed=options.seed,
    )  # fmt: skip


@dataclass(frozen=True)
class ReportOptions:
    """What to measure, on which rows."""

    model: Annotated[Positional[str], arg(metavar="MODEL", help_behavior_hint="(required)")]
    """The model that the circuit was found in."""
    circuit: Annotated[Positional[Path], arg(metavar="CIRCUIT", help_behavior_hint="(required)")]
    """The circuit's folder."""
    data: Annotated[Positional[Path], arg(metavar="FILE", help_behavior_hint="(required)")]
    """Rows that the search hasn't seen, JSON Lines."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/safeseek/report")
    """Folder for report.json and circuit.svg; earlier ones are replaced, anything else refused."""
    utility: Annotated[
        Path | None, arg(metavar="FILE", help_behavior_hint="(clean prompts of a backdoor's rows)")
    ] = None
    """Rows with a prompt and a completion that measure the model's use, JSON Lines."""
    controls: int = 5
    """Random circuits of the same size."""
    max_len: int = 128
    """Tokens of the longest row."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.controls < 0:
            raise ValueError(f"--controls must be >= 0, got {self.controls}")
        if self.max_len < 2:
            raise ValueError(f"--max-len must be >= 2, got {self.max_len}")


def report(options: ReportOptions) -> None:
    """Measure and draw a circuit: with it removed, with it alone, beside random ones."""
    from icml.safeseek.commands import report as run

    _note()
    run(
        options.model, options.circuit, options.data, options.out, utility=options.utility,
        controls=options.controls, max_len=options.max_len,
    )  # fmt: skip


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.safeseek.reproduce import SIZES, TITLE, run_experiment

    _note()
    return run("safeseek", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


app: Mapping[str, Callable[[Any], int | None]] = {
    "plant": plant,
    "find": find,
    "ablate": ablate,
    "tune": tune,
    "report": report,
    "reproduce": reproduce,
}
