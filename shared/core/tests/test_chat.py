"""Scripted and metered models inside the real inspect-ai."""

import asyncio
import gc
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from icml.core.chat import Budget, BudgetExceeded, Call, Ledger, Rule, metered, scripted
from icml.core.errors import UserError

pytest.importorskip("inspect_ai")

README = Path(__file__).parents[1] / "README.md"

# inspect-ai leaves streams open, which the garbage collector tells of later.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


def ask(model, text: str, **settings):
    from inspect_ai.model import GenerateConfig

    return asyncio.run(model.generate(text, config=GenerateConfig(**settings)))


def test_an_answer_carries_its_exact_usage() -> None:
    output = ask(scripted([Rule("It is 4.", when=r"2 \+ 2")]), "What is 2 + 2?")
    assert output.completion == "It is 4."
    # What is 2 + 2 ? and It is 4 .
    assert (output.usage.input_tokens, output.usage.output_tokens) == (6, 4)
    assert output.usage.total_tokens == 10
    assert output.stop_reason == "stop"


def test_an_answer_stops_at_max_tokens() -> None:
    output = ask(scripted([Rule("a b c d")]), "x", max_tokens=2)
    assert (output.completion.strip(), output.usage.output_tokens) == ("a b", 2)
    assert output.stop_reason == "max_tokens"


@pytest.mark.parametrize("kind", ["rate_limit", "timeout"])
def test_an_injected_failure_is_retried_by_inspect_and_each_request_has_its_own(kind) -> None:
    model = scripted([Rule("done", fails=[kind, kind])])
    calls = Budget(max_calls=100)
    assert ask(metered(model, budget=calls), "a").completion == "done"
    assert calls.calls == 3
    assert ask(metered(model, budget=calls), "b").completion == "done"
    assert calls.calls == 6
    assert ask(metered(model, budget=calls), "b").completion == "done"
    assert calls.calls == 7


def test_a_failure_goes_through_where_inspect_may_not_retry() -> None:
    with pytest.raises(Exception, match="ScriptedTimeout"):
        ask(scripted([Rule("done", fails=["timeout"])]), "a", max_retries=0)


def test_two_scripts_of_one_name_are_two_models() -> None:
    one, two = (scripted([Rule(lambda m, rng, w=word: w)]) for word in ("one", "two"))
    assert ask(one, "x").completion == "one"
    assert ask(two, "x").completion == "two"


def test_a_tool_is_called_inside_an_eval_and_its_result_answered(tmp_path) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import tool

    @tool
    def add():
        async def execute(x: int, y: int) -> str:
            """Add two numbers.

            Args:
                x: One.
                y: The other.
            """
            return f"the sum is {x + y}"

        return execute

    rules = [
        Rule(lambda messages, rng: messages[-1].text.upper(), when="the sum is"),
        Rule(Call("add", {"x": 2, "y": 3}, text="adding")),
    ]
    task = Task(
        dataset=[Sample(input="2 and 3", target="5")],
        solver=[use_tools(add()), generate()],
        scorer=includes(),
    )
    (log,) = eval(task, model=scripted(rules), log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    (sample,) = log.samples
    assert [message.role for message in sample.messages] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert sample.output.completion == "THE SUM IS 5"
    assert log.results.scores[0].metrics["accuracy"].value == 1
    # read: "2 and 3" (3), then also adding, add, {"x": 2, "y": 3} (15) and the result (4)
    assert sample.output.usage.input_tokens == 3 + 1 + 1 + 13 + 4


def test_a_tool_that_is_not_offered_is_an_error_of_the_script() -> None:
    with pytest.raises(UserError, match="calls the tool run, but those offered are: none"):
        ask(scripted([Rule(Call("run"))]), "x")


def test_many_requests_run_at_once() -> None:
    model = scripted([Rule("x")])
    answer = model.api.generate
    flying, most = 0, 0

    async def slowly(**request):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        while most < 64 and flying:  # until all are there; each waits for the others
            await asyncio.sleep(0.01)
        flying -= 1
        return await answer(**request)

    vars(model.api)["generate"] = slowly

    async def all_at_once() -> None:
        await asyncio.wait_for(asyncio.gather(*(model.generate(str(i)) for i in range(64))), 60)

    asyncio.run(all_at_once())
    assert most == 64
    assert model.api.max_connections() >= 64


@pytest.mark.parametrize(
    ("limits", "made"),
    # A request holds 2 + 10 tokens and uses 2 + 2: with 16 used, 28 could be more than 25.
    [({"max_calls": 2}, 2), ({"max_tokens": 25}, 4), ({"max_tokens": 11}, 0)],
)
def test_a_call_that_could_exceed_the_budget_is_not_made(limits, made) -> None:
    asked = []
    model = scripted([Rule(lambda messages, rng: asked.append(1) or "a b")])
    budget, ledger = Budget(**limits), Ledger()
    told = metered(model, budget=budget, ledger=ledger)
    for _ in range(made):
        ask(told, "q ?", max_tokens=10)
    with pytest.raises(BudgetExceeded):
        ask(told, "q ?", max_tokens=10)
    assert ledger.total().calls == len(asked) == budget.calls == made
    assert budget.tokens == ledger.total().tokens == 4 * made


def test_requests_in_flight_hold_what_they_may_need() -> None:
    budget = Budget(max_tokens=25)
    first, _ = budget.reserve(12), budget.reserve(12)
    with pytest.raises(BudgetExceeded, match="0 of 25 are used, 24 held"):
        budget.reserve(12)
    first.settle(4)
    first.settle(100)  # only the first time counts
    assert budget.tokens == 4
    with pytest.raises(BudgetExceeded, match="4 of 25 are used, 12 held"):
        budget.reserve(12)


def test_a_failed_request_releases_its_tokens_and_counts_as_a_call() -> None:
    budget = Budget(max_tokens=100, max_calls=9)
    model = metered(scripted([Rule("a", fails=["timeout"])]), budget=budget)
    with pytest.raises(Exception, match="ScriptedTimeout"):
        ask(model, "x", max_retries=0, max_tokens=50)
    assert (budget.calls, budget.tokens) == (1, 0)
    assert ask(model, "x", max_tokens=50).completion == "a"
    assert (budget.calls, budget.tokens) == (2, 2)


def test_a_budget_of_tokens_needs_to_know_how_long_answers_may_be() -> None:
    model = metered(scripted([Rule("a")]), budget=Budget(max_tokens=100))
    with pytest.raises(UserError, match="set max_tokens"):
        ask(model, "x")


@pytest.mark.parametrize("limits", [{}, {"max_calls": -1}, {"max_tokens": -5, "max_calls": 1}])
def test_a_budget_without_a_sensible_limit_is_refused(limits) -> None:
    with pytest.raises(UserError, match="none below 0"):
        Budget(**limits)


def test_a_ledger_sums_by_the_innermost_tag_also_across_tasks() -> None:
    ledger = Ledger()
    model = metered(scripted([Rule("a b c")]), ledger=ledger)

    async def node(name: str, calls: int) -> None:
        with ledger.tag(name):
            for _ in range(calls):
                await model.generate("x y")

    async def all_nodes() -> None:
        with ledger.tag("outer"):
            await asyncio.gather(node("solver", 3), node("critic", 2))
            await model.generate("x y")

    asyncio.run(all_nodes())
    sums = ledger.by_tag()
    assert {tag: usage.calls for tag, usage in sums.items()} == {
        "solver": 3,
        "critic": 2,
        "outer": 1,
    }
    assert sums["solver"] == (3, 6, 9)
    assert ledger.total() == (6, 12, 18)
    assert ledger.total().tokens == 30
    assert Ledger().total() == (0, 0, 0)


def test_a_metered_model_leaves_the_model_as_it_is() -> None:
    model, ledger = scripted([Rule("a")]), Ledger()
    metered(model, ledger=ledger)
    ask(model, "x")
    assert ledger.total().calls == 0


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes


@task
def sums():
    return Task(dataset=[Sample(input="2 + 2", target="4")], scorer=includes())
"""


@pytest.mark.slow
def test_inspects_command_line_finds_the_provider_and_its_script(tmp_path) -> None:
    (tmp_path / "sums.py").write_text(TASK)
    (tmp_path / "script.json").write_text(json.dumps([{"when": r"2 \+ 2", "reply": "4"}]))
    command = [sys.executable, "-m", "inspect_ai", "eval", "sums.py", "--model", "scripted/known"]
    command += ["-M", "script=script.json", "--display", "none", "--log-dir", "logs"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    from inspect_ai.log import list_eval_logs, read_eval_log

    log = read_eval_log(list_eval_logs(str(tmp_path / "logs"))[0])
    assert (log.status, log.eval.model) == ("success", "scripted/known")
    assert log.results.scores[0].metrics["accuracy"].value == 1


def test_without_rules_there_is_no_scripted_model() -> None:
    from inspect_ai.model import get_model

    with pytest.raises(UserError, match=r"-M script=rules\.json"):
        get_model("scripted/x", memoize=False)


LIGHT = """
import sys
from icml.core.chat import Budget, Ledger, Rule, count_tokens
import icml.core.votes
print(sorted({"torch", "inspect_ai", "transformers"} & set(sys.modules)))
import icml.core.chat.provider
print(sorted({"torch", "transformers"} & set(sys.modules)))
"""


def test_rules_and_budgets_load_no_inspect_and_models_no_torch() -> None:
    ended = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert ended.stdout.split("\n")[:2] == ["[]", "[]"], ended.stderr


def test_the_readmes_example_runs_as_it_stands_there(capsys) -> None:
    (example,) = re.findall(r"^```py chat\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == [
        "4",
        "{'sums': Usage(calls=1, input_tokens=6, output_tokens=1)}",
    ]


def test_a_model_that_can_t_be_had_is_one_sentence() -> None:
    from icml.core.chat import model_named

    with pytest.raises(UserError, match="the judge 'nowhere/x' can't be asked: "):
        model_named("nowhere/x", role="judge", extra="icml-core[inspect]")


def test_an_error_of_a_model_is_one_plain_line() -> None:
    from inspect_ai._util.error import PrerequisiteError, pip_dependency_error

    from icml.core.chat import error_text

    assert error_text(pip_dependency_error("OpenAI API", ["openai"])) == (
        "ERROR: OpenAI API requires optional dependencies. Install with: pip install openai"
    )
    assert error_text(PrerequisiteError("no [/such] tag")) == "no [/such] tag"
    # Others' brackets are no markup.
    assert error_text(RuntimeError("at [bold]\n  x[0] ")) == "at [bold] x[0]"
