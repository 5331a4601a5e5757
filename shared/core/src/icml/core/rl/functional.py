"""The mathematics of RL on language models, as pure functions of tensors.

One place to import from; each part lives in the module of its idea. Log-probabilities and
entropies of tokens are in :mod:`icml.core.models.logprobs`.
"""

from icml.core.rl.aggregate import aggregate_loss
from icml.core.rl.groups import (
    GroupStats,
    group_advantage,
    group_ids_from_size,
    group_stats,
    informative_groups,
)
from icml.core.rl.kl import full_kl, kl_estimate
from icml.core.rl.losses import PolicyLoss, policy_loss
from icml.core.rl.masked import (
    broadcast_to_tokens,
    masked_mean,
    masked_sum,
    masked_var,
    masked_whiten,
    segments_from_mask,
)
from icml.core.rl.returns import discounted_returns, gae

__all__ = [
    "GroupStats",
    "PolicyLoss",
    "aggregate_loss",
    "broadcast_to_tokens",
    "discounted_returns",
    "full_kl",
    "gae",
    "group_advantage",
    "group_ids_from_size",
    "group_stats",
    "informative_groups",
    "kl_estimate",
    "masked_mean",
    "masked_sum",
    "masked_var",
    "masked_whiten",
    "policy_loss",
    "segments_from_mask",
]
