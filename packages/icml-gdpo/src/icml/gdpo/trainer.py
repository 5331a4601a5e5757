"""GDPO in TRL: ``GRPOTrainer`` with advantages, weights and numbers of ours.

Only this module of the package knows TRL; everything but the advantages stays TRL's, so vLLM,
PEFT, DeepSpeed and tools work as they do there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer

from icml.core.rl.trl import AdvantageMixin, TRLBatch
from icml.gdpo.advantages import EPS, BatchNorm, gdpo_advantages
from icml.gdpo.diagnostics import diagnose
from icml.gdpo.inputs import check_choice, check_eps
from icml.gdpo.schedule import WeightSchedule

AGGREGATION = "normalize_then_sum"
"""TRL's name for GDPO's order of things."""


@dataclass
class GDPOConfig(GRPOConfig):
    """``GRPOConfig`` with the options of GDPO.

    As it is, it trains like ``GRPOConfig(multi_objective_aggregation="normalize_then_sum")``.

    Raises:
        ValueError: If an option is out of its range, or ``multi_objective_aggregation`` or
            ``scale_rewards`` asks for something that GDPO is not.
    """

    multi_objective_aggregation: str = field(
        default=AGGREGATION, metadata={"help": f"Must stay {AGGREGATION!r}."}
    )
    gdpo_eps: float = field(
        default=EPS, metadata={"help": "Added to each standard deviation, >= 0."}
    )
    gdpo_batch_norm: str = field(
        default="rollout",
        metadata={
            "help": "What the last normalisation counts: 'rollout' (the paper's and TRL's) each "
            "completion once, 'token' (verl's) each as many times as it has tokens; 'none' leaves "
            "the normalisation out, so that the scale grows with the number of rewards."
        },
    )
    gdpo_weight_schedule: dict[int, list[float]] | str | None = field(
        default=None,
        metadata={
            "help": "Weights of the rewards at some optimizer steps, in straight lines between "
            "them, as {0: [1, 0], 500: [1, 1]} or the same as JSON; in place of reward_weights."
        },
    )

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.multi_objective_aggregation != AGGREGATION or self.scale_rewards != "group":
            raise ValueError(
                f"GDPOConfig needs multi_objective_aggregation={AGGREGATION!r} and the default "
                "scale_rewards='group', which it doesn't use, since it scales each reward by "
                f"itself; got {self.multi_objective_aggregation!r} and {self.scale_rewards!r}: "
                "leave both out, or train with GRPOConfig and GRPOTrainer"
            )
        check_eps("gdpo_eps", self.gdpo_eps)
        check_choice("gdpo_batch_norm", self.gdpo_batch_norm, BatchNorm)
        if self.gdpo_weight_schedule is not None and self.reward_weights is not None:
            raise ValueError(
                "gdpo_weight_schedule and reward_weights both set the weights: give one of them"
            )
        if any(weight < 0 for weight in self.reward_weights or ()):
            raise ValueError(
                f"reward_weights must be >= 0, got {self.reward_weights}: for a penalty let the "
                "reward function return negative numbers"
            )
        self.weight_schedule()

    def weight_schedule(self) -> WeightSchedule | None:
        """Return the schedule, None where the weights are constant.

        Raises:
            ValueError: If it can't be one.
        """
        points = self.gdpo_weight_schedule
        if isinstance(points, str):  # from a command line
            try:
                points = json.loads(points)
            except json.JSONDecodeError as error:
                raise ValueError(f"gdpo_weight_schedule is not JSON: {error}") from error
        return None if points is None else WeightSchedule(cast("dict[int, list[float]]", points))


class GDPOMixin(AdvantageMixin):
    """GDPO's advantages for a ``GRPOTrainer``; stands before it among the bases.

    Logs, a number a generation batch and before the batch normalisation: ``gdpo/share/<reward>``,
    the reward's fraction of the summed absolute advantages; ``gdpo/distinct`` and
    ``gdpo/distinct_if_grpo``, the mean number of distinct advantages in a group, and what it would
    be under GRPO; ``gdpo/low_std/<reward>``, the fraction of groups in which the reward hardly
    varies and is amplified. See :func:`icml.gdpo.diagnose`.

    Args:
        model: As in ``GRPOTrainer``.
        reward_funcs: Likewise.
        args: The configuration.
        rest: The other arguments of ``GRPOTrainer``.
        options: Likewise.

    Raises:
        TypeError: If ``args`` is not a :class:`GDPOConfig`.
        ValueError: If the weight schedule has another number of weights than there are rewards.
    """

    args: GDPOConfig

    def __init__(
        self, model: Any, reward_funcs: Any, args: GDPOConfig, *rest: Any, **options: Any
    ) -> None:
        """Build the trainer and check the weight schedule against its rewards."""
        if not isinstance(args, GDPOConfig):
            raise TypeError(
                f"{type(self).__name__} needs args=GDPOConfig(...), got {type(args).__name__}: "
                "GDPOConfig takes all that GRPOConfig takes"
            )
        super().__init__(model, reward_funcs, args, *rest, **options)
        self._schedule = args.weight_schedule()
        count = len(self.reward_func_names)
        if self._schedule is not None and self._schedule.rewards != count:
            raise ValueError(
                f"gdpo_weight_schedule has {self._schedule.rewards} weights at each step, but "
                f"there are {count} rewards: {', '.join(self.reward_func_names)}"
            )

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        """Return GDPO's advantages ``(B,)`` of this process, normalised over all processes."""
        _check_rewards(batch)
        weights = self._weights(batch)
        by_token = self.args.gdpo_batch_norm == "token"
        advantages = gdpo_advantages(
            batch.rewards,
            batch.groups,
            weights=weights,
            eps=self.args.gdpo_eps,
            batch_norm=cast("BatchNorm", self.args.gdpo_batch_norm),
            token_counts=self.accelerator.gather(batch.mask.sum(dim=1)) if by_token else None,
        )
        self._log_diagnosis(batch, weights)
        return advantages[batch.local]

    def _weights(self, batch: TRLBatch) -> Tensor:
        if self._schedule is None:
            return batch.reward_weights
        return batch.reward_weights.new_tensor(self._schedule.at(batch.step))

    def _log_diagnosis(self, batch: TRLBatch, weights: Tensor) -> None:
        names = batch.reward_names
        report = diagnose(
            batch.rewards, batch.groups, weights=weights, names=names, eps=self.args.gdpo_eps
        )
        for name, share, low in zip(names, report.share_gdpo, report.low_std, strict=True):
            self.log_scalar(f"gdpo/share/{name}", share)
            self.log_scalar(f"gdpo/low_std/{name}", low)
        self.log_scalar("gdpo/distinct", report.distinct_gdpo)
        self.log_scalar("gdpo/distinct_if_grpo", report.distinct_grpo)


class GDPOTrainer(GDPOMixin, GRPOTrainer):
    """``trl.GRPOTrainer`` with GDPO's advantages; takes the same arguments and a GDPOConfig."""


def _check_rewards(batch: TRLBatch) -> None:
    """Name the reward function that gave an infinite reward."""
    infinite = torch.isinf(batch.rewards).any(dim=0).tolist()
    for name, wrong in zip(batch.reward_names, infinite, strict=True):
        if wrong:
            raise ValueError(
                f"reward function {name!r} returned infinity: give a finite number, or None where "
                "the reward does not apply"
            )
