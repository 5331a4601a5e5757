"""Real BabyAI levels of minigrid in text."""

import functools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

from icml.core.envs.babyai import ACTIONS, WORDS, BabyAI, describe
from icml.core.envs.protocol import EnvStateError
from icml.core.errors import UserError
from icml.core.testing.text_env import check_text_env

# The bot is documented to solve these; the limits are minigrid's own for one or two rooms.
SOLVED = ["GoToLocal", "GoToLocalS6N3", "PickupLoc", "PutNextLocal", "UnlockPickup", "OpenDoor"]


@pytest.mark.parametrize("level", ["GoToLocal", "BossLevel"])
def test_a_level_keeps_the_rules_of_text_environments(level):
    check_text_env(functools.partial(BabyAI, level, max_steps=20), seeds=(0, 7))


def play(level: str, seed: int, **options):
    env = BabyAI(level, **options)
    seen = [env.reset(seed)]
    for action in env.expert_actions():
        result = env.step(action)
        seen.append(result.observation)
    return seen, result


@pytest.mark.parametrize("level", SOLVED)
def test_the_expert_solves_the_level_and_is_paid_by_its_speed(level):
    for seed in range(5):
        seen, result = play(level, seed, max_steps=100)
        steps = len(seen) - 1
        assert result.done
        assert result.info == {"success": True, "truncated": False, "steps": steps}
        # 1 - 0.9 steps / limit, as minigrid documents it
        assert result.reward == pytest.approx(1 - 0.9 * steps / 100)


def test_the_expert_goes_on_from_where_the_agent_stands():
    env = BabyAI("GoToLocal")
    env.reset(3)
    for action in ("turn left", "hop", "turn left", "go forward"):
        env.step(action)
    for action in env.expert_actions():
        result = env.step(action)
    assert result.info["success"]


def test_an_expert_that_is_lost_says_so():
    env = BabyAI("PutNextS5N2Carrying")  # minigrid documents that its bot fails here
    env.reset(0)
    with pytest.raises(RuntimeError, match="BabyAIBot finds no way in babyai/PutNextS5N2Carrying"):
        env.expert_actions()


def test_invalid_actions_count_as_steps_for_limit_and_reward():
    env = BabyAI("GoToLocal", max_steps=10)
    env.reset(0)
    before = env.step("")
    assert before.observation.text.startswith("that is no action\n")
    expert = env.expert_actions()
    for action in expert:
        result = env.step(action)
    assert result.reward == pytest.approx(1 - 0.9 * (1 + len(expert)) / 10)


def test_every_word_is_in_the_vocabulary():
    assert len(WORDS) == len(set(WORDS))
    spoken = set(" ".join(ACTIONS).split())
    for level in ["GoTo", "Open", "PutNext", "MiniBossLevel", "BossLevel", "Synth", "PickupLoc"]:
        level = "PutNextLocal" if level == "PutNext" else level
        for seed in range(8):
            env = BabyAI(level, max_steps=6)
            seen = [env.reset(seed), env.step("hop").observation]
            seen += [env.step(action).observation for action in ("toggle", "go forward")]
            spoken |= {word for o in seen for word in f"{o.task} {o.text}".split()}
    assert spoken <= set(WORDS)


def view(*cells):
    """Empty view but for (column, row, kind, colour, state)."""
    image = np.zeros((7, 7, 3), dtype=np.uint8)
    image[:, :, 0] = OBJECT_TO_IDX["empty"]
    for column, row, kind, colour, state in cells:
        image[column, row] = OBJECT_TO_IDX[kind], COLOR_TO_IDX[colour], STATE_TO_IDX[state]
    return image


def test_a_view_is_told_nearest_first():
    image = view(
        (3, 0, "wall", "grey", "open"),
        (3, 2, "wall", "grey", "open"),
        (0, 3, "wall", "grey", "open"),
        (1, 4, "door", "blue", "locked"),
        (3, 5, "ball", "red", "open"),
        (4, 6, "key", "green", "open"),
        (3, 6, "box", "purple", "open"),
    )
    carried = SimpleNamespace(color="purple", type="box")
    assert describe(image, carried) == [
        "a red ball 1 step ahead",
        "a green key 1 step right",
        "a locked blue door 2 steps ahead 2 steps left",
        "wall 4 steps ahead",
        "you carry a purple box",
    ]


def test_an_empty_view_is_told():
    assert describe(view(), None) == ["you carry nothing"]


def test_minigrids_prints_are_silenced(capfd):
    for seed in range(40):
        BabyAI("PutNextLocal").reset(seed)
    assert capfd.readouterr() == ("", "")


def test_an_unknown_level_names_its_neighbours():
    with pytest.raises(UserError, match=r"no BabyAI level 'GotoLocal'; the nearest.*GoToLocal"):
        BabyAI("GotoLocal")


def test_no_steps_are_refused():
    with pytest.raises(UserError, match="max_steps must be at least 1, got 0"):
        BabyAI("GoToLocal", max_steps=0)


def test_a_closed_level_is_not_reset_again():
    env = BabyAI("GoToLocal")
    env.close()
    with pytest.raises(EnvStateError, match="closed"):
        env.reset(0)


def test_importing_the_protocol_loads_neither_torch_nor_minigrid():
    code = (
        "import icml.core.envs.protocol, icml.core.envs.babyai, sys; "
        "print({'torch', 'minigrid', 'gymnasium', 'transformers'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
