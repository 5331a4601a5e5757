"""The mixin over TRL's trainer: what it relies on there, and what it changes."""

import inspect
import subprocess
import sys
import time
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from trl import GRPOTrainer

from icml.core.errors import UserError
from icml.core.models import logprobs
from icml.core.rl.trl import AdvantageMixin, TRLBatch

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


class NoOp(AdvantageMixin, GRPOTrainer):
    pass


class Recorder(AdvantageMixin, GRPOTrainer):
    """Keeps its batches; advantages are the first reward less its mean over everything."""

    batches: list[TRLBatch]

    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        self.batches = [*getattr(self, "batches", []), batch]
        first = batch.rewards[:, 0]
        return (first - first.mean())[batch.local]


class PerToken(Recorder):
    def compute_advantages(self, batch: TRLBatch) -> Tensor:
        # What stands outside the mask must not matter.
        spread = super().compute_advantages(batch)[:, None].expand(batch.mask.shape)
        return torch.where(batch.mask, spread, torch.nan)


class WithEntropy(Recorder):
    needs_entropy = True


def train(trainer):
    """Train at once: building a trainer seeds the generators that training draws from."""
    trainer.train()
    return trainer


def losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def parameters(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def spin(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def rollout(prompts, trainer):
    """Two tokens of the policy around one of the environment, ended by eos."""
    ids = trainer.processing_class(prompts)["input_ids"]
    completions = [[4 + i % 11, 5, 6 + i % 9, 2] for i in range(len(prompts))]
    return {
        "prompt_ids": ids, "completion_ids": completions, "logprobs": [[-1.0] * 4] * len(prompts),
        "env_mask": [[1, 0, 1, 1] for _ in prompts],
    }  # fmt: skip


def test_importing_the_rl_room_and_the_mixin_imports_nothing_of_trl():
    code = (
        "import icml.core.rl, icml.core.rl.trl, sys; "
        "print({'trl', 'transformers', 'accelerate', 'datasets'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_trl_has_the_methods_and_parameters_the_mixin_relies_on():
    for method, names in {
        GRPOTrainer._generate_and_score_completions: ["self", "inputs"],
        GRPOTrainer._calculate_rewards: [
            "self", "inputs", "prompts", "completions", "completion_ids_list",
        ],
        GRPOTrainer._get_per_token_logps_and_entropies: [
            "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size",
            "compute_entropy",
        ],
    }.items():  # fmt: skip
        assert list(inspect.signature(method).parameters)[: len(names)] == names


def test_the_mixin_as_it_is_trains_bit_for_bit_like_grpotrainer(tiny_trainer):
    plain = train(tiny_trainer(GRPOTrainer))
    ours = tiny_trainer(NoOp)
    start = parameters(ours)
    ours.train()
    assert losses(plain) == losses(ours)
    assert len(losses(ours)) == 3
    assert torch.equal(parameters(plain), parameters(ours))
    assert not torch.equal(parameters(ours), start)
    assert list(plain._logs["advantages"]) == list(ours._logs["advantages"])


def test_one_advantage_a_sample_and_the_same_one_a_token_train_alike(tiny_trainer):
    by_sample, by_token = train(tiny_trainer(Recorder)), train(tiny_trainer(PerToken))
    assert_close(losses(by_token), losses(by_sample), rtol=0, atol=1e-6)
    assert_close(parameters(by_token), parameters(by_sample), rtol=0, atol=1e-6)
    assert_close(list(by_token._logs["advantages"]), list(by_sample._logs["advantages"]))


def test_the_batch_describes_the_generation_batch(tiny_trainer):
    trainer = train(tiny_trainer(Recorder, steps_per_generation=2, gradient_accumulation_steps=2))
    assert len(trainer.batches) == 3
    batch = trainer.batches[1]
    assert batch.rewards.shape == (16, 2)
    assert batch.rewards[:, 1].isnan().any()
    assert batch.reward_weights.tolist() == [1.0, 1.0]
    assert batch.groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert batch.local == slice(0, 16)
    assert batch.mask.dtype == torch.bool
    assert batch.entropies is None
    assert (batch.step, batch.training, batch.reward_names) == (1, True, ("even_ids", "first_id"))


def test_logged_advantages_are_those_trained_on(tiny_trainer):
    trainer = train(tiny_trainer(Recorder))
    first = trainer.batches[-1].rewards[:, 0]
    assert_close(torch.tensor(trainer._logs["advantages"]), first - first.mean())
    assert len(trainer._logs["advantages"]) == len(trainer._logs["prompt"]) == 8


def test_evaluation_groups_by_its_own_number_of_generations(tiny_trainer):
    trainer = tiny_trainer(Recorder, num_generations_eval=2, per_device_eval_batch_size=4)
    trainer.evaluate()
    (batch,) = trainer.batches
    assert batch.groups.tolist() == [0, 0, 1, 1]
    assert not batch.training


def test_the_environments_tokens_are_outside_the_mask(tiny_trainer):
    trainer = train(tiny_trainer(Recorder, rollout_func=rollout, max_steps=1))
    assert trainer.batches[0].mask.tolist() == [[True, False, True, True]] * 8


def test_a_sample_that_nothing_scored_gets_advantage_zero(tiny_trainer):
    class One(AdvantageMixin, GRPOTrainer):
        def compute_advantages(self, batch):
            return torch.where(batch.rewards[batch.local, 0].isnan(), torch.nan, 2.0)

    def half(completion_ids, **columns):
        return [None if i % 2 else 1.0 for i in range(len(completion_ids))]

    trainer = train(tiny_trainer(One, rewards=[half], max_steps=1))
    assert list(trainer._logs["advantages"]) == [2.0, 0.0] * 4


def test_entropies_are_those_of_the_sampling_policy(tiny_trainer):
    trainer = tiny_trainer(WithEntropy, temperature=0.7, gradient_accumulation_steps=2)
    output = trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    with torch.no_grad():
        logits = trainer.model(ids, attention_mask=attention).logits[:, 1:-1]
    (batch,) = trainer.batches
    assert batch.mask.shape == batch.entropies.shape == logits.shape[:2]
    assert len(batch.mask) == 16
    expected = logprobs.entropy(logits, temperature=0.7)
    assert_close(batch.entropies[batch.mask], expected[batch.mask])
    assert not batch.entropies.requires_grad


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (torch.zeros(5), r"must return \(8,\) or \(8, \d\).*got \(5,\).*\[batch.local\]"),
        (torch.zeros(8, 1), r"got \(8, 1\)"),
        (torch.tensor([0.0] * 6 + [torch.nan, torch.inf]), "2 of 8 samples, first sample 6, whose"),
    ],
)
def test_unusable_advantages_are_refused_in_one_sentence(tiny_trainer, result, message):
    class Wrong(AdvantageMixin, GRPOTrainer):
        def compute_advantages(self, batch):
            return result

    with pytest.raises(ValueError, match=message):
        tiny_trainer(Wrong, rewards=[lambda prompts, **_: [1.0] * len(prompts)]).train()


def test_entropies_of_prompts_with_images_are_refused(tiny_trainer):
    with pytest.raises(UserError, match=r"WithEntropy needs token entropies.*images"):
        tiny_trainer(WithEntropy)._token_entropies({"num_images": [1]})


def test_the_mixin_after_the_trainer_is_refused():
    bases: Any = (GRPOTrainer, AdvantageMixin)
    with pytest.raises(TypeError, match="Late must name its mixin before GRPOTrainer"):
        type("Late", bases, {})


def test_logged_scalars_stand_beside_trls_own(tiny_trainer):
    class Logs(AdvantageMixin, GRPOTrainer):
        def compute_advantages(self, batch):
            self.log_scalar("ours/count", len(batch.rewards))
            return batch.advantages

    trainer = train(tiny_trainer(Logs, max_steps=1))
    trainer.evaluate()
    assert trainer.state.log_history[0]["ours/count"] == 8
    assert trainer.state.log_history[-1]["eval_ours/count"] == 8


def test_time_spent_in_the_mixin_is_counted_without_trls(tiny_trainer):
    class Slow(AdvantageMixin, GRPOTrainer):
        def compute_advantages(self, batch):
            spin(0.05)
            return batch.advantages

    def slow_reward(prompts, **columns):
        spin(0.5)
        return [1.0] * len(prompts)

    trainer = train(tiny_trainer(Slow, rewards=[slow_reward], max_steps=2))
    assert 2 * 0.05 <= trainer.override_seconds < 2 * 0.05 + 0.5


def test_training_resumes_from_a_checkpoint_bit_for_bit(tiny_trainer):
    options = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    through = train(tiny_trainer(Recorder, **options))
    resumed = tiny_trainer(Recorder, **options)
    resumed.train(resume_from_checkpoint=f"{resumed.args.output_dir}/checkpoint-2")
    assert len(resumed.batches) == 2
    assert torch.equal(parameters(through), parameters(resumed))
