"""EMPG in TRL: ``GRPOTrainer`` whose advantages are modulated step by step.

Only this module of the package knows TRL; everything but the advantages stays TRL's, so vLLM,
PEFT, DeepSpeed, tools and ``rollout_func`` work as they do there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer

from icml.core.rl.trl import AdvantageMixin, TRLBatch
from icml.empg.effect import ClarityBonusWarning, complaint_of_bonus
from icml.empg.modulation import EMPGResult, empg_modulate
from icml.empg.params import BonusBaseline, EMPGParams, LastStepBonus
from icml.empg.segments import scatter_to_tokens, step_entropies, steps_from_mask

BaseAdvantage = Callable[..., Tensor]
"""Called as ``base(rewards, groups, weights=weights)`` with ``rewards`` ``(N, K)``, NaN where
missing, ``groups`` ``(N,)`` int64 and ``weights`` ``(K,)``, all processes; returns ``(N,)``."""


@dataclass
class EMPGConfig(GRPOConfig):
    """``GRPOConfig`` with the options of EMPG; see :class:`icml.empg.EMPGParams`.

    Raises:
        ValueError: If an option is out of its range.
    """

    empg_k: float = field(
        default=1.0,
        metadata={"help": "How steeply a step's weight falls with its entropy, >= 0."},
    )
    empg_k_future: float = field(
        default=1.0,
        metadata={"help": "How steeply the bonus falls with the next step's entropy, >= 0."},
    )
    empg_zeta: float = field(
        default=0.1,
        metadata={"help": "Size of the clarity bonus, in [0, 1); keep it small on long episodes."},
    )
    empg_center: bool = field(
        default=True, metadata={"help": "Subtract the mean over all steps of the batch."}
    )
    empg_last_step_bonus: str = field(
        default="none",
        metadata={"help": "'none' (the paper's) or 'mean': last steps get the mean bonus."},
    )
    empg_bonus_baseline: str = field(
        default="none",
        metadata={"help": "'turn' subtracts the mean bonus of the steps at the same turn."},
    )
    empg_entropy_clip_quantile: float | None = field(
        default=None,
        metadata={"help": "Lower entropies above this quantile to it, in (0, 1]."},
    )
    empg_skip_zero_groups: bool = field(
        default=False,
        metadata={"help": "Leave steps with advantage 0 at 0; recommended with sparse rewards."},
    )

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.empg_params()
        if self.importance_sampling_level == "sequence":
            warnings.warn(
                "importance_sampling_level='sequence' gives all steps of an episode one ratio, "
                "while EMPG gives each its own advantage: 'token' is what the paper used",
                stacklevel=3,
            )

    def empg_params(self) -> EMPGParams:
        """Return the options without TRL's.

        Raises:
            ValueError: If one is out of its range.
        """
        return EMPGParams(
            k=self.empg_k,
            k_future=self.empg_k_future,
            zeta=self.empg_zeta,
            center=self.empg_center,
            last_step_bonus=cast("LastStepBonus", self.empg_last_step_bonus),
            bonus_baseline=cast("BonusBaseline", self.empg_bonus_baseline),
            entropy_clip_quantile=self.empg_entropy_clip_quantile,
            skip_zero_groups=self.empg_skip_zero_groups,
        )


class EMPGMixin(AdvantageMixin):
    """EMPG's advantages for a ``GRPOTrainer``; stands before it among the bases.

    A step is a run of tokens that the policy wrote: one turn of a multi-turn episode, by
    ``completion_mask`` and the ``tool_mask`` of tools or of a ``rollout_func``'s ``env_mask``. In a
    single-turn task every completion is one step, so only the weight acts. Entropies are those of
    the policy that wrote the tokens, from one more forward pass without gradient, and their
    statistics run over all processes.

    Logs, a number a generation batch: ``empg/h_min`` and ``h_max`` (nats), ``g_min`` and
    ``g_max``, and of :class:`icml.empg.Effect` ``bonus_share``, ``corr_adv_entropy``,
    ``last_step_shift`` and, where steps may be skipped, ``skipped``.

    Args:
        model: As in ``GRPOTrainer``.
        reward_funcs: Likewise.
        args: The configuration.
        rest: The other arguments of ``GRPOTrainer``.
        base_advantage: What is modulated: ``"grpo"``, TRL's own advantages by the configuration's
            options, or a function (see :data:`BaseAdvantage`), such as
            ``icml.gdpo.gdpo_advantages``.
        options: Other keyword arguments of ``GRPOTrainer``.

    Raises:
        TypeError: If ``args`` is not an :class:`EMPGConfig`.
        ValueError: If ``base_advantage`` is neither ``"grpo"`` nor a function.
    """

    args: EMPGConfig
    needs_entropy: ClassVar[bool] = True

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        args: EMPGConfig,
        *rest: Any,
        base_advantage: Literal["grpo"] | BaseAdvantage = "grpo",
        **options: Any,
    ) -> None:
        """Check the configuration and build the trainer."""
        if not isinstance(args, EMPGConfig):
            raise TypeError(
                f"{type(self).__name__} needs args=EMPGConfig(...), got {type(args).__name__}: "
                "EMPGConfig takes all that GRPOConfig takes"
            )
        if base_advantage != "grpo" and not callable(base_advantage):
            raise ValueError(
                f"base_advantage must be 'grpo' or a function of rewards, groups and weights, "
                f"got {base_advantage!r}"
            )
        self._base = None if base_advantage == "grpo" else base_advantage
        self._empg = args.empg_params()
        self._warned = False
        super().__init__(model, reward_funcs, args, *rest, **options)

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        """Return EMPG's advantages ``(B, T)`` of this process."""
        mask, entropies = batch.mask, cast(Tensor, batch.entropies)
        steps = steps_from_mask(mask)
        parts = (
            self._base_advantages(batch)[steps.row],
            step_entropies(entropies, steps),
            steps.next,
            self._empg,
        )
        with warnings.catch_warnings():
            if self._warned or not self.accelerator.is_main_process:
                warnings.simplefilter("ignore", ClarityBonusWarning)
            result = empg_modulate(*parts, reduce=self._reduce)
        self._warned = self._warned or complaint_of_bonus(result.effect) is not None
        self._log_result(result)
        return scatter_to_tokens(result.advantages, steps, (mask.shape[0], mask.shape[1]), mask)

    def _base_advantages(self, batch: TRLBatch) -> Tensor:
        """Return ``(B,)``."""
        if self._base is None:
            return batch.advantages
        everyone = self._base(batch.rewards, batch.groups, weights=batch.reward_weights)
        if everyone.shape != batch.groups.shape:
            raise ValueError(
                f"base_advantage must return one number for each of the {len(batch.groups)} "
                f"samples of all processes, got shape {tuple(everyone.shape)}"
            )
        return everyone[batch.local]

    def _reduce(self, values: Tensor, op: Literal["max", "sum", "concat"]) -> Tensor:
        """Combine numbers of all processes; see :data:`icml.empg.entropy.Reduce`."""
        if op == "concat":
            padded = self.accelerator.pad_across_processes(values, pad_index=cast(int, torch.nan))
            everyone = cast(Tensor, self.accelerator.gather(padded))
            return everyone[~everyone.isnan()]
        rows = cast(Tensor, self.accelerator.gather(values.unsqueeze(0)))
        return rows.amax(dim=0) if op == "max" else rows.sum(dim=0)

    def _log_result(self, result: EMPGResult) -> None:
        stats, effect = result.stats, result.effect
        if not stats.count:
            return
        g_min, g_max = stats.weight_range(self._empg)
        numbers = {
            "h_min": stats.min, "h_max": stats.max, "g_min": g_min, "g_max": g_max,
            "bonus_share": effect.bonus_share, "corr_adv_entropy": effect.corr_adv_entropy,
            "last_step_shift": effect.last_step_shift,
        }  # fmt: skip
        if self._empg.skip_zero_groups:
            numbers["skipped"] = effect.skipped
        for name, value in numbers.items():
            self.log_scalar(f"empg/{name}", value)


class EMPGTrainer(EMPGMixin, GRPOTrainer):
    """``trl.GRPOTrainer`` with EMPG's advantages; takes the same arguments and an EMPGConfig."""
