"""Does an ensemble sample from the law that it should? A chi-square test against the exact law."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.me.ensemble import Ensemble
from icml.me.likelihood import mixture_law
from icml.me.prompts import encode
from icml.me.sampling import Sampling, check_equivalent
from icml.me.state import MemberState

if TYPE_CHECKING:
    from icml.core.stats import ChiSquare

MIN_EXPECTED = 5.0  # Cochran's rule for a cell of the test
_REST = 1e-6  # probability below which the sequences that are not listed count as impossible

Sequences = dict[tuple[int, ...], float]
"""New tokens, up to an end token where there is one -> probability."""


@dataclass(frozen=True)
class EquivalenceReport:
    """What the test says."""

    chi2: float
    """The statistic."""
    df: int
    """Degrees of freedom: one less than the cells."""
    p: float
    """Probability of a statistic as large or larger if the law is right."""
    tv_upper: float
    """Upper bound of the total variation between the sampled law and the exact one over the cells,
    with confidence 1 - alpha (McDiarmid's inequality)."""
    samples: int
    alpha: float
    """The law is refuted if p is below."""

    @property
    def holds(self) -> bool:
        """Whether the samples don't refute the law."""
        return self.p >= self.alpha


def exact_distribution(
    ensemble: Ensemble,
    prompt: Any,
    *,
    steps: int,
    sampling: Sampling | None = None,
    min_probability: float = 0.0,
) -> Sequences:
    """Return the ensemble's exact law of the next tokens by enumeration, every member being run.

    Args:
        ensemble: With members of one vocabulary and constant weights.
        prompt: One prompt, as ``generate`` takes it.
        steps: New tokens, >= 1.
        sampling: The warp; None for none.
        min_probability: Sequences whose beginning is less likely are left out, so that the sum
            may stay below 1; needed where vocabulary ** steps is large.

    Raises:
        UserError: If the members have different vocabularies or a router weighs them.
    """
    if ensemble.level == "text" or ensemble.router is not None:
        raise UserError("the exact law is enumerated for one vocabulary and constant weights only")
    begin = encode(prompt, ensemble.members, by_text=False)[0].ids
    open_: Sequences = {(): 1.0}
    closed: Sequences = {}
    for step in range(steps):
        grown: Sequences = {}
        for some in _slices(list(open_), 256):
            laws = _laws(ensemble, begin, some, sampling)
            for prefix, law in zip(some, laws.tolist(), strict=True):
                for token, probability in enumerate(law):
                    joint = open_[prefix] * probability
                    if joint > min_probability:
                        done = token in ensemble.vocabulary.ends or step + 1 == steps
                        (closed if done else grown)[*prefix, token] = joint
        open_ = grown
    return closed


def _laws(
    ensemble: Ensemble, begin: Tensor, prefixes: list[tuple[int, ...]], sampling: Sampling | None
) -> Tensor:
    """Return the law of the token after each prefix, ``(prefixes, vocabulary)``, in float64."""
    new = torch.tensor(prefixes, dtype=torch.long).reshape(len(prefixes), -1)
    ids = torch.cat([begin.expand(len(prefixes), -1), new], 1)
    states = [MemberState(member, ids, torch.ones_like(ids).bool()) for member in ensemble.members]
    law = mixture_law(states, ensemble.vocabulary, ensemble.weights[None], sampling).double()
    return law / law.sum(1, keepdim=True)


def _slices(items: list[Any], size: int) -> list[list[Any]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def verify_equivalence(
    ensemble: Ensemble,
    prompt: Any,
    *,
    steps: int = 2,
    n: int = 20_000,
    alpha: float = 1e-3,
    seed: int = 0,
    batch: int = 1024,
    **settings: Any,
) -> EquivalenceReport:
    """Sample ``n`` continuations and test them against the ensemble's exact law (chi-square).

    Sequences that are expected less than five times are counted together, so a large vocabulary
    costs no more than its likely part. Rows are drawn independently (``selection="per_row"``).

    Args:
        ensemble: With members of one vocabulary and constant weights.
        prompt: One prompt, as ``generate`` takes it.
        steps: New tokens a sample, >= 1.
        n: Samples.
        alpha: Chance of calling a right law wrong.
        seed: Of the samples.
        batch: Samples that are drawn at a time.
        **settings: ``method``, ``temperature``, ``top_k``, ``top_p`` and ``warp`` of ``generate``.

    Raises:
        UserError: If a number is out of range or a setting is refused.
    """
    known = {"method", "temperature", "top_k", "top_p", "warp"}
    if not set(settings) <= known:
        raise UserError(f"settings are {', '.join(sorted(known))}, got {sorted(settings)}")
    if min(steps, n, batch) < 1 or not 0 < alpha < 1:
        raise UserError(f"steps, n and batch must be >= 1, alpha in (0, 1), got {alpha=} {n=}")
    sampling = Sampling(*(settings.get(k, d) for k, d in _DEFAULTS.items()))
    check_equivalent(settings.get("method", "me"), sampling)
    law = exact_distribution(
        ensemble, prompt, steps=steps, sampling=sampling, min_probability=MIN_EXPECTED / n
    )
    counts = count_sequences(ensemble, prompt, steps=steps, n=n, seed=seed, batch=batch, **settings)
    return _report(law, counts, n, alpha)


_DEFAULTS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "warp": "per_model"}


def _keys(new: Tensor, ends: frozenset[int]) -> list[tuple[int, ...]]:
    keys = []
    for row in new.tolist():
        stop = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        keys.append(tuple(row[:stop]))
    return keys


def count_sequences(
    ensemble: Ensemble,
    prompt: Any,
    *,
    steps: int,
    n: int,
    seed: int,
    batch: int = 1024,
    **settings: Any,
) -> Counter[tuple[int, ...]]:
    """Sample independent continuations and count each one.

    Args:
        ensemble: With members of one vocabulary.
        prompt: One prompt, as ``generate`` takes it.
        steps: New tokens a sample.
        n: Samples.
        seed: Of the first batch; each further one takes the next.
        batch: Samples that are drawn at a time.
        **settings: Of ``generate``.
    """
    counts: Counter[tuple[int, ...]] = Counter()
    begin = encode(prompt, ensemble.members, by_text=False)[0].ids
    for number, start in enumerate(range(0, n, batch)):
        rows = begin.expand(min(batch, n - start), -1)
        result = ensemble.generate(
            rows, max_new_tokens=steps, selection="per_row", seed=seed + number, **settings
        )
        counts.update(_keys(result.sequences[:, begin.shape[1] :], ensemble.vocabulary.ends))
    return counts


def goodness_of_fit(law: Sequences, counts: Counter[tuple[int, ...]], n: int) -> ChiSquare:
    """Test counts against a law; sequences that it doesn't list are one cell (Pearson).

    Args:
        law: Probabilities, whose sum may stay below 1.
        counts: Of ``n`` samples.
        n: Samples.

    Raises:
        UserError: If the law has one outcome only.
    """
    from icml.core.stats import chi2_gof

    observed, expected = _cells(law, counts, n)
    if sum(value > 0 for value in expected) < 2:
        raise UserError("the law has one outcome only: there is nothing to test")
    return chi2_gof(observed, expected, min_expected=MIN_EXPECTED)


def _cells(
    law: Sequences, counts: Counter[tuple[int, ...]], n: int
) -> tuple[list[int], list[float]]:
    """Return observed and expected counts, those of all sequences that are not listed last."""
    rest = 1 - math.fsum(law.values())
    observed = [counts[key] for key in law]
    expected = [n * probability for probability in law.values()]
    observed.append(n - sum(observed))
    expected.append(n * rest if rest > _REST else 0.0)
    scale = n / math.fsum(expected)
    return observed, [value * scale for value in expected]


def _report(
    law: Sequences, counts: Counter[tuple[int, ...]], n: int, alpha: float
) -> EquivalenceReport:
    found = goodness_of_fit(law, counts, n)
    observed, expected = _cells(law, counts, n)
    distance = sum(abs(o - e) for o, e in zip(observed, expected, strict=True)) / (2 * n)
    slack = math.sqrt((len(expected) - 1) / n) / 2 + math.sqrt(math.log(1 / alpha) / (2 * n))
    upper = min(1.0, distance + slack)
    return EquivalenceReport(found.statistic, found.df, found.p_value, upper, n, alpha)
