"""Margins of "true" over "false", against the logits and in closed form."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from brokenmath_asking import item

from icml.brokenmath.items import save_jsonl
from icml.brokenmath.likelihood import CUE, PROMPT, Likelihood, likelihood, margins
from icml.core.cli import main
from icml.core.errors import UserError
from icml.core.models.load import load

ITEMS = [item(number) for number in range(1, 6)]


@pytest.fixture(scope="module")
def tiny():
    return load("random:llama?layers=2&hidden=16&seed=3", device="cpu", dtype="float64")


def test_margins_are_sums_of_log_softmax_over_the_words(tiny) -> None:
    def log_p(prompt: str, word: str) -> float:
        before = tiny.tokenizer(prompt).input_ids
        after = tiny.tokenizer(word, add_special_tokens=False).input_ids
        with torch.no_grad():
            laws = tiny.model(torch.tensor([before + after])).logits[0].log_softmax(-1)
        return sum(float(laws[len(before) - 1 + i, token]) for i, token in enumerate(after))

    texts = [each.statement for each in ITEMS]
    for text, found in zip(texts, margins(tiny.model, tiny.tokenizer, texts), strict=True):
        prompt = PROMPT.format(statement=text) + CUE
        wanted = log_p(prompt, " true") - log_p(prompt, " false")
        assert found == pytest.approx(wanted, abs=1e-9)


def test_a_model_with_a_chat_template_is_asked_in_a_turn() -> None:
    chat = load("random:llama?layers=1&hidden=8", device="cpu", dtype="float64")
    chat.tokenizer.chat_template = (
        "{% for m in messages %}<u>{{ m.content }}</u>{% endfor %}"
        "{% if add_generation_prompt %}<a>{% endif %}"
    )
    (found,) = margins(chat.model, chat.tokenizer, ["Prove that x = 1."])
    question = PROMPT.format(statement="X = 1.") + " Answer with one word."
    before = chat.tokenizer(f"<u>{question}</u><a>", add_special_tokens=False).input_ids
    logs = []
    for word in ("True", "False"):
        after = chat.tokenizer(word, add_special_tokens=False).input_ids
        with torch.no_grad():
            laws = chat.model(torch.tensor([before + after])).logits[0].log_softmax(-1)
        logs.append(sum(float(laws[len(before) - 1 + i, t]) for i, t in enumerate(after)))
    assert found == pytest.approx(logs[0] - logs[1], abs=1e-9)


def test_items_are_scored_in_pairs(tiny) -> None:
    found = likelihood(tiny.model, tiny.tokenizer, ITEMS)
    alone = margins(tiny.model, tiny.tokenizer, [ITEMS[2].statement, ITEMS[2].original])
    assert (found.false_margins[2], found.true_margins[2]) == pytest.approx(tuple(alone))


def test_shares_and_area_by_hand() -> None:
    found = Likelihood([1.0, -1.0, 2.0, -2.0], [3.0, -0.5, 1.0, -3.0])
    assert [each.estimate for each in found.called_true] == [0.5, 0.5]
    assert found.preferred.estimate == 0.5
    # Pairs (original > false): 3 beats 4, -.5 beats 2, 1 beats 2 and ties one, -3 beats 0.
    assert found.area == (4 + 2 + 2.5) / 16
    assert "50.0% [15.0%, 85.0%]" in found.lines()[1]


def test_what_does_not_fit_is_refused_and_never_cut(tiny) -> None:
    with pytest.raises(UserError, match="statement 2 is longer than 100 tokens"):
        margins(tiny.model, tiny.tokenizer, ["x", "long " * 100], longest=100)
    with pytest.raises(UserError, match="at least one item"):
        likelihood(tiny.model, tiny.tokenizer, [])


def test_the_command_reports_a_model(tmp_path, capsys) -> None:
    save_jsonl(ITEMS, tmp_path / "items.jsonl")
    args = [
        "likelihood",
        "random:llama?layers=1&hidden=8",
        "--items",
        str(tmp_path / "items.jsonl"),
    ]
    assert main(["brokenmath", *args, "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("random:llama?layers=1&hidden=8\n3 items\nfalse statements called true: ")
    assert main(["brokenmath", *args, "--limit", "0"]) == 2
    assert "--limit must be >= 1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("model_cache")
def test_a_real_small_model_is_scored() -> None:
    """SmolLM2 gives finite margins that differ; whether it knows anything is not asserted."""
    loaded = load("pkg:smollm2", device="cpu")
    found = likelihood(loaded.model, loaded.tokenizer, ITEMS)
    both = [*found.false_margins, *found.true_margins]
    assert len(set(both)) == 10
    assert all(abs(margin) < 30 for margin in both)


@pytest.mark.parametrize("library", ["torch", "transformers"])
def test_a_missing_library_is_told_with_this_package_s_extra(library, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["brokenmath", "likelihood", "owner/model", "--limit", "1"]) == 2
    wanted = f"icml: {library} is not installed: pip install 'icml-brokenmath[models]'\n"
    assert capsys.readouterr().err == wanted
