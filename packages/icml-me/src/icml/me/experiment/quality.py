"""Are ME's texts as likely under the exact mixture as those of the conventional ensemble?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.me.sampling import Method

ARMS = {"ce": "conventional ensemble", "me": "ME", "first": "first alone", "second": "second alone"}
PROMPTS = (
    "The weather today is",
    "In the middle of the night, the",
    "Scientists have found that",
    "My favourite meal is",
)
CATCH_UP_TOLERANCE = 1e-3  # nats: float32 sums in another order, through 30 blocks


class TextSizes(NamedTuple):
    """How much is written."""

    texts: int
    tokens: int
    """Of each text."""
    batch: int
    """Texts that are written at a time, with a draw of a member for each."""


def likelihoods(
    members: Sequence[str], arm: str, sizes: TextSizes, seed: int, *, log: Any
) -> list[float]:
    """Write texts in one way and return each one's mean log-probability under the mixture.

    A worker process calls it.

    Args:
        members: Two sources, weighed equally.
        arm: A key of `ARMS`.
        sizes: How much is written.
        seed: Of the first batch.
        log: Of the run, not used.

    Returns:
        Nats a token, one a text.
    """
    from icml.me.bench import no_end
    from icml.me.ensemble import Ensemble

    ensemble = Ensemble(list(members), devices=["cpu"] * len(members))
    texts, tokens, batch = sizes
    method: Method = "single" if arm in ("first", "second") else "me" if arm == "me" else "ce"
    found: list[float] = []
    for number in range(-(-texts // batch)):
        prompts = [PROMPTS[row % len(PROMPTS)] for row in range(batch)]
        result = ensemble.generate(
            prompts,
            method=method,
            member=int(arm == "second"),
            max_new_tokens=tokens,
            selection="per_row",
            seed=seed + number,
            logits_processor=no_end(ensemble),
        )
        new = result.sequences[:, -tokens:]
        for prompt, row in zip(prompts, new, strict=True):
            found.append(float(ensemble.logprobs(prompt, row).mean()))
    return found[:texts]


def catch_up_error(members: Sequence[str], tokens: int, seed: int, *, log: Any) -> float:
    """Return how far log-probabilities after lazy catch-up are from a whole forward pass, in nats.

    Args:
        members: Sources; each is drawn with the same chance.
        tokens: Tokens that are read one by one or in runs.
        seed: Of the tokens and the draws.
        log: Of the run, not used.

    Returns:
        The largest difference over all tokens of the vocabulary that have a probability above
        1e-6, and over all members.
    """
    import torch

    from icml.me.ensemble import Ensemble
    from icml.me.state import MemberState

    ensemble = Ensemble(list(members), devices=["cpu"] * len(members))
    draws = torch.Generator().manual_seed(seed)
    text = torch.randint(10, ensemble.vocabulary.size, (1, tokens + 8), generator=draws)
    worst = 0.0
    for member in ensemble.members:
        state = MemberState(member, text[:, :8], torch.ones(1, 8).bool())
        for place in range(8, tokens + 8):
            if torch.rand(1, generator=draws) < 1 / len(members):
                state.next_logits()
            state.append(text[:, place : place + 1])
        found = state.next_logits()[0].log_softmax(-1)
        with torch.no_grad():
            wanted = member.model(text).logits[0, -1].log_softmax(-1)
        likely = wanted > -14  # e^-14 = 8e-7
        worst = max(worst, float((found - wanted)[likely].abs().max()))
    return worst


def judge_quality(run: Run, values: Mapping[str, Sequence[float]], error: float) -> None:
    """State the claims on what is written, with their table and picture.

    Args:
        run: Takes the findings.
        values: From the arm to what `likelihoods` returned.
        error: What `catch_up_error` returned.
    """
    import numpy as np

    from icml.core.stats import t_interval

    run.claim(
        "catch-up",
        "A member that reads what it missed in one forward pass has the log-probabilities of a "
        f"whole forward pass, within {CATCH_UP_TOLERANCE:g} nats; shown is the largest difference",
        value=error,
        interval=None,
        holds=error <= CATCH_UP_TOLERANCE,
    )
    gap, low, high = _difference(values["me"], values["ce"])
    run.claim(
        "likelihood",
        f"{len(values['me'])} texts of ME are as likely under the exact mixture as as many of the "
        "conventional ensemble: difference in nats a token (95 % interval holds 0)",
        value=gap,
        interval=(low, high),
        holds=low <= 0 <= high,
        kind="reported",
        paper="equal scores up to sampling noise",
    )
    estimates = {arm: t_interval(each) for arm, each in values.items()}
    rows = [
        {
            "written by": ARMS[arm],
            "nats a token": found.estimate,
            "nats a token low": found.low,
            "nats a token high": found.high,
            "spread of a text": float(np.std(values[arm], ddof=1)),
        }
        for arm, found in estimates.items()
    ]
    run.table(
        "likelihood",
        rows,
        caption=f"Mean log-probability under the exact mixture of {len(values['me'])} texts each, "
        "with 95 % t intervals.",
    )
    _draw(run, estimates)


def _difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return the difference of two means with Welch's 95 % interval."""
    from scipy import stats

    found = stats.ttest_ind(one, other, equal_var=False)
    low, high = found.confidence_interval(0.95)
    return float((low + high) / 2), float(low), float(high)


def _draw(run: Run, estimates: Mapping[str, Any]) -> None:
    from icml.core.plots import Arm, Estimate, intervals

    plot = intervals(
        [Estimate(arm, *found) for arm, found in estimates.items()],
        title="What ME writes is as likely as what the conventional ensemble writes",
        arms=[
            Arm("ce", "baseline", ARMS["ce"]),
            Arm("me", "ours", ARMS["me"]),
            Arm("first", "other", ARMS["first"]),
            Arm("second", "other", ARMS["second"]),
        ],
        x_label="log-probability under the exact mixture (nats a token)",
        note="Mean over texts with its 95 % t interval.",
    )
    run.figure("likelihood", plot, caption="Single members write texts that the mixture expects "
               "more or less than its own.")  # fmt: skip
