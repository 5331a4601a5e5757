"""GDPO inside TRL's real trainer, against TRL 1.16's own option and the pure function."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from trl import GRPOConfig, GRPOTrainer, TrlParser

from icml.gdpo import GDPOConfig, GDPOMixin, GDPOTrainer, diagnose, gdpo_advantages

TRL_OPTION: dict[str, Any] = {"multi_objective_aggregation": "normalize_then_sum"}
ON_CPU: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": []}


class Recorder(GDPOTrainer):
    """Keeps its batches and the advantages it returned."""

    def compute_advantages(self, batch):
        advantages = super().compute_advantages(batch)
        self.seen = [*getattr(self, "seen", []), (batch, advantages)]
        return advantages


def train(trainer, **options):
    """Train at once: building a trainer seeds the generators that training draws from."""
    trainer.train(**options)
    return trainer


def parameters(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def logged(trainer, name):
    return [row[name] for row in trainer.state.log_history if name in row]


def test_importing_the_package_loads_neither_torch_nor_trl():
    code = "import icml.gdpo, sys; print({'torch', 'trl', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("weights", [None, [1.0, 0.25, 3.0]])
def test_advantages_and_training_equal_those_of_trls_own_option(tiny_trainer, weights):
    ours = train(tiny_trainer(Recorder, GDPOConfig, reward_weights=weights))
    trls = train(tiny_trainer(GRPOTrainer, GRPOConfig, reward_weights=weights, **TRL_OPTION))
    assert len(ours.seen) == 3
    for batch, advantages in ours.seen:
        assert batch.rewards[:, 1].isnan().float().mean() > 0.3
        # float32: TRL and we add up the same terms in another order
        assert_close(advantages, batch.advantages, rtol=0, atol=1e-5)
    assert ours.seen[-1][1].abs().max() > 0.5
    assert_close(list(ours._logs["advantages"]), list(trls._logs["advantages"]), rtol=0, atol=1e-5)
    assert_close(parameters(ours), parameters(trls), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_evaluation_equals_trls_own_option_with_its_own_group_size(tiny_trainer, size):
    trainer = tiny_trainer(
        Recorder, GDPOConfig, num_generations_eval=size, per_device_eval_batch_size=4
    )
    trainer.evaluate()
    assert not any(batch.training for batch, _ in trainer.seen)
    for batch, advantages in trainer.seen:
        assert_close(advantages, batch.advantages, rtol=0, atol=1e-5)
    assert "eval_gdpo/distinct" in trainer.state.log_history[-1]


def test_weights_change_at_the_step_that_the_schedule_names(tiny_trainer):
    schedule = {0: [1, 0, 0], 1: [1, 0, 0], 2: [0, 0, 1]}
    trainer = train(tiny_trainer(Recorder, GDPOConfig, gdpo_weight_schedule=schedule))
    for weights, (batch, advantages) in zip(
        [(1, 0, 0), (1, 0, 0), (0, 0, 1)], trainer.seen, strict=True
    ):
        expected = gdpo_advantages(batch.rewards, 4, weights=weights)
        assert_close(advantages, expected)
    assert logged(trainer, "gdpo/share/even_ids") == [1, 1, 0]
    assert logged(trainer, "gdpo/share/last_id") == [0, 0, 1]


def test_a_resumed_run_has_the_weights_of_its_step(tiny_trainer):
    options = {
        "gdpo_weight_schedule": {0: [1, 0, 0], 4: [0, 0, 1]},
        "max_steps": 4, "save_strategy": "steps", "save_steps": 2,
    }  # fmt: skip
    through = train(tiny_trainer(Recorder, GDPOConfig, **options))
    resumed = tiny_trainer(Recorder, GDPOConfig, **options)
    train(resumed, resume_from_checkpoint=f"{resumed.args.output_dir}/checkpoint-2")
    assert [batch.step for batch, _ in resumed.seen] == [2, 3]
    assert torch.equal(resumed.seen[0][1], through.seen[2][1])
    assert torch.equal(parameters(resumed), parameters(through))


def test_token_batch_norm_counts_trained_tokens(tiny_trainer):
    trainer = train(tiny_trainer(Recorder, GDPOConfig, gdpo_batch_norm="token", max_steps=1))
    ((batch, advantages),) = trainer.seen
    counts = batch.mask.sum(dim=1)
    expected = gdpo_advantages(batch.rewards, 4, batch_norm="token", token_counts=counts)
    assert_close(advantages, expected)
    assert not torch.allclose(advantages, batch.advantages, atol=1e-3)


def test_eps_and_no_batch_norm_reach_the_advantages(tiny_trainer):
    options = {"gdpo_batch_norm": "none", "gdpo_eps": 0.5, "max_steps": 1}
    ((batch, advantages),) = train(tiny_trainer(Recorder, GDPOConfig, **options)).seen
    assert_close(advantages, gdpo_advantages(batch.rewards, 4, eps=0.5, batch_norm="none"))
    assert not torch.allclose(advantages, gdpo_advantages(batch.rewards, 4, batch_norm="none"))


def test_logged_numbers_are_those_of_diagnose(tiny_trainer):
    trainer = train(tiny_trainer(Recorder, GDPOConfig, max_steps=1))
    ((batch, _),) = trainer.seen
    report = diagnose(batch.rewards, 4)
    row = trainer.state.log_history[0]
    # TRL logs sums in float64, tensors are float32
    for k, name in enumerate(["even_ids", "first_id", "last_id"]):
        assert row[f"gdpo/share/{name}"] == pytest.approx(report.share_gdpo[k], abs=1e-6)
        assert row[f"gdpo/low_std/{name}"] == report.low_std[k]
    assert row["gdpo/distinct"] == report.distinct_gdpo
    assert row["gdpo/distinct_if_grpo"] == report.distinct_grpo


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"multi_objective_aggregation": "sum_then_normalize"},
            "multi_objective_aggregation='normalize_then_sum' and the default scale_rewards",
        ),
        ({"scale_rewards": "batch"}, "scale_rewards='group'.*got.*'batch'"),
        ({"scale_rewards": False}, "multi_objective_aggregation.*scale_rewards.*'none'"),
        ({"gdpo_eps": -1.0}, "gdpo_eps must be a finite number >= 0, got -1.0"),
        ({"gdpo_batch_norm": "tokens"}, "gdpo_batch_norm must be one of rollout, token, none"),
        ({"reward_weights": [1.0, -1.0]}, "reward_weights must be >= 0.*penalty"),
        ({"gdpo_weight_schedule": {"x": [1]}}, "step of a weight schedule"),
        ({"gdpo_weight_schedule": "0: [1]"}, "gdpo_weight_schedule is not JSON"),
        (
            {"gdpo_weight_schedule": {0: [1, 0]}, "reward_weights": [1.0, 0.0]},
            "gdpo_weight_schedule and reward_weights both",
        ),
    ],
)
def test_options_that_are_not_gdpo_are_refused_in_one_sentence(tmp_path, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        GDPOConfig(str(tmp_path), **ON_CPU, **options)
    assert "\n" not in str(caught.value)


def test_the_default_scale_rewards_may_be_spelled_out(tmp_path):
    for spelled in ({"scale_rewards": True}, {"scale_rewards": "group"}):
        assert GDPOConfig(str(tmp_path), **ON_CPU, **spelled).scale_rewards == "group"


def test_trls_command_line_parser_reads_a_schedule(tmp_path):
    kinds: Any = (GDPOConfig,)
    parsed: Any = TrlParser(kinds).parse_args_and_config(
        ["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", "--report_to", "none",
         "--gdpo_weight_schedule", '{"0": [1, 0], "10": [1, 1]}'],
    )  # fmt: skip
    assert parsed[0].weight_schedule().at(5) == (1, 0.5)


def test_a_schedule_with_another_number_of_weights_is_refused_at_once(tiny_trainer):
    with pytest.raises(ValueError, match="has 2 weights at each step, but there are 3 rewards: ev"):
        tiny_trainer(GDPOTrainer, GDPOConfig, gdpo_weight_schedule={0: [1, 1]})


def test_a_plain_grpoconfig_is_refused(tiny_trainer):
    with pytest.raises(
        TypeError, match=r"GDPOTrainer needs args=GDPOConfig\(...\), got GRPOConfig"
    ):
        tiny_trainer(GDPOTrainer, GRPOConfig)


def test_an_infinite_reward_names_its_function(tiny_trainer):
    def ratio(completions, **columns):
        return [float("inf")] + [1.0] * (len(completions) - 1)

    with pytest.raises(ValueError, match="'ratio' returned infinity"):
        train(tiny_trainer(GDPOTrainer, GDPOConfig, rewards=[ratio]))


def test_a_batch_that_nothing_scored_trains_without_nan(tiny_trainer):
    def nothing(completions, **columns):
        return [None] * len(completions)

    trainer = train(tiny_trainer(Recorder, GDPOConfig, rewards=[nothing], max_steps=1))
    assert trainer.seen[0][1].tolist() == [0.0] * 8
    assert parameters(trainer).isfinite().all()


def test_the_mixin_serves_other_trainers_over_grpotrainer(tiny_trainer):
    class Other(GRPOTrainer):
        pass

    mixed = type("Mixed", (GDPOMixin, Other), {})
    trainer = train(tiny_trainer(mixed, GDPOConfig, max_steps=1))
    trls = train(tiny_trainer(Other, GRPOConfig, max_steps=1, **TRL_OPTION))
    assert_close(
        list(trainer._logs["advantages"]), list(trls._logs["advantages"]), atol=1e-5, rtol=0
    )
