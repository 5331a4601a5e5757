"""DAPO in TRL (arXiv:2503.14476): the loss is TRL's own, dynamic sampling is ours.

Only this module of the package knows TRL. ``GRPOTrainer`` has the token-level loss, the wider upper
clip and the soft overlong punishment (``trl.rewards``); groups whose rewards are all equal stay in
its batches, where they dilute the loss and teach nothing. Here they are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer

from icml.core.rl.trl import AdvantageMixin
from icml.wzllm.training.refill import (
    LEFT,
    candidate_groups,
    dead_groups,
    joined,
    new_prompts,
    rows_of,
    trimmed,
)

__all__ = ["DAPOConfig", "DAPOTrainer", "DynamicSamplingMixin"]


@dataclass
class DAPOConfig(GRPOConfig):
    """``GRPOConfig`` with DAPO's values, and the number of rounds of dynamic sampling.

    Raises:
        ValueError: If ``dapo_rounds`` is negative, or the advantages depend on other groups, so
            that a group could not be replaced by itself.
    """

    epsilon_high: float | None = field(
        default=0.28, metadata={"help": "Clipping range above a ratio of 1 (clip-higher)."}
    )
    dapo_rounds: int = field(
        default=3,
        metadata={"help": "How often groups without signal are drawn anew, 0 or more."},
    )

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.dapo_rounds < 0:
            raise ValueError(f"dapo_rounds must be 0 or more, got {self.dapo_rounds}")
        alone = self.multi_objective_aggregation == "sum_then_normalize"
        if self.scale_rewards == "batch" or not alone:
            raise ValueError(
                "dynamic sampling needs advantages that depend on their own group alone: leave "
                "scale_rewards at 'group' or 'none' and multi_objective_aggregation at "
                f"'sum_then_normalize', got {self.scale_rewards!r} and "
                f"{self.multi_objective_aggregation!r}"
            )


class DynamicSamplingMixin(AdvantageMixin):
    """Replaces groups without signal; stands before ``GRPOTrainer`` among the bases.

    After a generation batch, groups whose rewards are all equal are drawn anew with other prompts
    of the training set, in an order that the seed and the step decide, for at most ``dapo_rounds``
    rounds. What is dead after that is masked, so that the batch's loss is that of its live groups.
    Evaluation is left alone.

    Logs, in groups a generation batch: ``dapo/generated``, ``dapo/dead`` of these,
    ``dapo/refilled`` places that got a live group, and ``dapo/given_up``, those that did not.
    TRL's own numbers (``reward`` and so on) and its table of completions cover all that was
    generated.

    **Differs from the paper:** rounds are bounded; a group is dead if its whole rewards are equal,
    overlong punishment included, not only its right answers.

    Raises:
        TypeError: If ``args`` is not a :class:`DAPOConfig`, or the training set has no length.
    """

    args: DAPOConfig

    def __init__(
        self, model: Any, reward_funcs: Any, args: DAPOConfig, *rest: Any, **options: Any
    ) -> None:
        """Build the trainer."""
        if not isinstance(args, DAPOConfig):
            raise TypeError(
                f"{type(self).__name__} needs args=DAPOConfig(...), got {type(args).__name__}: "
                "DAPOConfig takes all that GRPOConfig takes"
            )
        super().__init__(model, reward_funcs, args, *rest, **options)
        if not hasattr(self.train_dataset, "__len__"):
            raise TypeError(
                "dynamic sampling draws prompts by number: train on a dataset with a length"
            )
        self._drawn = (-1, 0)  # step, generation batches in it so far

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        if not self._is_training():
            return output
        groups = len(self._gathered_rewards) // self._group_size
        counts = {"generated": groups, "dead": 0, "refilled": 0, "given_up": 0}
        dead = self._dead()
        if dead:
            output = self._refilled(output, inputs, dead, counts)
        for name, count in counts.items():
            self.log_scalar(f"dapo/{name}", count)
        return output

    @property
    def _group_size(self) -> int:
        return cast(int, self.num_generations)

    def _dead(self) -> list[int]:
        """Return the dead groups among those that were scored last."""
        rewards = self._gathered_rewards
        weights = self.reward_weights.to(rewards.device)
        return dead_groups(rewards, weights, self._group_size).nonzero().flatten().tolist()

    def _refilled(
        self,
        output: dict[str, Any],
        inputs: list[dict[str, Any]],
        dead: list[int],
        counts: dict[str, int],
    ) -> dict[str, Any]:
        pool = self._everyone(output)
        rows = torch.arange(len(pool["advantages"])).view(-1, self._group_size)
        prompts = self._other_prompts(inputs)
        counts["dead"] = len(dead)
        for _ in range(self.args.dapo_rounds):
            drawn = self._draw(prompts, len(dead))
            if not drawn or not dead:
                break
            first = len(pool["advantages"])
            pool = joined(pool, self._everyone(self._complete(drawn)), pad_id=self._pad_id)
            found = set(self._dead())
            alive = [g for g in range(len(drawn)) if g not in found]
            for place, group in zip(dead, alive, strict=False):
                rows[place] = first + group * self._group_size + torch.arange(self._group_size)
            counts["generated"] += len(drawn)
            counts["dead"] += len(found)
            counts["refilled"] += min(len(dead), len(alive))
            dead = dead[len(alive) :]
        counts["given_up"] = len(dead)
        return self._batch(pool, rows, dead, len(inputs))

    def _other_prompts(self, inputs: list[dict[str, Any]]) -> Iterator[int]:
        """Yield numbers of training examples whose prompts are not in the batch."""
        from accelerate.utils import gather_object

        step, before = self._drawn
        self._drawn = (self.state.global_step, before + 1 if step == self.state.global_step else 0)
        examples = cast(Any, self.train_dataset)
        used = set(gather_object([_key(example) for example in inputs]))
        seed = f"{self.args.seed}/{self._drawn}"
        return new_prompts(len(examples), lambda i: _key(examples[i]), used, seed)

    def _draw(self, prompts: Iterator[int], dead: int) -> list[int]:
        """Return prompts for the dead groups, as many as can be shared evenly; [] if none."""
        processes = self.accelerator.num_processes
        wanted = candidate_groups(dead, self._group_size, processes)
        drawn = [number for _, number in zip(range(wanted), prompts, strict=False)]
        step = candidate_groups(1, self._group_size, processes)
        return drawn[: len(drawn) // step * step]

    def _complete(self, drawn: list[int]) -> dict[str, Any]:
        """Generate and score a group for each prompt, this process its share of the rows."""
        examples = cast(Any, self.train_dataset)
        rows = [number for number in drawn for _ in range(self._group_size)]
        share = len(rows) // self.accelerator.num_processes
        first = self.accelerator.process_index * share
        mine = [dict(examples[number]) for number in rows[first : first + share]]
        return super()._generate_and_score_completions(mine)

    @property
    def _pad_id(self) -> int:
        return cast(int, cast(Any, self)._tokenizer.pad_token_id)

    def _everyone(self, output: dict[str, Any]) -> dict[str, Tensor]:
        """Return the rows of all processes."""
        gathered = {}
        for name, rows in rows_of(output).items():
            if rows.dim() == 2:
                value = self._pad_id if name.endswith("_ids") else 0
                rows = self.accelerator.pad_across_processes(
                    rows, dim=1, pad_index=value, pad_first=name in LEFT
                )
            gathered[name] = self.accelerator.gather(rows)
        return gathered

    def _batch(
        self, pool: dict[str, Tensor], rows: Tensor, dead: list[int], size: int
    ) -> dict[str, Any]:
        """Return this process's part of the chosen rows, dead groups masked."""
        rows = rows.to(pool["advantages"].device)
        chosen = {name: tensor[rows.flatten()] for name, tensor in pool.items()}
        masked = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        masked[dead] = True
        hidden = masked.repeat_interleave(self._group_size)
        chosen["completion_mask"] = chosen["completion_mask"].masked_fill(hidden[:, None], 0)
        trained = chosen["completion_mask"]
        if "tool_mask" in chosen:
            trained = trained * chosen["tool_mask"]
        first = self.accelerator.process_index * size
        local = {name: tensor[first : first + size] for name, tensor in chosen.items()}
        return {
            **trimmed(local, cast(Any, self).pad_to_multiple_of),
            "num_items_in_batch": trained.sum(),
        }


def _key(example: dict[str, Any]) -> str:
    return json.dumps(example["prompt"], sort_keys=True)


class DAPOTrainer(DynamicSamplingMixin, GRPOTrainer):
    """``trl.GRPOTrainer`` with dynamic sampling; takes the same arguments and a DAPOConfig."""
