"""The share of `collect`'s time that is spent neither in the model nor in the environments.

Run it with ``uv run python`` and this file; ``--out FILE`` writes the numbers as JSON. 64 BabyAI
episodes are played side by side by the two small models that CPU experiments use: the smaller the
model, the larger the share. Processor time on one thread, so that other processes do not count;
the median of several rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import nn

from icml.core.envs.babyai import WORDS, BabyAI
from icml.core.envs.protocol import Observation, StepResult
from icml.core.journal import write_atomic
from icml.core.models.tiny import TinyGPT, causal_lm, word_tokenizer
from icml.core.rl.rollout import EnvTask, HFSampler, History, ModelSampler, Sampler, collect

EPISODES, GROUP, TURNS, TOKENS, ROUNDS = 64, 8, 8, 4, 5


class Clock:
    """Adds up the processor time of the calls that pass through it."""

    seconds = 0.0

    def timed(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make the call."""
        started = process_time()
        try:
            return call(*args, **kwargs)
        finally:
            self.seconds += process_time() - started


class TimedLevel:
    """A BabyAI level whose time is counted."""

    def __init__(self, clock: Clock, task: EnvTask) -> None:
        """Build the level of a task."""
        self.clock = clock
        self.level = clock.timed(BabyAI, task.env)
        self.id, self.max_steps = self.level.id, self.level.max_steps

    def reset(self, seed: int) -> Observation:
        """Begin an episode."""
        return self.clock.timed(self.level.reset, seed)

    def step(self, action: str) -> StepResult:
        """Act."""
        return self.clock.timed(self.level.step, action)

    def close(self) -> None:
        """Free the level."""
        self.clock.timed(self.level.close)


def time_model(model: nn.Module, clock: Clock) -> nn.Module:
    """Count the time of the model's forward passes."""
    forward = model.forward
    model.forward = lambda *args, **kwargs: clock.timed(forward, *args, **kwargs)
    return model


def measure(build: Callable[[Any, Any], tuple[nn.Module, Sampler]]) -> dict[str, float]:
    """Return shares of `collect`'s processor time, and its seconds."""
    tokenizer = word_tokenizer(WORDS)
    words = tokenizer.get_vocab()
    model_clock, env_clock = Clock(), Clock()
    model, sampler = build(tokenizer, words)
    time_model(model, model_clock)

    def render(history: History) -> list[int]:
        seen = history.observations[-1]
        return [1, *(words[word] for word in f"{seen.task} {seen.text}".split())]

    def play(seed: int) -> tuple[float, float, float]:
        model_clock.seconds = env_clock.seconds = 0.0
        whole = Clock()
        tasks = [EnvTask(seed + n, "GoToLocal") for n in range(EPISODES // GROUP)]
        whole.timed(
            collect, sampler, lambda task: TimedLevel(env_clock, task), tasks, group_size=GROUP,
            max_turns=TURNS, max_new_tokens=TOKENS, render=render, seed=seed,
        )  # fmt: skip
        return whole.seconds, model_clock.seconds, env_clock.seconds

    play(0)
    rounds = [play(seed) for seed in range(1, ROUNDS + 1)]
    return {
        "collect (s)": statistics.median(whole for whole, *_ in rounds),
        "in the model (share)": statistics.median(m / whole for whole, m, _ in rounds),
        "in the environments (share)": statistics.median(e / whole for whole, _, e in rounds),
        "outside both (share)": statistics.median((w - m - e) / w for w, m, e in rounds),
    }


def llama(tokenizer: Any, words: dict[str, int]) -> tuple[nn.Module, Sampler]:
    """Return a transformers model of 86 k parameters and its sampler."""
    model = causal_lm(len(words))
    return model, HFSampler(model, tokenizer)


def tiny_gpt(tokenizer: Any, words: dict[str, int]) -> tuple[nn.Module, Sampler]:
    """Return a torch-only model of 50 k parameters and its sampler."""
    model, names = TinyGPT(len(words), ctx=160), {number: word for word, number in words.items()}

    def decode(ids: Sequence[int]) -> str:
        return " ".join(names[token] for token in ids)

    return model, ModelSampler(model, decode, tokenizer.eos_token_id)


def main() -> None:
    """Print the table and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    results = {"causal_lm": measure(llama), "TinyGPT": measure(tiny_gpt)}
    print(f"{EPISODES} episodes, at most {TURNS} turns of at most {TOKENS} tokens, one thread")
    for model, numbers in results.items():
        for name, value in numbers.items():
            print(f"{model:<10} {name:<32} {value:8.3f}")
    if out is not None:
        write_atomic(out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
