import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.agent_omit.episode import full_steps, read_episode
from icml.agent_omit.format import action_of, write_turn
from icml.agent_omit.loop import ClosingSampler, segment_advantages
from icml.agent_omit.segments import to_segment_batch, to_segments
from icml.agent_omit.words import vault_words
from icml.core.rl.episodes import join
from icml.core.rl.rollout import EnvTask, ModelSampler, collect
from icml.core.rl.sampling import score


def omitting(plan):
    """An agent that leaves out what a plan says, by turn."""
    return lambda turn, _: write_turn("see exit", plan.get(turn, ()), action="go north")


def drawn(segment):
    return [
        (token, logp)
        for token, logp, mine in zip(segment.ids, segment.logps, segment.loss_mask, strict=True)
        if mine
    ]


def test_omissions_at_turns_2_and_4_of_6_make_three_segments(lab):
    (episode,) = lab.played(omitting({2: (1,), 4: (2, 3)}))
    segments = to_segments(episode)
    assert [[*segment.turns] for segment in segments] == [[1, 2], [3, 4], [5, 6]]
    assert [segment.kind for segment in segments] == ["partial", "partial", "full"]


def test_what_is_left_out_at_the_last_turn_cuts_nothing(lab):
    (episode,) = lab.played(omitting({6: (1, 2)}))
    (segment,) = to_segments(episode)
    assert [*segment.turns] == [1, 2, 3, 4, 5, 6]


def test_commands_in_vain_cut_nothing(lab):
    (episode,) = lab.played(omitting({2: (5,), 3: (1,), 4: (1,)}))
    assert [[*segment.turns] for segment in to_segments(episode)] == [[1, 2, 3], [4, 5, 6]]


def test_without_omissions_the_one_segment_is_the_plain_trajectory(lab):
    (episode,) = lab.played(omitting({}))
    (segment,) = to_segments(episode)
    plain = join(episode.steps)
    assert (segment.prompt_ids, segment.ids) == (plain.prompt_ids, plain.completion_ids)
    assert segment.loss_mask == plain.mask()
    assert segment.kind == "full"


def test_an_episode_without_turns_has_no_segment_and_no_batch_alone(lab):
    (episode,) = lab.played(omitting({}))
    episode.steps.clear()
    assert to_segments(episode) == []
    with pytest.raises(ValueError, match=r"^none of the 1 episodes has a turn$"):
        to_segment_batch([episode], [], torch.zeros(1))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**40), turns=st.integers(3, 6))
def test_every_output_token_is_trained_exactly_once_under_the_prompt_it_was_drawn_in(
    lab, seed, turns
):
    (episode,) = lab.played(lab.random_output, turns=turns, seed=seed)
    segments = to_segments(episode)
    outputs = [
        (token, float(logp))
        for step in episode.steps
        for token, logp in zip(step.response_ids, step.logps, strict=True)
    ]
    assert list(itertools.chain.from_iterable(map(drawn, segments))) == outputs
    assert [turn for s in segments for turn in s.turns] == [*range(1, len(episode.steps) + 1)]
    cost = read_episode(episode, lab.transcript(lab.Endless(turns=turns)))
    cutting = sum(bool(turn.omitted) for turn in cost.turns[:-1])
    assert len(segments) == 1 + cutting
    for segment in segments:  # before each output stands the very prompt of its turn
        whole = segment.prompt_ids + segment.ids
        mask = [0] * len(segment.prompt_ids) + segment.loss_mask
        starts = [at for at, mine in enumerate(mask) if mine and not mask[at - 1]]
        assert [whole[:at] for at in starts] == [
            episode.steps[turn - 1].prompt_ids for turn in segment.turns
        ]


def test_rows_hold_segments_token_for_token(lab):
    episodes = lab.played(lab.random_output, episodes=40, seed=3)
    transcript = lab.transcript(lab.Endless(turns=6))
    costs = [read_episode(episode, transcript) for episode in episodes]
    batch = to_segment_batch(episodes, costs, torch.arange(40.0))
    segments = [(n, s) for n, episode in enumerate(episodes) for s in to_segments(episode)]
    assert batch.traj.tolist() == [number for number, _ in segments]
    assert batch.partial.tolist() == [segment.kind == "partial" for _, segment in segments]
    for row, (_, segment) in enumerate(segments):
        whole = segment.prompt_ids + segment.ids
        ids = [*batch.prompt_ids[row].tolist(), *batch.completion_ids[row].tolist()]
        assert ids[: len(whole)] == whole
        pairs = [
            *zip(batch.completion_ids[row].tolist(), batch.old_logp[row].tolist(), strict=True)
        ]
        mine = [pair for pair, m in zip(pairs, batch.mask[row].tolist(), strict=True) if m]
        assert [token for token, _ in mine] == [token for token, _ in drawn(segment)]
        logps = [logp for _, logp in drawn(segment)]
        assert [logp for _, logp in mine] == pytest.approx(logps)
    assert batch.metrics()["train/segments"] == len(segments) / 40
    assert "of episode 0 with reward 0.0" in batch.describe(0)


def test_segments_score_every_token_as_it_was_drawn_and_one_unedited_sequence_does_not(
    lab, omitter
):
    """The method's point, on a model's own samples: max differences over all output tokens."""
    model, transcript = omitter
    episodes = sampled(lab, model, transcript, 24)
    cut = [segments for segments in map(to_segments, episodes) if len(segments) > 1]
    assert len(cut) >= 8  # the model does leave things out
    ours, official = [], []
    for segment in itertools.chain.from_iterable(cut):
        scored = scores(model, segment.prompt_ids, segment.ids)
        mask = torch.tensor(segment.loss_mask, dtype=torch.bool)
        ours.append((scored - torch.tensor(segment.logps))[mask])
    for episode in episodes:
        whole = join(full_steps(episode, transcript))
        scored = scores(model, whole.prompt_ids, whole.completion_ids)
        if len(to_segments(episode)) > 1:
            last, (start, end) = episode.steps[-1], whole.segments[-1]
            official.append(scored[start:end] - last.logps)
    assert torch.cat(ours).abs().max() < 1e-5
    assert min(row.abs().max() for row in official) > 1e-3


def sampled(lab, model, transcript, count, temperature=1.0):
    words = vault_words(lab.Endless())
    return collect(
        ClosingSampler(ModelSampler(model, words.decode, words.closing_id, temperature)),
        lambda _: lab.Endless(turns=5),
        [EnvTask(number) for number in range(count)],
        group_size=1,
        max_turns=5,
        max_new_tokens=14,
        render=transcript,
        parse=action_of,
        seed=1,
    )


@torch.no_grad()
def scores(model, prompt, completion):
    rows = torch.tensor([prompt]), torch.tensor([len(prompt)]), torch.tensor([completion])
    return score(model, *rows)[0]


def test_what_the_model_saw_is_what_is_scored_token_for_token(lab, omitter):
    """The editing is done by hand here, on words, and compared with the rows of the batch."""
    model, transcript = omitter
    words = vault_words(lab.Endless())
    tokenizer = words.tokenizer()
    sound = re.compile(r"<think> ([^<]* )?</think> (<omit\S+> )*<tool_call> ([^<]* )?</tool_call>")
    episodes = [
        episode
        for episode in sampled(lab, model, transcript, 48, temperature=0.6)
        if all(sound.fullmatch(words.decode(step.response_ids)) for step in episode.steps)
    ]
    assert sum(len(to_segments(episode)) > 1 for episode in episodes) >= 4
    costs = [read_episode(episode, transcript) for episode in episodes]
    batch = to_segment_batch(episodes, costs, torch.zeros(len(episodes)))
    scored = set()
    for row in range(len(batch.traj)):
        ids = [*batch.prompt_ids[row].tolist(), *batch.completion_ids[row].tolist()]
        mask = [False, *batch.mask[row].tolist()]
        scored |= {tuple(ids[: at + 1]) for at, mine in enumerate(mask) if mine}
    seen = set()
    for episode in episodes:
        gone: set[int] = set()
        written: list[list[int]] = []
        for turn, step in enumerate(episode.steps, 1):
            text = "<bos>"
            for number in range(1, turn + 1):
                what = f"omitted_tool_response_{number}"
                shown = f"tool_response_{number}"
                told = episode.observations[number - 1].text
                text += f" <{what}></{what}>" if number in gone else f" <{shown}> {told} </{shown}>"
                text += f" {words.decode(written[number - 1])}" if number < turn else ""
            tokenized = tokenizer(text, add_special_tokens=False)["input_ids"]
            seen |= {
                (*tokenized, *step.response_ids[: count + 1])
                for count in range(len(step.response_ids))
            }
            written.append(step.response_ids)
            said = words.decode(step.response_ids)
            gone |= {n for n in range(1, turn + 1) if f"<omit_tool_response_{n}>" in said}
    assert scored == seen


def test_the_advantage_goes_to_all_segments_and_partial_ones_are_weighted(lab):
    episodes = lab.played(omitting({2: (1,)}), episodes=4)
    transcript = lab.transcript(lab.Endless(turns=6))
    costs = [read_episode(episode, transcript) for episode in episodes]
    batch = to_segment_batch(episodes, costs, torch.tensor([0.0, 1.0, 0.0, 0.0]))
    batch.traj_group[:] = torch.tensor([0, 0, 1, 1])
    # (reward - mean) / std with n - 1: 0.5 / 0.7071; a group without a difference gets nothing.
    expected = torch.tensor([-1, -1, 1, 1, 0, 0, 0, 0]) * 0.5 / 0.5**0.5
    assert torch.allclose(segment_advantages(batch), expected, atol=1e-5)
    halved = expected * torch.tensor([0.25, 1] * 4)
    assert torch.allclose(segment_advantages(batch, partial_weight=0.25), halved, atol=1e-5)
