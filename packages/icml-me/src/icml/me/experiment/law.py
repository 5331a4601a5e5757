"""Is what ME samples distributed as the ensemble? A chi-square test against the enumerated law."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.me.ensemble import Ensemble
    from icml.me.equivalence import Sequences

WEIGHTS = (0.5, 0.3, 0.2)
VOCABULARY = 12
PROMPT = (3, 5, 7)
WARPS: Mapping[str, Mapping[str, Any]] = {
    "no warp": {},
    "temperature 0.7": {"temperature": 0.7},
    "top-k 4": {"top_k": 4},
    "both": {"temperature": 0.7, "top_k": 4},
}
FAMILY_WISE = 1e-3  # chance that a right law is called wrong in any of the tests
_BATCH = 4096


def random_trio() -> Ensemble:
    """Return three random members of two layers whose laws differ much and never end a text."""
    import torch

    from icml.core.models.tiny import causal_lm
    from icml.me.ensemble import Ensemble

    models = []
    for seed in range(len(WEIGHTS)):
        model: Any = causal_lm(VOCABULARY, d=32, layers=2, heads=4, ctx=64, seed=seed)
        draws = torch.Generator().manual_seed(seed)
        head = torch.randn(VOCABULARY, 32, generator=draws) * 0.3  # logits spread by about 1.7
        model.lm_head.weight = torch.nn.Parameter(head)  # no longer tied to the embeddings
        model.config.eos_token_id = model.generation_config.eos_token_id = None
        models.append(model.requires_grad_(False))
    return Ensemble(models, weights=WEIGHTS)


def sample_law(warp: str, steps: int, samples: int, seed: int, *, log: Any) -> dict[str, Any]:
    """Sample by ME and compare with both laws; a worker process calls it.

    Args:
        warp: A key of `WARPS`.
        steps: New tokens a sample.
        samples: How many.
        seed: Of the samples.
        log: Of the run, not used.

    Returns:
        Statistic, degrees of freedom and p-value against the law with the warp in each member, and
        those against the law with the warp after mixing; the total variation of the sampled
        frequencies from each law, and between the laws.
    """
    import torch

    from icml.me.equivalence import count_sequences, exact_distribution, goodness_of_fit
    from icml.me.sampling import Sampling

    trio, prompt = random_trio(), torch.tensor(PROMPT)
    settings = dict(WARPS[warp])
    counts = count_sequences(
        trio, prompt, steps=steps, n=samples, seed=seed, batch=_BATCH, method="me", **settings
    )
    laws = {
        place: exact_distribution(
            trio, prompt, steps=steps, sampling=Sampling(**settings, place=place)
        )
        for place in ("per_model", "after_mix")
    }
    found: dict[str, Any] = {
        "steps": steps,
        "laws": _distance(laws["per_model"], laws["after_mix"]),
    }
    sampled = {key: count / samples for key, count in counts.items()}
    for place, law in laws.items():
        fit = goodness_of_fit(law, counts, samples)
        found |= {f"{place} chi2": min(fit.statistic, 1e9), f"{place} df": fit.df}
        found |= {f"{place} p": fit.p_value, f"{place} tv": _distance(sampled, law)}
    return found


def max_steps(cells: Mapping[str, Any]) -> int:
    """Return the number of tokens in the longest samples."""
    return max(cell["steps"] for cell in cells.values())


def _distance(one: Sequences, other: Sequences) -> float:
    """Return the total variation between two laws."""
    keys = {*one, *other}
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in keys) / 2


def judge_law(run: Run, cells: Mapping[str, Any]) -> None:
    """State the claims on the law, with their table and picture.

    Args:
        run: Takes the findings.
        cells: From ``warp, steps`` to what `sample_law` returned.
    """
    smallest = min(cell["per_model p"] for cell in cells.values())
    run.claim(
        "law",
        f"ME samples from the exact law of the ensemble: the smallest p-value of {len(cells)} "
        f"chi-square tests, times {len(cells)} (Bonferroni), is at least {FAMILY_WISE:g}",
        value=min(1.0, smallest * len(cells)),
        interval=None,
        holds=smallest * len(cells) >= FAMILY_WISE,
        paper="P is a mixture of the members' laws, so drawing a member first changes nothing",
    )
    longest = {key: cell for key, cell in cells.items() if cell["steps"] == max_steps(cells)}
    warped = [cell for key, cell in longest.items() if not key.startswith("no warp")]
    largest = max(cell["after_mix p"] for cell in warped)
    run.claim(
        "law-after-mix",
        f"The samples of {max_steps(cells)} tokens refute the law with the warp after mixing, for "
        f"each of {len(warped)} warps (p < 1e-6): where the warp sits decides; shown is the "
        "largest p",
        value=largest,
        interval=None,
        holds=largest < 1e-6,
    )
    rows = [{"test": key, **cell} for key, cell in cells.items()]
    run.table(
        "law",
        rows,
        caption="Chi-square tests of ME's samples against the enumerated law with the warp in each "
        "member (per_model) and after mixing (after_mix); tv is the total variation between "
        "sampled frequencies and law, which sampling alone keeps above 0; laws is the total "
        "variation between the two laws.",
    )
    _draw(run, cells)


def _draw(run: Run, cells: Mapping[str, Any]) -> None:
    from icml.core.plots import Arm, Bar, bars

    values = []
    for key, cell in cells.items():
        values.append(Bar("ours", cell["per_model tv"], key))
        values.append(Bar("after", cell["after_mix tv"], key))
    plot = bars(
        values,
        title="ME samples from the mixture of the warped laws, not from the warped mixture",
        arms=[Arm("ours", "ours", "warp in each member"), Arm("after", "baseline", "after mixing")],
        x_label="total variation between ME's samples and the exact law",
        note="Sampling alone makes some: more sequences, more of it.",
    )
    run.figure("law", plot, caption="How far ME's samples are from the two laws.")
