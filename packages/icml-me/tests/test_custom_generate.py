"""ME inside the ``generate`` of transformers."""

import pytest
import torch
import transformers

from icml.core.errors import UserError
from icml.me import Ensemble, me_generate

PROMPT = torch.tensor([[3, 5, 7]])


@pytest.fixture(scope="module")
def pair(random_model):
    return Ensemble([random_model(0), random_model(1)], weights=[0.4, 0.6])


def generate(ensemble, prompt=PROMPT, **settings):
    settings = {
        "do_sample": True, "top_k": 0, "max_new_tokens": 2, "pad_token_id": 0,
        "attention_mask": torch.ones_like(prompt), **settings,
    }  # fmt: skip
    return ensemble.members[0].model.generate(
        prompt, custom_generate=me_generate, ensemble=ensemble, **settings
    )


def test_batches_of_generate_have_the_law_of_the_ensemble(pair, reference_law, p_value):
    def warp(logits):
        kept = logits / 0.7
        kept[kept < kept.topk(4).values[-1]] = -torch.inf
        return kept.softmax(-1)

    models = [member.model for member in pair.members]
    law = reference_law(models, [0.4, 0.6], PROMPT[0].tolist(), 2, warp)
    law = {key: p for key, p in law.items() if p > 0}
    torch.manual_seed(0)
    # A batch shares its draws of a member, so every call gives one independent row.
    rows = torch.cat([generate(pair, temperature=0.7, top_k=4)[:, 3:] for _ in range(300)])
    assert p_value(rows, law) > 1e-4


def test_set_seed_of_transformers_decides_the_text(pair):
    def text(seed):
        transformers.set_seed(seed)
        return generate(pair, max_new_tokens=20).tolist()

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_stopping_criteria_end_the_text(pair):
    class AfterFour(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return torch.full((len(input_ids),), input_ids.shape[1] >= 7)

    found = generate(pair, max_new_tokens=20, stopping_criteria=[AfterFour()])
    assert found.shape == (1, 7)


def test_an_output_object_is_returned_where_it_is_asked_for(pair):
    found = generate(pair, return_dict_in_generate=True)
    assert found.sequences.shape == (1, 5)


def test_padding_on_the_left_is_not_read(pair):
    padded = torch.tensor([[0, 0, 3, 5, 7]])
    mask = torch.tensor([[0, 0, 1, 1, 1]])
    transformers.set_seed(3)
    with_padding = generate(pair, padded, attention_mask=mask, max_new_tokens=15)[0, 5:]
    transformers.set_seed(3)
    assert torch.equal(with_padding, generate(pair, max_new_tokens=15)[0, 3:])


def test_a_token_streamer_hears_the_prompt_and_every_token(pair):
    class Listener:
        heard = []  # noqa: RUF012 - one listener a test
        ended = False

        def put(self, value):
            self.heard += value.flatten().tolist()

        def end(self):
            self.ended = True

    listener = Listener()
    found = generate(pair, max_new_tokens=6, token_streamer=listener)
    assert listener.heard == found[0].tolist()
    assert listener.ended


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"do_sample": False, "top_k": 50}, "do_sample=False would take the favourite of a random"),
        ({"num_beams": 3}, "num_beams is 3: a beam search"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores is not kept"),
    ],
)
def test_what_has_not_the_ensembles_law_is_refused(pair, settings, reason):
    with pytest.raises(UserError, match=reason):
        generate(pair, **settings)


def test_a_model_that_is_no_member_is_refused(pair, random_model):
    with pytest.raises(UserError, match="is no member of the ensemble"):
        random_model(7).generate(
            PROMPT, custom_generate=me_generate, ensemble=pair, do_sample=True, pad_token_id=0,
            max_new_tokens=2, attention_mask=torch.ones_like(PROMPT),
        )  # fmt: skip
