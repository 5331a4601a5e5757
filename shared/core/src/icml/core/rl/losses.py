"""Policy-gradient losses of language-model RL.

Every kind is a function of the new and the old log-probability of the sampled tokens and of
their advantages; the formulas are in :func:`policy_loss`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from icml.core.rl.aggregate import Aggregate, aggregate_loss
from icml.core.rl.masked import as_bool_mask, at_least_float32, masked_mean

Kind = Literal["reinforce", "ppo_clip", "gspo", "cispo", "sapo", "dual_clip"]

# exp(88.8) overflows float32, and an infinite ratio makes a NaN gradient even where the clip
# ignores it. verl clamps the log ratio at the same value.
MAX_LOG_RATIO = 20.0
CLIP = 0.2  # PPO's epsilon (arXiv 1707.06347)
CISPO_CAP = 5.0  # the value TRL's GRPOConfig recommends for CISPO
DUAL_CLIP_CAP = 3.0  # verl's clip_ratio_c (arXiv 1912.09729)
SAPO_TEMPERATURE_UP = 1.0  # arXiv 2511.20347, for advantages > 0
SAPO_TEMPERATURE_DOWN = 1.05  # arXiv 2511.20347, for the others

READS: dict[Kind, tuple[str, ...]] = {
    "reinforce": (),
    "ppo_clip": ("eps_low", "eps_high", "delta"),
    "gspo": ("eps_low", "eps_high"),
    "cispo": ("eps_high",),
    "sapo": (),
    "dual_clip": ("eps_low", "eps_high"),
}
DEFAULT_AGGREGATE: dict[Kind, Aggregate] = {
    "reinforce": "token_mean",
    "ppo_clip": "token_mean",
    "gspo": "seq_mean_token_mean",
    "cispo": "token_mean",
    "sapo": "seq_mean_token_mean",
    "dual_clip": "token_mean",
}


class PolicyLoss(NamedTuple):
    """A policy loss and what to watch beside it; all 0-dimensional, at least float32.

    Attributes:
        loss: To be minimised; the only field with a gradient.
        clip_low: Fraction of trained tokens whose gradient is cut because the ratio is too low
            (advantage < 0 and ratio under the lower bound).
        clip_high: Fraction of trained tokens held back because the ratio is too high: advantage
            > 0 and ratio over the upper bound, or advantage < 0 and ratio over ``delta`` or
            dual-clip's cap; for cispo every token whose weight is capped.
        ratio_mean: Mean ratio over the trained tokens (of the sequence ratio for gspo).
        approx_kl: Mean of ``ratio - 1 - log(ratio)`` per token, in nats: the k3 estimate of
            KL(old || new) on samples of the old policy.
    """

    loss: Tensor
    clip_low: Tensor
    clip_high: Tensor
    ratio_mean: Tensor
    approx_kl: Tensor


class _Bounds(NamedTuple):
    low: float
    high: float
    cap: float  # on the ratio where the advantage is negative


def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    kind: Kind = "ppo_clip",
    eps_low: float | None = None,
    eps_high: float | None = None,
    delta: float | None = None,
    aggregate: Aggregate | None = None,
    const: float | None = None,
) -> PolicyLoss:
    """Loss of a batch of completions, with ``r = exp(logp - old_logp)`` and ``A`` the advantage.

    =============  ===========================================================  ==================
    kind           loss of a token (``sg`` stops the gradient)                  default aggregate
    =============  ===========================================================  ==================
    ``reinforce``  ``-A logp``                                                  token_mean
    ``ppo_clip``   ``-min(min(r, delta) A, clip(r, 1-eps_low, 1+eps_high) A)``  token_mean
    ``gspo``       ppo_clip on ``s exp(logp - sg(logp))``,                      seq_mean_token_mean
                   ``s = sg(exp(mean of logp - old_logp over the row))``
    ``cispo``      ``-sg(min(r, eps_high)) A logp``                             token_mean
    ``sapo``       ``-A 4 sigmoid(tau (r - 1)) / tau``,                         seq_mean_token_mean
                   tau 1 for ``A > 0``, else 1.05
    ``dual_clip``  ppo_clip; where ``A < 0`` at most ``-3 A``                   token_mean
    =============  ===========================================================  ==================

    GRPO is ppo_clip with seq_mean_token_mean, Dr. GRPO with seq_sum_const, DAPO with token_mean
    and ``eps_high=0.28``. For gspo the token form gives sequence GSPO's value and gradient when
    the advantage is constant in a row, and the right gradient when it is not.

    **Differs from the papers:** log ratios are clamped to +-20, so that no ratio overflows.

    Args:
        logp: Log-probabilities of the sampled tokens now, in nats, ``(samples, tokens)``.
        old_logp: The same under the policy that sampled them; no gradient flows to it.
        advantages: ``(samples,)`` or ``(samples, tokens)``; no gradient flows to it.
        mask: Trained tokens, booleans or 0/1, ``(samples, tokens)``.
        kind: See the table.
        eps_low: Lower clip range, 0 <= eps_low < 1; 0.2 if None. ppo_clip, gspo, dual_clip.
        eps_high: Upper clip range, > 0; as ``eps_low`` if None. The same kinds; for cispo it is
            the cap on the ratio itself, 5 if None.
        delta: Cap on the ratio under negative advantages, > 1 + eps_high; none if None.
            ppo_clip only.
        aggregate: How tokens become one number (:func:`aggregate_loss`); the kind's if None.
        const: Divisor of ``aggregate="seq_sum_const"``, in tokens.

    Returns:
        The loss with four detached measurements.

    Raises:
        ValueError: If shapes do not fit, a choice is unknown, a value is out of range, or an
            option is given to a kind that does not read it.

    Example:
        >>> new, old = torch.tensor([[1.5]]).log(), torch.zeros(1, 1)
        >>> policy_loss(new, old, torch.tensor([1.0]), torch.ones(1, 1)).loss
        tensor(-1.2000)
    """
    bounds = _bounds(kind, eps_low, eps_high, delta)
    mask, advantages = _check_tensors(logp, old_logp, advantages, mask)
    # What stands outside the mask may be anything; as 0 it can't poison a gradient.
    logp = torch.where(mask, at_least_float32(logp), 0.0)
    old_logp = torch.where(mask, at_least_float32(old_logp.detach()), 0.0)
    log_ratio = (logp - old_logp).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = _sequence_ratio(log_ratio, mask) if kind == "gspo" else log_ratio.exp()
    per_token = _PER_TOKEN[kind](ratio, advantages, logp, bounds)
    loss = aggregate_loss(per_token, mask, aggregate or DEFAULT_AGGREGATE[kind], const=const)
    with torch.no_grad():
        low, high = _held_back(kind, ratio, advantages, bounds)
        kl = log_ratio.expm1() - log_ratio
        return PolicyLoss(loss, *(masked_mean(x, mask) for x in (low, high, ratio, kl)))


def _check_tensors(
    logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the mask as booleans and the advantages as ``(samples, tokens)``, 0 outside it."""
    if logp.ndim != 2 or old_logp.shape != logp.shape:
        raise ValueError(
            "logp and old_logp must be (samples, tokens) of one shape, "
            f"got {tuple(logp.shape)} and {tuple(old_logp.shape)}"
        )
    if advantages.shape not in (logp.shape[:1], logp.shape):
        raise ValueError(
            f"advantages must be {tuple(logp.shape[:1])} or {tuple(logp.shape)}, "
            f"got {tuple(advantages.shape)}"
        )
    mask = as_bool_mask(mask, logp)
    spread = advantages.detach() if advantages.ndim == 2 else advantages.detach()[:, None]
    return mask, torch.where(mask, at_least_float32(spread), 0.0)


def _bounds(
    kind: Kind, eps_low: float | None, eps_high: float | None, delta: float | None
) -> _Bounds:
    """Check the options against the kind and return where it clips."""
    _check_read(kind, {"eps_low": eps_low, "eps_high": eps_high, "delta": delta})
    eps_low = CLIP if eps_low is None else eps_low
    if not 0 <= eps_low < 1:
        raise ValueError(f"eps_low must be in [0, 1), got {eps_low}")
    if eps_high is not None and not eps_high > 0:
        raise ValueError(f"eps_high must be > 0, got {eps_high}")
    if kind == "cispo":
        return _Bounds(0.0, CISPO_CAP if eps_high is None else eps_high, torch.inf)
    high = 1 + (eps_low if eps_high is None else eps_high)
    if kind == "dual_clip":
        delta = DUAL_CLIP_CAP
    if delta is not None and not delta > high:
        cap = f"delta={delta}" if kind == "ppo_clip" else f"the cap {delta} of kind={kind!r}"
        raise ValueError(f"1 + eps_high = {high} must be below {cap}")
    return _Bounds(1 - eps_low, high, torch.inf if delta is None else delta)


def _check_read(kind: Kind, options: dict[str, float | None]) -> None:
    """Refuse an option that the kind would ignore."""
    if kind not in READS:
        raise ValueError(f"kind must be one of {tuple(READS)}, got {kind!r}")
    for name, value in options.items():
        if value is not None and name not in READS[kind]:
            raise ValueError(f"{name}={value} has no meaning with kind={kind!r}")


def _sequence_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """GSPO-token's ratio: the row's geometric mean in value, each token's own in gradient."""
    mean = masked_mean(log_ratio, mask, dim=1, keepdim=True).detach()
    return mean.exp() * (log_ratio - log_ratio.detach()).exp()


def _reinforce(ratio: Tensor, advantages: Tensor, logp: Tensor, bounds: _Bounds) -> Tensor:
    return -advantages * logp


def _ppo_clip(ratio: Tensor, advantages: Tensor, logp: Tensor, bounds: _Bounds) -> Tensor:
    # The cap lies above the upper bound, so it acts where the advantage is negative only.
    free = ratio.clamp(max=bounds.cap) * advantages
    return -torch.minimum(free, ratio.clamp(bounds.low, bounds.high) * advantages)


def _cispo(ratio: Tensor, advantages: Tensor, logp: Tensor, bounds: _Bounds) -> Tensor:
    return -ratio.detach().clamp(max=bounds.high) * advantages * logp


def _sapo(ratio: Tensor, advantages: Tensor, logp: Tensor, bounds: _Bounds) -> Tensor:
    tau = torch.where(advantages > 0, SAPO_TEMPERATURE_UP, SAPO_TEMPERATURE_DOWN)
    return -advantages * 4 * torch.sigmoid(tau * (ratio - 1)) / tau


_PER_TOKEN: dict[Kind, Callable[[Tensor, Tensor, Tensor, _Bounds], Tensor]] = {
    "reinforce": _reinforce,
    "ppo_clip": _ppo_clip,
    "gspo": _ppo_clip,
    "cispo": _cispo,
    "sapo": _sapo,
    "dual_clip": _ppo_clip,
}


def _held_back(
    kind: Kind, ratio: Tensor, advantages: Tensor, bounds: _Bounds
) -> tuple[Tensor, Tensor]:
    """Tokens whose ratio is too low, and too high, for their gradient to pass in full."""
    if kind in ("reinforce", "sapo"):
        return torch.zeros_like(ratio), torch.zeros_like(ratio)
    if kind == "cispo":
        return torch.zeros_like(ratio), ratio > bounds.high
    down = advantages < 0
    over = ((advantages > 0) & (ratio > bounds.high)) | (down & (ratio > bounds.cap))
    return down & (ratio < bounds.low), over
