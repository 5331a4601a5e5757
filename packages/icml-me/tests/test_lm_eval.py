"""An ensemble inside the real lm-evaluation-harness, on tasks made of a few lines."""

import math

import pytest
import torch

from icml.core.errors import UserError
from icml.me import Ensemble

pytest.importorskip("lm_eval")


@pytest.fixture(scope="module")
def pair():
    return Ensemble(
        ["random:llama?seed=1&ctx=64", "random:llama?seed=2&ctx=64"], weights=[0.3, 0.7]
    )


DOCS = [{"q": "The sky is", "a": " blue", "b": " green", "gold": 0},
        {"q": "Grass is", "a": " red", "b": " green", "gold": 1}]  # fmt: skip


def evaluate(model, **task):
    from datasets import Dataset
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager

    config = {
        "task": "tiny", "custom_dataset": lambda **kwargs: {"test": Dataset.from_list(DOCS)},
        "test_split": "test", "doc_to_text": "{{q}}", **task,
    }  # fmt: skip
    found = simple_evaluate(
        model,
        tasks=[ConfigurableTask(config=config)],
        log_samples=True,
        bootstrap_iters=0,
        task_manager=TaskManager(include_defaults=False),  # else it reads thousands of files
    )
    return found


def test_a_task_that_generates_gets_the_ensembles_text(pair):
    from icml.me.lm_eval import EnsembleLM

    found = evaluate(
        EnsembleLM(pair, seed=5),
        output_type="generate_until",
        doc_to_target="{{a}}",
        generation_kwargs={"until": ["\n"], "do_sample": True, "top_k": 10, "max_gen_toks": 8},
        metric_list=[{"metric": "exact_match"}],
    )
    answers = [sample["filtered_resps"][0] for sample in found["samples"]["tiny"]]
    wanted = [
        pair.generate(
            doc["q"], stop=["\n"], top_k=10, max_new_tokens=8, seed=5 + number
        ).texts[0]
        for number, doc in enumerate(DOCS)
    ]  # fmt: skip
    assert answers == wanted
    assert "exact_match,none" in found["results"]["tiny"]


def test_a_task_of_choices_gets_the_exact_mixture(pair):
    from icml.me.lm_eval import EnsembleLM

    found = evaluate(
        EnsembleLM(pair), output_type="multiple_choice", doc_to_target="gold",
        doc_to_choice="{{[a, b]}}", target_delimiter="", metric_list=[{"metric": "acc"}],
    )  # fmt: skip
    tokenizer = pair.members[0].tokenizer
    right = 0
    for sample in found["samples"]["tiny"]:
        doc, scores = sample["doc"], [float(each[0]) for each in sample["filtered_resps"]]
        asked = sample["arguments"]
        assert [context + choice for context, choice in asked] == [
            doc["q"] + doc["a"], doc["q"] + doc["b"],
        ]  # fmt: skip
        wanted = [by_hand(pair, *(tokenizer(text).input_ids for text in pieces))
                  for pieces in asked]  # fmt: skip
        assert scores == pytest.approx(wanted, abs=1e-4)
        right += int(wanted[1] > wanted[0]) == doc["gold"]
    assert found["results"]["tiny"]["acc,none"] == right / 2


def by_hand(ensemble, context, continuation):
    """Sum over the tokens of log(.3 M_1 + .7 M_2), whole forward passes."""
    ids = torch.tensor([context + continuation])
    total = 0.0
    with torch.no_grad():
        one, two = (member.model(ids).logits[0].softmax(-1) for member in ensemble.members)
    for place, token in enumerate(continuation, start=len(context) - 1):
        total += math.log(0.3 * one[place, token] + 0.7 * two[place, token])
    return total


def test_long_texts_are_scored_window_by_window(pair):
    from lm_eval.api.instance import Instance

    from icml.me.lm_eval import EnsembleLM

    text = "abcdefghij" * 15  # 150 tokens, more than two windows of 63
    request = Instance("loglikelihood_rolling", {}, (text,), 0)
    found = EnsembleLM(pair).loglikelihood_rolling([request])
    ids = pair.members[0].tokenizer(text).input_ids
    # windows of 63: the last one is filled up with context from the left
    parts = [([1], ids[:63]), ([ids[62]], ids[63:126]), (ids[86:126], ids[126:])]
    assert found[0] == pytest.approx(sum(by_hand(pair, *part) for part in parts), abs=1e-3)


def test_a_context_that_is_too_long_is_cut_from_the_left(pair):
    from icml.me.lm_eval import EnsembleLM

    ids = list(range(4, 104))
    found = EnsembleLM(pair)._loglikelihood_tokens([(("", ""), ids[:90], ids[90:])])
    assert found[0][0] == pytest.approx(by_hand(pair, ids[35:90], ids[90:]), abs=1e-4)


def test_greedy_tasks_are_refused_by_me_and_done_by_the_conventional_ensemble(pair):
    from lm_eval.api.instance import Instance

    from icml.me.lm_eval import EnsembleLM

    request = Instance("generate_until", {}, ("ab", {"until": [], "max_gen_toks": 5}), 0)
    request.arguments[1]["do_sample"] = False
    with pytest.raises(UserError, match="decodes greedily, which ME can't do: pass gen_kwargs"):
        EnsembleLM(pair).generate_until([request])
    greedy = EnsembleLM(pair, method="ce", warp="after_mix").generate_until([request])
    again = EnsembleLM(pair, method="ce", warp="after_mix", seed=9).generate_until([request])
    assert greedy == again
