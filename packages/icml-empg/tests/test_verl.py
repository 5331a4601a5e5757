"""verl's estimator against the pure function, on tensors shaped as verl shapes them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icml.empg import EMPGParams, empg_modulate, empg_token_advantages
from icml.empg.chain import next_steps
from icml.empg.verl import empg_advantage


def verl_batch():
    """Two prompts, two episodes each; turns 2, 1, 3 and 1 of two tokens, an observation between."""
    batch = SimpleNamespace(batch={}, non_tensor_batch={})
    mask = torch.zeros(4, 8, dtype=torch.int64)
    for row, turns in enumerate([2, 1, 3, 1]):
        for turn in range(turns):
            mask[row, 3 * turn : 3 * turn + 2] = 1
    generator = torch.Generator().manual_seed(0)
    batch.batch = {
        "response_mask": mask,
        "token_level_rewards": torch.zeros(4, 8).index_put(
            (torch.arange(4), torch.tensor([4, 1, 7, 1])), torch.tensor([1.0, 0.0, 3.0, 1.0])
        ),
        "entropys": torch.rand(4, 8, generator=generator),
    }
    batch.non_tensor_batch = {"uid": np.array(["p", "p", "q", "q"], dtype=object)}
    return batch


def estimate(batch, **more):
    return empg_advantage(
        token_level_rewards=batch.batch["token_level_rewards"],
        response_mask=batch.batch["response_mask"],
        index=batch.non_tensor_batch["uid"],
        entropys=batch.batch["entropys"],
        **more,
    )


def grpo(batch):
    """verl's GRPO by hand: two scores a, b of a group give +-(a - b) / 2 / (|a - b| / sqrt 2)."""
    size = 0.5 / (0.5**0.5 + 1e-6), 1.0 / (2**0.5 + 1e-6)
    return torch.tensor([size[0], -size[0], size[1], -size[1]])


def test_a_row_an_episode_gets_the_tokens_of_the_pure_function():
    batch = verl_batch()
    advantages, returns = estimate(batch, config={"empg": {"zeta": 0.3}}, reward_baselines=None)
    data = batch.batch
    expected = empg_token_advantages(
        grpo(batch), data["entropys"], data["response_mask"], EMPGParams(zeta=0.3)
    )
    assert_close(advantages, expected)
    assert torch.equal(advantages, returns)


def test_rows_of_padding_change_nothing_and_get_nothing():
    batch = verl_batch()
    whole, _ = estimate(batch)
    padded = SimpleNamespace(
        batch={name: torch.cat([part, part[:1]]) for name, part in batch.batch.items()},
        non_tensor_batch={"uid": np.append(batch.non_tensor_batch["uid"], "p")},
    )
    padded.batch["response_mask"][-1] = 0
    padded.batch["entropys"][-1] = 99.0
    found, _ = estimate(padded)
    assert torch.equal(found[:-1], whole)
    assert not found[-1].any()


@pytest.mark.filterwarnings("ignore:.*no step")
@pytest.mark.parametrize("by_turn", [False, True])
def test_a_batch_of_padding_alone_gets_zeros(by_turn):
    batch = verl_batch()
    batch.batch["response_mask"] *= 0
    rows = {"traj_uid": list("abcd"), "turn": [0, 0, 0, 0]} if by_turn else {}
    assert not estimate(batch, **rows)[0].any()


def step_wise(batch):
    """Cut the episodes into a row a turn, shuffle them, and add a row of padding."""
    pieces = [(row, turn) for row, n in enumerate([2, 1, 3, 1]) for turn in range(n)]
    pieces = [pieces[i] for i in (4, 0, 6, 2, 1, 5, 3)]
    data: dict[str, Any] = {name: [] for name in batch.batch}
    for row, turn in pieces:
        span = slice(3 * turn, 3 * turn + 2)
        data["response_mask"].append(torch.ones(2, dtype=torch.int64))
        data["entropys"].append(batch.batch["entropys"][row, span])
        total = batch.batch["token_level_rewards"][row].sum()
        data["token_level_rewards"].append(torch.stack([torch.zeros(()), total]))
    padding = {"response_mask": 0, "entropys": 99.0, "token_level_rewards": 7.0}
    tensors = {k: torch.stack([*rows, torch.full((2,), padding[k])]) for k, rows in data.items()}
    rows = [row for row, _ in pieces]
    names = {
        "uid": np.array([*("ppqq"[row] for row in rows), "q"], dtype=object),
        "traj_uid": np.array([*(f"e{row}" for row in rows), "e0"], dtype=object),
    }
    cut = SimpleNamespace(batch=tensors, non_tensor_batch=names)
    return cut, pieces, np.array([*(turn for _, turn in pieces), 0])


def test_a_row_a_turn_gets_the_same_as_a_row_an_episode():
    batch = verl_batch()
    whole, _ = estimate(batch)
    cut, pieces, turns = step_wise(batch)
    found, _ = estimate(cut, traj_uid=cut.non_tensor_batch["traj_uid"], turn=turns)
    for i, (row, turn) in enumerate(pieces):
        assert_close(found[i], whole[row, 3 * turn : 3 * turn + 2])
    assert found[-1].tolist() == [0, 0]


def test_parameters_come_from_the_call_or_the_configuration():
    batch = verl_batch()
    given, _ = estimate(batch, params=EMPGParams(k=2.0))
    configured, _ = estimate(batch, config={"empg": {"k": 2.0}})
    plain, _ = estimate(batch, config={})
    assert torch.equal(given, configured)
    assert not torch.allclose(plain, given)


def test_rows_of_turns_need_their_numbers():
    cut, _, turns = step_wise(verl_batch())
    episodes = cut.non_tensor_batch["traj_uid"]
    with pytest.raises(ValueError, match="traj_uid needs turn"):
        estimate(cut, traj_uid=episodes)
    with pytest.raises(ValueError, match="rows 0 and 5 are both turn 0 of one episode"):
        estimate(cut, traj_uid=episodes, turn=np.zeros_like(turns))


def test_turns_and_names_may_be_numpy_arrays_of_objects_lists_or_tensors():
    cut, _, turns = step_wise(verl_batch())
    episodes = cut.non_tensor_batch["traj_uid"]
    wanted, _ = estimate(cut, traj_uid=episodes, turn=turns)
    for kind in (lambda x: np.array(x, dtype=object), list, torch.tensor):
        found, _ = estimate(cut, traj_uid=episodes, turn=kind(turns.tolist()))
        assert torch.equal(found, wanted)
    numbers = ["pq".index(uid) for uid in cut.non_tensor_batch["uid"]]
    cut.non_tensor_batch["uid"] = torch.tensor(numbers)  # equal entries of it hash differently
    assert torch.equal(estimate(cut, traj_uid=episodes, turn=turns)[0], wanted)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": ["p"] * 3}, "index must have one entry for each of the 4 rows, got 3 entries"),
        ({"index": "pqpq"}, "index must have one entry"),
        ({"index": None}, "index must have one entry for each of the 4 rows, got None"),
        ({"traj_uid": ["a"], "turn": [0] * 4}, "traj_uid must have one entry"),
        ({"traj_uid": list("abcd"), "turn": [0]}, "turn must have one entry"),
        ({"traj_uid": list("abcd"), "turn": list("abcd")}, "turn must be whole numbers, got"),
        ({"traj_uid": list("abcd"), "turn": [0.5, 0, 0, 0]}, "turn must be whole numbers, got"),
        ({"turn": [0] * 4}, "turn needs traj_uid"),
        ({"entropys": None}, "entropys must be a tensor .* got NoneType"),
        ({"entropys": torch.ones(4, 7)}, r"must all be \(rows, tokens\), got .*\(4, 7\)"),
        ({"config": {"empg": {"zetta": 1}}}, "algorithm.empg must have .*zetta"),
        ({"config": {"empg": {"zeta": "x"}}}, "zeta must be a finite number >= 0, got 'x'"),
        ({"config": {"empg": 3}}, "algorithm.empg must have fields of EMPGParams, got 3"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(changes, message):
    batch = verl_batch()
    arguments = {**batch.batch, "index": batch.non_tensor_batch["uid"], **changes}
    with pytest.raises(ValueError, match=message) as caught:
        empg_advantage(**arguments)
    assert "\n" not in str(caught.value)


def test_next_steps_are_found_in_any_order():
    episode, turn = torch.tensor([7, 4, 7, 7, 4]), torch.tensor([20, 0, -3, 5, 1])
    assert next_steps(episode, turn).tolist() == [-1, 4, 3, 0, -1]
    assert next_steps(episode[:0], turn[:0]).tolist() == []
    one = empg_modulate(torch.ones(1), torch.ones(1), next_steps(episode[:1], turn[:1]))
    assert one.advantages.tolist() == [0]
    with pytest.raises(ValueError, match="1-D and of one length"):
        next_steps(episode, turn[:2])
