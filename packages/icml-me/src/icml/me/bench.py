"""What ME saves: paired runs of both methods in one process, and what transformers' loop takes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from icml.me.ensemble import Ensemble
from icml.me.options import BenchOptions
from icml.me.result import EnsembleStats
from icml.me.sampling import Method


@dataclass(frozen=True)
class Timing:
    """Paired runs of ME and the conventional ensemble (CE)."""

    tokens: int
    """New tokens a run."""
    me: tuple[float, ...]
    """Seconds of each run."""
    ce: tuple[float, ...]
    """Seconds of the run that was paired with it."""
    me_calls: float
    """Forward passes a token of ME, all rows of the batch together."""
    ce_calls: float
    outside: float
    """Largest share of ME's time spent outside the forward passes."""

    @property
    def ratios(self) -> list[float]:
        """How many times as fast ME is, in each pair."""
        return [ce / me for me, ce in zip(self.me, self.ce, strict=True)]


def time_pairs(
    ensemble: Ensemble, prompt: Tensor, *, tokens: int, pairs: int, seed: int = 0
) -> Timing:
    """Time both methods in turn on the same prompt; end tokens are never drawn.

    Every member reads the prompt once before, so that the first run is as warm as the last.

    Args:
        ensemble: At least one member, all with one vocabulary.
        prompt: ``(batch, tokens)`` ids.
        tokens: New tokens a run.
        pairs: Runs of each method; which one comes first alternates.
        seed: Of the first pair.
    """
    run_seconds(ensemble, prompt, "ce", tokens=2, seed=seed)
    found: dict[Method, list[tuple[float, EnsembleStats]]] = {"me": [], "ce": []}
    for pair in range(pairs):
        order: list[Method] = ["me", "ce"] if pair % 2 else ["ce", "me"]
        for method in order:
            timed = run_seconds(ensemble, prompt, method, tokens=tokens, seed=seed + pair)
            found[method].append(timed)
    return Timing(
        tokens=tokens,
        me=tuple(seconds for seconds, _ in found["me"]),
        ce=tuple(seconds for seconds, _ in found["ce"]),
        me_calls=statistics.mean(stats.calls_per_token for _, stats in found["me"]),
        ce_calls=statistics.mean(stats.calls_per_token for _, stats in found["ce"]),
        outside=max(stats.outside for _, stats in found["me"]),
    )


def run_seconds(
    ensemble: Ensemble, prompt: Tensor, method: Method, *, tokens: int, seed: int
) -> tuple[float, EnsembleStats]:
    """Generate exactly ``tokens`` tokens and return the seconds and the counts."""
    start = perf_counter()
    result = ensemble.generate(
        prompt,
        method=method,
        max_new_tokens=tokens,
        seed=seed,
        logits_processor=no_end(ensemble),
    )
    return perf_counter() - start, result.stats


def time_plain_generate(
    ensemble: Ensemble, prompt: Tensor, *, tokens: int, pairs: int
) -> list[float]:
    """Return ME's time with one member over that of transformers' ``generate``, pair by pair."""
    (member,) = ensemble.members
    ratios = []
    for pair in range(-1, pairs):  # the first one warms up
        ours, _ = run_seconds(ensemble, prompt, "me", tokens=tokens, seed=pair + 1)
        torch.manual_seed(pair + 1)
        start = perf_counter()
        member.model.generate(
            prompt.to(member.device), attention_mask=torch.ones_like(prompt), do_sample=True,
            max_new_tokens=tokens, min_new_tokens=tokens, top_k=0, top_p=1.0, temperature=1.0,
            pad_token_id=member.pad_id,
        )  # fmt: skip
        if pair >= 0:
            ratios.append(ours / (perf_counter() - start))
    return ratios


def no_end(ensemble: Ensemble) -> Any:
    """Return a logits processor under which no member ends a text."""
    from transformers.generation import SuppressTokensLogitsProcessor

    ends = sorted(ensemble.vocabulary.ends)
    return SuppressTokensLogitsProcessor(ends, device=str(ensemble.members[0].device))


def random_prompt(ensemble: Ensemble, *, batch: int, tokens: int, seed: int = 0) -> Tensor:
    """Return ``(batch, tokens)`` ids, none of which ends a text."""
    draws = torch.Generator().manual_seed(seed)
    low = 1 + max((end for end in ensemble.vocabulary.ends if end < 64), default=0)
    return torch.randint(low, ensemble.vocabulary.size, (batch, tokens), generator=draws)


def measure(options: BenchOptions) -> str:
    """Time the members that were asked for and return the result as text."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.set_num_threads(options.threads)
    ensemble = Ensemble(options.models)
    if ensemble.level == "text":
        from icml.core.errors import UserError

        raise UserError("bench needs members with one vocabulary: see icml me check")
    prompt = random_prompt(ensemble, batch=options.batch, tokens=options.prompt_tokens)
    if len(ensemble.members) == 1:
        ratios = time_plain_generate(ensemble, prompt, tokens=options.tokens, pairs=options.pairs)
        return f"ME with one member / transformers' generate: {_spread(ratios)}"
    timing = time_pairs(ensemble, prompt, tokens=options.tokens, pairs=options.pairs)
    return describe(timing, members=len(ensemble.members), batch=options.batch)


def describe(timing: Timing, *, members: int, batch: int) -> str:
    """Return a timing as lines of text."""
    me, ce = statistics.median(timing.me), statistics.median(timing.ce)
    made = timing.tokens * batch
    return "\n".join(
        [
            f"{members} members, {timing.tokens} tokens, {len(timing.me)} pairs of runs",
            f"CE  {made / ce:7.2f} tokens a second, {timing.ce_calls:.2f} passes a token",
            f"ME  {made / me:7.2f} tokens a second, {timing.me_calls:.2f} passes a token, "
            f"{timing.outside:.1%} of the time outside them",
            f"ME is {_spread(timing.ratios)} times as fast (at most {members})",
        ]
    )


def _spread(ratios: Sequence[float]) -> str:
    low, high = min(ratios), max(ratios)
    return (
        f"{statistics.median(ratios):.2f} (median of {len(ratios)} pairs, {low:.2f} to {high:.2f})"
    )
