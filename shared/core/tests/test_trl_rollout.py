"""Text environments in TRL's real trainer."""

from functools import partial
from pathlib import Path

import pytest
import torch
from trl import GRPOTrainer

from icml.core.envs.babyai import WORDS, BabyAI
from icml.core.errors import UserError
from icml.core.rl.rollout import EnvTask
from icml.core.rl.transcript import Transcript
from icml.core.rl.trl import AdvantageMixin
from icml.core.rl.trl_rollout import TextEnvRollout, episode_return, episode_success
from icml.core.testing.trl import run_worker

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")

TURNS = 3
TASKS = [EnvTask(seed, level).key() for seed in range(4) for level in ("GoToLocal", "OpenDoor")]


class Recorder(AdvantageMixin, GRPOTrainer):
    """Keeps what TRL made of each generation batch."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.seen = [*getattr(self, "seen", []), ([row["prompt"] for row in inputs], output)]
        return output

    def compute_advantages(self, batch):
        self.rewards = [*getattr(self, "rewards", []), batch.rewards]
        return batch.advantages


def encoded(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


class Rollout:
    """A `TextEnvRollout` whose transcript is made with the trainer's tokenizer."""

    def __init__(self, env_factory=lambda task: BabyAI(task.env)):
        self.env_factory = env_factory

    def __call__(self, prompts, trainer):
        render = Transcript(partial(encoded, trainer.processing_class))
        play = TextEnvRollout(self.env_factory, render, max_turns=TURNS)
        return play(prompts, trainer)


@pytest.fixture
def trained(tiny_trainer):
    """Trains a class on BabyAI, for two steps of eight episodes of at most three turns."""

    def build(trainer=Recorder, rollout=None, **options):
        settings = {
            "rewards": [episode_return, episode_success], "prompts": TASKS, "words": WORDS,
            "ctx": 1024, "max_completion_length": 4, "max_steps": 2,
        }  # fmt: skip
        built = tiny_trainer(trainer, rollout_func=rollout or Rollout(), **{**settings, **options})
        built.train()
        return built

    return build


def turns(ids, mask):
    """Cut a completion into responses and the environment's words between them."""
    parts, inside = [[]], True
    for token, drawn in zip(ids, mask, strict=True):
        if bool(drawn) != inside:
            parts.append([])
            inside = not inside
        parts[-1].append(token)
    return parts[0::2], parts[1::2]


def test_an_episode_of_babyai_replayed_from_the_completion_is_what_trl_trains_on(trained):
    trainer = trained()
    decode = trainer.processing_class.decode
    assert len(trainer.seen) == 2
    for (keys, output), rewards in zip(trainer.seen, trainer.rewards, strict=True):
        for row, key in enumerate(keys):
            task = EnvTask.from_key(key)
            env = BabyAI(task.env)
            seen = env.reset(task.seed)
            prompt = output["prompt_ids"][row][output["prompt_mask"][row].bool()]
            assert decode(prompt).split() == f"{seen.task} {seen.text}".split()
            kept = output["completion_mask"][row].bool()
            ids = output["completion_ids"][row][kept].tolist()
            responses, answers = turns(ids, output["tool_mask"][row][kept].tolist())
            assert len(responses) == TURNS
            assert len(answers) == TURNS - 1
            total = 0.0
            for turn, response in enumerate(responses):
                assert 1 <= len(response) <= 4
                action = decode(response[:-1] if response[-1] == 2 else response).strip()
                seen, reward, _, _ = env.step(action)
                total += reward
                if turn < len(answers):
                    assert decode(answers[turn]).split() == seen.text.split()
            assert rewards[row].tolist() == [total, 0.0]


def test_a_group_shares_its_task_and_training_repeats_with_its_seed(trained):
    first, again = trained(), trained()
    for keys, output in first.seen:
        assert len(set(keys[:4])) == len(set(keys[4:])) == 1
        assert len({tuple(ids) for ids in output["prompt_ids"][:4].tolist()}) == 1
        assert len({tuple(ids) for ids in output["completion_ids"][:4].tolist()}) == 4
    weights = [torch.cat([p.flatten() for p in t.model.parameters()]) for t in (first, again)]
    assert torch.equal(*weights)


class Paying(BabyAI):
    """Pays for the length of what it is told, so that episodes of a group differ."""

    def step(self, action):
        return super().step(action)._replace(reward=float(len(action)))


class WithLogps(Recorder):
    """Returns log-probabilities as vLLM does, here the index of the token in its response."""

    def _generate_single_turn(self, *args, **kwargs):
        ids, _ = super()._generate_single_turn(*args, **kwargs)
        return ids, [[-1.0 - i for i in range(len(row))] for row in ids]


def test_rewards_and_the_backends_log_probabilities_arrive(trained):
    outputs = []

    class Kept(Rollout):
        def __call__(self, prompts, trainer):
            outputs.append(super().__call__(prompts, trainer))
            return outputs[-1]

    trainer = trained(WithLogps, Kept(lambda task: Paying(task.env)), max_steps=1)
    (output,) = outputs
    assert trainer.rewards[0][:, 0].tolist() == output["total_reward"]
    assert trainer._logs["advantages"][0] != 0
    for ids, mask, logps in zip(
        output["completion_ids"], output["env_mask"], output["logprobs"], strict=True
    ):
        responses, _ = turns(ids, mask)
        drawn = [-1.0 - i for response in responses for i in range(len(response))]
        assert [x for x, kept in zip(logps, mask, strict=True) if kept] == drawn
        assert not any(x for x, kept in zip(logps, mask, strict=True) if not kept)


def test_an_environment_that_fails_at_once_is_not_trained_on(trained):
    made = iter(range(100))

    class Lost(BabyAI):
        def reset(self, seed):
            raise OSError("no map")

    rollout = Rollout(lambda task: Lost(task.env) if next(made) == 5 else BabyAI(task.env))
    trainer = trained(rollout=rollout, max_steps=1)
    ((_, output),) = trainer.seen
    mask = output["completion_mask"] * output["tool_mask"]
    assert [bool(row.any()) for row in mask] == [index != 5 for index in range(8)]
    assert trainer.rewards[0].isnan().all(1).tolist() == [index == 5 for index in range(8)]
    assert output["advantages"][5] == 0


def test_a_prompt_that_is_no_task_is_refused(trained):
    with pytest.raises(UserError, match=r"must hold EnvTask\(...\).key\(\) .*'go home'"):
        trained(prompts=["go home"] * 8)


@pytest.mark.slow
def test_processes_whose_episodes_differ_in_length_wait_for_each_other(tmp_path):
    worker = Path(__file__).with_name("trl_rollout_worker.py")
    turns = run_worker(worker, tmp_path / "two.json", 2)
    assert set(turns[:6]) == {1}
    assert set(turns[6:]) == {3}
