import itertools
import math

import numpy as np
import pytest

from icml.agent_omit.theory import deviation_bound, kl_divergence, trajectory_kl


def test_two_coins():
    kl = float(kl_divergence(np.array([0.6, 0.4]), np.array([0.5, 0.5])))
    assert kl == pytest.approx(0.02014, abs=5e-6)
    assert deviation_bound(kl) == pytest.approx(0.1003, abs=5e-5)
    assert deviation_bound(kl) >= 0.1


def test_what_q_never_does_is_infinitely_far_and_what_p_never_does_costs_nothing():
    never, always = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    assert kl_divergence(always, never) == math.inf
    assert kl_divergence(never, always) == pytest.approx(math.log(2))


def mdp(draw, turns, states, choices):
    def spread(*shape):
        return draw.dirichlet(np.full(shape[-1], draw.choice([0.3, 1.0, 3.0])), shape[:-1])

    p, q = spread(turns, states, choices), spread(turns, states, choices)
    close = draw.random()  # from equal to unrelated
    return p, close * p + (1 - close) * q, spread(states, choices, states), spread(1, states)[0]


def enumerated(p, q, transitions, start):
    """Every trajectory with its probability under both policies."""
    turns, states, choices = p.shape
    for first in range(states):
        for path in itertools.product(range(choices), range(states), repeat=turns):
            state, under_p, under_q = first, start[first], start[first]
            for turn in range(turns):
                choice, following = path[2 * turn], path[2 * turn + 1]
                moved = transitions[state, choice, following]
                under_p *= p[turn, state, choice] * moved
                under_q *= q[turn, state, choice] * moved
                state = following
            yield (first, *path), under_p, under_q


def test_the_sum_over_turns_is_the_divergence_of_all_trajectories_enumerated():
    draw = np.random.default_rng(0)
    for _ in range(20):
        made = mdp(draw, 3, 2, 2)
        of_p, of_q = np.array([row[1:] for row in enumerated(*made)]).T
        assert of_p.sum() == pytest.approx(1)
        assert trajectory_kl(*made) == pytest.approx(float(kl_divergence(of_p, of_q)), abs=1e-9)


def test_the_bound_holds_for_any_functional_in_1000_random_worlds():
    draw = np.random.default_rng(1)
    tight = 0.0
    for _ in range(1000):
        made = mdp(draw, 2, 2, 2)
        of_p, of_q = np.array([row[1:] for row in enumerated(*made)]).T
        values = draw.uniform(-1, 2, len(of_p)).round(draw.integers(0, 3))
        # The worst functional: 1 where p is likelier.
        for functional in (values, (of_p > of_q).astype(float)):
            deviation = abs(float((of_p - of_q) @ functional))
            bound = deviation_bound(trajectory_kl(*made), float(np.ptp(functional)))
            assert deviation <= bound + 1e-12
            tight = max(tight, deviation / bound if bound else 0.0)
    assert tight > 0.5  # it isn't vacuous


def test_inputs_that_do_not_fit_are_refused():
    p, q, transitions, start = mdp(np.random.default_rng(2), 3, 2, 2)
    with pytest.raises(ValueError, match="don't fit one another"):
        trajectory_kl(p, q[:2], transitions, start)
    with pytest.raises(ValueError, match=r"start must be \(2,\)"):
        trajectory_kl(p, q, transitions, start[:1])
    with pytest.raises(ValueError, match="must be at least 0, got -1"):
        deviation_bound(-1.0)
