import itertools
import math
import re
import runpy
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from icml.agent_omit.episode import read_episode
from icml.agent_omit.format import action_of, write_turn
from icml.agent_omit.loop import ClosingSampler, reward_groups, segment_advantages
from icml.agent_omit.reward import OmissionReward
from icml.agent_omit.segments import to_segment_batch
from icml.core.errors import UserError
from icml.core.rl.functional import policy_loss
from icml.core.rl.rollout import EnvTask, ModelSampler, collect
from icml.core.rl.sampling import score

WORKER = Path(__file__).with_name("omit_worker.py")


@pytest.fixture(scope="module")
def worker():
    return SimpleNamespace(**runpy.run_path(str(WORKER)))


def same_weights(a, b):
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_a_run_killed_by_the_system_continues_bit_for_bit(worker, tmp_path):
    whole, told = worker.run(None)
    killed = subprocess.run([sys.executable, str(WORKER), str(tmp_path / "state")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert any((tmp_path / "state").iterdir())
    continued, log = worker.run(tmp_path / "state")
    assert same_weights(continued, whole)
    assert log == told
    assert len(told) == 5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reward": OmissionReward(0.5)}, "reward_weight=0.2, this one has reward_weight=0.5"),
        ({"partial_weight": 0.5}, "partial_weight=1.0, this one has partial_weight=0.5"),
        ({"seed": 1}, "seed=0, this one has seed=1"),
    ],
)
def test_a_folder_of_another_run_is_refused(worker, tmp_path, changed, message):
    worker.run(
        tmp_path / "state", reward=OmissionReward(), config=replace(worker.CONFIG, iterations=1)
    )
    with pytest.raises(UserError, match=re.escape(message)):
        worker.run(tmp_path / "state", **{"reward": OmissionReward()} | changed,
                   config=replace(worker.CONFIG, iterations=1))  # fmt: skip


def test_groups_without_a_difference_change_nothing(worker):
    class Even(OmissionReward):
        def __call__(self, episode, *, mean_thought=0.0):
            return super().__call__(episode, mean_thought=mean_thought)._replace(total=0.25)

    config = replace(worker.CONFIG, kl_beta=0.0)
    model, rows = worker.run(None, reward=Even(), config=config)
    fresh = worker.run(None, config=replace(config, iterations=0))[0]
    assert same_weights(model, fresh)
    assert all(math.isfinite(value) for _, row in rows for value in row.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partial_weight": -1.0}, "partial_weight must be at least 0 and finite, got -1.0"),
        ({"partial_weight": math.inf}, "partial_weight must be at least 0 and finite, got inf"),
    ],
)
def test_values_without_a_meaning_are_refused(worker, options, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        worker.run(None, **options)


def test_a_group_of_one_is_refused(worker):
    with pytest.raises(UserError, match=r"^group_size must be at least 2, got 1$"):
        worker.run(None, config=replace(worker.CONFIG, group_size=1))


def test_each_group_has_its_own_mean_thought(lab):
    says = {1: write_turn("a b c d", action="go x"), 2: write_turn("", action="go x")}
    episodes = lab.played(lambda turn, _: says[turn] if turn < 3 else says[2], turns=3, episodes=3)
    costs = [read_episode(episode, lab.transcript(lab.Endless(turns=3))) for episode in episodes]
    # Episodes 0 and 1 in one group; only the first has thoughts longer than the others'.
    costs[0] = replace(
        costs[0], turns=tuple(replace(t, thought=2 * t.thought) for t in costs[0].turns)
    )
    groups = [replace(e, group_id=g) for e, g in zip(episodes, (0, 0, 1), strict=True)]
    full = [cost.full_prompt_tokens for cost in costs]
    rewards = reward_groups(groups, costs, OmissionReward())
    expected = [0.8 + 0.2 * 2 * mean / f for mean, f in zip((6, 6, 4), full, strict=True)]
    assert rewards.tolist() == pytest.approx(expected)


def policy(model, transcript, count=16, seed=2):
    from icml.agent_omit.vault import Vault
    from icml.agent_omit.words import vault_words

    words = vault_words(Vault())
    return collect(
        ClosingSampler(ModelSampler(model, words.decode, words.closing_id)),
        lambda _: Vault(), [EnvTask(n) for n in range(count // 4)], group_size=4, max_turns=5,
        max_new_tokens=14, render=transcript, parse=action_of, seed=seed,
    )  # fmt: skip


def gradient(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_loss_and_gradient_are_those_of_each_turn_scored_alone(omitter):
    """The slow way: a forward pass a turn with the prompt the policy saw, tokens one by one."""
    model, transcript = omitter
    episodes = policy(model, transcript)
    costs = [read_episode(episode, transcript) for episode in episodes]
    batch = to_segment_batch(
        episodes, costs, torch.rand(16, generator=torch.Generator().manual_seed(0))
    )
    assert batch.partial.any()
    batch.old_logp[:] += 0.3 * torch.randn(
        batch.old_logp.shape, generator=torch.Generator().manual_seed(1)
    )
    advantages = segment_advantages(batch)
    rows = batch.prompt_ids, batch.prompt_lengths, batch.completion_ids
    found = policy_loss(score(model, *rows), batch.old_logp, advantages, batch.mask).loss
    ours = gradient(model, found)
    old = iter(batch.old_logp[batch.mask].tolist())
    of_episode = {int(t): float(a) for t, a in zip(batch.traj, advantages, strict=True)}
    terms = []
    for number, episode in enumerate(episodes):
        for step in episode.steps:
            ids = torch.tensor([step.prompt_ids + step.response_ids])
            logp = model(ids).logits[0, len(step.prompt_ids) - 1 : -1].log_softmax(-1)
            for row, token in zip(logp, step.response_ids, strict=True):
                ratio = (row[token] - next(old)).exp()
                a = of_episode[number]
                terms.append(-torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a))
    expected = torch.stack(terms).mean()
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert_close(ours, gradient(model, expected), rtol=1e-4, atol=1e-5)


def test_without_omissions_loss_and_gradient_are_trls(lab, tmp_path):
    """TRL 1.16's own GRPO loss (dapo: the mean over all tokens) on the same episodes."""
    from trl import GRPOTrainer

    from icml.agent_omit.words import vault_words
    from icml.core.testing.trl import tiny_trainer

    env = lab.Endless(turns=3)
    words = vault_words(env)
    transcript = lab.transcript(env)
    episodes = lab.played(
        lambda turn, draw: write_turn(" ".join(["see"] * draw.randrange(4)), action="go north"),
        turns=3, episodes=8,
    )  # fmt: skip
    costs = [read_episode(episode, transcript) for episode in episodes]
    batch = to_segment_batch(episodes, costs, torch.arange(8.0))
    assert len(batch.traj) == 8
    assert not batch.partial.any()
    batch.traj_group[:] = torch.tensor([0] * 4 + [1] * 4)
    advantages = segment_advantages(batch)

    def first_id(completion_ids, **columns):
        return [0.0] * len(completion_ids)

    trainer = tiny_trainer(
        GRPOTrainer, tmp_path, rewards=[first_id], words=words.words, ctx=128, loss_type="dapo"
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # set by train(), which isn't run here
    kept = torch.arange(batch.completion_ids.shape[1]) <= torch.tensor(
        [[row.nonzero().max()] for row in batch.mask]
    )
    rows = batch.prompt_ids, batch.prompt_lengths, batch.completion_ids
    with torch.no_grad():
        old = score(trainer.model, *rows) + 0.3 * torch.randn(
            batch.mask.shape, generator=torch.Generator().manual_seed(1)
        )
    theirs = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": batch.prompt_ids, "prompt_mask": torch.ones_like(batch.prompt_ids),
            "completion_ids": batch.completion_ids, "completion_mask": kept.long(),
            "tool_mask": batch.mask.long(), "old_per_token_logps": old, "advantages": advantages,
            "num_items_in_batch": batch.mask.sum(),
        },
    )  # fmt: skip
    expected = gradient(trainer.model, theirs)
    found = policy_loss(score(trainer.model, *rows), old, advantages, batch.mask).loss
    assert expected.abs().max() > 1e-3
    assert_close(found, theirs, rtol=1e-5, atol=1e-5)
    assert_close(gradient(trainer.model, found), expected, rtol=1e-5, atol=1e-5)


def test_a_forced_beginning_is_part_of_the_response_and_has_no_log_probability(omitter):
    model, transcript = omitter
    from icml.agent_omit.vault import Vault
    from icml.agent_omit.words import vault_words

    words = vault_words(Vault())
    forced = tuple(words.encode("<think></think>"))
    sampler = ModelSampler(model, words.decode, words.closing_id)
    generators = [torch.Generator().manual_seed(n) for n in range(4)]
    prompts = [transcript.encode("north exit")] * 4
    samples = ClosingSampler(sampler, forced).sample(
        prompts, max_new_tokens=5, generators=generators
    )
    for sample in samples:
        assert sample.text.startswith("<think> </think> ")
        assert sample.logps[:2].isnan().all()
        assert not sample.logps[2:].isnan().any()
        assert len(sample.ids) == len(sample.logps) == len(sample.entropies)
    generators = [torch.Generator().manual_seed(n) for n in range(4)]
    plain = sampler.sample(
        [[*p, *forced] for p in prompts], max_new_tokens=5, generators=generators
    )
    assert [s.ids[2:] for s in samples] == [s.ids for s in plain]
    assert all(itertools.chain(["</tool_call>" in s.text or len(s.ids) == 7 for s in samples]))
