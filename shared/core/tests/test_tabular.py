import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from icml.core.models.tabular import TabularPolicy, draw


def batch(rng: np.random.Generator, *, states: int, actions: int, n: int):
    return rng.integers(states, size=n), rng.integers(actions, size=n), rng.normal(size=n)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_the_gradient_is_the_sum_of_weighted_scores(states, actions, n, seed):
    rng = np.random.default_rng(seed)
    policy = TabularPolicy(rng.normal(size=(states, actions)), learning_rate=1.0)
    expected = np.zeros((states, actions))
    s, a, w = batch(rng, states=states, actions=actions, n=n)
    for state, action, weight in zip(s, a, w, strict=True):
        row = np.exp(policy.logits[state]) / np.exp(policy.logits[state]).sum()
        expected[state] += weight * (np.eye(actions)[action] - row)
    np.testing.assert_allclose(policy.gradient(s, a, w), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "peer"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)]
)
def test_steps_are_those_of_torch(optimizer, peer):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(6, 3))
    policy = TabularPolicy(start, learning_rate=0.3, optimizer=optimizer)
    logits = torch.tensor(start, requires_grad=True)
    theirs = peer([logits], lr=0.3)
    for _ in range(20):
        s, a, w = batch(rng, states=6, actions=3, n=9)
        policy.score_step(s, a, w)
        theirs.zero_grad()
        (-torch.tensor(w) @ logits.log_softmax(1)[torch.tensor(s), torch.tensor(a)]).backward()
        theirs.step()
    np.testing.assert_allclose(policy.logits, logits.detach().numpy(), atol=1e-12)


def test_one_step_by_hand():
    # pi = (1/4, 3/4); 2 (e_0 - pi) = (1.5, -1.5), times the rate 0.1.
    policy = TabularPolicy(np.log([[1.0, 3.0], [1.0, 1.0]]), learning_rate=0.1, optimizer="sgd")
    policy.score_step(np.array([0]), np.array([0]), np.array([2.0]))
    np.testing.assert_allclose(policy.logits, [[0.15, np.log(3) - 0.15], [0.0, 0.0]], atol=1e-15)


def test_the_start_is_copied():
    start = np.zeros((1, 2))
    TabularPolicy(start, learning_rate=1.0, optimizer="sgd").score_step(
        np.array([0]), np.array([1]), np.array([1.0])
    )
    assert not start.any()


def test_entropies_have_their_closed_form():
    policy = TabularPolicy(np.array([[0.0] * 4, [0.0, -800.0, -800.0, -800.0]]), learning_rate=1.0)
    np.testing.assert_allclose(policy.entropies(), [np.log(4), 0.0], atol=1e-15)


def test_samples_follow_the_distribution_of_their_state():
    policy = TabularPolicy(np.log([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), learning_rate=1.0)
    states = np.repeat([0, 1], 20_000)
    actions = policy.sample(states, np.random.default_rng(0))
    for state in (0, 1):
        counts = np.bincount(actions[states == state], minlength=3)
        # False-alarm rate 1e-4 each.
        assert stats.chisquare(counts, 20_000 * policy.probabilities()[state]).pvalue > 1e-4


def test_a_draw_never_leaves_the_row():
    rows = np.array([[0.1] * 10, [1.0] + [0.0] * 9, [0.0] * 9 + [1.0]])
    drawn = draw(np.repeat(rows, 1000, 0), np.random.default_rng(1)).reshape(3, -1)
    assert drawn[0].max() <= 9
    assert (drawn[1] == 0).all()
    assert (drawn[2] == 9).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": np.zeros(3)}, "finite"),
        ({"logits": np.zeros((0, 3))}, "finite"),
        ({"logits": np.array([[np.nan]])}, "finite"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
        ({"optimizer": "lion"}, "optimizer must be"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TabularPolicy(**{"logits": np.zeros((2, 2)), "learning_rate": 1.0, **change})


@pytest.mark.parametrize(
    ("states", "actions", "weights", "message"),
    [
        ([0, 1], [0], [1.0], "got shapes"),
        ([2], [0], [1.0], r"states must be in \[0, 2\)"),
        ([-1], [0], [1.0], r"states must be in \[0, 2\)"),
        ([0], [3], [1.0], r"actions must be in \[0, 3\)"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(states, actions, weights, message):
    policy = TabularPolicy(np.zeros((2, 3)), learning_rate=1.0)
    with pytest.raises(ValueError, match=message):
        policy.score_step(np.array(states), np.array(actions), np.array(weights))
