"""Thoughts before an answer: judged by nobody, learnt where a chat template writes them."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("trl")
sys.path.insert(0, str(Path(__file__).parent))

from brokenmath_asking import item, said

from icml.brokenmath.answers import read_answers
from icml.brokenmath.sft import TEMPLATES
from icml.brokenmath.sft_data import data_lines, training_data
from icml.brokenmath.sft_recipe import sft
from icml.brokenmath.sft_tokens import encode, thoughtless, writes_thoughts
from icml.brokenmath.tasks import brokenmath_task
from icml.core.errors import UserError
from icml.core.models.random_llama import byte_tokenizer
from icml.core.models.tiny import causal_lm

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

THOUGHT = "Is it so? " * 30 + "\nverdict: proved\nrepair: none"  # long ones are stored apart
PLAIN = (
    "{% for m in messages %}{{ '<bos>' + m['role'] + ':' + m['content'] + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<bos>assistant:' }}{% endif %}"
)
IF_ANY = PLAIN.replace(
    "m['content']",
    "('[' + m.reasoning_content + ']' if m.reasoning_content is string else '') + m['content']",
)
ITEMS = [item(number) for number in (1, 2, 3)]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


def qwen3(*, opens: bool) -> str:
    """Return Qwen3's chat template; that of its thinking models opens the thought by itself."""
    import trl

    path = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    if not path.is_file():
        pytest.skip("this version of TRL comes without the template")
    found = path.read_text(encoding="utf-8")
    header = "{{- '<|im_start|>assistant\\n"
    assert found.count(f"{header}' }}}}") == 1
    return found.replace(f"{header}' }}}}", f"{header}<think>\\n' }}}}") if opens else found


def tokenizer(template):
    found = byte_tokenizer(256)
    found.chat_template = template
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """Ask for three proofs: one with thoughts, one with unreadable ones, one without."""
    from inspect_ai import eval
    from inspect_ai.model import (
        ChatCompletionChoice,
        ChatMessageAssistant,
        ContentReasoning,
        ContentText,
        ModelOutput,
        ModelUsage,
        get_model,
    )

    def output(number, *thoughts):
        content = [*thoughts, ContentText(text=said("ideal", number))]
        message = ChatMessageAssistant(content=content, source="generate")
        usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return ModelOutput(model="m", choices=[ChatCompletionChoice(message=message)], usage=usage)

    outputs = [
        output(1, ContentReasoning(reasoning=THOUGHT), ContentReasoning(reasoning=" It isn't. ")),
        output(2, ContentReasoning(reasoning="gAAAAAB", redacted=True, summary="It thought.")),
        output(3),
    ]
    (found,) = eval(
        brokenmath_task(ITEMS), model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=str(tmp_path_factory.mktemp("logs")), display="none", max_samples=1,
    )  # fmt: skip
    assert found.status == "success", found.error
    return Path(found.location.removeprefix("file://"))


def test_an_answer_has_its_thoughts_and_is_judged_by_its_text(log):
    rows = read_answers(log).rows
    assert [row.text for row in rows] == [said("ideal", number) for number in (1, 2, 3)]
    assert [row.category for row in rows] == ["ideal"] * 3
    assert [row.reasoning for row in rows] == [f"{THOUGHT.strip()}\n\nIt isn't.", "", ""]


def test_examples_hold_the_thoughts_and_data_lines_none_where_there_are_none(log):
    rows = training_data(n=3, adv_frac=1, proof_frac=1, seed=0, answers=[str(log)]).rows
    lines = [json.loads(line) for line in data_lines(rows).splitlines()]
    found = {line["id"]: line["messages"] for line in lines}
    assert found["item-1"][1] == {
        "role": "assistant",
        "content": said("ideal", 1),
        "reasoning_content": f"{THOUGHT.strip()}\n\nIt isn't.",
    }
    assert set(found["item-1"][0]) == set(found["item-3"][1]) == {"role", "content"}
    assert thoughtless(rows) == 2


@pytest.mark.parametrize("opens", [False, True])
def test_qwen3_learns_the_thoughts_and_nothing_of_the_request(log, opens):
    rows = training_data(n=3, adv_frac=1, proof_frac=1, seed=0, answers=[str(log)]).rows
    words = tokenizer(qwen3(opens=opens))
    found = {
        row["id"]: words.decode(
            [t for t, m in zip(one["input_ids"], one["completion_mask"], strict=True) if m]
        )
        for row, one in zip(rows, encode(rows, words, None), strict=True)
    }
    start = "" if opens else "<think>\n"
    thought = f"{THOUGHT.strip()}\n\nIt isn't."
    assert found["item-1"] == f"{start}{thought}\n</think>\n\n{said('ideal', 1)}<|im_end|>\n"
    assert found["item-3"] == f"{start}\n</think>\n\n{said('ideal', 3)}<|im_end|>\n"


def test_what_a_chat_template_does_with_thoughts_is_found_by_trying_it():
    assert writes_thoughts(tokenizer(PLAIN)) == "never"
    assert writes_thoughts(tokenizer(IF_ANY)) == "if any"
    for opens in (False, True):
        assert writes_thoughts(tokenizer(qwen3(opens=opens))) == "always"


def test_thoughts_in_the_text_of_an_answer_are_thoughts():
    messages = [{"role": "user", "content": TEMPLATES["proof"]}]
    said_so = {"role": "assistant", "content": "<think>\nNo.\n</think>\n\nIt fails."}
    assert thoughtless([{"messages": [*messages, said_so]}]) == 0


def test_empty_thoughts_are_learnt_only_if_the_recipe_wants_them(log, tmp_path, capsys):
    """And where the template has no place for thoughts, it is told how many are lost."""
    folder = tmp_path / "model"
    causal_lm(256, d=16, layers=1, heads=2, ctx=2048).save_pretrained(folder)

    def run(template, out, **data):
        tokenizer(template).save_pretrained(folder)
        path = tmp_path / "recipe.yaml"
        data = {"n": 3, "adv_frac": 1, "answers": [str(log)], **data}
        training = {
            "max_steps": 1, "per_device_train_batch_size": 3, "max_length": 2048, "bf16": False,
            "use_cpu": True, "save_strategy": "no", "activation_checkpointing": False,
        }  # fmt: skip
        path.write_text(json.dumps({"model": str(folder), "data": data, "training": training}))
        return sft(str(path), out=tmp_path / out)

    with pytest.raises(UserError, match=r"2 of 3 answers hold no thoughts.*set data.empty_thou"):
        run(qwen3(opens=True), "a")
    assert not (tmp_path / "a").exists()
    assert run(qwen3(opens=True), "b", empty_thoughts=True) == 0
    assert "their thoughts" not in capsys.readouterr().out
    assert run(IF_ANY, "c") == 0
    assert "their thoughts" not in capsys.readouterr().out
    assert run(PLAIN, "d") == 0
    assert "1 answers lose their thoughts" in capsys.readouterr().out
