"""``icml wzllm train``: supervised training, expert iteration, then DAPO in TRL.

Each part goes on where it was stopped: expert iteration from its journal and last checkpoint,
DAPO from TRL's last checkpoint.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from icml.core.errors import UserError
from icml.core.journal import lock_folder, replace_folder, whole_folder, write_atomic
from icml.core.rl import recipe_run
from icml.core.rl.recipe_run import check_folder, is_finished, run_recipe, say
from icml.wzllm.statement import Identity
from icml.wzllm.training.recipe import Recipe, read_recipe
from icml.wzllm.worker import Stopped, Worker

if TYPE_CHECKING:
    from icml.wzllm.training.dapo import DAPOConfig, DAPOTrainer
    from icml.wzllm.training.learner import Learner
    from icml.wzllm.training.rounds import Round
    from icml.wzllm.training.statements import Statement, Statements

__all__ = ["train", "training_config"]


class _Job(NamedTuple):
    recipe: Recipe
    statements: Statements
    worker: Worker

    def judge(self, statement: Statement, text: str) -> bool:
        budget_s = self.recipe.statements.budget_s
        try:
            return self.worker.judge(statement.identity, text, budget_s=budget_s).accepted
        except Stopped:
            return False  # what can't be checked in time isn't believed

    def rate(self, learner: Learner[Statement]) -> float:
        """Return the fraction of held-out statements whose greedy answer is a proof."""
        rows = self.statements.held_out
        answers = zip(rows, learner.best(rows), strict=True)
        return sum(text is not None and self.judge(s, text) for s, text in answers) / len(rows)


def train(source: str, *, out: Path | None = None, bootstrap_only: bool = False) -> int:
    """Train by a recipe; the same call again goes on where the last one was stopped.

    Everything that can be checked is, before a model is loaded or downloaded.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        out: Folder of the run; ``runs/wzllm/train/<recipe>`` when None.
        bootstrap_only: Stop before DAPO, which may then run in several processes.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If the recipe, the statements or the folder can't be used.
        MissingExtra: If a library is missing that the recipe needs.
    """
    started = time.perf_counter()
    # Their own deprecations, which no recipe can do anything about.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl")
    recipe = read_recipe(source)
    out = out or Path("runs/wzllm/train") / Path(source).stem
    check_folder(recipe, out)
    if is_finished(out):
        return 0
    command = ["icml", "wzllm", "train", source, "--out", str(out)]
    done = whole_folder(out / "bootstrap" / "model")
    if done is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            "expert iteration runs in one process; first run: "
            + shlex.join([*command, "--bootstrap-only"])
        )
    recipe_run.check_model(recipe.model)
    from icml.wzllm.training.statements import load_statements

    statements = load_statements(recipe.statements)
    config = training_config(recipe, out)
    say(
        f"model       {recipe.model}\n"
        f"statements  {len(statements.pool)} to train on, {len(statements.held_out)} held out"
    )
    with Worker() as worker:
        job = _Job(recipe, statements, worker)
        if done is None:
            (out / "bootstrap").mkdir(parents=True, exist_ok=True)
            lock = lock_folder(out / "bootstrap")
            try:
                check_folder(recipe, out)  # again: another run may have had it till now
                write_atomic(out / "recipe.json", recipe.model_dump_json(indent=2) + "\n")
                if whole_folder(out / "bootstrap" / "model") is None:  # another run had the folder
                    _bootstrap(job, out / "bootstrap", use_cpu=config.use_cpu)
            except KeyboardInterrupt:
                print(f"interrupted; this continues:\n  {shlex.join(command)}", file=sys.stderr)
                return 130
            finally:
                lock.release()
        if bootstrap_only:
            return 0
        dapo = partial(_dapo, job, config, out / "bootstrap" / "model")
        return run_recipe(recipe, out, dapo, command=command, started=started)


def training_config(recipe: Recipe, out: Path, **changes: Any) -> DAPOConfig:
    """Return the ``DAPOConfig`` of a recipe.

    Args:
        recipe: The recipe.
        out: Becomes ``output_dir``.
        changes: Fields that replace the recipe's.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    from icml.wzllm.training.dapo import DAPOConfig

    config = recipe_run.training_config(DAPOConfig, recipe.training, out, **changes)
    longest, cache = config.max_completion_length, recipe.overlong_cache
    if cache is not None and (longest is None or cache >= longest):
        raise UserError(f"overlong_cache ({cache}) must be below max_completion_length ({longest})")
    return config


def _bootstrap(job: _Job, folder: Path, *, use_cpu: bool) -> None:
    """Train on given certificates, then by expert iteration; leave model and tokenizer behind."""
    from icml.core.models.load import load
    from icml.wzllm.training.learner import Learner, seeded
    from icml.wzllm.training.normal import Guard
    from icml.wzllm.training.rounds import expert_iteration
    from icml.wzllm.training.wording import writing

    recipe, statements = job.recipe, job.statements
    part, asked = recipe.bootstrap, recipe.statements
    loaded = load(recipe.model, device="cpu" if use_cpu else None)
    words = writing(loaded.tokenizer, asked.prompt, part.longest)
    learner = Learner(loaded.model, words, batch=part.batch)
    given = _given(job, folder / "given.json")
    say(f"given       {len(given)} certificates of the symbolic search")
    warm = whole_folder(folder / "warm")
    if warm is None:
        learner.fit(
            given,
            part.warm_steps,
            learning_rate=part.learning_rate,
            seed=seeded(asked.seed, "warm"),
        )
        with replace_folder(folder / "warm") as place:
            learner.save(place)
    else:
        learner.load(warm)
    before = job.rate(learner)
    say(f"supervised  {before:.1%} of the held-out statements proved")
    done = expert_iteration(
        learner, statements.pool, given, job.judge, part.sizes(),
        guard=Guard(s.identity for s in statements.held_out), seed=asked.seed,
        folder=folder / "rounds", tell=_tell,
    )  # fmt: skip
    after = job.rate(learner)
    say(f"bootstrap   {after:.1%} of the held-out statements proved")
    numbers = {"supervised": before, "bootstrap": after, "blocked": done.blocked}
    with replace_folder(folder / "model") as place:
        loaded.model.save_pretrained(place)
        loaded.tokenizer.save_pretrained(place)
        (place / "bootstrap.json").write_text(json.dumps(numbers))


def _given(job: _Job, file: Path) -> list[tuple[Statement, str]]:
    """Search for certificates once: what a budget lets through may differ the next time."""
    from icml.wzllm.training.statements import search

    asked, pool = job.recipe.statements, job.statements.pool
    if not file.exists():
        found = search(pool, asked.given, job.worker, asked.budget_s)
        write_atomic(file, json.dumps([[str(s.identity), text] for s, text in found]) + "\n")
    known = {str(s.identity): s for s in pool}
    kept = json.loads(file.read_text(encoding="utf-8"))
    if not all(statement in known for statement, _ in kept):
        raise UserError(
            f"{asked.source} has changed since {file} was written: give another --out, or remove "
            "the folder"
        )
    return [(known[statement], text) for statement, text in kept]


def _tell(done: Round) -> None:
    say(
        f"round {done.number:<5} {done.drawn} drawn, {done.accepted} accepted, {done.new} new, "
        f"{done.pairs} to train on, loss {done.loss:.4f}"
    )


def _dapo(job: _Job, config: DAPOConfig, start: Path, before: Path | None) -> dict[str, Any]:
    from icml.wzllm.training.learner import Learner
    from icml.wzllm.training.wording import writing

    recipe = job.recipe
    trainer = _trainer(job, config, start)
    trainer.train(resume_from_checkpoint=str(before) if before else None)
    trainer.save_model()
    words = writing(trainer.processing_class, recipe.statements.prompt, recipe.bootstrap.longest)
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    rate = job.rate(Learner(model.eval(), words))
    say(f"DAPO        {rate:.1%} of the held-out statements proved")
    return {
        "steps": trainer.state.global_step,
        "cpu_seconds": round(time.process_time(), 1),
        **json.loads((start / "bootstrap.json").read_text()),
        "dapo": rate,
    }


def _trainer(job: _Job, config: DAPOConfig, start: Path) -> DAPOTrainer:
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback
    from trl.rewards import get_soft_overlong_punishment

    from icml.core.rl.step_lines import StepLines
    from icml.wzllm.training.dapo import DAPOTrainer
    from icml.wzllm.training.statements import Statement
    from icml.wzllm.training.step_lines import HEADS, cells
    from icml.wzllm.training.wording import plain, question

    def proof(completions: Sequence[Any], statement: Sequence[str], **columns: Any) -> list[float]:
        pairs = zip(statement, map(plain, completions), strict=True)
        return [float(job.judge(Statement(Identity.parse(s)), text)) for s, text in pairs]

    recipe = job.recipe
    rewards: list[Any] = [proof]
    if recipe.overlong_cache is not None:
        longest = config.max_completion_length or 0
        rewards.append(get_soft_overlong_punishment(longest, recipe.overlong_cache))
    tokenizer = AutoTokenizer.from_pretrained(start)
    texts = [str(s.identity) for s in job.statements.pool]
    rows = Dataset.from_dict(
        {
            "prompt": [question(tokenizer, recipe.statements.prompt, text) for text in texts],
            "statement": texts,
        }
    )
    trainer = DAPOTrainer(
        str(start), rewards, config, train_dataset=rows, processing_class=tokenizer
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines(HEADS, cells))
    return trainer
