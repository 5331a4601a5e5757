"""EMPG as an advantage estimator of verl; imports nothing of verl.

Register it beside your trainer, and choose ``algorithm.adv_estimator=empg``::

    from verl.trainer.ppo.core_algos import register_adv_est
    from icml.empg.verl import empg_advantage

    register_adv_est("empg")(empg_advantage)
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
    fields of :class:`icml.empg.EMPGParams`. The others are for the caller to add: verl's trainer
    computes ``entropys`` with the old log-probabilities and drops them.

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
    scores = token_level_rewards.sum(dim=1)
    groups = _numbered(index).to(scores.device)
    if traj_uid is None:
        base = group_advantage(scores, groups, eps=VERL_EPS, singleton="raw")
        advantages = empg_token_advantages(base, entropys, response_mask, params)
        return advantages, advantages
    if turn is None:
        raise ValueError("traj_uid needs turn: the number of each row's turn in its episode")
    advantages = torch.zeros_like(token_level_rewards)
    rows = response_mask.bool().any(dim=1).nonzero().flatten()  # verl pads batches with others
    episode, mask = (
        _numbered([traj_uid[row] for row in rows.tolist()]).to(rows),
        response_mask[rows],
    )
    first = _first_rows(episode)
    base = group_advantage(scores[rows][first], groups[rows][first], eps=VERL_EPS, singleton="raw")
    found = empg_modulate(
        base[episode],
        masked_mean(entropys[rows], mask, dim=1),
        next_steps(episode, torch.as_tensor(turn).to(rows)[rows]),
        params,
    ).advantages
    advantages[rows] = broadcast_to_tokens(found, mask).to(advantages)
    return advantages, advantages


def _params(config: Any) -> EMPGParams:
    """Read verl's configuration, a mapping or an object with ``get``."""
    chosen: Mapping[str, Any] | None = config.get("empg") if config is not None else None
    return EMPGParams(**dict(chosen or {}))


def _numbered(names: Sequence[Any]) -> Tensor:
    """Number names by their first appearance."""
    numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return torch.tensor([numbers[name] for name in names])


def _first_rows(episode: Tensor) -> Tensor:
    """Return for each episode, in order of their numbers, its first row."""
    rows = torch.arange(len(episode), device=episode.device)
    first = torch.full((int(episode.max()) + 1,), len(episode), device=episode.device)
    return first.scatter_reduce(0, episode, rows, "amin")
