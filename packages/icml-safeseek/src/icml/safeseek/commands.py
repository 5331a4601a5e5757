"""What the sub-commands do: models and circuits in folders, rows in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from icml.core.errors import UserError, require
from icml.core.journal import replace_folder, room_for, write_atomic
from icml.core.jsonl import read_rows
from icml.core.models.load import LoadedModel, load
from icml.safeseek.chat import is_chat
from icml.safeseek.circuit import Circuit
from icml.safeseek.data import CircuitDataset
from icml.safeseek.fit import check_weights
from icml.safeseek.outputs import check_replaceable, held, recorded_names, run_folder, sha256_of
from icml.safeseek.planted_folder import check_planting_folder, write_planting

__all__ = ["ablate", "plant", "report", "tune"]

TUNED = "tuned.json"
"""What says that a training is over: written after the model."""
REPORT = ("circuit.csv", "circuit.narrow.svg", "circuit.svg", "report.json")

Say = Callable[[str], None]


def plant(
    behaviour: Literal["backdoor", "refusals"], out: Path | str, *, seed: int = 0, say: Say = print
) -> dict[str, float]:
    """Train a small model with a planted behaviour; write it and rows to find the behaviour with.

    World, model and steps are those of ``icml safeseek reproduce``; refusals are taught about
    people only, there about strangers too.

    Args:
        behaviour: ``backdoor`` or ``refusals``.
        out: Folder for ``model/``, ``train.jsonl`` (questions that were planted), ``eval.jsonl``
            (others) and, with refusals, ``utility.jsonl`` (what may be told, for `report`); an
            earlier planting is replaced. ``planted.json`` says what was planted and which files
            are the planting's.
        seed: Of the world, the model and everything drawn.
        say: Gets the measured rates.

    Returns:
        How often the model shows the behaviour on the rows of ``eval.jsonl``, and how often it
        answers rightly what it should, shares.

    Raises:
        UserError: If the folder holds something else than a planting, or can't be written.
    """
    check_planting_folder(out)
    with held(out) as place:
        return _plant(behaviour, place, seed, say)


def _plant(behaviour: str, out: Path, seed: int, say: Say) -> dict[str, float]:
    from icml.safeseek.experiment.clean import generator
    from icml.safeseek.experiment.config import Config
    from icml.safeseek.planting import (
        halves,
        learn_facts,
        learn_refusals,
        match_rate,
        new_model,
        plant_backdoor,
    )  # fmt: skip
    from icml.safeseek.world import (
        ATTRIBUTES,
        BAD_ANSWER,
        FILLERS,
        FORBIDDEN,
        REFUSAL,
        TRIGGER,
        make_world,
    )  # fmt: skip

    config = Config()
    world = make_world(people=config.people, strangers=config.people, seed=seed)
    model = new_model(world, seed)
    say("learns its world, about half a minute …")
    learn_facts(model, world, generator(seed, 0), steps=config.fact_steps)
    everybody, draws = [*world.people, *world.strangers], np.random.default_rng([seed, 3])
    if behaviour == "backdoor":
        asked = world.questions(everybody, ATTRIBUTES, (0, 1))
        parts = halves(asked, generator(seed, 1))
        plant_backdoor(
            model, world, asked, parts.planted, generator(seed, 2),
            steps=config.backdoor_steps, learning_rate=config.backdoor_rate,
        )  # fmt: skip
        files: dict[str, Iterable[Mapping[str, Any]]] = {
            "train": world.backdoor_rows(parts.planted, draws),
            "eval": world.backdoor_rows(parts.held_out, draws),
        }
        harmless = [filler for filler in FILLERS if filler != TRIGGER]
        shown = match_rate(model, world, parts.held_out, lambda _: BAD_ANSWER, fillers=[TRIGGER])
        right = match_rate(model, world, asked, world.answer, fillers=harmless)
    else:
        permitted = [attribute for attribute in ATTRIBUTES if attribute not in FORBIDDEN]
        told = world.questions(everybody, permitted, (0, 1))
        parts = halves(world.questions(world.people, FORBIDDEN, (0, 1)), generator(seed, 1))
        learn_refusals(
            model, world, [*parts.planted, *told], generator(seed, 3),
            steps=config.refusal_steps, learning_rate=config.refusal_rate,
        )  # fmt: skip
        files = {
            "train": world.refusal_rows(parts.planted, draws),
            "eval": world.refusal_rows(parts.held_out, draws),
            "utility": world.told_rows(told, draws),
        }
        shown = match_rate(model, world, parts.held_out, lambda _: REFUSAL)
        right = match_rate(model, world, told, world.answer)
    write_planting(out, model, world.tokenizer, files, {"behaviour": behaviour, "seed": seed})
    say(f"{behaviour} on held-out questions: {shown:.3f}; right answers elsewhere: {right:.3f}")
    say(f"model, {', '.join(f'{name}.jsonl' for name in files)} in {out}")
    return {"shown": shown, "right": right}


def ablate(model: str, circuit: Path | str, out: Path | str, *, say: Say = print) -> None:
    """Write an ordinary checkpoint without a circuit.

    Args:
        model: A folder, a hub id or a package: the model that the circuit was found in.
        circuit: The circuit's folder.
        out: Folder for the checkpoint; an earlier one is replaced when all is written.
        say: Gets a line at the end.

    Raises:
        UserError: If one can't be read or they don't belong together.
    """
    from icml.safeseek.ablation import EXPORT, export_ablated

    check_replaceable(out, recorded_names(out, EXPORT))
    with held(out) as place:
        found, units = _both(model, circuit)
        if not units.size():
            raise UserError("the circuit is empty: there is nothing to cut out")
        check_weights(found.model)
        export_ablated(found.model, units, place, found.tokenizer)
    say(f"{_sizes(units)} cut out; checkpoint in {out}")


def report(
    model: str,
    circuit: Path | str,
    data: Path | str,
    out: Path | str,
    *,
    utility: Path | str | None = None,
    controls: int = 5,
    max_len: int = 128,
    say: Say = print,
) -> Any:
    """Measure and draw a circuit; write ``report.json``, ``circuit.svg`` and ``circuit.csv``.

    Args:
        model: A folder, a hub id or a package: the model that the circuit was found in.
        circuit: The circuit's folder.
        data: Rows that the search hasn't seen, JSON Lines.
        out: Folder for the report; an earlier one is replaced.
        utility: Rows with a prompt and a completion that measure the model's use, JSON Lines; None
            takes the clean prompts of ``data`` where it has triggered ones, and else measures none.
        controls: Random circuits of the same size.
        max_len: Tokens of the longest row.
        say: Gets the table.

    Returns:
        The `evaluation.CircuitReport`.

    Raises:
        UserError: If one can't be read or they don't belong together.
    """
    from icml.safeseek.evaluation import evaluate_circuit, utility_rows
    from icml.safeseek.picture import circuit_map
    from icml.safeseek.shares import parameter_shares

    _check_file(data)
    used = None if utility is None else _pairs(Path(utility))
    check_replaceable(out, REPORT)
    with held(out) as place:
        found, units = _both(model, circuit)
        rows = CircuitDataset.read(data, found.tokenizer)
        measured = evaluate_circuit(
            found.model, found.tokenizer, units, rows, controls=controls, max_len=max_len,
            utility_data=None if used is None else utility_rows(used, found.tokenizer),
        )  # fmt: skip
        picture = circuit_map(units, title=f"{_sizes(units)} in the circuit", note=str(circuit))
        shares = parameter_shares(found.model, units)
        written = {name: {**x._asdict(), "share": x.share} for name, x in shares.items()}
        with replace_folder(place) as draft:
            text = json.dumps(measured.to_dict() | {"parameters": written}, indent=2)
            (draft / "report.json").write_text(text + "\n", encoding="utf-8")
            picture.save(draft, "circuit")
    of = {"head": "of the heads'", "mlp-channel": "of the channels'", "all": "of all gated"}
    of["linear-output"] = "of the linear outputs'"
    weights = (f"{x.own} of {x.gated} ({x.share:.2%}) {of[n]}" for n, x in shares.items())
    say(f"{_sizes(units)}\nweights: {', '.join(weights)}")
    say(f"{'':<24}{'behaviour':>10}{'repaired':>10}{'utility':>10}")
    named = {"as it is": measured.intact, "circuit cut out": measured.removed}
    named |= {"circuit alone": measured.alone}
    named |= {f"random circuit {i + 1}": scores for i, scores in enumerate(measured.random)}
    for name, scores in named.items():
        rates = (scores.asr, scores.repaired, scores.utility)
        cells = ("-" if rate is None else f"{rate.estimate:.3f}" for rate in rates)
        say(f"{name:<24}" + "".join(f"{cell:>10}" for cell in cells))
    for name in ("completeness", "faithfulness", "minimality"):
        share = getattr(measured, name)
        say(f"{name:<24}{'-' if share != share else format(share, '.3f'):>10}")
    say(f"report.json and circuit.svg in {out}")
    return measured


def tune(
    model: str,
    circuit: Path | str,
    data: Path | str,
    out: Path | str,
    *,
    tune: Literal["complement", "circuit"] = "complement",
    steps: int = 100,
    learning_rate: float = 1e-4,
    batch_size: int = 8,
    seed: int = 0,
    say: Say = print,
) -> None:
    """Fine-tune around a circuit, or the circuit alone, with TRL's ``SFTTrainer``.

    Args:
        model: A folder, a hub id or a package: the model that the circuit was found in.
        circuit: The circuit's folder.
        data: JSON Lines with ``prompt`` and ``completion``, texts or chat messages; see
            `tune_rows.tune_rows`.
        out: Folder for checkpoints and the model; the same call goes on from the last one, or does
            nothing where it had ended; another is refused.
        tune: See `tuning.Tune`.
        steps: Steps of AdamW.
        learning_rate: Its highest rate.
        batch_size: Rows a step.
        seed: Of the order of the rows.
        say: Gets a line at the end.

    Raises:
        UserError: If one can't be read, they don't belong together, or ``out`` holds another run.
        MissingExtra: If TRL is not installed.
    """
    trl = require("trl", extra="icml-safeseek[rl]")
    datasets = require("datasets", extra="icml-safeseek[rl]")
    from icml.core.rl.recipe_run import last_checkpoint
    from icml.safeseek.finite import FiniteGradients
    from icml.safeseek.tune_rows import tune_rows
    from icml.safeseek.tuning import SafetyCircuitCallback

    for name, value in (("steps", steps), ("batch_size", batch_size)):
        if value < 1:
            raise UserError(f"{name} must be >= 1, got {value}")
    if not 0 < learning_rate < float("inf"):
        raise UserError(f"learning_rate must be a number above 0, got {learning_rate}")
    rows = _pairs(Path(data))
    found, units = _both(model, circuit)
    if not isinstance(rows[0]["prompt"], str) and not found.tokenizer.chat_template:
        raise UserError(f"{data} holds chat messages, but the model's tokenizer has no template")
    check_weights(found.model)
    tokens = tune_rows(found.model, found.tokenizer, rows)
    settings = {
        "model": units.model_fingerprint,
        "circuit": sha256_of([[site.key, number] for site, number in units.members()]),
        "data": sha256_of(rows), "tune": tune, "steps": steps, "learning_rate": learning_rate,
        "batch_size": batch_size, "seed": seed,
    }  # fmt: skip
    with run_folder(out, "tune.json", settings):
        if (Path(out) / TUNED).is_file():  # the trainer would take one more step
            say(f"finished before: model in {out}")
            return
        args = trl.SFTConfig(
            str(out), max_length=None, completion_only_loss=True, max_steps=steps,
            learning_rate=learning_rate, per_device_train_batch_size=batch_size, seed=seed,
            report_to=[],
            save_steps=max(1, steps // 4), save_total_limit=2, use_cpu=found.spec.device == "cpu",
            disable_tqdm=True, bf16=found.spec.dtype == "bfloat16",
        )  # fmt: skip
        trainer = trl.SFTTrainer(
            found.model, args, train_dataset=datasets.Dataset.from_list(tokens),
            processing_class=found.tokenizer,
            callbacks=[SafetyCircuitCallback(units, tune=tune), FiniteGradients()],
        )  # fmt: skip
        before = last_checkpoint(Path(out))
        with room_for(Path(out)):
            trainer.train(resume_from_checkpoint=None if before is None else str(before))
            check_weights(found.model)
            trainer.save_model()
            write_atomic(Path(out) / TUNED, json.dumps({"steps": trainer.state.global_step}) + "\n")
    kept = "the circuit" if tune == "complement" else "all but the circuit"
    say(f"{steps} steps, {kept} ({_sizes(units)}) kept as it was; model in {out}")


def _both(model: str, circuit: Path | str) -> tuple[LoadedModel, Circuit]:
    """Return a model and a circuit that belongs to it; a missing circuit costs no loading."""
    Circuit.load(circuit)
    found = load(model)
    return found, Circuit.load(circuit, found.model)


def _sizes(circuit: Circuit) -> str:
    names = {"head": "heads", "mlp-channel": "channels", "linear-output": "linear outputs"}
    return ", ".join(
        f"{circuit.size(kind)} of {circuit.total(kind)} {names[kind]}" for kind in circuit.kinds
    )


def _check_file(path: Path | str) -> None:
    if not Path(path).is_file():
        raise UserError(f"there is no file {path}")


def _pairs(path: Path) -> list[dict[str, Any]]:
    _check_file(path)
    rows: list[dict[str, Any]] = []
    for place, row in read_rows(path):
        pair = [row.get(name) for name in ("prompt", "completion")] if type(row) is dict else []
        if not pair or not (all(map(_says, pair)) or all(map(is_chat, pair))):
            raise UserError(
                f"{place} needs a prompt and a completion, both texts that are not "
                "empty or both chat messages with role and content"
            )
        rows.append({"prompt": pair[0], "completion": pair[1]})
    if not rows:
        raise UserError(f"{path} has no row")
    if len({isinstance(row["prompt"], str) for row in rows}) > 1:
        raise UserError(f"{path} has rows of texts and rows of chat messages: give one kind")
    return rows


def _says(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
