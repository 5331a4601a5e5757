"""Random members that are small enough for a law to be enumerated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

VOCABULARY = 12


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def random_model() -> Callable[..., Any]:
    """Builds a random Llama of two layers whose laws are far from uniform and from each other."""

    def build(
        seed: int, *, vocab: int = VOCABULARY, ends: Sequence[int] = (), ctx: int = 64
    ) -> Any:
        from icml.core.models.tiny import causal_lm

        model = causal_lm(vocab, d=32, layers=2, heads=4, ctx=ctx, seed=seed)
        draws = torch.Generator().manual_seed(seed)
        head = torch.randn(vocab, 32, generator=draws) * 0.3  # logits with a spread of 1.7
        model.lm_head.weight = torch.nn.Parameter(head)  # not tied to the embeddings any more
        ends = list(ends) or None
        model.config.eos_token_id = model.generation_config.eos_token_id = ends
        return model.requires_grad_(False)

    return build


@pytest.fixture(scope="session")
def trio(random_model) -> Any:
    """Three members with the weights .5, .3, .2, none of which ends a text."""
    from icml.me import Ensemble

    return Ensemble([random_model(seed) for seed in range(3)], weights=[0.5, 0.3, 0.2])


@pytest.fixture(scope="session")
def reference_law() -> Callable[..., dict[tuple[int, ...], float]]:
    """Enumerates an ensemble's law as the paper's text says it: whole forward passes, loops."""

    def next_law(models: Any, weights: Any, ids: list[int], warp: Callable[..., Any]) -> Any:
        total = torch.zeros(models[0].config.vocab_size, dtype=torch.float64)
        for model, weight in zip(models, weights, strict=True):
            with torch.no_grad():
                logits = model(torch.tensor([ids])).logits[0, -1].double()
            total += weight * warp(logits)
        return total

    def law(
        models: Any, weights: Any, prompt: list[int], steps: int,
        warp: Callable[..., Any] = lambda logits: logits.softmax(-1),
    ) -> dict[tuple[int, ...], float]:  # fmt: skip
        found: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(steps):
            found = {
                (*prefix, token): joint * float(p)
                for prefix, joint in found.items()
                for token, p in enumerate(next_law(models, weights, [*prompt, *prefix], warp))
            }
        return found

    return law


@pytest.fixture(scope="session")
def p_value() -> Callable[..., float]:
    """Chi-square test of sampled rows against a law: the chance of a worse fit."""

    def test(rows: Any, law: dict[tuple[int, ...], float]) -> float:
        from collections import Counter

        from icml.core.stats import chi2_gof

        counts = Counter(tuple(row) for row in rows.tolist())
        assert set(counts) <= set(law)
        total = sum(law.values())
        expected = [len(rows) * p / total for p in law.values()]
        return chi2_gof([counts[key] for key in law], expected).p_value

    return test
