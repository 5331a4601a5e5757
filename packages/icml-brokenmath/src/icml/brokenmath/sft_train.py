"""The trainer behind ``icml brokenmath sft``, and what it can't be asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from icml.brokenmath.sft_tokens import Row
from icml.core.errors import MissingExtra, UserError
from icml.core.rl.recipe import complaint
from icml.core.rl.recipe_run import load_model

if TYPE_CHECKING:
    from trl import SFTConfig

__all__ = ["check_training", "train"]

NO_EVALUATION: Mapping[str, tuple[Any, ...]] = {
    "eval_strategy": ("no",),
    "save_strategy": ("no", "steps", "epoch"),
    "eval_on_start": (False,),
    "load_best_model_at_end": (False,),
}
"""Fields of ``SFTConfig`` that ask for evaluations while training, and the values that don't."""
AtLeastOne = Annotated[int, Field(ge=1, strict=True)]
NotBelowZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Numbers(BaseModel):
    """Fields of ``SFTConfig`` that TRL looks at only when it trains, or never."""

    per_device_train_batch_size: AtLeastOne = 1
    gradient_accumulation_steps: AtLeastOne = 1
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    num_train_epochs: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    weight_decay: NotBelowZero = 0.0
    neftune_noise_alpha: NotBelowZero | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32, strict=True)] = 0
    dataloader_num_workers: Annotated[int, Field(ge=0, strict=True)] = 0
    max_length: AtLeastOne | None = None
    max_steps: Annotated[int, Field(ge=-1, strict=True)] = -1


def check_training(training: Mapping[str, Any]) -> None:
    """Refuse what a recipe can't ask of ``SFTTrainer``, before anything is loaded.

    Args:
        training: Fields of ``SFTConfig``; unknown ones and other values are for that to check.

    Raises:
        UserError: If one wants evaluations, for which a recipe has no set, or a number that
            nothing can be learnt with; all such numbers are listed.
    """
    for name, fine in NO_EVALUATION.items():
        if training.get(name, fine[0]) not in fine:
            raise UserError(
                f"training: {name}: {training[name]} asks for evaluations while training, and a "
                "recipe has no set for that: leave it out, and ask the trained model afterwards"
            )
    try:
        numbers = _Numbers.model_validate(training)
    except ValidationError as error:
        raise UserError(f"training: {'; '.join(map(complaint, error.errors()))}") from error
    if numbers.max_steps == 0:
        raise UserError("training: max_steps: 0 steps learn nothing; leave it out to go by epochs")


def train(
    source: str, rows: Sequence[Row], config: SFTConfig, before: Path | None
) -> dict[str, Any]:
    """Train, and save the model.

    Args:
        source: The model, see `icml.core.models.load`.
        rows: Examples.
        config: Of the trainer.
        before: The checkpoint to continue from, or None.

    Returns:
        ``steps``, and the seconds of processor time so far.

    Raises:
        UserError: If the trainer fails before the end of its first step.
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import SFTTrainer

    from icml.core.rl.step_lines import SFT_HEADS, StepLines, sft_cells

    with _beginning():
        model, options = load_model(source, use_cpu=config.use_cpu)
        trainer = SFTTrainer(
            model=model, args=config, train_dataset=Dataset.from_list(list(rows)), **options
        )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines(SFT_HEADS, sft_cells))
    done = int(before.name.removeprefix("checkpoint-")) if before else 0
    with _beginning(lambda: trainer.state.global_step > done):
        trainer.train(resume_from_checkpoint=str(before) if before else None)
    trainer.save_model()
    return {"steps": trainer.state.global_step, "cpu_seconds": round(time.process_time(), 1)}


@contextmanager
def _beginning(begun: Callable[[], bool] = lambda: False) -> Generator[None]:
    """Tell an error that comes before any step in a sentence: nothing is lost, nothing learnt.

    What a trainer can't do with its fields comes out only then, as errors of many kinds, and is
    seldom a mistake of the code. Later errors are left as they are.
    """
    try:
        yield
    except (UserError, MissingExtra):
        raise
    except Exception as error:
        if begun():
            raise
        said = " ".join(str(error).split())[:400]
        raise UserError(f"the training can't begin ({type(error).__name__}): {said}") from error
