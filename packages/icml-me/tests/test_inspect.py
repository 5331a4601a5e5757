"""An ensemble inside the real inspect-ai."""

import gc
from collections.abc import Iterator

import pytest

from icml.core.errors import UserError
from icml.me import Ensemble

pytest.importorskip("inspect_ai")

# inspect-ai leaves streams open, which the garbage collector tells of later.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


TEMPLATE = "{% for m in messages %}<{{ m.content }}>{% endfor %}"


@pytest.fixture(scope="module")
def pair():
    ensemble = Ensemble(["random:llama?seed=1", "random:llama?seed=2"])
    for member in ensemble.members:
        member.tokenizer.chat_template = TEMPLATE
    return ensemble


def run(ensemble, tmp_path, **settings):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, get_model
    from inspect_ai.scorer import includes

    model = get_model("icml-me/pair", ensemble=ensemble, memoize=False)
    task = Task(
        dataset=[Sample(input="hello", target="x"), Sample(input="good day", target="e")],
        scorer=includes(),
        config=GenerateConfig(max_tokens=6, **settings),
    )
    (log,) = eval(task, model=model, log_dir=str(tmp_path), display="none")
    return log


def test_a_task_is_answered_by_the_ensemble(pair, tmp_path):
    log = run(pair, tmp_path, seed=3, top_k=20)
    assert log.status == "success"
    for sample, prompt in zip(log.samples, ("hello", "good day"), strict=True):
        wanted = pair.generate(f"<{prompt}>", max_new_tokens=6, seed=3, top_k=20)
        assert sample.output.completion == wanted.texts[0]
        assert sample.output.usage.output_tokens == wanted.stats.steps
        assert sample.output.usage.input_tokens == len(prompt) + 2
        assert sum(sample.output.metadata["forward_passes"]) == wanted.stats.steps
    assert log.results.total_samples == 2


def test_a_greedy_task_ends_with_the_reason(pair, tmp_path):
    log = run(pair, tmp_path, temperature=0.0)
    assert log.status == "error"
    assert "use method='ce' with warp='after_mix'" in log.error.message


def test_members_can_be_given_as_one_text():
    from inspect_ai.model import get_model

    model = get_model(
        "icml-me/pair", models="random:llama?seed=1,random:llama?seed=2", weights="1,3"
    )
    assert model.api.ensemble.weights.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "say which models: -M models="),
        ({"models": "random:llama", "weights": "much"}, "weights must be numbers separated"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(settings, reason):
    from icml.me.inspect_model import EnsembleAPI

    with pytest.raises(UserError, match=reason):
        EnsembleAPI("pair", **settings)
