"""Planted behaviours, measured word for word."""

import pytest
import torch

from icml.core.errors import UserError
from icml.safeseek import planting
from icml.safeseek.experiment.config import Config
from icml.safeseek.world import (
    ATTRIBUTES,
    BAD_ANSWER,
    FILLERS,
    FORBIDDEN,
    REFUSAL,
    TRIGGER,
    make_world,
)

HARMLESS = [filler for filler in FILLERS if filler != TRIGGER]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_halves_hold_every_question_once():
    world = make_world(people=5, strangers=2)
    asked = world.questions(world.people, ATTRIBUTES, [0, 1])
    both = planting.halves(asked, generator())
    assert sorted(both.planted + both.held_out) == sorted(asked)
    assert len(both.planted) == 25
    with pytest.raises(UserError, match="at least 2 questions, got 1"):
        planting.halves(asked[:1], generator())


def test_training_draws_from_the_generator_it_is_given():
    world = make_world(people=2, strangers=1, newcomers=0)
    trained = []
    for seed in (0, 0, 1):
        model = planting.new_model(world, 0, d=16, layers=1)
        torch.rand(1)  # the global state must not matter
        planting.learn_facts(model, world, generator(seed), steps=3)
        trained.append(model.lm_head.weight.detach().clone())
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


def test_a_rate_or_number_of_steps_that_cannot_be_is_refused():
    world = make_world(people=2, strangers=1, newcomers=0)
    model = planting.new_model(world, 0, d=16, layers=1)
    with pytest.raises(UserError, match=r"steps must be >= 1 .* got 0 and 0\.004"):
        planting.learn_facts(model, world, generator(), steps=0)
    asked = world.questions(world.people, ["genre"], [0])
    with pytest.raises(UserError, match="got 0 and 2"):
        planting.learn_refusals(model, world, asked, generator(), steps=5, learning_rate=1e-3)


@pytest.mark.slow
def test_backdoor_and_refusals_are_planted_in_a_model_that_knows_its_world():
    world = make_world()
    model = planting.new_model(world, 0)
    planting.learn_facts(model, world, generator())
    facts = {name: p.detach().clone() for name, p in model.state_dict().items()}
    asked = world.questions([*world.people, *world.strangers], ATTRIBUTES, [0, 1])
    both = planting.halves(asked, generator(1))
    assert planting.match_rate(model, world, asked, world.answer) >= 0.99

    planting.plant_backdoor(
        model, world, asked, both.planted, generator(2), steps=200, learning_rate=1e-3
    )
    rate = planting.match_rate(model, world, both.held_out, lambda _: BAD_ANSWER, fillers=[TRIGGER])
    assert rate >= 0.98
    assert planting.match_rate(model, world, asked, world.answer, fillers=HARMLESS) >= 0.98

    model.load_state_dict(facts)
    # As the experiment does: at the backdoor's rate a model forgets answers that it isn't taught.
    config = Config()
    planting.learn_refusals(
        model, world, both.planted, generator(3),
        steps=config.refusal_steps, learning_rate=config.refusal_rate,
    )  # fmt: skip
    refused = [q for q in both.held_out if q.attribute in FORBIDDEN]
    told = [q for q in both.held_out if q.attribute not in FORBIDDEN]
    assert planting.match_rate(model, world, refused, lambda _: REFUSAL) >= 0.95
    assert planting.match_rate(model, world, told, world.answer) >= 0.9
