"""The two layouts of episodes hold the same turns."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.rl.functional import segments_from_mask
from icml.core.rl.returns import discounted_returns
from icml.core.rl.rollout import Step, Trajectory, to_sequence_batch, to_step_batch


def step(prompt, response, *, reward=0.0, base=0.0):
    numbers = torch.arange(len(response)) + base
    return Step(prompt, response, -numbers, numbers + 0.5, "go", reward, {})


def episode(steps, group=0, **options):
    total = sum(s.reward for s in steps)
    settings = {"done": True, "truncated": False, "success": False, **options}
    return Trajectory(group, group, steps, total, **settings)


TWO = [
    episode([step([1, 7], [4, 2]), step([1, 7, 4, 2, 8, 9], [5, 6, 2], reward=1.0, base=10)]),
    episode([], group=1, error="OSError()"),
    episode([step([1], [2], reward=2.0, base=20)], group=1),
]


def test_the_step_wise_layout_by_hand():
    batch = to_step_batch(TWO)
    assert batch.prompt_ids.tolist() == [[1, 7, 0, 0, 0, 0], [1, 7, 4, 2, 8, 9], [1, 0, 0, 0, 0, 0]]
    assert batch.prompt_lengths.tolist() == [2, 6, 1]
    assert batch.completion_ids.tolist() == [[4, 2, 0], [5, 6, 2], [2, 0, 0]]
    assert batch.mask.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert batch.old_logp.tolist() == [[0, -1, 0], [-10, -11, -12], [-20, 0, 0]]
    assert batch.entropy.tolist() == [[0.5, 1.5, 0], [10.5, 11.5, 12.5], [20.5, 0, 0]]
    assert batch.step_entropy.tolist() == [1.0, 11.5, 20.5]
    assert batch.traj.tolist() == [0, 0, 2]
    assert batch.group.tolist() == [0, 0, 1]
    assert batch.turn.tolist() == [0, 1, 0]
    assert batch.next.tolist() == [1, -1, -1]
    assert batch.step_reward.tolist() == [0.0, 1.0, 2.0]
    assert batch.returns.tolist() == [1.0, 0.0, 2.0]
    assert batch.traj_group.tolist() == [0, 1, 1]


def test_the_concatenated_layout_by_hand():
    batch = to_sequence_batch(TWO)
    assert batch.prompt_ids.tolist() == [[1, 7], [1, 0]]
    assert batch.prompt_lengths.tolist() == [2, 1]
    assert batch.completion_ids.tolist() == [[4, 2, 8, 9, 5, 6, 2], [2, 0, 0, 0, 0, 0, 0]]
    assert batch.mask.int().tolist() == [[1, 1, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]]
    assert batch.old_logp.tolist() == [[0, -1, 0, 0, -10, -11, -12], [-20, 0, 0, 0, 0, 0, 0]]
    assert batch.entropy.tolist() == [[0.5, 1.5, 0, 0, 10.5, 11.5, 12.5], [20.5] + [0] * 6]
    assert batch.segments.tolist() == [[0, 0, 2], [0, 4, 7], [1, 0, 1]]
    assert batch.traj.tolist() == [0, 2]
    assert batch.returns.tolist() == [1.0, 0.0, 2.0]
    assert batch.traj_group.tolist() == [0, 1, 1]


@st.composite
def trajectories(draw):
    """Episodes of whole histories: each prompt continues the turn before."""
    ids = st.lists(st.integers(3, 9), min_size=1, max_size=4)
    found = []
    for group in range(draw(st.integers(1, 4))):
        prompt, steps = draw(ids), []
        for turn in range(draw(st.integers(0 if group else 1, 4))):
            steps.append(step(prompt, draw(ids), reward=float(turn), base=draw(st.floats(0, 3))))
            prompt = [*prompt, *steps[-1].response_ids, *draw(ids)]
        found.append(episode(steps, group))
    return found


@given(trajectories())
def test_both_layouts_give_each_turn_the_same_tokens_and_numbers(drawn):
    steps, sequences = to_step_batch(drawn), to_sequence_batch(drawn)
    assert len(steps.traj) == len(sequences.segments)
    for name in ("completion_ids", "old_logp", "entropy"):
        by_step, whole = getattr(steps, name), getattr(sequences, name)
        for turn, (row, start, end) in enumerate(sequences.segments.tolist()):
            assert sequences.traj[row] == steps.traj[turn]
            assert sequences.mask[row, start:end].all()
            assert torch.equal(whole[row, start:end], by_step[turn][steps.mask[turn]])
    assert int(sequences.mask.sum()) == int(steps.mask.sum())
    assert not sequences.old_logp[~sequences.mask].any()


@given(trajectories())
def test_what_a_method_computes_a_step_is_the_same_in_both_layouts(drawn):
    steps, sequences = to_step_batch(drawn), to_sequence_batch(drawn)
    # A method that looks at entropies, the following step and the episode's return.
    scale = torch.stack(
        [sequences.entropy[row, a:b].mean() for row, a, b in sequences.segments.tolist()]
    )
    rows = sequences.segments[:, 0]
    following = torch.where(rows[1:] == rows[:-1], torch.arange(1, len(rows)), -1)
    following = torch.cat([following, torch.tensor([-1])])
    # float32 means of a few numbers
    assert_close(scale, steps.step_entropy, rtol=1e-6, atol=1e-6)
    assert torch.equal(following, steps.next)
    assert torch.equal(sequences.returns[sequences.traj[rows]], steps.returns[steps.traj])
    assert torch.equal(sequences.traj_group[sequences.traj[rows]], steps.group)


@given(trajectories())
def test_agent_turns_found_from_the_mask_are_the_segments(drawn):
    sequences = to_sequence_batch(drawn)
    runs = segments_from_mask(sequences.mask)
    found = [[row, *ends] for row, of_row in enumerate(runs) for ends in of_row]
    assert found == sequences.segments.tolist()


def test_rows_lead_through_an_episode_for_returns():
    batch = to_step_batch(TWO)
    returns = discounted_returns(batch.step_reward, batch.next, gamma=0.5)
    assert returns.tolist() == [0.5, 1.0, 2.0]


def test_a_prompt_that_drops_the_past_has_no_concatenated_layout():
    forgetful = [episode([step([1, 7], [4, 2]), step([1, 8], [5, 2])])]
    assert len(to_step_batch(forgetful).traj) == 2
    with pytest.raises(ValueError, match="the prompt of turn 1 doesn't begin with turn 0's"):
        to_sequence_batch(forgetful)


@pytest.mark.parametrize("layout", [to_step_batch, to_sequence_batch])
def test_episodes_without_any_step_are_refused(layout):
    with pytest.raises(ValueError, match="none of the 1 episodes has a step"):
        layout([episode([])])
