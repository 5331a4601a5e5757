from datetime import UTC, datetime

import pytest

from icml.core.errors import UserError
from icml.kenv.agents import CommandAgent
from icml.kenv.models import (
    Baseline,
    Bug,
    BuildResult,
    CompileError,
    CrashReport,
    Equivalence,
    FixSource,
    KernelSource,
    Patch,
    Reproducer,
    RunResult,
    Verdict,
)
from icml.kenv.session import FeedbackDisabled, RunsExhausted, Session

SECRETS = ["if_the_fix_is_seen", "fix-commit-7f3", "6.1.999-9", "send -> -1 errno=77", "2031"]
SOURCE = "int f(void)\n{\n\treturn 0;\n}\n"
CRASH = CrashReport(title="kernel BUG in f", kind="BUG", raw="the report's text", start=0, end=1)


@pytest.fixture
def bug():
    now = KernelSource(kind="deb", ref="linux-source-6.1", version="6.1.170-3")
    later = KernelSource(kind="deb", ref="linux-source-6.1", version=SECRETS[2])
    return Bug(
        id="x-bug",
        title="kernel BUG in f",
        crash_type="BUG",
        source=now,
        directory="net/x",
        crash_report="kernel BUG at net/x/x.c:3!",
        reproducers=[Reproducer(text="int main(void) { return 0; }")],
        fix=Patch(diff=f"--- a/net/x/x.c\n+++ b/net/x/x.c\n@@ -3 +3 @@\n-\tr\n+{SECRETS[0]}\n"),
        fix_source=FixSource(source=later, hunks={"net/x/x.c": [1]}),
        fix_commits=[SECRETS[1]],
        fix_time=datetime(2031, 5, 6, tzinfo=UTC),
        baselines=[
            Baseline(backend="uml", runs=15, crashes=15, fixed_transcript=[SECRETS[3]]),
        ],
    )


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "net/x").mkdir(parents=True)
    (root / "net/x/x.c").write_text(SOURCE)
    (root / ".git").mkdir()
    (root / ".git/ORIG_HEAD").write_text(SECRETS[1])
    return root


class Environment:
    """An environment with known answers: a diff that adds a guard is plausible."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, patch: Patch) -> Verdict:
        self.asked.append(patch.diff)
        same = Equivalence(answer="discrepant", evidence="transcript", witness=SECRETS[3])
        run = RunResult(booted=True, finished=True, seconds=1, transcript=["send -> 0 errno=0"])
        if "guard" in patch.diff:
            return Verdict(kind="plausible", backend="replay", equivalence=same, runs=[run])
        if "syntax" in patch.diff:
            errors = [CompileError(message=f"error {n}", file="x.c", line=n) for n in (1, 2)]
            build = BuildResult(ok=False, seconds=1, errors=errors)
            return Verdict(kind="build_failed", backend="replay", build=build)
        run = run.model_copy(update={"crash": CRASH})
        return Verdict(
            kind="crash_same", backend="replay", crash=CRASH, runs=[run], equivalence=same
        )


@pytest.fixture
def environment():
    return Environment()


@pytest.fixture
def open_session(bug, tree, tmp_path, environment):
    def start(**options) -> Session:
        return Session(bug, tree, tmp_path / "agent/worktree", evaluate=environment, **options)

    return start


def edit(session: Session, text: str) -> None:
    path = session.worktree / "net/x/x.c"
    path.write_text(path.read_text().replace("return 0;", text))


def test_nothing_an_agent_can_get_holds_the_fix(open_session, tmp_path, bug) -> None:
    assert all(secret in bug.model_dump_json() for secret in SECRETS)
    session = open_session(max_runs=9)
    seen = tmp_path / "seen"
    script = 'cat "$KENV_DIR"/* >> "$0" 2>/dev/null; env >> "$0"; echo "/* x */" > net/x/y.c'
    CommandAgent(["sh", "-c", script, str(seen)]).solve(session)

    told = [session.run_kernel(diff).text() for diff in ("a", "guard", "syntax")]
    files = [path.read_bytes() for path in (tmp_path / "agent").rglob("*") if path.is_file()]
    everything = b"".join(
        [
            seen.read_bytes(),
            *files,
            *(text.encode() for text in told),
            session.bug.model_dump_json().encode(),
            session.diff().encode(),
        ]
    )
    assert b"kernel BUG" in everything
    assert b"send -> 0" in everything
    assert [secret for secret in SECRETS if secret.encode() in everything] == []


def test_the_worktree_is_the_bugs_folder_without_history(open_session) -> None:
    session = open_session()
    names = {str(p.relative_to(session.worktree)) for p in session.worktree.rglob("*")}
    assert names == {"net", "net/x", "net/x/x.c"}


def test_the_diff_is_what_was_edited_and_no_build_product(open_session) -> None:
    session = open_session()
    assert session.diff() == ""
    edit(session, "return 1;")
    (session.worktree / "net/x/x.o").write_bytes(b"\x7fELF")
    (session.worktree / "net/x/new.h").write_text("int n;\n")
    (session.worktree / "net/x/link.c").symlink_to("/etc/passwd")

    patch = Patch(diff=session.diff())
    assert patch.files == ["net/x/new.h", "net/x/x.c"]
    assert (patch.added, patch.removed) == (2, 1)
    assert patch.changes[0].old_path is None


def test_a_deleted_file_is_part_of_the_diff(open_session) -> None:
    session = open_session()
    (session.worktree / "net/x/x.c").unlink()
    (change,) = Patch(diff=session.diff()).changes
    assert (change.old_path, change.new_path) == ("net/x/x.c", None)


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("verdict", {"kind"}),
        ("title", {"kind", "title"}),
        ("report", {"kind", "title", "report"}),
        ("full", {"kind", "title", "report", "transcript"}),
    ],
)
def test_each_level_tells_more_than_the_one_before(open_session, level, told) -> None:
    found = open_session(feedback=level).run_kernel("x").model_dump()
    assert {name for name, value in found.items() if value} - {"runs_left"} == told


@pytest.mark.parametrize(("level", "errors"), [("verdict", 0), ("title", 1), ("report", 2)])
def test_build_errors_are_told_by_level(open_session, level, errors) -> None:
    found = open_session(feedback=level).run_kernel("syntax")
    assert len(found.build_errors) == errors


def test_without_feedback_nothing_runs(open_session, environment) -> None:
    with pytest.raises(FeedbackDisabled):
        open_session(feedback="none").run_kernel("x")
    assert environment.asked == []


def test_the_same_diff_twice_costs_one_run_and_the_budget_holds(open_session, environment) -> None:
    session = open_session(max_runs=2)
    assert session.run_kernel("a").runs_left == 1
    assert session.run_kernel("a\n").runs_left == 1
    assert session.run_kernel("b").runs_left == 0
    with pytest.raises(RunsExhausted, match="all 2 runs"):
        session.run_kernel("c")
    assert session.run_kernel("a").kind == "crash_same"
    assert environment.asked == ["a", "b"]


def test_the_first_submission_counts(open_session) -> None:
    session = open_session()
    session.submit("one")
    with pytest.raises(UserError, match="has a submission"):
        session.submit("two")
    assert session.submitted == Patch(diff="one")


def test_a_worktree_that_is_in_use_is_refused(open_session, tmp_path) -> None:
    (tmp_path / "agent/worktree").mkdir(parents=True)
    (tmp_path / "agent/worktree/file").write_text("")
    with pytest.raises(UserError, match="not empty"):
        open_session()


def test_a_feedback_level_that_does_not_exist_is_refused(open_session) -> None:
    with pytest.raises(UserError, match="none, verdict, title, report, full"):
        open_session(feedback="some")


def test_feedback_is_plain_text_with_the_numbers_an_agent_needs(open_session) -> None:
    text = open_session(max_runs=3).run_kernel("x").text()
    assert text.splitlines()[:3] == [
        "verdict: crash_same",
        "runs left: 2",
        "title: kernel BUG in f",
    ]
