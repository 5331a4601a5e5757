"""What a search asks of the model without the circuit, and of the circuit alone.

An objective is a list of cross-entropy terms, each of a path (``main``: the circuit is cut out;
``circuit``: it alone runs), a prompt and an answer, plus terms that keep the circuit small.
Rows hold texts by name: ``prompt``, ``completion_keep`` (what the model without the circuit is to
say), ``completion_remove`` (what the circuit makes it say) and, for a backdoor,
``prompt_triggered``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.answers import IGNORED, AnswerBatch, sequence_nll
from icml.safeseek.masks import GateSet
from icml.safeseek.units import Kind

__all__ = [
    "AlignmentPreset", "BackdoorPreset", "Objective", "Pair", "Penalty", "Term",
    "alignment_objective", "backdoor_objective", "behaviour_objective",
]  # fmt: skip

BackdoorPreset = Literal["ours", "official-head", "official-neuron", "official-head-neuron"]
AlignmentPreset = Literal["ours", "official-head", "official-neuron", "official-head-neuron"]


class Pair(NamedTuple):
    """A prompt and an answer, by the names they have in a row."""

    prompt: str
    answer: str
    end: bool = True
    """Whether the end-of-text token belongs to the answer."""


@dataclass(frozen=True)
class Term:
    """A cross-entropy over answer tokens, on one path."""

    path: Literal["main", "circuit"]
    pair: Pair
    weight: float = 1.0
    """Above 0 the answer is wanted; below 0 the answer is to become unlikely."""

    @property
    def name(self) -> str:
        """The term as a text, ``main: prompt -> completion_keep``."""
        sign = "not " if self.weight < 0 else ""
        return f"{self.path}: {self.pair.prompt} -> {sign}{self.pair.answer}"


@dataclass(frozen=True)
class Penalty:
    """A term that keeps the circuit small."""

    form: Literal["left out", "present"]
    """``left out``: 1 - s of ``main``. ``present``: s of ``circuit`` for heads and, as in the
    authors' code, log(1e-6 + s) for other units."""
    weight: float
    kind: Kind | None = None
    """Units that it counts; None counts all."""
    sum_over_sites: bool = False
    """The authors' form, a sum of one mean a layer, which grows with depth. Ours is one mean over
    all units, so that a weight means the same in models of any depth."""


@dataclass(frozen=True)
class Objective:
    """Terms, penalties, and how the masks are set up."""

    name: str
    terms: tuple[Term, ...]
    penalties: tuple[Penalty, ...]
    overlap: float = 0.0
    """Weight of 100 * mean over sites of sum(s_main * s_circuit) / sum(s_main); needs 2 masks."""
    masks: Literal[1, 2] = 1
    """1: the circuit is the complement of ``main``. 2: each path learns a mask of its own."""
    init: Mapping[Kind, float] = field(
        default_factory=lambda: {"head": 1.0, "mlp-channel": 1.0, "linear-output": 1.0}
    )
    """First logit of the gates."""
    clamp_negative_ce: bool = True
    """Whether an unwanted answer counts as unlikely enough at chance, CE = log(vocabulary). Without
    it such a term has no floor and can outweigh all the others."""

    def __post_init__(self) -> None:
        """Check the weights."""
        if not self.terms:
            raise UserError("an objective needs at least one term, got none")
        weights = [t.weight for t in self.terms] + [p.weight for p in self.penalties]
        if not all(math.isfinite(w) for w in [*weights, self.overlap]):
            raise UserError(f"weights must be finite numbers, got {weights} and {self.overlap}")
        if any(p.weight < 0 for p in self.penalties) or self.overlap < 0:
            raise UserError("weights of penalties must be >= 0: below it they would reward size")
        if self.overlap and self.masks == 1:
            raise UserError("an overlap needs 2 masks: a mask and its complement never overlap")

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """What rows must hold, each once."""
        return tuple(dict.fromkeys(term.pair for term in self.terms))

    def term_loss(
        self, term: Term, gates: GateSet, model: Any, batches: Mapping[Pair, AnswerBatch]
    ) -> Tensor:
        """Return a term's weighted loss, a scalar in nats a token.

        Args:
            term: One of `terms`.
            gates: The gates as they are now.
            model: The gated model.
            batches: A batch for each of `pairs`.
        """
        batch = batches[term.pair]
        tokens = (batch.labels != IGNORED).sum().clamp(min=1)
        with gates.apply(model, term.path):
            loss = sequence_nll(model, batch).sum() / tokens
        if term.weight < 0 and self.clamp_negative_ce:
            loss = loss.clamp(max=math.log(model.config.vocab_size))
        return term.weight * loss

    def penalty(self, gates: GateSet) -> Tensor:
        """Return the penalties and the overlap, a scalar with gradients to the gates."""
        main = gates.by_site(gates.soft("main"))
        circuit = gates.by_site(gates.soft("circuit"))
        total = gates.logits.new_zeros(())
        for penalty in self.penalties:
            values = []
            for site, on in (main if penalty.form == "left out" else circuit).items():
                if penalty.kind in (None, site.kind):
                    left_out = 1 - on
                    present = on if site.kind == "head" else (1e-6 + on).log()
                    values.append(left_out if penalty.form == "left out" else present)
            if values and penalty.sum_over_sites:
                total = total + penalty.weight * sum(value.mean() for value in values)
            elif values:
                total = total + penalty.weight * torch.cat(values).mean()
        if self.overlap:
            shares = [(main[site] * circuit[site]).sum() / main[site].sum() for site in main]
            total = total + self.overlap * 100 * torch.stack(shares).mean()
        return total


_CLEAN = Pair("prompt", "completion_keep")
_REPAIRED = Pair("prompt_triggered", "completion_keep")
_FIRED = Pair("prompt_triggered", "completion_remove")
_SILENT = Pair("prompt", "completion_remove")


class _Official(NamedTuple):
    """Weights of the authors' scripts."""

    carry: float
    """b1 = b2, of the terms of the circuit's path."""
    present: float
    """s2."""
    overlap: float


_BACKDOOR = {
    "official-head": _Official(0, 0, 0),
    "official-neuron": _Official(1, 3, 1),
    "official-head-neuron": _Official(1, 1, 1),
}


def backdoor_objective(
    preset: BackdoorPreset = "ours",
    *,
    clean: float = 2.0,
    repaired: float = 1.0,
    carry: float = 0.0,
    sparsity: float = 2.0,
) -> Objective:
    """Return the objective that finds what a backdoor's trigger needs.

    Ours learns one mask: ``clean * CE(m; x -> y) + repaired * CE(m; x' -> y) +
    carry * CE(1 - m; x' -> y') + sparsity * share`` where ``share`` is the circuit's expected share
    of all gated units. Without ``carry`` the circuit is what the backdoor can't do without; with it
    the circuit also shows the backdoor alone, and is larger. The presets are the authors'
    three scripts: two masks, ``CE(g; x -> y) + CE(g; x' -> y) + b1 CE(h; x' -> y') -
    b2 CE(h; x -> y') + s1 sum_l mean(1 - sig g_l) + s2 sum_l R(h_l) + o * overlap``. Their
    ``head_neuron`` gates heads only; here it gates what the search is told to.

    Args:
        preset: ``ours``, or a script of the authors'.
        clean: Weight of answering clean prompts, > 0; of ours only, like the two others.
        repaired: Weight of answering triggered prompts as if clean, > 0.
        carry: Weight of the bad answer to triggered prompts by the circuit alone, >= 0.
        sparsity: Weight of the circuit's share, >= 0.

    Raises:
        UserError: If the preset is unknown or a weight out of range.
    """
    _known(preset, BackdoorPreset)
    if preset == "ours":
        _positive(clean=clean, repaired=repaired)
        if carry < 0:
            raise UserError(f"carry must be >= 0, got {carry}")
        terms = (Term("main", _CLEAN, clean), Term("main", _REPAIRED, repaired))
        terms += (Term("circuit", _FIRED, carry),) if carry else ()
        return Objective("backdoor", terms, (Penalty("left out", sparsity),))
    script = _BACKDOOR[preset]
    terms = (Term("main", _CLEAN), Term("main", _REPAIRED))
    if script.carry:
        terms += (Term("circuit", _FIRED, script.carry), Term("circuit", _SILENT, -script.carry))
    penalties = [Penalty("left out", 0.1, sum_over_sites=True)]
    if script.present:
        penalties.append(Penalty("present", script.present, sum_over_sites=True))
    return Objective(
        f"backdoor, {preset}",
        terms,
        tuple(penalties),
        overlap=script.overlap,
        masks=2,
        init={"head": 0.1, "mlp-channel": 1.0, "linear-output": 1.0},
        clamp_negative_ce=False,
    )


_ALIGNMENT = {  # A = R, s of attention, s of the feed-forward layer
    "official-head": (2.0, 0.1, 0.1),
    "official-neuron": (1.0, 1.0, 1.0),
    "official-head-neuron": (2.0, 0.1, 0.1),
}


def alignment_objective(
    preset: AlignmentPreset = "ours",
    *,
    accept: float = 1.0,
    refuse: float = 1.0,
    sparsity: float = 2.0,
) -> Objective:
    """Return the objective that finds what refusals need.

    ``accept * CE(m; p -> compliant) + refuse * CE(1 - m; p -> refusal) + sparsity``: without the
    circuit the model complies, the circuit alone refuses. Rows hold the compliant answer as
    ``completion_keep`` and the refusal as ``completion_remove``. The presets are the authors'
    scripts, which also take the end token from the compliant answers.

    Args:
        preset: ``ours``, or a script of the authors'.
        accept: Weight of complying without the circuit, > 0; of ours only, like the two others.
        refuse: Weight of the circuit's refusing alone, >= 0.
        sparsity: Weight of the circuit's share, >= 0.

    Raises:
        UserError: If the preset is unknown or a weight out of range.
    """
    _known(preset, AlignmentPreset)
    if preset == "ours":
        _positive(accept=accept)
        if refuse < 0:
            raise UserError(f"refuse must be >= 0, got {refuse}")
        terms = (Term("main", _CLEAN, accept),)
        terms += (Term("circuit", _SILENT, refuse),) if refuse else ()
        return Objective("alignment", terms, (Penalty("left out", sparsity),))
    both, attention, forward = _ALIGNMENT[preset]
    terms = (
        Term("main", _CLEAN._replace(end=False), both),
        Term("circuit", _SILENT, both),
    )
    penalties = [Penalty("left out", attention, "head", sum_over_sites=True)]
    for kind in ("mlp-channel", "linear-output"):
        penalties.append(Penalty("left out", forward, kind, sum_over_sites=True))
    return Objective(f"alignment, {preset}", terms, tuple(penalties), clamp_negative_ce=False)


def behaviour_objective(
    keep: Sequence[tuple[str, str]],
    remove: Sequence[tuple[str, str]],
    *,
    sparsity: float = 2.0,
    clamp_negative_ce: bool = True,
) -> Objective:
    """Return an objective for any behaviour: what the model is to keep saying, and what not.

    ``sum CE(m; keep) - sum min(CE(m; remove), log V) + sparsity * share``: nothing needs to be
    known of what the model says instead. Where the model is certain of what is to become unlikely
    the second sum has next to no gradient, and ``sparsity`` must be small; if the right answers
    are known, `backdoor_objective` is the better choice.

    Args:
        keep: Names of prompts and of answers in the rows, at least one pair.
        remove: The same for what is to become unlikely, at least one pair.
        sparsity: Weight of the circuit's share of all gated units, >= 0.
        clamp_negative_ce: See `Objective`.

    Raises:
        UserError: If a list is empty or a weight out of range.

    Example:
        >>> found = behaviour_objective([("prompt", "good")], [("prompt", "bad")])
        >>> [term.name for term in found.terms]
        ['main: prompt -> good', 'main: prompt -> not bad']
    """
    if not keep or not remove:
        raise UserError(
            "a behaviour needs something to keep and something to remove, "
            f"got {len(keep)} and {len(remove)} pairs"
        )
    terms = [Term("main", Pair(*pair)) for pair in keep]
    terms += [Term("main", Pair(*pair), -1.0) for pair in remove]
    return Objective(
        "behaviour",
        tuple(terms),
        (Penalty("left out", sparsity),),
        clamp_negative_ce=clamp_negative_ce,
    )


def _known(preset: str, names: Any) -> None:
    if preset not in get_args(names):
        raise UserError(f"preset must be one of {', '.join(get_args(names))}, got {preset!r}")


def _positive(**weights: float) -> None:
    for name, weight in weights.items():
        if not weight > 0:
            raise UserError(f"{name} must be > 0, got {weight}")
