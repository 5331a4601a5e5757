"""Lazy catch-up gives the logits of a full forward pass, whatever the schedule."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.me.members import Member
from icml.me.state import MemberState

steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 11), st.booleans()), min_size=2, max_size=2),
        st.booleans(),
    ),
    max_size=12,
)


def member(model):
    return Member(model, None, "member 1")


def full_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1]


@settings(max_examples=40)
@given(schedule=steps)
def test_logits_after_any_schedule_are_those_of_a_full_forward_pass(random_model, schedule):
    model = random_model(0)
    texts = [[3, 5, 7], [4]]  # the second prompt is padded on the left
    ids = torch.tensor([[3, 5, 7], [0, 0, 4]])
    state = MemberState(member(model), ids, torch.tensor([[1, 1, 1], [0, 0, 1]]).bool())
    for tokens, drawn in [*schedule, ([(1, True), (2, True)], True)]:
        state.append(
            torch.tensor([[token] for token, _ in tokens]),
            torch.tensor([[there] for _, there in tokens]),
        )
        for text, (token, there) in zip(texts, tokens, strict=True):
            text += [token] * there
        if drawn:
            logits = state.next_logits()
            for row, text in enumerate(texts):
                if tokens[row][1]:
                    # float32 sums in another order
                    torch.testing.assert_close(
                        logits[row], full_logits(model, text), atol=1e-4, rtol=0
                    )
    assert state.pending == 0
    assert state.tokens == sum(map(len, texts))


def test_a_token_that_is_taken_back_leaves_no_trace(random_model):
    model = random_model(0)
    state = MemberState(member(model), torch.tensor([[3, 5]]), torch.ones(1, 2).bool())
    state.next_logits()
    state.append(torch.tensor([[9, 8]]))
    state.next_logits()  # both are in the cache now
    state.forget(0, 2)
    state.append(torch.tensor([[4]]))
    torch.testing.assert_close(
        state.next_logits()[0], full_logits(model, [3, 5, 4]), atol=1e-4, rtol=0
    )
    assert state.lengths.tolist() == [3]


def test_nothing_is_read_before_it_is_asked_for(random_model):
    state = MemberState(member(random_model(0)), torch.tensor([[3, 5]]), torch.ones(1, 2).bool())
    state.append(torch.tensor([[1]]))
    assert (state.calls, state.tokens, state.pending) == (0, 0, 3)
