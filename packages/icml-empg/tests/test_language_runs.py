from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from icml.core.errors import UserError
from icml.core.models.tiny import CausalOutput
from icml.core.rl.groups import group_advantage
from icml.core.rl.rollout import EnvTask, History, to_step_batch
from icml.empg.experiment.agent import (
    grpo_steps,
    play,
    train_agent,
    warm_model,
    warm_start,
)
from icml.empg.experiment.arms import ARMS
from icml.empg.experiment.language import LanguageTraining
from icml.empg.keydoor import ACTIONS, KeyDoor

WORDS = LanguageTraining.vocabulary

SMALL = LanguageTraining(
    width=16, sft_steps=3, iterations=3, eval_every=2, tasks=2, group_size=4, evaluated=8
)


def ignore(*_: object, **__: object) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints")
    for seed in (0, 1):
        warm_start(SMALL, path, seed, log=ignore)
    return path


def run(folder: Path, arm: str = "empg", seed: int = 0):
    rows = []
    result = train_agent(
        SMALL, folder, ARMS[arm], 1e-3, seed, log=lambda step, **row: rows.append((step, row))
    )
    return result, rows


def test_the_vocabulary_holds_every_word_once_and_prompts_are_the_observation():
    assert len(set(WORDS)) == len(WORDS)
    history = History([KeyDoor().reset(0)])
    assert SMALL.decode(SMALL.render(history)) == f"<bos> {history.observations[0].text} |"


@pytest.mark.parametrize("action", ACTIONS)
def test_the_action_is_the_last_word(action):
    assert SMALL.parse(f"so-left {action}") == action


@pytest.mark.parametrize("text", ["", "left so-left", "hands-empty"])
def test_a_response_without_an_action_is_refused(text):
    with pytest.raises(ValueError, match="the last word must be one of left, right, take, open"):
        SMALL.parse(text)


def test_demonstrations_think_first_and_end_with_an_action():
    setting = LanguageTraining(thoughts=3)
    for prompt, response in setting.demonstrations()[:50]:
        assert len(prompt) == 7
        words = setting.decode(response).split()
        assert len(words) == 4
        assert [word.partition("-")[0] for word in words[:3]] == ["musing", "musing", "so"]
        assert setting.parse(setting.decode(response)) == words[3]


def test_a_warm_start_is_decided_by_its_seed(folder, tmp_path):
    warm_start(SMALL, tmp_path, 0, log=ignore)
    first = load_file(folder / "warm-start-seed=0" / "model.safetensors")
    again = load_file(tmp_path / "warm-start-seed=0" / "model.safetensors")
    other = load_file(folder / "warm-start-seed=1" / "model.safetensors")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_a_warm_start_that_is_gone_is_named(folder):
    with pytest.raises(UserError, match="the warm start of seed 7 is gone from"):
        warm_model(SMALL, folder, 7)


def test_every_turn_has_the_advantage_of_its_episode(folder):
    tasks = [EnvTask(3), EnvTask(4)]
    episodes = play(SMALL, warm_model(SMALL, folder, 0), tasks, group_size=4, seed=0)
    batch = to_step_batch(episodes)
    expected = group_advantage(batch.returns, torch.tensor([0] * 4 + [1] * 4))
    for turn, episode in enumerate(batch.traj.tolist()):
        assert grpo_steps(batch)[turn] == expected[episode]


def test_all_arms_start_from_the_same_model(folder):
    starts = [run(folder, arm)[1][0] for arm in ("grpo", "empg")]
    assert starts[0] == starts[1]


def test_auc_is_the_mean_of_the_evaluations(folder):
    result, rows = run(folder)
    assert [step for step, _ in rows] == [0, 2, 3]
    assert result["AUC"] == pytest.approx(sum(row["success"] for _, row in rows) / 3)
    assert result["last success"] == rows[-1][1]["success"]


def test_equal_seeds_give_equal_runs(folder):
    assert run(folder) == run(folder)


class Opens(torch.nn.Module):
    """Thinks of opening and opens, always."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.full((len(WORDS), len(WORDS)), -1e4))
        plan, action = SMALL.encode(["so-open", "open"])
        with torch.no_grad():
            self.table[:, plan] = 0.0
            self.table[plan, plan], self.table[plan, action] = -1e4, 0.0

    def forward(self, ids: torch.Tensor) -> CausalOutput:
        return CausalOutput(self.table[ids])


def test_what_the_model_writes_is_what_the_environment_is_told():
    episodes = play(LanguageTraining(), Opens(), [EnvTask(0)], group_size=2, seed=0)
    assert [len(episode.steps) for episode in episodes] == [14, 14]
    assert all(step.action == "open" for episode in episodes for step in episode.steps)
    assert not any(episode.success for episode in episodes)
