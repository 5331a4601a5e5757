"""BabyAI under fixed rules: the expert's episodes counted again, and a clone that acts under them.

Run from anywhere; an interrupted run continues::

    python packages/icml-agent-omit/benchmarks/babyai.py [--out runs/agent-omit-babyai]

The outcome goes to babyai.json beside this file. NOTES.md has what was fixed beforehand.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from icml.agent_omit.format import INSTRUCTIONS, observation_message, placeholder, write_turn
from icml.agent_omit.ledger import TurnSizes
from icml.agent_omit.messages import FRAME, LoggedEpisode
from icml.agent_omit.replay import Replay, Sums, count_words
from icml.agent_omit.rules import (
    Both,
    KeepLast,
    NoThought,
    OmissionRule,
    Random,
    omissions,
)
from icml.core.envs.babyai import BabyAI
from icml.core.experiment import Run
from icml.core.stats import t_interval

MIDDLE = NoThought(middle=True)
REPLAYED: tuple[OmissionRule, ...] = (MIDDLE, KeepLast(2), Both(MIDDLE, KeepLast(2)))
ACTED: tuple[OmissionRule | None, ...] = (
    None,
    NoThought(),
    KeepLast(2),
    KeepLast(1),
    Both(NoThought(), KeepLast(1)),
)
FULL = "nothing left out"


@dataclass(frozen=True)
class Config:
    """Sizes of both parts."""

    levels: tuple[str, ...] = ("GoToLocal", "PutNextLocal", "UnlockPickup", "BossLevel")
    replayed: int = 25
    """Seeds a level; those that the bot doesn't solve in 64 steps are left out and counted."""
    clone_level: str = "GoToLocalS5N2"
    seeds: tuple[int, ...] = (0, 1, 2)
    demonstrations: int = 1500
    drop: float = 0.25
    """Share of thoughts and of earlier observations that demonstrations lack."""
    steps: int = 600
    batch: int = 16
    learning_rate: float = 2e-3
    evaluated: int = 96
    max_turns: int = 16
    temperature: float = 0.3


def expert_sizes(level: str, seed: int) -> LoggedEpisode | None:
    """Return the sizes of the bot's episode with scripted thoughts, None if it isn't solved."""
    from icml.agent_omit.babyai import expert_thought

    env = BabyAI(level)
    seen = env.reset(seed)
    task = seen.task or ""
    turns, info = [], {}
    try:
        actions = env.expert_actions()
    except RuntimeError:
        return None
    for number, action in enumerate(actions, 1):
        thought = count_words(expert_thought(task, seen.text, action))
        turns.append(
            TurnSizes(
                observation=count_words(observation_message(number, seen.text)) + FRAME,
                thought=thought,
                action=count_words(write_turn("", action=action)) + FRAME,
                placeholder=count_words(placeholder(number)) + FRAME,
            )
        )
        seen, _, _, info = env.step(action)
    if not info.get("success"):
        return None
    return LoggedEpisode(count_words(INSTRUCTIONS) + count_words(task) + 2 * FRAME, tuple(turns))


def replay_level(level: str, config: Config) -> dict[str, Any]:
    """Count the expert's episodes of a level under each rule."""
    found = Replay({name: Sums() for name in (FULL, *(rule.name for rule in REPLAYED))})
    for seed in range(config.replayed):
        episode = expert_sizes(level, seed)
        if episode is not None:
            found.add(episode, REPLAYED)
    full = found.sums[FULL]
    split = {name: count / full.total for name, count in full.split.items()}
    return {
        "level": level,
        "solved": found.episodes,
        "turns": sum(found.lengths) / found.episodes,
        "tokens": full.total / found.episodes,
        **{rule.name: 1 - found.saved(rule.name) for rule in REPLAYED},
        "observations": split["observation"],
        "thoughts": split["thought"],
    }


def train_clone(seed: int, config: Config) -> dict[str, Any]:
    """Clone the expert on an easy level and let the clone act under each rule."""
    import torch
    from transformers import set_seed
    from trl import SFTConfig

    from icml.agent_omit.agents import plain_transcript
    from icml.agent_omit.babyai import babyai_words, expert_thought
    from icml.agent_omit.experts import expert_episode
    from icml.agent_omit.sft import segment_rows, sft_trainer
    from icml.core.models.tiny import causal_lm

    torch.set_num_threads(1)
    set_seed(seed)
    tokenizer = babyai_words(config.max_turns).tokenizer()
    transcript = plain_transcript(tokenizer)
    env = BabyAI(config.clone_level, max_steps=config.max_turns)
    rule = Random(config.drop, seed)
    first = 100_000 * (seed + 1)
    episodes = [
        expert_episode(
            env,
            number,
            expert_thought,
            transcript=transcript,
            plan=lambda turns, number=number: omissions(rule, turns, episode=number),
        )
        for number in range(first, first + config.demonstrations)
    ]
    rows = segment_rows(episode for episode in episodes if episode.success)
    model = causal_lm(len(tokenizer), d=64, ctx=1024, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        trainer = sft_trainer(
            model,
            tokenizer,
            rows,
            SFTConfig(
                folder,
                max_steps=config.steps,
                per_device_train_batch_size=config.batch,
                learning_rate=config.learning_rate,
                lr_scheduler_type="cosine",
                warmup_steps=20,
                max_length=None,
                logging_steps=100,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                disable_tqdm=True,
                activation_checkpointing=False,
                seed=seed,
            ),
        )
        trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    model.eval()
    acted = {name: act(model, tokenizer, transcript, rule, config) for name, rule in _named()}
    return {"rows": len(rows), "losses": losses, "rules": acted}


def _named() -> list[tuple[str, OmissionRule | None]]:
    return [(FULL if rule is None else rule.name, rule) for rule in ACTED]


def act(
    model: Any, tokenizer: Any, transcript: Any, rule: OmissionRule | None, config: Config
) -> dict[str, float]:
    """Return success and tokens of held-out episodes under a rule."""
    from icml.agent_omit.agents import Agent, play, tokens_of
    from icml.core.rl.rollout import EnvTask, HFSampler

    sampler = HFSampler(model, tokenizer, temperature=config.temperature)
    agent = Agent(sampler, transcript, config.max_turns, max_new_tokens=48)
    episodes = play(
        agent,
        lambda task: BabyAI(config.clone_level, max_steps=config.max_turns),
        [EnvTask(seed) for seed in range(10**6, 10**6 + config.evaluated)],
        rule=rule,
        seed=0,
    )
    won = [episode for episode in episodes if episode.success]
    return {
        "success": len(won) / len(episodes),
        "tokens of a success": sum(map(tokens_of, won)) / max(len(won), 1),
        "turns": sum(len(episode.steps) for episode in episodes) / len(episodes),
    }


def summarise(clones: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row a rule: means over seeds, with t intervals of success and of its change."""
    rows = []
    for name, _ in _named():
        runs = [clone["rules"][name] for clone in clones]
        full = [clone["rules"][FULL] for clone in clones]
        success = t_interval([run["success"] for run in runs])
        change = t_interval([a["success"] - b["success"] for a, b in zip(runs, full, strict=True)])
        rows.append(
            {
                "rule": name,
                "success": success,
                "change": change,
                "tokens": sum(run["tokens of a success"] for run in runs) / len(runs),
                "turns": sum(run["turns"] for run in runs) / len(runs),
            }
        )
    return rows


def main() -> None:
    """Run both parts and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/agent-omit-babyai"))
    parser.add_argument("--seed", type=int, help="train one clone and stop: the parts of a run")
    given, config = parser.parse_args(), Config()
    out = given.out
    with Run.open("agent-omit", config, size="babyai", out=out) as run:
        replayed = [
            run.cell(f"replay {level}", lambda level=level: replay_level(level, config))
            for level in config.levels
        ]
        clones = [
            run.cell(f"clone {seed}", lambda seed=seed: train_clone(seed, config))
            for seed in config.seeds
            if given.seed in (None, seed)
        ]
        if given.seed is not None:
            return
        run.finish()
    outcome = {
        "config": asdict(config),
        "replay": replayed,
        "clones": clones,
        "acted": summarise(clones),
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(outcome, indent=1) + "\n")
    for row in (*replayed, *outcome["acted"]):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
