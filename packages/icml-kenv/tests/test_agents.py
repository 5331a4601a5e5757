import itertools

import pytest

from icml.core.errors import UserError
from icml.kenv.agents import (
    CommandAgent,
    DeveloperAgent,
    NullAgent,
    TemplateAgent,
    blind_expectation,
    feedback_expectation,
)
from icml.kenv.models import KernelSource, Patch, PublicBug, Reproducer, Verdict
from icml.kenv.session import Session


@pytest.fixture
def open_session(tmp_path):
    bug = PublicBug(
        id="x",
        title="t",
        crash_type="BUG",
        source=KernelSource(kind="tree", ref="x", version="1"),
        directory="net",
        crash_report="r",
        reproducers=[Reproducer(text="int main(void) {}")],
    )
    (tmp_path / "tree/net").mkdir(parents=True)
    (tmp_path / "tree/net/x.c").write_text("int a;\n")

    def evaluate(patch: Patch) -> Verdict:
        kind = "plausible" if "good" in patch.diff else "crash_same"
        return Verdict(kind=kind, backend="replay")

    def start(**options) -> Session:
        return Session(bug, tmp_path / "tree", tmp_path / "a/w", evaluate=evaluate, **options)

    return start


def submitted(agent, session: Session) -> str:
    agent.solve(session)
    assert session.submitted is not None
    return session.submitted.diff


PATCHES = [Patch(diff=text) for text in ("bad 1", "bad 2", "good 1", "good 2")]


def test_the_null_agent_submits_nothing(open_session) -> None:
    assert submitted(NullAgent(), open_session()) == ""


def test_the_developer_submits_the_fix(open_session) -> None:
    assert submitted(DeveloperAgent(Patch(diff="fix")), open_session()) == "fix"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"feedback": "none"}, "bad 1"),
        ({"max_runs": 1}, "bad 1"),
        ({"max_runs": 2}, "bad 2"),
        ({"max_runs": 3}, "good 1"),
        ({"max_runs": 9, "feedback": "verdict"}, "good 1"),
    ],
)
def test_feedback_lets_the_template_agent_go_on_to_the_first_plausible(
    open_session, options, wanted
) -> None:
    assert submitted(TemplateAgent(PATCHES), open_session(**options)) == wanted


def test_without_a_candidate_the_template_agent_submits_nothing(open_session) -> None:
    assert submitted(TemplateAgent([]), open_session()) == ""


@pytest.mark.parametrize("flags", [[1], [0], [1, 1, 0], [1, 0, 0, 0], [0, 0], [1, 1, 1, 0, 0]])
@pytest.mark.parametrize("budget", [1, 2, 3, 7])
def test_expectations_are_the_means_over_all_orders(flags, budget) -> None:
    orders = list(itertools.permutations(flags))
    wanted = sum(any(order[:budget]) for order in orders) / len(orders)
    assert feedback_expectation(list(map(bool, flags)), budget=budget) == pytest.approx(wanted)
    first = sum(order[0] for order in orders) / len(orders)
    assert blind_expectation(list(map(bool, flags))) == pytest.approx(first)


def test_expectations_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="no candidates"):
        blind_expectation([])
    with pytest.raises(ValueError, match="at least 1"):
        feedback_expectation([True], budget=0)


def test_a_command_edits_until_the_environment_is_content(open_session) -> None:
    session = open_session(max_runs=5)
    # the second round, which has feedback, writes the good line
    script = 'if [ -e "$KENV_DIR/feedback.txt" ]; then echo "int good;"; else echo "int b;"; fi'
    agent = CommandAgent(["sh", "-c", f"({script}) >> net/x.c"])
    diff = submitted(agent, session)
    assert Patch(diff=diff).changes[0].added_lines == ["int b;", "int good;"]
    assert session.runs_left == 3


def test_a_command_that_changes_nothing_ends_with_an_empty_diff(open_session) -> None:
    assert submitted(CommandAgent(["true"]), open_session()) == ""


def test_a_command_runs_once_without_feedback(open_session) -> None:
    agent = CommandAgent(["sh", "-c", "echo 'int b;' >> net/x.c"])
    diff = submitted(agent, open_session(feedback="none"))
    assert Patch(diff=diff).added == 1


def test_a_command_that_fails_or_hangs_is_an_error_and_no_submission(open_session) -> None:
    session = open_session()
    with pytest.raises(UserError, match=r"exit 3: oops"):
        CommandAgent(["sh", "-c", "echo oops >&2; exit 3"]).solve(session)
    with pytest.raises(UserError, match="timeout"):
        CommandAgent(["sleep", "60"], timeout_s=0.3).solve(session)
    assert session.submitted is None
