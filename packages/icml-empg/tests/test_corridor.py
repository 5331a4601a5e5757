import numpy as np
import pytest

from icml.empg.experiment.corridor import STATES, Corridor, noisy_search, state_words
from icml.empg.keydoor import ACTIONS, SIGHTS, KeyDoor, task_of

CORRIDOR = Corridor()


def row(seed: int) -> int:
    return CORRIDOR.tasks.tolist().index(list(task_of(seed, CORRIDOR.cells)))


def test_the_table_plays_as_the_text_environment_does():
    seeds = range(60)
    uniform = np.full((STATES, len(ACTIONS)), 0.25)
    tasks = np.array([row(seed) for seed in seeds])
    episodes = CORRIDOR.roll(uniform, tasks, np.random.default_rng(0))
    search = CORRIDOR.roll(np.exp(noisy_search(0.1)), tasks, np.random.default_rng(1))
    for played in (episodes, search):
        for column, seed in enumerate(seeds):
            follow(KeyDoor(), seed, *(x[:, column] for x in played[:3]), played[3][column])
    assert 10 < search.success.sum() < 60


def follow(env: KeyDoor, seed: int, states, actions, alive, success) -> None:
    text, done, reward = env.reset(seed).text, False, 0.0
    for state, action, living in zip(states, actions, alive, strict=True):
        assert living == (not done)
        if done:
            continue
        assert text == " ".join(state_words(state))
        result = env.step(ACTIONS[action])
        text, done, reward = result.observation.text, result.done, reward + result.reward
    assert done
    assert reward == success


@pytest.mark.parametrize("noise", [0.05, 0.55])
def test_the_exact_success_rate_is_that_of_many_episodes(noise):
    p = np.exp(noisy_search(noise))
    n = 40 * len(CORRIDOR.tasks)
    played = CORRIDOR.roll(p, np.arange(n) % len(CORRIDOR.tasks), np.random.default_rng(0))
    exact = CORRIDOR.success_rate(p)
    # Four standard errors of a proportion: false-alarm rate below 1e-4.
    assert played.success.mean() == pytest.approx(exact, abs=4 * (exact * (1 - exact) / n) ** 0.5)


def test_the_exact_success_rate_of_a_policy_that_does_one_thing():
    opens = np.zeros((STATES, len(ACTIONS)))
    opens[:, ACTIONS.index("open")] = 1
    assert CORRIDOR.success_rate(opens) == 0


def test_with_a_view_of_everything_and_time_all_succeed():
    corridor = Corridor(cells=4, max_steps=9, view=4)
    search = np.exp(noisy_search(1e-12))
    assert corridor.success_rate(search) == pytest.approx(1.0)
    turns = [abs(a - k) + abs(k - d) + 2 for a, k, d in corridor.tasks]
    short = Corridor(cells=4, max_steps=max(turns) - 1, view=4)
    share = np.mean(np.array(turns) < max(turns))
    assert short.success_rate(search) == pytest.approx(share)


def test_the_noise_is_the_chance_of_a_random_action():
    chances = np.exp(noisy_search(0.4))
    np.testing.assert_allclose(chances.sum(1), 1)
    np.testing.assert_allclose(np.sort(chances, 1), np.tile([0.1, 0.1, 0.1, 0.7], (STATES, 1)))
    by_sight = np.exp(noisy_search(lambda sight: 0.8 if sight == "unseen" else 0.2))
    for state in range(STATES):
        hand, key, door, *_ = state_words(state)
        sight = (door if hand == "key-in-hand" else key).partition("-")[2]
        assert sight in SIGHTS
        assert by_sight[state].max() == pytest.approx(0.4 if sight == "unseen" else 0.85)
