"""``icml brokenmath sft``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class SFTOptions:
    """What is trained, and on what."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: sft_tiny runs on a CPU, sft_qwen3_4b has the paper's scale."""
    model: Annotated[
        str | None, arg(metavar="SOURCE", help_behavior_hint="(default: the recipe's)")
    ] = None
    """A folder with a model of transformers, a hub id, or pkg:smollm2."""
    answers: Annotated[
        tuple[str, ...], arg(metavar="LOG...", help_behavior_hint="(default: the recipe's)")
    ] = ()
    """Logs of inspect eval, or folders of them: their good answers are learnt."""
    items: Annotated[
        str | None, arg(metavar="FILE", help_behavior_hint="(default: the recipe's, or made)")
    ] = None
    """Verified items to learn the verdict on, in place of logs."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/brokenmath/sft/RECIPE)")
    ] = None
    """Folder of the run and the model; the same command again continues."""

    def __post_init__(self) -> None:
        """Refuse two sources."""
        if self.answers and self.items is not None:
            raise ValueError("give --answers or --items, not both")


def sft(options: SFTOptions) -> int:
    """Fine-tune a model to resist false statements, with TRL's SFTTrainer, by a recipe."""
    from icml.core.errors import require

    require("trl", extra="icml-brokenmath[sft]")
    from icml.brokenmath.sft_recipe import sft as run

    return run(
        options.recipe,
        model=options.model,
        answers=options.answers,
        items=options.items,
        out=options.out,
    )
