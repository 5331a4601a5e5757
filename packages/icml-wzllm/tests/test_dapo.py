"""Dynamic sampling inside TRL's real trainer, against batches made by hand for TRL alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from trl import GRPOConfig, GRPOTrainer

from icml.core.testing import trl
from icml.wzllm.training.dapo import DAPOConfig, DAPOTrainer

WORKER = Path(__file__).with_name("dapo_worker.py")
GROUP = 4
LIVE = "bfik"  # prompts that begin otherwise get one reward for all completions

# What TRL says of a function that it may change.
pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


def reward(completion_ids, prompts, **columns):
    return [
        float(sum(ids)) if prompt[0] in LIVE else 1.0
        for ids, prompt in zip(completion_ids, prompts, strict=True)
    ]


def rollout(prompts, trainer):
    """Completions of lengths and ids that follow from the prompt and the index in the group."""
    ids = trainer.processing_class(prompts)["input_ids"]
    completions = [
        [4 + (prompt[0] * k + row % GROUP) % 12 for k in range(1 + (prompt[0] + row) % 4)] + [2]
        for row, prompt in enumerate(ids)
    ]
    logps = [[0.0] * len(c) for c in completions]
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": logps}


@pytest.fixture
def build(tmp_path):
    def make(kind: Any, config: Any, **options: Any) -> Any:
        trainer = trl.tiny_trainer(
            kind,
            tmp_path,
            config=config,
            **{"rewards": [reward], "rollout_func": rollout, **options},
        )
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1  # outside of train()
        return trainer

    return make


def rows(*prompts):
    return [{"prompt": prompt} for prompt in prompts for _ in range(GROUP)]


def step(trainer, prompts):
    """Return the batch, the loss and the gradient of a step on these prompts."""
    torch.manual_seed(3)  # TRL shuffles its rows
    batch = trainer._prepare_inputs(rows(*prompts))
    loss = trainer.compute_loss(trainer.model, batch)
    trainer.model.zero_grad()
    loss.backward()
    grads = [p.grad.clone() for p in trainer.model.parameters()]
    return batch, loss.detach(), grads


def counts(trainer):
    return {
        name.removeprefix("dapo/"): values
        for name, values in trainer._metrics["train"].items()
        if name.startswith("dapo/")
    }


def texts(trainer, batch):
    return trainer.processing_class.batch_decode(batch["prompt_ids"], skip_special_tokens=True)


def test_a_step_with_a_refilled_group_is_bit_for_bit_the_step_on_a_batch_made_by_hand(build):
    ours = build(DAPOTrainer, DAPOConfig)
    batch, loss, grads = step(ours, ["a a", "b b"])  # a is dead
    (found,) = set(texts(ours, batch)) - {"b b"}
    assert found[0] in LIVE
    by_hand, loss_by_hand, grads_by_hand = step(
        build(GRPOTrainer, GRPOConfig, epsilon_high=0.28), [found, "b b"]
    )
    assert batch.keys() == by_hand.keys()
    for name, tensor in by_hand.items():
        assert torch.equal(batch[name], tensor), name
    assert torch.equal(loss, loss_by_hand)
    for mine, theirs in zip(grads, grads_by_hand, strict=True):
        assert torch.equal(mine, theirs)
    (generated,), (dead,) = counts(ours)["generated"], counts(ours)["dead"]
    # Each round draws one group for the dead one, and the last of them lives.
    assert generated == 2 + dead
    assert (counts(ours)["refilled"], counts(ours)["given_up"]) == ([1], [0])


def test_given_up_groups_leave_the_gradient_of_the_live_ones(build):
    ours = build(DAPOTrainer, DAPOConfig, dapo_rounds=0)
    batch, loss, grads = step(ours, ["a a", "b b"])
    assert counts(ours) == {"generated": [2], "dead": [1], "refilled": [0], "given_up": [1]}
    alone = build(GRPOTrainer, GRPOConfig, epsilon_high=0.28, per_device_train_batch_size=4)
    by_hand, loss_by_hand, grads_by_hand = step(alone, ["b b"])
    assert batch["num_items_in_batch"] == by_hand["num_items_in_batch"]
    # float32: twice the rows are added up in another order
    assert_close(loss, loss_by_hand, rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(grads, grads_by_hand, strict=True):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_where_no_prompt_lives_everything_is_given_up_and_the_gradient_is_0(build):
    ours = build(DAPOTrainer, DAPOConfig, prompts=["a a", "c a", "d a", "e b", "g b"])
    _, loss, grads = step(ours, ["a a", "c a"])
    # three prompts are left for three rounds of two groups
    assert counts(ours) == {"generated": [5], "dead": [5], "refilled": [0], "given_up": [2]}
    assert loss == 0
    assert all(not grad.any() for grad in grads)


def test_a_batch_without_dead_groups_is_trls_own(build):
    ours, trls = build(DAPOTrainer, DAPOConfig), build(GRPOTrainer, GRPOConfig, epsilon_high=0.28)
    batch, loss, _ = step(ours, ["b a", "f a"])
    theirs, their_loss, _ = step(trls, ["b a", "f a"])
    assert all(torch.equal(batch[name], theirs[name]) for name in theirs)
    assert torch.equal(loss, their_loss)
    assert counts(ours) == {"generated": [2], "dead": [0], "refilled": [0], "given_up": [0]}


def test_replacements_are_new_prompts_and_the_same_at_the_same_step(build):
    seen = []
    for _ in range(2):
        ours = build(DAPOTrainer, DAPOConfig)
        batch, _, _ = step(ours, ["a a", "b a"])
        seen.append(set(texts(ours, batch)))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2
    assert "a a" not in seen[0]


def test_training_by_real_generation_logs_the_counts(build):
    trainer = build(DAPOTrainer, DAPOConfig, rollout_func=None)
    trainer.train()
    logged = [row for row in trainer.state.log_history if "dapo/dead" in row]
    assert len(logged) == 3
    for row in logged:
        kept = row["dapo/generated"] - row["dapo/dead"]
        assert kept + row["dapo/given_up"] >= 2
        assert row["dapo/given_up"] <= row["dapo/dead"]
    assert sum(row["dapo/refilled"] for row in logged) > 0


def test_evaluation_is_left_alone(build):
    trainer = build(DAPOTrainer, DAPOConfig, per_device_eval_batch_size=4)
    trainer.evaluate()
    assert not counts(trainer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dapo_rounds": -1}, "dapo_rounds must be 0 or more, got -1"),
        ({"scale_rewards": "batch"}, "their own group alone.*got 'batch'"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "got.*'normalize_then_sum'"),
    ],
)
def test_options_that_groups_cannot_be_replaced_under_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        DAPOConfig(str(tmp_path), use_cpu=True, bf16=False, report_to=[], **options)


def test_a_plain_grpoconfig_is_refused(build):
    with pytest.raises(TypeError, match=r"needs args=DAPOConfig\(...\), got GRPOConfig"):
        build(DAPOTrainer, GRPOConfig)


def test_the_defaults_are_dapos(tmp_path):
    config = DAPOConfig(str(tmp_path), use_cpu=True, bf16=False, report_to=[])
    assert (config.epsilon, config.epsilon_high, config.beta) == (0.2, 0.28, 0)
    assert (config.loss_type, config.scale_rewards) == ("dapo", "group")


@pytest.mark.slow
def test_two_processes_refill_and_learn_as_one_does(tmp_path):
    alone = trl.run_worker(WORKER, tmp_path / "one.json", 1)
    together = trl.run_worker(WORKER, tmp_path / "two.json", 2)
    assert alone["numbers"]["dapo/refilled"] > 0
    assert together["numbers"] == alone["numbers"]
    # float32: gradients of two processes are averaged
    assert_close(together["learned"], alone["learned"], rtol=1e-5, atol=1e-5)
