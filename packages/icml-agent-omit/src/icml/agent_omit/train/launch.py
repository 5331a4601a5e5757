"""``icml agent-omit train``: from a checked recipe to a trained model, and on after a stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.agent_omit.train.recipe import EnvironmentPart, Recipe, read_recipe
from icml.core.errors import require
from icml.core.rl import recipe_run
from icml.core.rl.recipe_run import check_folder, is_finished, last_checkpoint, run_recipe, say

if TYPE_CHECKING:
    from trl import GRPOConfig, GRPOTrainer

    from icml.agent_omit.transcript import OmitTranscript
    from icml.core.envs.protocol import TextEnv

__all__ = ["train", "training_config"]

HEADS = f"{'reward':>9}{'read':>9}{'written':>9}{'thoughts':>10}{'seen':>7}{'not trained':>13}"


def train(source: str, *, out: Path | None = None) -> int:
    """Train by a recipe; the same call again continues from the last checkpoint.

    Everything that can be checked is, before a model is loaded or downloaded.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        out: Folder of the run; ``runs/agent-omit/train/<recipe>`` when None.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If the recipe, the environment, the chat template or the folder can't be used.
        MissingExtra: If a library is missing that the recipe needs.
    """
    started = time.perf_counter()
    # Their own deprecations, and that rollout_func may change: no recipe can do anything about it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl")
    warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
    recipe = read_recipe(source)
    out = out or Path("runs/agent-omit/train") / Path(source).stem
    check_folder(recipe, out)
    if is_finished(out):
        return 0
    recipe_run.check_model(recipe.model)
    place = _environment(recipe.environment)
    place().close()
    config = training_config(recipe, out)
    before = last_checkpoint(out)
    say(f"model        {recipe.model}\nenvironment  {place().id}")
    say(f"continues from {before}" if before else f"starts in {out}")

    def run(before: Path | None) -> dict[str, Any]:
        trainer = _trainer(recipe, config, place)
        trainer.train(resume_from_checkpoint=str(before) if before else None)
        trainer.save_model()
        return {
            "steps": trainer.state.global_step,
            "cpu_seconds": round(time.process_time(), 1),
        }

    command = ["icml", "agent-omit", "train", source, "--out", str(out)]
    return run_recipe(recipe, out, run, command=command, started=started)


def training_config(recipe: Recipe, out: Path, **changes: Any) -> GRPOConfig:
    """Return the ``GRPOConfig`` of a recipe.

    Args:
        recipe: The recipe.
        out: Becomes ``output_dir``.
        changes: Fields that replace the recipe's.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    from trl import GRPOConfig

    return recipe_run.training_config(GRPOConfig, recipe.training, out, **changes)


def _environment(part: EnvironmentPart) -> Callable[[], TextEnv]:
    if part.babyai is not None:
        require("minigrid", extra="icml-agent-omit[babyai]")
        from icml.core.envs.babyai import BabyAI

        level = part.babyai
        return lambda: BabyAI(level, max_steps=part.max_turns)
    from icml.agent_omit.vault import Vault

    assert part.vault is not None
    sizes = part.vault.model_dump()
    return lambda: Vault(**sizes)


def _trainer(recipe: Recipe, config: GRPOConfig, place: Callable[[], TextEnv]) -> GRPOTrainer:
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    from icml.agent_omit.reward import OmissionReward
    from icml.agent_omit.trl_rollout import OmitRollout, omission_reward
    from icml.core.rl.rollout import EnvTask
    from icml.core.rl.step_lines import StepLines

    part = recipe.environment
    seeds = range(part.first_seed, part.first_seed + part.tasks)
    model, options = recipe_run.load_model(recipe.model, use_cpu=config.use_cpu)
    rows = Dataset.from_dict({"prompt": [EnvTask(seed).key() for seed in seeds]})
    rollouts: dict[str, OmitRollout] = {}

    def play(prompts: list[str], trainer: Any) -> dict[str, Any]:
        return rollouts["here"](prompts, trainer)

    trainer = GRPOTrainer(
        model, omission_reward, args=config, train_dataset=rows, rollout_func=play, **options
    )
    # A hub model's tokenizer is known once TRL has loaded it.
    transcript, parse = _transcript(trainer.processing_class, recipe)
    rollouts["here"] = OmitRollout(
        lambda _: place(),
        transcript,
        parse=parse,
        reward=OmissionReward(**recipe.reward.model_dump()),
        max_turns=part.max_turns,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines(HEADS, _cells))
    return trainer


def _transcript(tokenizer: Any, recipe: Recipe) -> tuple[OmitTranscript, Callable[[str], str]]:
    """Return what renders episodes and reads outputs; a tokenizer may have no chat template."""
    from icml.agent_omit.format import INSTRUCTIONS, action_of
    from icml.agent_omit.templates import chat_transcript
    from icml.agent_omit.transcript import OmitTranscript

    if tokenizer.chat_template:
        chat = chat_transcript(tokenizer, on_change=recipe.template)
        return chat, chat.parse
    plain = OmitTranscript(
        lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
        lambda ids: tokenizer.decode(ids, skip_special_tokens=True),
        opening=f"{INSTRUCTIONS}\n{{text}}\n",
        following="\n{text}\n",
        special=tuple(tokenizer.all_special_tokens),
    )
    return plain, action_of


def _cells(logs: Mapping[str, Any]) -> str | None:
    """Return reward, tokens of an episode, omissions a turn, and what the loss leaves out."""
    if "omit/left_out" not in logs:
        return None
    return (
        f"{logs['reward']:>9.3f}{logs['omit/prompt_tokens']:>9.0f}"
        f"{logs['omit/output_tokens']:>9.0f}{logs['omit/thoughts']:>10.1%}"
        f"{logs['omit/observations']:>7.1%}{logs['omit/left_out']:>13.1%}"
    )
