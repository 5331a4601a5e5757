"""Advantages of one's own inside TRL: a mixin over the real ``GRPOTrainer``.

TRL computes advantages in the middle of a long method that has no hook of its own. The mixin lets
that method finish, then replaces the advantages in what it returns; generation, rewards, loss,
distribution, PEFT and vLLM stay TRL's. A method writes one function::

    class CenteredMixin(AdvantageMixin):
        def compute_advantages(self, batch: TRLBatch) -> Tensor:
            total = (batch.rewards * batch.reward_weights).nansum(dim=1)
            return (total - total.mean())[batch.local]

    class CenteredTrainer(CenteredMixin, GRPOTrainer): ...

It is the only module of icml.core that knows TRL, and importing it imports nothing of TRL. What it
relies on there is pinned by ``tests/test_trl.py``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.rl.masked import masked_mean

if TYPE_CHECKING:
    from collections import deque

    from trl import GRPOTrainer as _Base
else:
    _Base = object

__all__ = ["AdvantageMixin", "TRLBatch"]


@dataclass(frozen=True)
class TRLBatch:
    """One generation batch, before TRL shuffles it and splits it into optimizer steps.

    N samples in all processes together, B of them in this process, K rewards, T tokens of the
    longest completion of this process.
    """

    rewards: Tensor
    """``(N, K)`` float, all processes in order; NaN where a reward function gave None."""
    reward_weights: Tensor
    """``(K,)`` float."""
    groups: Tensor
    """``(N,)`` int64: samples of one prompt share a number."""
    local: slice
    """This process's B rows among the N."""
    mask: Tensor
    """``(B, T)`` bool, this process: tokens that the policy wrote and that are trained on."""
    advantages: Tensor
    """``(B,)`` float, this process: what TRL itself computed, by the config's options."""
    entropies: Tensor | None
    """``(B, T)`` in nats, this process, at the sampling temperature; None unless
    ``needs_entropy``. Values outside the mask mean nothing."""
    step: int
    """Optimizer steps done."""
    training: bool
    """False while the trainer evaluates."""
    reward_names: tuple[str, ...]
    """K names, as TRL logs them."""


class AdvantageMixin(_Base):
    """Replaces the advantages of a ``trl.GRPOTrainer``; stands before it among the bases.

    As it is, it keeps TRL's advantages and trains bit for bit like ``GRPOTrainer``. A subclass
    overrides :meth:`compute_advantages`. Samples that no reward function scored get advantage 0
    whatever it returns for them, as in TRL.

    Attributes:
        needs_entropy: Whether the batch carries token entropies, which cost one more forward pass.
        override_seconds: CPU time that this process spent in the mixin and not in TRL, in seconds
            since the trainer was built.

    Raises:
        TypeError: When a subclass names ``GRPOTrainer`` before the mixin, which would leave TRL's
            advantages in place.
    """

    needs_entropy: ClassVar[bool] = False
    override_seconds: float = 0.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse an order of bases in which the mixin would do nothing."""
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__[: cls.__mro__.index(AdvantageMixin)]:
            hides = "_generate_and_score_completions" in vars(base)
            if hides and not issubclass(base, AdvantageMixin):
                raise TypeError(f"{cls.__name__} must name its mixin before {base.__name__}")

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        """Return the advantages of this process's samples; TRL's own unless overridden.

        A rule over groups or over the whole batch computes on ``batch.rewards``, which every
        process has in full, and returns ``result[batch.local]``. A rule over tokens of all
        processes (``mask``, ``entropies``) gathers what it needs with ``self.accelerator``.

        Args:
            batch: What there is to compute from; not to be changed.

        Returns:
            ``(B,)``, one advantage a sample, or ``(B, T)``, one a token; finite where ``mask`` is
            True. Values outside the mask are ignored.
        """
        return batch.advantages

    def log_scalar(self, name: str, value: float) -> None:
        """Log a number beside TRL's own, averaged over the generation batches between two logs.

        TRL reports the numbers of the first process, so give one that is equal in all of them:
        computed from gathered tensors. NaN is left out of the average. In evaluation TRL puts
        ``eval_`` before the name.

        Args:
            name: Such as ``gdpo/std``.
            value: The number.
        """
        self._metrics["train" if self._is_training() else "eval"][name].append(float(value))

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        self._gathered_rewards = super()._calculate_rewards(*args, **kwargs)
        return self._gathered_rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        started = time.process_time()
        batch = self._advantage_batch(output)
        advantages = _checked(self.compute_advantages(batch), batch)
        self._replace_logged(advantages, batch.mask)
        output["advantages"] = advantages
        self.override_seconds += time.process_time() - started
        return output

    def _is_training(self) -> bool:
        return cast(nn.Module, self.model).training

    def _advantage_batch(self, output: dict[str, Any]) -> TRLBatch:
        rewards = self._gathered_rewards
        mask = output["completion_mask"]
        if "tool_mask" in output:
            mask = mask * output["tool_mask"]
        first = self.accelerator.process_index * len(mask)
        training = self._is_training()
        group_size = cast(int, self.num_generations if training else self.num_generations_eval)
        return TRLBatch(
            rewards=rewards,
            reward_weights=self.reward_weights.to(rewards.device),
            groups=torch.arange(len(rewards), device=rewards.device) // group_size,
            local=slice(first, first + len(mask)),
            mask=mask.bool(),
            advantages=output["advantages"],
            entropies=self._token_entropies(output) if self.needs_entropy else None,
            step=self.state.global_step,
            training=training,
            reward_names=tuple(self.reward_func_names),
        )

    @torch.no_grad()
    def _token_entropies(self, output: dict[str, Any]) -> Tensor:
        """Token entropies under the current policy, in chunks of the size that TRL forwards."""
        if "num_images" in output or "pixel_values" in output:
            raise UserError(
                f"{type(self).__name__} needs token entropies, which it can't compute for prompts "
                "with images: train on text, or take a method without entropies"
            )
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        at_once = (
            self.args.per_device_train_batch_size
            if self._is_training()
            else self.args.per_device_eval_batch_size
        )
        _, entropies, _ = self._get_per_token_logps_and_entropies(
            self.model,
            ids,
            attention,
            output["completion_ids"].shape[1],
            batch_size=at_once,
            compute_entropy=True,
        )
        return cast(Tensor, entropies)

    def _replace_logged(self, advantages: Tensor, mask: Tensor) -> None:
        """Show the real advantages in TRL's table of completions, where its own already stand."""
        per_sample = advantages if advantages.ndim == 1 else masked_mean(advantages, mask, dim=1)
        everyone = self.accelerator.gather(per_sample).tolist()
        logged = cast("deque[float]", self._logs["advantages"])
        for _ in range(min(len(everyone), len(logged))):
            logged.pop()
        logged.extend(everyone)


def _checked(advantages: Tensor, batch: TRLBatch) -> Tensor:
    """Return advantages of TRL's device and type, 0 where nothing is trained or was scored."""
    rows, shape = batch.mask.shape[:1], batch.mask.shape
    if advantages.shape not in (rows, shape):
        raise ValueError(
            f"compute_advantages must return {tuple(rows)} or {tuple(shape)}, one a sample or one "
            f"a token of this process, got {tuple(advantages.shape)}: a result for all processes "
            "is cut with [batch.local]"
        )
    advantages = advantages.detach().to(batch.advantages)
    scored = ~batch.rewards[batch.local].isnan().all(dim=1)
    keep = scored if advantages.ndim == 1 else scored[:, None] & batch.mask
    advantages = torch.where(keep, advantages, 0.0)
    if not advantages.isfinite().all():
        bad = (~advantages.reshape(len(scored), -1).isfinite()).any(dim=1).nonzero().flatten()
        raise ValueError(
            f"compute_advantages returned NaN or infinity for {len(bad)} of {len(scored)} samples, "
            f"first sample {int(bad[0])}, whose rewards are "
            f"{batch.rewards[batch.local][bad[0]].tolist()}"
        )
    return advantages
