"""Edited episodes in TRL's real trainer: the last segment is trained, under what the policy saw."""

import pytest
import torch
from trl import GRPOTrainer

from icml.agent_omit.episode import read_episode
from icml.agent_omit.format import action_of
from icml.agent_omit.loop import reward_groups
from icml.agent_omit.reward import OmissionReward
from icml.agent_omit.segments import to_segments
from icml.agent_omit.trl_rollout import OmitRollout, omission_reward
from icml.agent_omit.vault import Vault
from icml.agent_omit.words import vault_words
from icml.core.rl.rollout import EnvTask
from icml.core.testing.trl import tiny_trainer

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
WORDS = vault_words(Vault(turns=6))


class Recorder(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.seen = [*getattr(self, "seen", []), output]
        return output


class Recording(OmitRollout):
    """Keeps the episodes; the columns come last."""

    def columns(self, trajectories, trainer):
        played.append(list(trajectories))
        return super().columns(trajectories, trainer)


played: list = []


def test_the_last_segment_of_each_episode_is_what_trl_trains_on(lab, tmp_path, monkeypatch):
    played.clear()
    transcript = lab.transcript(Vault(turns=6))
    rollout = Recording(
        lambda _: lab.Endless(turns=6), transcript, max_turns=6,
        parse=lambda text: action_of(text + "</tool_call>"),  # the end token, cut off before
    )  # fmt: skip
    trainer = tiny_trainer(
        Recorder, tmp_path, rewards=[omission_reward], rollout_func=rollout, words=WORDS.words,
        ctx=512, prompts=[EnvTask(seed).key() for seed in range(4)], max_completion_length=40,
        max_steps=1,
    )  # fmt: skip
    turn = iter(range(10**6))

    def say(prompts, images, multimodal_fields, **options):
        """Stands where the random model would generate noise: a policy that writes the format."""
        import random

        number = next(turn)
        texts = [
            lab.random_output(number, random.Random(f"{number} {row}"))
            for row in range(len(prompts))
        ]
        ids = [list(WORDS.encode(text)) for text in texts]
        return ids, [[-1.0] * len(row) for row in ids]

    monkeypatch.setattr(trainer, "_generate_single_turn", say)
    trainer.train()
    (episodes,), (output,) = played, trainer.seen
    assert sum(len(to_segments(episode)) > 1 for episode in episodes) >= 3
    for row, episode in enumerate(episodes):
        last = to_segments(episode)[-1]
        prompt = output["prompt_ids"][row][output["prompt_mask"][row].bool()].tolist()
        kept = output["completion_mask"][row].bool()
        assert prompt == last.prompt_ids
        assert output["completion_ids"][row][kept].tolist() == last.ids
        assert output["tool_mask"][row][kept].tolist() == last.loss_mask
    costs = [read_episode(episode, transcript) for episode in episodes]
    for number, episode in enumerate(episodes):
        object.__setattr__(episode, "group_id", number // 4)
    rewards = reward_groups(episodes, costs, OmissionReward())
    logged = trainer.state.log_history[0]
    assert logged["reward"] == pytest.approx(float(rewards.mean()), abs=1e-6)
    trained = sum(sum(to_segments(episode)[-1].loss_mask) for episode in episodes)
    written = sum(cost.output_tokens for cost in costs)
    assert 0 < logged["omit/left_out"] == pytest.approx(1 - trained / written)
    assert logged["omit/segments"] == pytest.approx(
        sum(len(to_segments(episode)) for episode in episodes) / 8
    )
    assert torch.isfinite(torch.tensor(logged["loss"]))
