import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.agent_omit.episode import Episode, TurnCost, full_steps, read_episode
from icml.agent_omit.format import write_turn
from icml.agent_omit.reward import OmissionReward, mean_thought
from icml.core.errors import UserError


def by_hand(score=1.0, **changes):
    """Observations of 10, 20, 30 tokens, thoughts 5, actions 2, the task 8, a placeholder 1."""
    prompts, full = (18, 36, 73), (18, 45, 82)
    turns = [
        TurnCost(prompt=p, full_prompt=f, output=7, thought=5, thought_omitted=False, **changes)
        for p, f in zip(prompts, full, strict=True)
    ]
    return Episode(tuple(turns), score, score == 1.0)


def test_the_first_observation_dropped_saves_18_of_145_prompt_tokens():
    parts = OmissionReward()(by_hand())
    assert parts.saved == pytest.approx(18 / 145)
    assert parts.total == pytest.approx(0.8248, abs=5e-5)


def test_tokens_of_that_episode_are_counted_so_from_its_record(lab):
    """The same three turns, played: every token here is a letter."""
    script = {1: (), 2: (1,), 3: ()}
    env = lab.Endless(turns=3)
    transcript = lab.transcript(env)
    (episode,) = lab.played(
        lambda turn, _: write_turn("a b c d e", script[turn], action="go x"), turns=3
    )
    cost = read_episode(episode, transcript)
    # 1 + [2 tags + words] + outputs of 4 tags, 5 + 2 words and a command in the second turn.
    seen = [len(observation.text.split()) + 2 for observation in episode.observations]
    assert [turn.full_prompt for turn in cost.turns] == [
        1 + seen[0], 1 + seen[0] + 11 + seen[1], 1 + sum(seen[:3]) + 11 + 12,
    ]  # fmt: skip
    assert [turn.prompt for turn in cost.turns] == [
        1 + seen[0], 1 + seen[0] + 11 + seen[1], 1 + 1 + seen[1] + seen[2] + 11 + 12,
    ]  # fmt: skip
    assert [turn.output for turn in cost.turns] == [11, 12, 11]
    assert (cost.thoughts, cost.turns[1].omitted) == ([5, 5, 5], (1,))


def test_nothing_is_paid_for_omission_in_an_episode_that_fails():
    assert OmissionReward()(by_hand(score=0.0)) == (0.0, 0.0, 0.0)
    graded = by_hand(score=0.6)
    assert OmissionReward()(graded).total == pytest.approx(0.8 * 0.6)
    assert OmissionReward(success_threshold=0.5)(graded).saved == pytest.approx(18 / 145)


def test_an_empty_thought_counts_as_the_mean_one_of_its_group():
    turns = (
        TurnCost(prompt=50, full_prompt=50, output=4, thought=0, thought_omitted=True),
        TurnCost(prompt=50, full_prompt=50, output=9, thought=6, thought_omitted=False),
        TurnCost(prompt=60, full_prompt=60, output=13, thought=10, thought_omitted=False),
    )
    episode = Episode(turns, 1.0, True)
    assert mean_thought([episode]) == 8
    assert OmissionReward()(episode, mean_thought=8.0).saved == pytest.approx(8 / 160)
    assert OmissionReward()(episode).saved == 0
    assert mean_thought([]) == 0
    assert OmissionReward()(episode, mean_thought=1e6).saved == 1


def test_relative_to_a_reference():
    reward = OmissionReward(mode="relative", reference_tokens=145 + 21)
    assert reward(by_hand()).saved == pytest.approx(18 / 166)
    longer = OmissionReward(mode="relative", reference_tokens=10)
    assert longer(by_hand()).saved == 0


def official(last_reward, omitted_chars=30, earlier=(0, 0.0)):
    turns = [
        TurnCost(prompt=9, full_prompt=9, output=3, thought=1, thought_omitted=False,
                 reward=reward, message_chars=(50, 50), omitted_chars=chars)
        for chars, reward in ((earlier[0], earlier[1]), (omitted_chars, last_reward))
    ]  # fmt: skip
    return OmissionReward(mode="official")(Episode(tuple(turns), 1.0, True)).total


def test_official_pays_for_the_last_message_alone():
    assert official(1.0) == pytest.approx(0.86)
    assert official(1.0, omitted_chars=0, earlier=(30, 0.0)) == pytest.approx(0.8)


def test_characters_of_the_messages_are_those_that_stood_there(lab):
    script = {2: (1,), 3: (2,)}
    (episode,) = lab.played(
        lambda turn, _: write_turn("", script.get(turn, ()), action="go x"), turns=3
    )
    cost = read_episode(episode, lab.transcript(lab.Endless(turns=3)))
    first, second, third = (
        f"<tool_response_{n}>{seen.text}</tool_response_{n}>"
        for n, seen in enumerate(episode.observations[:3], 1)
    )
    placeholder = "<omitted_tool_response_1></omitted_tool_response_1>"
    said = "<think> </think> <tool_call> go <unk> </tool_call>"
    omitting = said.replace(
        "<tool_call>", "<omit_tool_response_{n}></omit_tool_response_{n}> <tool_call>"
    )
    written = [said, omitting.format(n=1), omitting.format(n=2)]
    assert cost.turns[1].message_chars == (*map(len, (first, written[0], second, written[1])),)
    assert cost.turns[2].message_chars == (
        *map(len, (placeholder, written[0], second, written[1], third, written[2])),
    )
    assert [turn.omitted_chars for turn in cost.turns] == [0, len(first), len(second)]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_full_prompts_are_those_of_an_agent_that_said_the_same_and_was_not_obeyed(lab, seed):
    """Brute force: the observations and outputs joined anew, without any context to edit."""
    transcript = lab.transcript(lab.Endless(turns=6))
    (episode,) = lab.played(lab.random_output, seed=seed)
    cost = read_episode(episode, transcript)
    full = [1]  # <bos>
    for number, (step, turn, put_back) in enumerate(
        zip(episode.steps, cost.turns, full_steps(episode, transcript), strict=True), 1
    ):
        text = episode.observations[number - 1].text
        full += transcript.encode(f"<tool_response_{number}>{text}</tool_response_{number}>")
        assert put_back.prompt_ids == full
        assert (turn.full_prompt, turn.prompt) == (len(full), len(step.prompt_ids))
        full += step.response_ids
    for weight in (0.0, 0.3, 1.0):
        parts = OmissionReward(weight)(cost, mean_thought=4.0)
        assert 0 <= parts.saved <= 1
        assert 0 <= parts.total <= 1
        assert episode.success or parts == (0.0, 0.0, 0.0)


def test_an_episode_rendered_by_another_transcript_is_refused(lab):
    (episode,) = lab.played(lab.random_output, seed=1)
    with pytest.raises(ValueError, match=r"^the prompt of turn 1 isn't what this transcript"):
        read_episode(episode, lab.transcript(lab.Endless(turns=6), tell_task=True))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight": -0.1}, "the reward's weight must be 0 to 1, got -0.1"),
        ({"weight": float("nan")}, "the reward's weight must be 0 to 1, got nan"),
        ({"success_threshold": 0.0}, "success_threshold must be above 0, at most 1, got 0.0"),
        ({"mode": "chars"}, "mode must be one of ('exact', 'relative', 'official'), got 'chars'"),
        ({"mode": "relative"}, "reference_tokens is what mode='relative' compares with"),
        ({"reference_tokens": 5}, "reference_tokens is what mode='relative' compares with"),
        ({"mode": "relative", "reference_tokens": 0}, "reference_tokens must be at least 1, got 0"),
    ],
)
def test_values_without_a_meaning_are_refused(values, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        OmissionReward(**values)
