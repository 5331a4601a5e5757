"""The clean model that both halves of the experiment start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from icml.core.journal import replace_folder, whole_folder
from icml.safeseek.experiment.config import Config
from icml.safeseek.planting import learn_facts, match_rate, new_model
from icml.safeseek.world import ATTRIBUTES, World, make_world

__all__ = ["clean_model", "generator", "learn"]


def generator(seed: int, part: int) -> torch.Generator:
    """Return the random numbers of one part of a seed."""
    return torch.Generator().manual_seed(10 * seed + part)


def learn(seed: int, folder: str, *, config: Config, log: Any) -> float:
    """Train a clean model, keep it in a folder, and return its share of right answers.

    A worker process calls it.
    """
    world, model = clean_model(config, seed, Path(folder))
    asked = world.questions([*world.people, *world.strangers], ATTRIBUTES, (0, 1))
    right = match_rate(model, world, asked, world.answer)
    log(config.fact_steps, arm="clean", seed=seed, right=right)
    return right


def clean_model(config: Config, seed: int, folder: Path) -> tuple[World, Any]:
    """Return a seed's world and the model that has learnt it, trained unless the folder has it."""
    from safetensors.torch import load_model, save_model

    count = config.people
    world = make_world(people=count, strangers=count, newcomers=count, seed=seed)
    model = new_model(world, seed)
    if whole_folder(folder) is not None:
        load_model(model, folder / "model.safetensors")
        return world, model
    learn_facts(model, world, generator(seed, 0), steps=config.fact_steps)
    with replace_folder(folder) as draft:
        save_model(model, str(draft / "model.safetensors"))
    return world, model
