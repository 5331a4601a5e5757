from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from torch.nn import functional as F

from icml.core.models.tiny import CausalOutput, TinyGPT
from icml.core.rl.sampling import Rollouts, pad_right, sample, score

PROMPTS = [[1, 5], [1, 6, 7, 8], [1], [1, 9, 9]]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(model, prompts, seed=0, **options) -> Rollouts:
    defaults: dict[str, Any] = {"max_new_tokens": 6, "eos_id": 2, "generator": generator(seed)}
    return sample(model, prompts, **(defaults | options))


class Unigram(torch.nn.Module):
    """The next token has the same distribution everywhere."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor(logits))

    def forward(self, ids: torch.Tensor) -> CausalOutput:
        return CausalOutput(self.bias.expand(*ids.shape, -1))


class Uncached(torch.nn.Module):
    """A model that can only be asked for whole rows."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> CausalOutput:
        return self.model(ids)


def test_padding_goes_to_the_right():
    ids, lengths = pad_right([[3, 4, 5], [], [6]])
    assert ids.tolist() == [[3, 4, 5], [0, 0, 0], [6, 0, 0]]
    assert lengths.tolist() == [3, 0, 1]
    assert pad_right([])[0].shape == (0, 0)


def test_tokens_are_drawn_with_the_models_probabilities():
    probabilities = torch.tensor([0.4, 0.0, 0.1, 0.25, 0.25])
    drawn = draw(Unigram(probabilities.log().tolist()), [[1]] * 4000, max_new_tokens=1)
    counts = drawn.completion_ids[:, 0].bincount(minlength=5)
    assert counts[1] == 0
    used = probabilities > 0
    # Chi-square goodness of fit, 4000 draws: false alarm 1e-3 (and the seed is fixed).
    assert chisquare(counts[used], 4000 * probabilities[used].double()).pvalue > 1e-3


def test_temperature_divides_the_logits():
    logits = [1.0, -0.5, 0.3, 0.0]
    hot = draw(Unigram(logits), [[1]] * 50, temperature=2.0, eos_id=3)
    same = draw(Unigram([x / 2 for x in logits]), [[1]] * 50, eos_id=3)
    assert torch.equal(hot.completion_ids, same.completion_ids)
    torch.testing.assert_close(hot.logp, same.logp)
    torch.testing.assert_close(hot.entropy, same.entropy)


def test_a_completion_ends_with_the_end_token_which_counts_as_drawn():
    drawn = draw(TinyGPT(vocab=5, d=8), [[1, 3]] * 64, max_new_tokens=12)
    completions = drawn.completions()
    ended = [ids for ids in completions if 2 in ids]
    assert len(ended) > 32
    assert all(ids.index(2) == len(ids) - 1 for ids in ended)
    assert all(len(ids) == drawn.mask.shape[1] for ids in completions if 2 not in ids)


def test_nothing_is_recorded_after_the_end():
    drawn = draw(TinyGPT(vocab=5, d=8), [[1, 3]] * 64, max_new_tokens=12)
    for recorded in (drawn.completion_ids, drawn.logp, drawn.entropy):
        assert not recorded[~drawn.mask].any()


def test_drawing_stops_when_every_row_has_ended():
    drawn = draw(Unigram([-1e9, -1e9, 0.0]), [[1]] * 3, max_new_tokens=50)
    assert drawn.completion_ids.tolist() == [[2]] * 3


@torch.no_grad()
def test_prompts_of_different_lengths_are_scored_as_if_each_was_alone():
    model = TinyGPT(vocab=12, d=16).double()
    drawn = draw(model, PROMPTS)
    batched = score(model, drawn.prompt_ids, drawn.prompt_lengths, drawn.completion_ids)
    for row, (prompt, completion) in enumerate(zip(PROMPTS, drawn.completions(), strict=True)):
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        alone = logits.log_softmax(-1)[range(len(completion)), completion]
        # The loss side works in float32: sums of 12 terms.
        torch.testing.assert_close(batched[row, : len(completion)], alone, check_dtype=False)


def test_the_recorded_log_probabilities_and_entropies_are_the_models():
    model = TinyGPT(vocab=12, d=16)
    drawn = draw(model, PROMPTS, temperature=0.7)
    scored = score(
        model, drawn.prompt_ids, drawn.prompt_lengths, drawn.completion_ids, temperature=0.7
    )
    torch.testing.assert_close(scored[drawn.mask], drawn.logp[drawn.mask])
    first = F.log_softmax(model(torch.tensor([PROMPTS[1]])).logits[0, -1] / 0.7, -1)
    torch.testing.assert_close(drawn.entropy[1, 0], -(first.exp() * first).sum())


def test_a_rows_draws_do_not_depend_on_the_other_prompts():
    model = TinyGPT(vocab=12, d=16, seed=3)
    ours = draw(model, [*PROMPTS, [1, 4]]).completions()
    others = draw(model, [*PROMPTS[::-1], [1, 4]]).completions()
    assert ours[-1] == others[-1]


def test_the_generator_alone_decides_and_moves_by_the_same_amount_whatever_is_drawn():
    model, state = TinyGPT(vocab=12, d=8), torch.get_rng_state()
    used, never_ending = generator(7), generator(7)
    first = sample(model, PROMPTS, max_new_tokens=6, eos_id=2, generator=used)
    sample(model, PROMPTS, max_new_tokens=6, eos_id=-1, generator=never_ending)
    assert torch.equal(first.completion_ids, draw(model, PROMPTS, seed=7).completion_ids)
    assert torch.equal(used.get_state(), never_ending.get_state())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_with_a_cache_draws_what_it_would_draw_without_one():
    model = TinyGPT(vocab=12, d=16, ctx=9, seed=2)
    cached, whole = draw(model, PROMPTS * 20), draw(Uncached(model), PROMPTS * 20)
    assert torch.equal(cached.completion_ids, whole.completion_ids)
    torch.testing.assert_close(cached.logp, whole.logp)
    torch.testing.assert_close(cached.entropy, whole.entropy)


def test_scores_carry_gradients_and_samples_do_not():
    model = TinyGPT(vocab=12, d=16)
    drawn = draw(model, PROMPTS)
    assert not drawn.logp.requires_grad
    assert score(model, drawn.prompt_ids, drawn.prompt_lengths, drawn.completion_ids).requires_grad


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {}, "there must be a prompt"),
        ([[1], []], {}, "at least one token"),
        ([[1]], {"max_new_tokens": 0}, "must be positive, got 0 and 1.0"),
        ([[1]], {"temperature": 0.0}, "must be positive, got 6 and 0.0"),
    ],
)
def test_input_that_cannot_be_sampled_from_is_refused(prompts, options, message):
    with pytest.raises(ValueError, match=message):
        draw(TinyGPT(vocab=12, d=8), prompts, **options)


def test_transformers_models_are_scored_the_same_way():
    from icml.core.models.tiny import causal_lm

    model = causal_lm(12, d=16)
    drawn = draw(model, PROMPTS)
    scored = score(model, drawn.prompt_ids, drawn.prompt_lengths, drawn.completion_ids)
    torch.testing.assert_close(scored[drawn.mask], drawn.logp[drawn.mask])
