from itertools import pairwise

import pytest

from icml.core.rl.rollout import EnvTask, History
from icml.empg.experiment.agent import play, train_agent, warm_model, warm_start
from icml.empg.experiment.arms import ARMS
from icml.empg.experiment.babyai import BabyAITraining

SMALL = BabyAITraining(
    max_steps=6, width=16, sft_steps=2, iterations=2, eval_every=1, tasks=2, group_size=2,
    evaluated=4,
)  # fmt: skip


def ignore(*_: object, **__: object) -> None:
    pass


def test_the_prompt_is_task_last_action_and_view():
    env = SMALL.environment(EnvTask(0))
    history = History([env.reset(0)])
    first = SMALL.decode(SMALL.render(history))
    assert first.startswith(f"<bos> {history.observations[0].task} | no action | ")
    history.observations.append(env.step("turn left").observation)
    history.actions.append("turn left")
    assert " | turn left | " in SMALL.decode(SMALL.render(history))
    # A response that could not be parsed was sent as the empty action.
    history.actions[-1] = ""
    assert " | no action | " in SMALL.decode(SMALL.render(history))


def share_ahead(setting: BabyAITraining) -> float:
    answers = [setting.decode(response) for _, response in setting.demonstrations()]
    assert all(answer.endswith(" <eos>") for answer in answers)
    actions = [setting.parse(answer.removesuffix(" <eos>")) for answer in answers]
    return actions.count("go forward") / len(actions)


@pytest.mark.slow
def test_demonstrations_are_the_bots_actions_but_for_the_noise():
    # 700 walks drawn evenly from three: standard error 0.018, four of them.
    assert share_ahead(BabyAITraining(noise=1.0)) == pytest.approx(1 / 3, abs=0.072)
    # The bot goes ahead more often than it turns left and right together.
    assert share_ahead(BabyAITraining(noise=0.0)) > 0.5


def test_prompts_fit_into_the_context():
    pairs = SMALL.demonstrations()
    longest = max(len(prompt) + len(response) for prompt, response in pairs)
    assert longest <= SMALL.context


@pytest.mark.parametrize("text", ["", "turn", "go forward go", "left"])
def test_a_response_that_is_no_action_is_refused(text):
    with pytest.raises(ValueError, match="a response must be one of turn left"):
        SMALL.parse(text)


@pytest.mark.slow
def test_a_run_from_warm_start_to_result(tmp_path):
    warm_start(SMALL, tmp_path, 0, log=ignore)
    runs = []
    for arm in ("grpo", "empg", "empg"):
        rows = []
        result = train_agent(
            SMALL, tmp_path, ARMS[arm], 1e-3, 0, log=lambda step, rows=rows, **row: rows.append(row)
        )
        runs.append((rows, result))
    assert [len(rows) for rows, _ in runs] == [3, 3, 3]
    assert runs[0][0][0] == runs[1][0][0]
    assert runs[1] == runs[2]
    assert all(0 <= row["success"] <= 1 for rows, _ in runs for row in rows)


def test_episodes_of_a_group_begin_alike(tmp_path):
    warm_start(SMALL, tmp_path, 0, log=ignore)
    model = warm_model(SMALL, tmp_path, 0)
    episodes = play(SMALL, model, [EnvTask(3), EnvTask(4)], group_size=3, seed=0)
    firsts = [episode.steps[0].prompt_ids for episode in episodes]
    assert firsts[0] == firsts[1] == firsts[2] != firsts[3]
    assert all(a <= b for a, b in pairwise(episode.group_id for episode in episodes))
