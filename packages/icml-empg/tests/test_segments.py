"""Steps in masks: found, averaged over, written back to; both layouts give the same."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.core.rl.functional import segments_from_mask
from icml.empg import (
    EMPGParams,
    empg_modulate,
    empg_token_advantages,
    scatter_to_tokens,
    step_entropies,
    steps_from_mask,
    steps_from_segments,
)

MANY = settings(deadline=None, max_examples=60)


@st.composite
def masks(draw):
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(0, 9))
    cells = draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))
    return torch.tensor(cells, dtype=torch.bool).reshape(rows, columns)


def cut(*triples):
    """Segments of (row, start, end) each."""
    return steps_from_segments(torch.tensor(triples, dtype=torch.int64).reshape(-1, 3))


def runs(mask):
    """(row, start, end) of each run of 1s, as the core finds them with lists."""
    return [(row, *ends) for row, pieces in enumerate(segments_from_mask(mask)) for ends in pieces]


@MANY
@given(masks())
def test_steps_are_the_runs_of_the_mask_that_the_core_finds_with_lists(mask):
    steps = steps_from_mask(mask)
    assert torch.stack([steps.row, steps.start, steps.end]).T.tolist() == [*map(list, runs(mask))]
    known = cut(*runs(mask))
    for ours, theirs in zip(vars(steps).values(), vars(known).values(), strict=True):
        assert torch.equal(ours, theirs)


@MANY
@given(masks())
def test_each_step_leads_to_the_next_of_its_row_and_the_last_to_none(mask):
    steps = steps_from_mask(mask)
    for t, following in enumerate(steps.next.tolist()):
        later = [
            u for u in range(len(steps))
            if steps.row[u] == steps.row[t] and steps.start[u] > steps.start[t]
        ]  # fmt: skip
        assert following == (min(later) if later else -1)


@MANY
@given(masks(), st.integers(0, 2**31))
def test_entropies_average_over_tokens_and_scatter_gives_them_back(mask, seed):
    values = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)).double()
    steps = steps_from_mask(mask)
    found = step_entropies(values.masked_fill(~mask, torch.nan), steps)
    expected = [
        sum(values[row, t].item() for t in range(start, end)) / (end - start)
        for row, start, end in runs(mask)
    ]
    assert_close(found, torch.tensor(expected, dtype=torch.float64))
    tokens = scatter_to_tokens(found, steps, tuple(mask.shape), mask)
    assert bool((tokens[~mask] == 0).all())
    assert_close(tokens[mask], found[steps.tokens(mask.shape[1])[1]])


def concatenated():
    """Three episodes of 3, 1 and 2 steps of different lengths, and a row of padding."""
    mask = torch.tensor(
        [
            [1, 1, 0, 1, 1, 1, 0, 0, 1],
            [0, 0, 1, 1, 1, 1, 0, 0, 0],
            [1, 0, 0, 1, 1, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
    )
    entropies = torch.rand(4, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.tensor([1.0, -0.5, 0.25, 7.0], dtype=torch.float64), entropies, mask


def test_concatenated_and_step_wise_layouts_give_the_same_advantages():
    advantages, entropies, mask = concatenated()
    tokens = empg_token_advantages(advantages, entropies, mask)
    pieces = [(0, 0, 2), (0, 3, 6), (0, 8, 9), (1, 2, 6), (2, 0, 1), (2, 3, 5)]
    step_wise = empg_modulate(
        torch.stack([advantages[row] for row, _, _ in pieces]),
        torch.stack([entropies[row, start:end].mean() for row, start, end in pieces]),
        torch.tensor([1, 2, -1, -1, 5, -1]),
    ).advantages
    for value, (row, start, end) in zip(step_wise, pieces, strict=True):
        assert_close(tokens[row, start:end], value.expand(end - start))
    assert tokens[mask == 0].tolist() == [0.0] * int((mask == 0).sum())


def test_the_mean_is_taken_over_steps_and_not_over_tokens():
    advantages, entropies, mask = concatenated()
    tokens = empg_token_advantages(advantages, entropies, mask)
    firsts = torch.stack(
        [tokens[r, c] for r, c in [(0, 0), (0, 3), (0, 8), (1, 2), (2, 0), (2, 3)]]
    )
    assert float(firsts.sum()) == pytest.approx(0, abs=1e-12)
    assert abs(float(tokens.sum())) > 0.1


def test_padding_and_observations_change_nothing():
    advantages, entropies, mask = concatenated()
    found = empg_token_advantages(advantages, entropies, mask)
    garbage = entropies.masked_fill(mask == 0, torch.nan)
    wide = torch.nn.functional.pad(garbage, (2, 3), value=math.inf)
    wide_mask = torch.nn.functional.pad(mask, (2, 3))
    again = empg_token_advantages(advantages, wide, wide_mask)
    assert torch.equal(again[:, 2:-3], found)
    assert bool((again[wide_mask == 0] == 0).all())


def test_turns_that_touch_are_told_apart_by_explicit_segments():
    advantages = torch.tensor([1.0, -1.0])
    entropies = torch.tensor([[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 0.5, 0.5]])
    mask = torch.ones(2, 4)
    segments = cut((0, 0, 2), (0, 2, 4), (1, 0, 2), (1, 2, 4))
    found = empg_token_advantages(advantages, entropies, mask, segments=segments)
    expected = empg_modulate(
        torch.tensor([1.0, 1.0, -1.0, -1.0]),
        torch.tensor([0.0, 1.0, 2.0, 0.5]),
        torch.tensor([1, -1, 3, -1]),
    ).advantages
    assert_close(found[:, ::2].flatten(), expected)


def test_a_step_without_tokens_is_skipped():
    steps = cut((0, 0, 2), (0, 2, 2), (0, 3, 4))
    assert steps.start.tolist() == [0, 3]
    assert steps.next.tolist() == [1, -1]


def test_a_mask_without_a_step_gives_zeros_and_one_warning():
    with pytest.warns(UserWarning, match="no step in the batch") as caught:
        found = empg_token_advantages(torch.ones(2), torch.ones(2, 3), torch.zeros(2, 3))
    assert len(caught) == 1
    assert torch.equal(found, torch.zeros(2, 3))


def test_without_slope_and_bonus_tokens_get_the_advantages_bit_for_bit():
    advantages, entropies, mask = concatenated()
    params = EMPGParams(k=0, zeta=0, center=False)
    found = empg_token_advantages(advantages.float(), entropies.float(), mask, params)
    assert torch.equal(found, advantages.float()[:, None] * mask)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2,), (2, 3), (2, 4)), r"got \(2,\), \(2, 3\) and \(2, 4\)"),
        (((3,), (2, 3), (2, 3)), r"advantages must be \(episodes,\)"),
        (((2,), (2,), (2,)), "entropies and mask"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        empg_token_advantages(*map(torch.ones, shapes))


def test_masks_that_make_no_sense_are_refused():
    with pytest.raises(
        ValueError, match=r"mask must be 2-D \(episodes, tokens\), got shape \(3,\)"
    ):
        steps_from_mask(torch.ones(3))
    with pytest.raises(ValueError, match="mask must hold only 0 and 1"):
        steps_from_mask(torch.full((1, 3), 0.5))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, r"step 1 \(row 0, tokens 3 to 5\) has a token of entropy nan"),
        (-math.inf, r"step 1 \(row 0, tokens 3 to 5\) has a token of entropy -inf"),
        (-0.5, "has a token of entropy -0.5; entropies are finite and >= 0"),
    ],
)
def test_a_token_entropy_that_is_none_names_its_step(value, message):
    advantages, entropies, mask = concatenated()
    entropies[0, 4] = value
    with pytest.raises(ValueError, match=message):
        empg_token_advantages(advantages, entropies, mask)


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ((0, 0, 3), r"step 0 \(row 0, tokens 0 to 2\) holds tokens outside the mask"),
        ((0, 0, 12), "reach row 0 and column 11, but there are 4 rows of 9 tokens"),
        ((9, 0, 1), "reach row 9"),
    ],
)
def test_segments_outside_the_mask_or_the_batch_are_refused(segment, message):
    advantages, entropies, mask = concatenated()
    with pytest.raises(ValueError, match=message):
        empg_token_advantages(advantages, entropies, mask, segments=cut(segment))


@pytest.mark.parametrize("second", [(0, 2, 4), (0, 4, 3), (1, -1, 2), (-1, 0, 1)])
def test_segments_out_of_order_are_refused(second):
    with pytest.raises(ValueError, match=r"in order and apart, got \[.*\] \(row, start, end\) for"):
        cut((0, 0, 3), second)


def test_segments_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"\(steps, 3\): row, start, end; got shape \(2,\)"):
        steps_from_segments(torch.tensor([0, 1]))
    with pytest.raises(TypeError, match=r"must hold integers, got torch.float32"):
        steps_from_segments(torch.ones(1, 3))


def test_a_value_too_many_is_refused():
    mask = torch.ones(1, 2)
    steps = steps_from_mask(mask)
    with pytest.raises(ValueError, match="one value for each of the 1 steps"):
        scatter_to_tokens(torch.ones(2), steps, (1, 2), mask)
    with pytest.raises(ValueError, match=r"mask must have the shape \(1, 2\), got \(1, 3\)"):
        scatter_to_tokens(torch.ones(1), steps, (1, 2), torch.ones(1, 3))
    with pytest.raises(ValueError, match="entropies must be 2-D"):
        step_entropies(torch.ones(2), steps)
