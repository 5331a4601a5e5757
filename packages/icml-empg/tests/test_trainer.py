"""EMPG inside TRL's real trainer, with episodes of several turns."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from trl import GRPOConfig, GRPOTrainer

from icml.core.rl.functional import group_stats
from icml.core.testing.trl import run_worker
from icml.empg import EMPGConfig, EMPGMixin, EMPGParams, EMPGTrainer, empg_token_advantages

pytestmark = [
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func'"),
    # A random model and random rewards: many groups have equal rewards.
    pytest.mark.filterwarnings("ignore::icml.empg.ClarityBonusWarning"),
]
NO_OP = {"empg_k": 0.0, "empg_zeta": 0.0, "empg_center": False}


class Recorder(EMPGTrainer):
    """Keeps its batches and the advantages it returned."""

    def compute_advantages(self, batch):
        advantages = super().compute_advantages(batch)
        self.seen = [*getattr(self, "seen", []), (batch, advantages)]
        return advantages


def train(trainer):
    """Train at once: building a trainer seeds the generators that training draws from."""
    trainer.train()
    return trainer


def second_group_only(completion_ids, **columns):
    """Reward: the length, but 0 in the first of two groups."""
    return [float(len(ids)) * (i >= 4) for i, ids in enumerate(completion_ids)]


def parameters(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def test_importing_the_package_loads_neither_torch_nor_trl():
    code = "import icml.empg, sys; print({'torch', 'trl', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("rollout", [{}, {"rollout_func": None, "max_completion_length": 6}])
def test_a_no_op_trains_bit_for_bit_like_grpotrainer(tiny_trainer, rollout):
    ours = train(tiny_trainer(Recorder, EMPGConfig, **NO_OP, **rollout))
    trls = train(tiny_trainer(GRPOTrainer, GRPOConfig, **rollout))
    assert any(batch.advantages.abs().max() > 0.5 for batch, _ in ours.seen)
    assert torch.equal(parameters(ours), parameters(trls))
    kept = ("loss", "grad_norm", "reward", "entropy")
    for row, expected in zip(ours.state.log_history, trls.state.log_history, strict=True):
        assert [row.get(name) for name in kept] == [expected.get(name) for name in kept]


def test_advantages_are_those_of_the_pure_function_and_zero_outside_the_policys_tokens(
    tiny_trainer,
):
    trainer = train(tiny_trainer(Recorder, EMPGConfig))
    assert len(trainer.seen) == 3
    for batch, advantages in trainer.seen:
        assert batch.mask.int().diff(dim=1).abs().sum(dim=1).max() >= 3  # several turns
        assert advantages.shape == batch.mask.shape
        expected = empg_token_advantages(batch.advantages, batch.entropies, batch.mask)
        assert torch.equal(advantages, expected)
        assert advantages[~batch.mask].tolist() == [0.0] * int((~batch.mask).sum())


def test_entropies_are_those_of_the_model_that_is_trained(tiny_trainer):
    trainer = tiny_trainer(Recorder, EMPGConfig, max_steps=1, learning_rate=0.0)
    ((batch, _),) = train(trainer).seen
    assert batch.entropies[batch.mask].min() > 0
    assert batch.entropies[batch.mask].max() <= torch.tensor(16.0).log() + 1e-6


def test_every_option_reaches_the_pure_function(tiny_trainer):
    options = {
        "k": 2.0, "k_future": 0.5, "zeta": 0.3, "center": False, "last_step_bonus": "mean",
        "bonus_baseline": "turn", "entropy_clip_quantile": 0.8, "skip_zero_groups": True,
    }  # fmt: skip
    named = {f"empg_{name}": value for name, value in options.items()}
    trainer = tiny_trainer(Recorder, EMPGConfig, max_steps=1, rewards=[second_group_only], **named)
    ((batch, advantages),) = train(trainer).seen
    parts = batch.advantages, batch.entropies, batch.mask
    expected = empg_token_advantages(*parts, EMPGParams(**options))
    assert torch.equal(advantages, expected)
    for name in options:
        fewer = EMPGParams(**{key: value for key, value in options.items() if key != name})
        assert not torch.equal(empg_token_advantages(*parts, fewer), expected), name


def normalized_apart(rewards, groups, *, weights):
    """Normalise each reward in its group, then add: another base than TRL's default."""
    stats = group_stats(rewards, groups)
    return (weights * stats.deviation / (stats.std + 1e-4)).nansum(dim=1)


def test_any_base_advantage_is_modulated(tiny_trainer):
    built = tiny_trainer(
        partial(Recorder, base_advantage=normalized_apart),
        EMPGConfig,
        reward_weights=[1.0, 0.5],
        max_steps=1,
    )
    ((batch, advantages),) = train(built).seen
    weights = torch.tensor([1.0, 0.5])
    base = normalized_apart(batch.rewards, batch.groups, weights=weights)
    assert not torch.allclose(base, batch.advantages, atol=1e-3)
    assert torch.equal(advantages, empg_token_advantages(base, batch.entropies, batch.mask))


def test_logged_numbers_are_those_of_the_batch(tiny_trainer):
    options = {"empg_skip_zero_groups": True, "rewards": [second_group_only]}
    trainer = train(tiny_trainer(Recorder, EMPGConfig, max_steps=1, **options))
    ((batch, advantages),) = trainer.seen
    row = trainer.state.log_history[0]
    steps = [
        (batch.entropies[r, a:b].mean().item(), float(advantages[r, a]))
        for r, pieces in enumerate(pieces_of(batch.mask))
        for a, b in pieces
    ]
    entropies = torch.tensor([h for h, _ in steps], dtype=torch.float64)
    assert row["empg/h_min"] == pytest.approx(float(entropies.min()), rel=1e-6)
    assert row["empg/h_max"] == pytest.approx(float(entropies.max()), rel=1e-6)
    weights = (-(entropies - entropies.min()) / (entropies.max() - entropies.min())).exp()
    assert row["empg/g_min"] == pytest.approx(float(weights.min() / weights.mean()), rel=1e-5)
    assert row["empg/g_max"] == pytest.approx(float(weights.max() / weights.mean()), rel=1e-5)
    zero = sum(a == 0 for _, a in steps) / len(steps)
    assert row["empg/skipped"] == pytest.approx(zero)
    assert zero > 0.2
    assert 0 < row["empg/bonus_share"] < 1
    assert row["empg/last_step_shift"] < 0
    assert -1 <= row["empg/corr_adv_entropy"] <= 1


def pieces_of(mask):
    from icml.core.rl.functional import segments_from_mask

    return segments_from_mask(mask)


def test_evaluation_has_its_own_names(tiny_trainer):
    trainer = tiny_trainer(
        Recorder, EMPGConfig, per_device_eval_batch_size=4, num_generations_eval=2
    )
    trainer.evaluate()
    assert "eval_empg/h_max" in trainer.state.log_history[-1]


def test_a_sequence_ratio_is_warned_about(tmp_path):
    options = {"use_cpu": True, "bf16": False, "report_to": []}
    with pytest.warns(UserWarning, match="'sequence' gives all steps of an episode one ratio"):
        EMPGConfig(str(tmp_path), importance_sampling_level="sequence", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"empg_k": -1.0}, "k must be a finite number >= 0, got -1.0"),
        ({"empg_zeta": 2.0}, "zeta must be below 1, got 2.0"),
        ({"empg_last_step_bonus": "max"}, "last_step_bonus must be 'none' or 'mean'"),
    ],
)
def test_options_out_of_range_are_refused_in_one_sentence(tmp_path, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        EMPGConfig(str(tmp_path), use_cpu=True, bf16=False, report_to=[], **options)
    assert "\n" not in str(caught.value)


def test_what_is_no_base_advantage_or_configuration_is_refused(tiny_trainer):
    with pytest.raises(TypeError, match=r"Trainer needs args=EMPGConfig\(...\), got GRPOConfig"):
        tiny_trainer(EMPGTrainer, GRPOConfig)
    with pytest.raises(
        ValueError, match=r"base_advantage must be 'grpo' or a function.*got 'gdpo'"
    ):
        tiny_trainer(partial(EMPGTrainer, base_advantage="gdpo"), EMPGConfig)
    with pytest.raises(ValueError, match=r"one number for each of the 8 samples.*got shape \(2,\)"):
        train(tiny_trainer(
            partial(EMPGTrainer, base_advantage=lambda *_, weights: torch.zeros(2)), EMPGConfig
        ))  # fmt: skip


def test_the_mixin_serves_other_trainers_over_grpotrainer(tiny_trainer):
    class Other(GRPOTrainer):
        pass

    trainer = train(tiny_trainer(type("Mixed", (EMPGMixin, Other), {}), EMPGConfig, max_steps=1))
    assert "empg/h_max" in trainer.state.log_history[0]


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "variants"])
def test_two_processes_give_the_advantages_and_the_log_of_one(tmp_path, options, monkeypatch):
    monkeypatch.setenv("EMPG_TEST_OPTIONS", options)
    worker = Path(__file__).with_name("empg_worker.py")
    alone = run_worker(worker, tmp_path / "one.json", 1)
    together = run_worker(worker, tmp_path / "two.json", 2)
    assert len(set(alone["advantages"])) > 4
    # float32, and the two processes pad to different lengths
    assert_close(together["advantages"], alone["advantages"], rtol=0, atol=1e-5)
    assert_close(together["numbers"], alone["numbers"], rtol=0, atol=1e-5)
