"""Are the texts of ME, and of the conventional ensemble, draws from the exact mixture?

The default run's texts differ by a little in likelihood. Here are fresh ones, and a sharper test.
Given what was written before, a token that is drawn from the mixture q has an expected log q of
minus q's entropy H, so ``log q(y) + H`` summed over all tokens of all texts is a martingale: over
the root of its summed conditional variance it is standard normal, for either method. Run from
anywhere, about eight minutes on one core::

    python packages/icml-me/benchmarks/texts.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from scipy import stats
from torch import Tensor

from icml.me.bench import no_end
from icml.me.ensemble import Ensemble
from icml.me.experiment.quality import PROMPTS
from icml.me.sampling import Method

MEMBERS = ("pkg:smollm2", "pkg:smollm2?layers=28")
SEEDS: dict[Method, int] = {"me": 50_000, "ce": 60_000}
TEXTS, TOKENS, BATCH = 96, 24, 16


def texts(ensemble: Ensemble, method: Method, seed: int) -> list[Tensor]:
    """Return texts as ids of prompt and continuation, one row each."""
    found = []
    prompts = [PROMPTS[row % len(PROMPTS)] for row in range(BATCH)]
    for number in range(TEXTS // BATCH):
        result = ensemble.generate(
            prompts,
            method=method,
            max_new_tokens=TOKENS,
            selection="per_row",
            seed=seed + number,
            logits_processor=no_end(ensemble),
        )
        for prompt, row in zip(prompts, result.sequences[:, -TOKENS:].cpu(), strict=True):
            ids = ensemble.members[0].tokenizer(prompt)["input_ids"]
            found.append(torch.cat([torch.tensor(ids), row])[None])
    return found


def mixture(ensemble: Ensemble, text: Tensor) -> Tensor:
    """Return the mixture's law of each of the last tokens, by whole passes without a cache."""
    laws = []
    for member in ensemble.members:
        with torch.no_grad():
            logits = member.model(text[:, :-1]).logits[0, -TOKENS:].float()
        logits[:, sorted(ensemble.vocabulary.ends)] = -torch.inf
        laws.append(logits.softmax(-1))
    return torch.stack(laws).mean(0)


def judge(ensemble: Ensemble, rows: list[Tensor]) -> tuple[float, list[float]]:
    """Return the martingale in standard deviations and each text's log-probability a token."""
    surprise, variance, likelihood = 0.0, 0.0, []
    for text in rows:
        law = mixture(ensemble, text)
        logs = law.clamp_min(1e-45).log()
        entropy = -(law * logs).sum(-1)
        got = logs.gather(1, text[0, -TOKENS:, None])[:, 0]
        surprise += float((got + entropy).sum())
        variance += float((law * (logs + entropy[:, None]) ** 2).sum())
        likelihood.append(float(got.mean()))
    return surprise / variance**0.5, likelihood


def main() -> None:
    """Write texts.json beside this file."""
    torch.set_num_threads(1)
    ensemble = Ensemble(list(MEMBERS), devices=["cpu"] * len(MEMBERS))
    found = {method: judge(ensemble, texts(ensemble, method, SEEDS[method])) for method in SEEDS}
    gap = stats.ttest_ind(found["me"][1], found["ce"][1], equal_var=False)
    low, high = gap.confidence_interval(0.95)
    numbers = {
        "texts": TEXTS,
        "tokens": TOKENS,
        "martingale, ME": found["me"][0],
        "martingale, conventional ensemble": found["ce"][0],
        "ME less conventional, nats a token": [float((low + high) / 2), float(low), float(high)],
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(numbers, indent=2) + "\n")
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
