"""EMPG as an advantage estimator of verl; imports nothing of verl and was not run inside it.

Register it where your trainer starts, and choose ``algorithm.adv_estimator=empg``::

    from verl.trainer.ppo.core_algos import register_adv_est
    from icml.empg.verl import empg_advantage

    register_adv_est("empg")(empg_advantage)

verl gives its estimators no entropies, so two places of its ``ray_trainer`` have to change: keep
``entropys`` in the batch instead of popping it after the old log-probabilities, and add
``entropys`` (with a row a turn ``traj_uid`` and ``turn`` as well) to the arguments that
``compute_advantage`` gives to a registered estimator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from icml.core.rl.functional import broadcast_to_tokens, group_advantage, masked_mean
from icml.empg.chain import next_steps
from icml.empg.modulation import empg_modulate, empg_token_advantages
from icml.empg.params import EMPGParams

VERL_EPS = 1e-6
"""What verl adds to a group's standard deviation."""


def empg_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    *,
    entropys: Tensor,
    traj_uid: Sequence[Any] | None = None,
    turn: Sequence[int] | None = None,
    config: Any = None,
    params: EMPGParams | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor]:
    """Return GRPO's advantages, modulated by EMPG, as verl's estimators do.

    verl's own arguments are the first three and ``config``, which may have the key ``empg`` with
    fields of :class:`icml.empg.EMPGParams`. The others are for the caller to add, see above.
    GRPO's advantage is divided by the standard deviation, whatever ``norm_adv_by_std_in_grpo``.

    Args:
        token_level_rewards: ``(rows, tokens)``; a row's sum is its episode's reward.
        response_mask: ``(rows, tokens)``, 1 where the policy wrote the token.
        index: ``uid`` of each row: rows of one prompt share it.
        entropys: ``(rows, tokens)`` in nats, of the policy that wrote the tokens.
        traj_uid: For batches with a row a turn, as verl-agent makes them: each row's episode.
            None: a row is an episode, its runs of 1s in the mask are the turns.
        turn: Each row's turn, any increasing numbers; needed with ``traj_uid``.
        config: verl's ``algorithm`` part.
        params: In place of ``config``'s.
        others: What verl gives to all estimators; not read.

    Returns:
        Advantages and returns, equal: ``(rows, tokens)``, 0 outside the mask.

    Raises:
        ValueError: If ``traj_uid`` comes without ``turn``, two rows of an episode have the same
            turn, or as for :func:`icml.empg.empg_token_advantages`.
    """
    params = params or _params(config)
    advantages = torch.zeros_like(entropys, dtype=torch.float32)
    rows = response_mask.bool().any(dim=1).nonzero().flatten()  # the others pad the batch
    mask, entropy = response_mask[rows], entropys[rows]
    scores = token_level_rewards[rows].sum(dim=1)
    groups = _numbered(index, rows)
    if traj_uid is None:
        found = empg_token_advantages(_grpo(scores, groups), entropy, mask, params)
    elif turn is None:
        raise ValueError("traj_uid needs turn: the number of each row's turn in its episode")
    else:
        episode = _numbered(traj_uid, rows)
        first = _first_rows(episode)
        turns = torch.as_tensor(turn).to(rows)[rows]
        found = broadcast_to_tokens(
            empg_modulate(
                _grpo(scores[first], groups[first])[episode],
                masked_mean(entropy, mask, dim=1),
                next_steps(episode, turns),
                params,
            ).advantages,
            mask,
        )
    advantages[rows] = found.to(advantages)
    return advantages, advantages


def _grpo(scores: Tensor, groups: Tensor) -> Tensor:
    """Return verl's GRPO advantages, one an episode, ``(episodes,)``."""
    return group_advantage(scores, groups, eps=VERL_EPS, singleton="raw")


def _params(config: Any) -> EMPGParams:
    """Read verl's configuration, a mapping or an object with ``get``."""
    chosen: Mapping[str, Any] | None = config.get("empg") if config is not None else None
    return EMPGParams(**dict(chosen or {}))


def _numbered(names: Sequence[Any], rows: Tensor) -> Tensor:
    """Number the names of some rows by their first appearance: ``(rows,)`` int64."""
    chosen = [names[row] for row in rows.tolist()]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(chosen))}
    return rows.new_tensor([numbers[name] for name in chosen])


def _first_rows(episode: Tensor) -> Tensor:
    """Return for each episode, in order of their numbers, its first row."""
    rows = torch.arange(len(episode), device=episode.device)
    first = rows.new_full((len(episode.unique()),), len(episode))
    return first.scatter_reduce(0, episode, rows, "amin")
