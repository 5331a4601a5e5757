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
        turn: Each row's turn, any increasing whole numbers; needed with ``traj_uid``.
        config: verl's ``algorithm`` part.
        params: In place of ``config``'s.
        others: What verl gives to all estimators; not read.

    Returns:
        Advantages and returns, equal: ``(rows, tokens)``, 0 outside the mask.

    Raises:
        ValueError: If a tensor or list has not one entry a row, ``traj_uid`` comes without
            ``turn`` or the other way round, two rows of an episode have the same turn, the
            configuration can't be used, or as for :func:`icml.empg.empg_token_advantages`.
    """
    params = params or _params(config)
    _check_tensors(token_level_rewards, response_mask, entropys)
    _check_names(len(response_mask), index=index, traj_uid=traj_uid, turn=turn)
    advantages = torch.zeros_like(entropys, dtype=torch.float32)
    rows = response_mask.bool().any(dim=1).nonzero().flatten()  # the others pad the batch
    mask, entropy = response_mask[rows], entropys[rows]
    scores = token_level_rewards[rows].sum(dim=1)
    groups = _numbered(index, rows)
    if traj_uid is None:
        found = empg_token_advantages(_grpo(scores, groups), entropy, mask, params)
    else:
        episode = _numbered(traj_uid, rows)
        first = _first_rows(episode)
        turns = _turns(turn, rows)
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
    try:
        return EMPGParams(**dict(chosen or {}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"algorithm.empg must have fields of EMPGParams, got {chosen!r}: {error}"
        ) from error


def _check_tensors(rewards: Any, mask: Any, entropys: Any) -> None:
    """Refuse what is no matrix of verl's, before anything is taken from it by row."""
    given = {"token_level_rewards": rewards, "response_mask": mask, "entropys": entropys}
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} must be a tensor (rows, tokens), got {type(tensor).__name__}")
    shapes = {name: tuple(tensor.shape) for name, tensor in given.items()}
    if mask.dim() != 2 or len(set(shapes.values())) > 1:
        raise ValueError(f"tensors must all be (rows, tokens), got {shapes}")


def _check_names(rows: int, **names: Sequence[Any] | None) -> None:
    """Refuse a list that doesn't fit the rows; verl's own are numpy arrays of objects."""
    if (names["traj_uid"] is None) != (names["turn"] is None):
        raise ValueError("traj_uid needs turn, the number of each row's turn in its episode, "
                         "and turn needs traj_uid: give both or none")  # fmt: skip
    for name, values in names.items():
        if values is None and name != "index":
            continue
        count = len(values) if hasattr(values, "__len__") else None
        if count != rows or isinstance(values, str):
            got = f"{count} entries" if count is not None else repr(values)
            raise ValueError(f"{name} must have one entry for each of the {rows} rows, got {got}")


def _plain(values: Any) -> list[Any]:
    """Return the entries of a list, a tensor or a numpy array as Python's own."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _turns(turn: Any, rows: Tensor) -> Tensor:
    """Return the turns of some rows: ``(rows,)`` int64."""
    numbers = _plain(turn)
    try:
        whole = [int(number) for number in numbers]
    except (TypeError, ValueError):
        whole = []
    if whole != numbers:
        raise ValueError(f"turn must be whole numbers, got {numbers[:8]}")
    return rows.new_tensor(whole)[rows]


def _numbered(names: Any, rows: Tensor) -> Tensor:
    """Number the names of some rows by their first appearance: ``(rows,)`` int64."""
    every = _plain(names)
    chosen = [every[row] for row in rows.tolist()]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(chosen))}
    return rows.new_tensor([numbers[name] for name in chosen])


def _first_rows(episode: Tensor) -> Tensor:
    """Return for each episode, in order of their numbers, its first row."""
    rows = torch.arange(len(episode), device=episode.device)
    first = rows.new_full((len(episode.unique()),), len(episode))
    return first.scatter_reduce(0, episode, rows, "amin")
