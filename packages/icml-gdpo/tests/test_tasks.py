import pytest
import torch
from scipy.stats import binomtest, chisquare

from icml.gdpo.experiment.tasks import (
    BROKEN,
    CALLS,
    LONGEST,
    REPLACED,
    VOCABULARY,
    ToolCall,
    correctness_reward,
    demonstrations,
    format_reward,
    rewards,
    sample_calls,
)

N = 20_000
DELIMITERS = ("<call>", "</call>", "(", ")")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ids(text: str) -> list[int]:
    return [VOCABULARY.index(word) for word in text.split()]


def words(completion: list[int]) -> list[str]:
    return [VOCABULARY[token] for token in completion]


def test_there_are_288_different_questions_and_as_many_different_answers():
    assert len(CALLS) == 12 * 24 == 288
    assert len({tuple(call.prompt_ids) for call in CALLS}) == 288
    assert len({tuple(call.answer) for call in CALLS}) == 288
    assert len(set(VOCABULARY)) == len(VOCABULARY)


def test_every_right_answer_gets_full_marks_from_both_rewards():
    answers = [call.answer for call in CALLS]
    assert {len(answer) for answer in answers} == {LONGEST}
    assert torch.equal(rewards(CALLS, answers), torch.tensor([[1.0, 3.0]]).expand(288, 2))


def test_a_right_answer_reads_as_the_docs_say():
    call = ToolCall(tool=3, value=17)
    assert words(call.prompt_ids) == ["<bos>", "verb3", "the", "v17", "Q"]
    assert words(call.answer) == [
        "<call>",
        "tool3",
        "(",
        "arg5",
        "=",
        "v17",
        ")",
        "</call>",
        "<eos>",
    ]


@pytest.mark.parametrize(
    ("completion", "form", "correctness"),
    [
        ("<call> tool3 ( arg5 = v17 ) </call> <eos>", 1, 3),
        ("<call> tool4 ( arg5 = v17 ) </call> <eos>", 1, 1),
        ("<call> tool4 ( arg0 = v17 ) </call> <eos>", 1, -1),
        ("<call> tool4 ( arg0 = v16 ) </call> <eos>", 1, -3),
        ("<call> tool3 ( arg5 = v17 ) </call>", 0, 3),
        ("tool3 ( arg5 = v17 ) </call> <eos>", 0, 3),
        ("<call> tool3 ( arg5 = v17 ) </call> </call> <eos>", 0, 3),
        ("<call> v17 ( arg5 = tool3 ) </call> <eos>", 0, 3),
        ("tool3 tool3 arg5 v17 <eos>", 0, 1),
        ("tool3 tool4 arg5 v17 <eos>", 0, 1),
        ("<eos>", 0, -3),
        ("", 0, -3),
    ],
)
def test_rewards_by_hand(completion, form, correctness):
    assert format_reward(ids(completion)) == form
    assert correctness_reward(ToolCall(3, 17), ids(completion)) == correctness


def test_rewards_stay_in_their_ranges_whatever_is_said():
    noise = torch.randint(len(VOCABULARY), (500, LONGEST), generator=generator()).tolist()
    scores = rewards(sample_calls(generator(), 500), [row[: len(row) % 10] for row in noise])
    assert set(scores[:, 0].tolist()) <= {0.0, 1.0}
    assert set(scores[:, 1].tolist()) <= {-3.0, -1.0, 1.0, 3.0}
    assert rewards([], []).shape == (0, 2)


def test_calls_are_drawn_evenly():
    drawn = sample_calls(generator(1), 288 * 40)
    counts = [0] * 288
    for call in drawn:
        counts[24 * call.tool + call.value] += 1
    # Chi-square goodness of fit with 287 degrees of freedom: false alarm 1e-3 (seed fixed).
    assert chisquare(counts).pvalue > 1e-3


@pytest.fixture(scope="module")
def demos() -> list[list[int]]:
    return demonstrations([ToolCall(3, 17)] * N, generator(2))


def test_demonstrations_break_the_format_as_often_as_stated(demos):
    broken = sum(format_reward(demo) == 0 for demo in demos)
    # Exact binomial test: false alarm 1e-3 (seed fixed).
    assert binomtest(broken, N, BROKEN).pvalue > 1e-3


def test_each_kind_of_delimiter_is_missing_equally_often(demos):
    missing = [tuple(d for d in DELIMITERS if d not in words(demo)) for demo in demos]
    kinds = [("<call>",), ("</call>",), ("(", ")")]
    assert set(missing) == {(), *kinds}
    assert chisquare([missing.count(kind) for kind in kinds]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("prefix", "size", "right"), [("tool", 12, 3), ("arg", 6, 5), ("v", 24, 17)]
)
def test_content_is_replaced_as_often_as_stated(demos, prefix, size, right):
    kind = [f"{prefix}{i}" for i in range(size)]
    said = [next(word for word in words(demo) if word in kind) for demo in demos]
    counts = [said.count(word) for word in kind]
    # A replaced word is drawn from all of its kind, so the right one keeps 1/size of that share.
    expected = [N * REPLACED / size] * size
    expected[right] += N * (1 - REPLACED)
    assert chisquare(counts, expected).pvalue > 1e-3


def test_demonstrations_without_noise_are_the_answers():
    calls = sample_calls(generator(), 50)
    clean = demonstrations(calls, generator(), broken=0.0, replaced=0.0)
    assert clean == [call.answer for call in calls]


def test_demonstrations_depend_on_the_generator_alone():
    state = torch.get_rng_state()
    first, second = (demonstrations(CALLS, generator(4)) for _ in range(2))
    assert first == second
    assert first != demonstrations(CALLS, generator(5))
    assert torch.equal(torch.get_rng_state(), state)
