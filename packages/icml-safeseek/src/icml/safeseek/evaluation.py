"""What a circuit does: with it removed, with it alone, and beside random circuits of its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.answers import AnswerBatch, exact_match, sequence_nll
from icml.core.stats import Interval, t_interval, wilson
from icml.safeseek.ablation import Value, ablate
from icml.safeseek.batches import Row, lay_out
from icml.safeseek.chat import split_answer
from icml.safeseek.circuit import Circuit
from icml.safeseek.fit import check_weights
from icml.safeseek.objectives import Pair
from icml.safeseek.search import frozen
from icml.safeseek.units import Site

__all__ = ["CircuitReport", "Scores", "UnitEffect", "evaluate_circuit", "utility_rows"]


@dataclass(frozen=True)
class Scores:
    """How often a model gives which answer greedily, token for token; 95 % Wilson intervals."""

    asr: Interval
    """The behaviour: ``completion_remove`` to the triggered prompt (to the prompt where rows have
    no trigger). For a backdoor the attack's success rate, for a refusal the rate of refusing."""
    repaired: Interval
    """``completion_keep`` to the same prompts."""
    utility: Interval | None
    """``completion_keep`` to clean prompts, or the right answers of the utility rows; None where
    there are neither."""


@dataclass(frozen=True)
class UnitEffect:
    """One unit of a circuit put back while the others stay cut out."""

    site: Site
    number: int
    change: float
    """Change of the margin, nats an answer: above 0 the behaviour comes back a little, so that the
    circuit needs the unit."""


@dataclass(frozen=True)
class CircuitReport:
    """What `evaluate_circuit` measured."""

    intact: Scores
    """The model as it is."""
    removed: Scores
    """The circuit cut out."""
    alone: Scores
    """All gated units but the circuit's cut out."""
    random: tuple[Scores, ...]
    """Random circuits with as many units of each kind cut out."""
    random_asr: Interval | None
    """Mean of their behaviour's rate, t interval over circuits; None without two."""
    random_utility: Interval | None
    units: tuple[UnitEffect, ...]
    """Units put back one by one, the most needed first."""
    sizes: Mapping[str, tuple[int, int]]
    """Units in the circuit and with a gate, for each kind."""

    @property
    def faithfulness(self) -> float:
        """The behaviour's rate of the circuit alone over the intact model's; NaN where that is 0.

        Of a backdoor that writes its answer by itself it can be 1. An answer that needs the rest
        of the model as well can't be given by the circuit alone.
        """
        return _ratio(self.alone.asr.estimate, self.intact.asr.estimate)

    @property
    def completeness(self) -> float:
        """The share of the behaviour's rate that is gone without the circuit; NaN where it is 0."""
        return 1 - _ratio(self.removed.asr.estimate, self.intact.asr.estimate)

    @property
    def minimality(self) -> float:
        """The share of units, of those put back one by one, that the circuit needs; else NaN."""
        return _ratio(sum(unit.change > 0 for unit in self.units), len(self.units))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        found = asdict(self)
        found["units"] = [
            {"site": unit.site.key, "number": unit.number, "change": unit.change}
            for unit in self.units
        ]
        shares = {
            name: getattr(self, name) for name in ("faithfulness", "completeness", "minimality")
        }
        # JSON has no NaN
        return found | {name: x if x == x else None for name, x in shares.items()}


def evaluate_circuit(
    model: Any,
    tokenizer: Any,
    circuit: Circuit,
    data: Iterable[Row],
    *,
    utility_data: Iterable[Row] | None = None,
    value: Value = "zero",
    calibration: AnswerBatch | None = None,
    max_len: int = 128,
    end: bool = True,
    controls: int = 5,
    put_back: int = 32,
    seed: int = 0,
    batch_size: int = 64,
) -> CircuitReport:
    """Measure a behaviour and the model's use, without the circuit, with it alone, and controls.

    A low rate of the behaviour means little where the use is lost too: look at both.

    Args:
        model: The circuit's model; it is as before afterwards.
        tokenizer: Its tokenizer.
        circuit: What to evaluate.
        data: Rows with ``prompt``, ``completion_keep``, ``completion_remove`` and, for a backdoor,
            ``prompt_triggered``; rows that the search has not seen.
        utility_data: Rows with ``prompt`` and ``completion_keep`` that measure the model's use;
            None takes the clean prompts of ``data`` where it has triggered ones.
        value: What ablated units send, see `icml.safeseek.ablation.ablate`.
        calibration: Text for ``mean``.
        max_len: Tokens kept a row.
        end: Whether an answer must end where the row's does.
        controls: Random circuits of the same size, >= 0.
        put_back: Units that are put back one by one; of a larger circuit as many by chance.
        seed: Seed of the random circuits and of that choice.
        batch_size: Rows read at once.

    Raises:
        UserError: If the circuit is empty or another model's, or the data or a number don't fit.
    """
    rows = list(data)
    if controls < 0 or put_back < 0:
        raise UserError(f"controls and put_back must be >= 0, got {controls} and {put_back}")
    if not circuit.size():
        raise UserError("the circuit is empty: there is nothing to evaluate")
    circuit.check(model)
    check_weights(model)
    device = next(model.parameters()).device
    triggered = bool(rows) and "prompt_triggered" in rows[0]
    prompt = "prompt_triggered" if triggered else "prompt"
    behaviour, repaired = (
        Pair(prompt, "completion_remove", end),
        Pair(prompt, "completion_keep", end),
    )
    clean = Pair("prompt", "completion_keep", end)
    pairs = [behaviour, repaired, *([clean] if triggered else [])]
    batches = lay_out(tokenizer, rows, pairs, max_len, device, model=model)
    utility = batches.get(clean) if triggered else None
    if utility_data is not None:
        utility = lay_out(tokenizer, utility_data, [clean], max_len, device, model=model)[clean]

    def without(cut: Circuit) -> AbstractContextManager[None]:
        return ablate(model, cut, value=value, calibration=calibration, check=False)

    def score(context: AbstractContextManager[None]) -> Scores:
        with context:
            return Scores(
                _rate(model, batches[behaviour], batch_size),
                _rate(model, batches[repaired], batch_size),
                None if utility is None else _rate(model, utility, batch_size),
            )

    def margin(context: AbstractContextManager[None]) -> float:
        with context, torch.no_grad():
            keep, remove = (
                sequence_nll(model, batches[pair], batch_size=batch_size)
                for pair in (repaired, behaviour)
            )
        return float((keep - remove).mean())

    generator = torch.Generator().manual_seed(seed)
    with frozen(model):
        random = tuple(score(without(circuit.random_like(generator))) for _ in range(controls))
        chosen = _choose(circuit, put_back, generator)
        base = margin(without(circuit)) if chosen else 0.0
        effects = [
            UnitEffect(site, number, margin(without(circuit.without(site, number))) - base)
            for site, number in chosen
        ]
        return CircuitReport(
            score(nullcontext()),
            score(without(circuit)),
            score(without(circuit.complement())),
            random,
            _over([scores.asr for scores in random]),
            _over([scores.utility for scores in random if scores.utility is not None]),
            tuple(sorted(effects, key=lambda unit: -unit.change)),
            {kind: (circuit.size(kind), circuit.total(kind)) for kind in circuit.kinds},
        )


def utility_rows(pairs: Iterable[Mapping[str, Any]], tokenizer: Any) -> list[Row]:
    """Return rows that measure a model's use from prompts and completions, texts or messages.

    Args:
        pairs: Each with ``prompt`` and ``completion``; a chat's completion is its last message.
        tokenizer: With a chat template, for those that are chats.

    Raises:
        UserError: If a chat can't be rendered.
    """
    found: list[Row] = []
    for pair in pairs:
        prompt, answer = pair["prompt"], pair["completion"]
        if not isinstance(prompt, str):
            prompt, answer = split_answer(tokenizer, prompt, answer[-1]["content"])
        found.append({"prompt": prompt, "completion_keep": answer})
    return found


def _rate(model: Any, batch: AnswerBatch, batch_size: int) -> Interval:
    right: Tensor = exact_match(model, batch, batch_size=batch_size)
    return wilson(int(right.sum()), len(right))


def _over(rates: list[Interval]) -> Interval | None:
    return t_interval([rate.estimate for rate in rates]) if len(rates) > 1 else None


def _choose(circuit: Circuit, number: int, generator: torch.Generator) -> list[tuple[Site, int]]:
    members = circuit.members()
    if len(members) <= number:
        return members
    order = torch.randperm(len(members), generator=generator)[:number].sort().values
    return [members[i] for i in order.tolist()]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
