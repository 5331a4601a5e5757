"""Episodes collected side by side."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from icml.core.envs.babyai import WORDS, BabyAI
from icml.core.envs.protocol import EnvStateError, Observation, StepResult
from icml.core.models.tiny import TinyGPT, causal_lm, word_tokenizer
from icml.core.rl.rollout import (
    EnvTask,
    HFSampler,
    History,
    ModelSampler,
    RolloutError,
    Sample,
    collect,
)

EOS, UP, DOWN = 2, 4, 5
SAID = {UP: "up", DOWN: "down"}


class Walk:
    """Walk from a height that the seed gives to 3 or -3; pays for each step up."""

    id, max_steps = "walk", 8

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log
        self.running = False

    def reset(self, seed: int) -> Observation:
        self.height, self.steps, self.running = seed % 3 - 1, 0, True
        self.log.append(f"reset {seed}")
        return Observation(str(self.height))

    def step(self, action: str) -> StepResult:
        if not self.running:
            raise EnvStateError("call reset")
        self.steps += 1
        self.height += {"up": 1, "down": -1}.get(action, 0)
        info: dict[str, Any] = {"success": self.height == 3, "steps": self.steps}
        if action not in ("up", "down"):
            info["invalid_action"] = True
        over = abs(self.height) == 3
        info["truncated"] = not over and self.steps == self.max_steps
        self.running = not (over or info["truncated"])
        return StepResult(
            Observation(str(self.height)), float(action == "up"), not self.running, info
        )

    def close(self) -> None:
        self.log.append("close")


def render(history: History) -> list[int]:
    """Heights -3 to 3 are tokens 6 to 12; the whole history is shown."""
    heights = [9 + int(seen.text) for seen in history.observations]
    ids = [1, heights[0]]
    for response, height in zip(history.responses, heights[1:], strict=True):
        ids += [*response, height]
    return ids


def decode(ids) -> str:
    return " ".join(SAID.get(token, "?") for token in ids)


def first_word(text: str) -> str:
    if not text:
        raise ValueError("the response is empty")
    return text.split()[0]


def sampler(**options) -> ModelSampler:
    model = TinyGPT(vocab=13, d=16, layers=1, heads=2, ctx=64)
    return ModelSampler(model, decode, EOS, **options)


def play(env_factory=lambda task: Walk(), *, sampled=None, **options):
    settings = {"group_size": 4, "max_turns": 6, "max_new_tokens": 3, "seed": 5, **options}
    tasks = settings.pop("tasks", [EnvTask(seed) for seed in (0, 1, 2)])
    return collect(
        sampled or sampler(), env_factory, tasks, render=render, parse=first_word, **settings
    )


def told(trajectories, *, numbers=True):
    """Everything but tensors, which are compared apart."""
    return [
        (
            (t.task_id, t.group_id, t.total_reward, t.done, t.truncated, t.success, t.error),
            [(s.prompt_ids, s.response_ids, s.action, s.reward, dict(s.info)) for s in t.steps],
        )
        for t in trajectories
    ]


def logps(trajectories):
    return torch.cat([torch.cat([s.logps, s.entropies]) for t in trajectories for s in t.steps])


def test_equal_seeds_give_equal_episodes_and_other_seeds_do_not():
    state = torch.get_rng_state()
    first, again, other = play(), play(), play(seed=6)
    assert told(first) == told(again)
    assert torch.equal(logps(first), logps(again))
    assert told(first) != told(other)
    assert torch.equal(torch.get_rng_state(), state)


def test_rows_asked_at_once_do_not_matter():
    whole, cut = play(), play(sampled=sampler(rows_at_once=5))
    assert told(whole) == told(cut)
    # float32 forward passes of other batch sizes
    assert_close(logps(whole), logps(cut), rtol=1e-5, atol=1e-5)


def test_a_group_has_one_task_and_one_environment_seed():
    asked, logs = [], []

    def factory(task):
        asked.append(task)
        logs.append([])
        return Walk(logs[-1])

    trajectories = play(factory)
    assert asked == [EnvTask(seed) for seed in (0, 1, 2) for _ in range(4)]
    assert [log[0] for log in logs] == [f"reset {seed}" for seed in (0, 1, 2) for _ in range(4)]
    assert [t.group_id for t in trajectories] == [0] * 4 + [1] * 4 + [2] * 4
    for t in trajectories:
        assert t.steps[0].prompt_ids == [1, 9 + t.task_id % 3 - 1]
    assert len({str(told([t])) for t in trajectories[:4]}) > 1  # one task, draws of their own


def test_each_environment_is_closed_once():
    logs = [[] for _ in range(12)]
    left = iter(logs)
    play(lambda task: Walk(next(left)))
    assert all(log.count("close") == 1 for log in logs)


def test_environments_are_closed_when_rendering_fails():
    logs = [[] for _ in range(12)]
    left = iter(logs)
    with pytest.raises(KeyError):
        collect(
            sampler(), lambda task: Walk(next(left)), [EnvTask(0)] * 12, group_size=1, max_turns=1,
            max_new_tokens=1, render=lambda history: {}[""], seed=0,
        )  # fmt: skip
    assert all(log.count("close") == 1 for log in logs)


def test_steps_are_those_of_a_walk_played_alone():
    for t in play():
        env = Walk()
        heights = [env.reset(t.task_id).text]
        for step in t.steps:
            ids = step.response_ids
            words = decode(ids[:-1] if ids[-1] == EOS else ids)
            assert step.action == (words.split()[0] if words else "")
            observation, reward, done, _ = env.step(step.action)
            assert step.reward == reward
            heights.append(observation.text)
        assert [seen.text for seen in t.observations] == heights
        assert t.total_reward == sum(step.reward for step in t.steps)
        assert t.done == done
        assert t.success == (heights[-1] == "3")
        assert t.truncated == (not done)


def test_recorded_numbers_are_the_policys():
    for temperature in (1.0, 0.7):
        drawn = sampler(temperature=temperature, top_p=0.9)
        for t in play(sampled=drawn)[:3]:
            for step in t.steps:
                ids = torch.tensor([step.prompt_ids + step.response_ids])
                logits = drawn.model(ids).logits[0, len(step.prompt_ids) - 1 : -1].detach()
                logp = (logits / temperature).log_softmax(-1)
                entropy = -(logp.exp() * logp).sum(-1)
                chosen = logp.gather(1, torch.tensor(step.response_ids)[:, None])[:, 0]
                # float32 with and without a key-value cache
                assert_close(step.logps, chosen, rtol=1e-5, atol=1e-5)
                assert_close(step.entropies, entropy, rtol=1e-5, atol=1e-5)
                assert step.step_entropy == pytest.approx(float(entropy.mean()), abs=1e-5)


def test_an_end_token_is_drawn_and_kept_and_nothing_follows_it():
    responses = [step.response_ids for t in play(max_new_tokens=6) for step in t.steps]
    assert any(ids[-1] == EOS for ids in responses)
    assert not any(EOS in ids[:-1] for ids in responses)
    assert all(ids[-1] == EOS or len(ids) == 6 for ids in responses)


def test_a_response_that_cannot_be_parsed_is_the_empty_action():
    unparsed = [s for t in play(max_new_tokens=1) for s in t.steps if s.response_ids == [EOS]]
    assert unparsed
    for step in unparsed:
        assert step.action == ""
        assert step.info["parse_error"] == "the response is empty"
        assert step.info["invalid_action"]
        assert step.reward == 0


def test_the_longest_episode_is_cut_and_called_truncated():
    cut = play(max_turns=2)
    assert all(len(t.steps) <= 2 for t in cut)
    assert {t.truncated for t in cut} == {not t.done or t.truncated for t in cut}
    assert any(t.truncated and not t.done for t in cut)


def test_an_environments_own_limit_is_called_truncated_too():
    class Short(Walk):
        max_steps = 1

    for t in play(lambda task: Short(), tasks=[EnvTask(1)]):
        assert (t.done, t.truncated, len(t.steps)) == (True, True, 1)


class Fragile(Walk):
    """Raises at the second step, in place of answering."""

    def step(self, action: str) -> StepResult:
        if self.steps == 1:
            raise OSError("the server is gone")
        return super().step(action)


def some_fragile(broken, kind=Fragile):
    count = iter(range(100))
    return lambda task: kind() if next(count) in broken else Walk()


def test_an_environment_that_raises_ends_its_own_episode_only():
    whole, hurt = play(), play(some_fragile({1, 6}))
    for index, (before, after) in enumerate(zip(whole, hurt, strict=True)):
        if index not in (1, 6):
            assert told([after]) == told([before])
            continue
        assert "the server is gone" in after.error
        assert not after.done
        assert not after.truncated
        assert len(after.steps) == 2
        assert told([after])[0][1][0] == told([before])[0][1][0]
        last = after.steps[-1]
        assert last.reward == 0
        assert "the server is gone" in last.info["error"]


def test_an_environment_that_raises_when_closed_keeps_its_episode_as_played():
    class Stuck(Walk):
        def close(self) -> None:
            raise OSError("the port is busy")

    whole, stuck = play(), play(lambda task: Stuck())
    assert any(t.truncated for t in whole)
    assert all("the port is busy" in t.error for t in stuck)
    assert told([replace(t, error=None) for t in stuck]) == told(whole)


def test_a_reset_or_a_factory_that_raises_leaves_an_episode_without_steps():
    class Stillborn(Walk):
        def reset(self, seed: int) -> Observation:
            raise OSError("no map")

    (lost,) = [t for t in play(some_fragile({4}, Stillborn)) if t.error]
    assert (lost.steps, lost.total_reward, lost.task_id) == ([], 0, 1)


def test_a_reward_that_is_no_number_is_an_error_of_the_environment():
    class Vague(Walk):
        def step(self, action: str) -> StepResult:
            return super().step(action)._replace(reward=math.nan)

    (bad,) = [t for t in play(some_fragile({4}, Vague)) if t.error]
    assert "reward is nan" in bad.error
    assert bad.total_reward == 0


def test_more_than_a_fifth_raising_stops_with_the_first_error():
    tasks = [EnvTask(seed) for seed in range(5)]
    fine = play(some_fragile({2, 4}), tasks=tasks, group_size=2)
    assert sum(t.error is not None for t in fine) == 2
    with pytest.raises(RolloutError, match=r"3 of 10 .*EnvTask\(seed=1.*server is gone") as caught:
        play(some_fragile({2, 4, 6}), tasks=tasks, group_size=2)
    assert isinstance(caught.value.__cause__, OSError)


def test_an_interrupt_is_no_error_of_the_environment():
    class Stopped(Walk):
        def step(self, action: str) -> StepResult:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(lambda task: Stopped())


class Mute:
    """A sampler that returns nothing."""

    def sample(self, prompts, *, max_new_tokens, generators):
        return [Sample([], torch.zeros(0), torch.zeros(0), "") for _ in prompts]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": []}, "got 0 tasks"),
        ({"group_size": 0}, "group_size=0"),
        ({"max_turns": 0}, "max_turns=0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"sampled": Mute()}, "at least one token a response"),
    ],
)
def test_input_that_makes_no_episodes_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        play(**options)


def test_a_task_survives_its_key():
    task = EnvTask(seed=7, env="babyai/GoToLocal")
    assert EnvTask.from_key(task.key()) == task


def babyai_prompt(tokenizer, history: History) -> list[int]:
    seen = history.observations[-1]
    return tokenizer(f"<bos> {seen.task} {seen.text}")["input_ids"]


@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_a_transformers_model_plays_babyai_as_without_cache_and_padding(top_p):
    tokenizer = word_tokenizer(WORDS)
    model = causal_lm(len(tokenizer), d=16, layers=2, heads=2)
    trajectories = collect(
        HFSampler(model, tokenizer, temperature=0.8, top_p=top_p),
        lambda task: BabyAI(task.env),
        [EnvTask(0, "GoToLocal"), EnvTask(1, "PutNextLocal")],
        group_size=2, max_turns=3, max_new_tokens=4, seed=0,
        render=partial(babyai_prompt, tokenizer),
    )  # fmt: skip
    steps = [step for t in trajectories for step in t.steps]
    assert len({len(step.prompt_ids) for step in steps}) > 1
    for step in steps:
        ids = torch.tensor([step.prompt_ids + step.response_ids])
        logits = model(ids).logits[0, len(step.prompt_ids) - 1 : -1].detach() / 0.8
        logp = logits.log_softmax(-1)
        chosen = logp.gather(1, ids[0, len(step.prompt_ids) :, None])[:, 0]
        # float32 with and without cache and padding
        assert_close(step.logps, chosen, rtol=1e-4, atol=1e-4)
        assert_close(step.entropies, -(logp.exp() * logp).sum(-1), rtol=1e-4, atol=1e-4)
        ids = step.response_ids
        text = tokenizer.decode(ids[:-1] if ids[-1] == EOS else ids)
        assert step.action == text.strip()


def test_top_p_draws_among_the_likeliest_tokens_alone():
    tokenizer = word_tokenizer(WORDS)
    model = causal_lm(len(tokenizer), d=16, layers=1, heads=2)
    generators = [torch.Generator().manual_seed(seed) for seed in range(300)]
    drawn = HFSampler(model, tokenizer, top_p=0.3).sample(
        [[1, 5, 9]] * 300, max_new_tokens=1, generators=generators
    )
    p = model(torch.tensor([[1, 5, 9]])).logits[0, -1].softmax(-1).detach()
    best = p.argsort(descending=True)
    nucleus = best[: int((p[best].cumsum(0) < 0.3).sum()) + 1]
    assert {sample.ids[0] for sample in drawn} <= set(nucleus.tolist())
    assert len({sample.ids[0] for sample in drawn}) > 1
