"""The task inside the real inspect-ai, with scripted models; the last tests boot real kernels."""

import gc
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from icml.core.chat import Call, Rule, scripted
from icml.core.errors import UserError
from icml.core.journal import Journal
from icml.kenv.bugs import load_bug
from icml.kenv.console import new_nonce, read_console
from icml.kenv.models import (
    Availability,
    Baseline,
    Bug,
    BuildResult,
    Image,
    KernelSource,
    Patch,
    Reproducer,
    RunResult,
)
from icml.kenv.protocol import Limits, Prepared
from icml.kenv.runner import evaluate
from icml.kenv.sources import derive_fix

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


SOURCE = "int f(int a)\n{\n\tBUG_ON(a);\n\treturn 0;\n}\n"
HEAD = "--- a/net/x/x.c\n+++ b/net/x/x.c\n@@ -1,5 +1,5 @@\n int f(int a)\n {\n-\tBUG_ON(a);\n"
TAIL = " \treturn 0;\n }\n"
FIX = Patch(diff=f"{HEAD}+\tif (a) return -EINVAL;\n{TAIL}")
GUARD = f"{HEAD}+\tif (a) return -EAGAIN;\n{TAIL}"
BUG = Bug(
    id="x-bug",
    title="kernel BUG in f",
    crash_type="BUG",
    source=KernelSource(kind="deb", ref="linux-source-6.1", version="6.1.170-3"),
    directory="net/x",
    crash_report="kernel BUG at net/x/x.c:3!",
    reproducers=[Reproducer(text="int main(void) { return 0; }")],
    fix=FIX,
    baselines=[Baseline(backend="module", runs=15, crashes=15)],
)


@dataclass
class Consoles:
    """A backend whose kernels are consoles: any patch that has a guard resolves the crash."""

    tree: Path
    name: str = "module"
    recorded: bool = False
    verified: bool = True
    booted: list[str] = field(default_factory=list)

    def available(self) -> Availability:
        return Availability(ok=True, reason="always")

    def prepare(self, bug: Bug) -> Prepared:
        return Prepared(bug, self.tree, self.tree, "key", scope=(bug.directory,))

    def build(self, prepared: Prepared, patch: Patch | None, *, limits: Limits) -> BuildResult:
        fixed = patch is not None and "if (a) return" in patch.diff
        image = Image(key="guarded" if fixed else "crashes", folder=self.tree)
        return BuildResult(ok=True, seconds=0, image=image)

    def run(self, image: Image, reproducer: Reproducer, *, limits: Limits) -> RunResult:
        self.booted.append(image.key)
        nonce = new_nonce()
        lines = [f"KENV_BOOT_OK {nonce}"]
        if image.key == "guarded":
            lines += [f"KENV_REPRO_EXIT {nonce} 0", f"KENV_DONE {nonce}"]
        else:
            lines += ["[    7.102040] kernel BUG at net/x/x.c:3!", "RIP: 0010:f+0x75/0x80"]
            lines += ["Kernel panic - not syncing: Fatal exception"]
        read = read_console("\n".join(lines), nonce)
        return RunResult(booted=read.booted, finished=read.finished, crash=read.crash, seconds=0.0)


@pytest.fixture
def backend(tmp_path) -> Consoles:
    (tmp_path / "tree/net/x").mkdir(parents=True)
    (tmp_path / "tree/net/x/x.c").write_text(SOURCE)
    return Consoles(tmp_path / "tree")


def run(task, rules, tmp_path):
    from inspect_ai import eval

    (log,) = eval(task, model=scripted(rules), log_dir=str(tmp_path / "logs"), display="none")
    return log


EDIT = Call(
    "edit_source",
    {"path": "net/x/x.c", "old": "BUG_ON(a);", "new": "if (a) return -EAGAIN;"},
)
WORKER = [
    Rule("I am done.", when="It is handed in"),
    Rule(Call("submit"), when="verdict: plausible"),
    Rule(EDIT, when="verdict: crash_same"),
    Rule(Call("run_kernel"), when="edited net/x/x.c"),
    Rule(Call("run_kernel", {"diff": GUARD.replace("if (a) return -EAGAIN;", "BUG_ON(!!a);")})),
]


def test_a_model_works_with_the_tools_and_its_submission_is_evaluated(backend, tmp_path) -> None:
    from icml.kenv.tasks import kenv_task

    log = run(kenv_task([BUG], backend=backend, folder=tmp_path / "v"), WORKER, tmp_path)
    assert log.status == "success", log.error
    (sample,) = log.samples
    called = [c.function for m in sample.messages for c in getattr(m, "tool_calls", None) or []]
    assert called == ["run_kernel", "edit_source", "run_kernel", "submit"]
    score = sample.scores["kenv_scorer"]
    same = evaluate(BUG, Patch(diff=GUARD), backend=backend, folder=tmp_path / "v")
    assert score.metadata["key"] == same.key
    assert score.metadata["kind"] == same.kind == "plausible"
    assert score.value == {"plausible": 1, "equivalent": 0}
    assert Patch(diff=score.answer).sha256 == Patch(diff=GUARD).sha256
    # The unpatched kernel once, the first try once, the guard three times: nothing twice.
    assert backend.booted == ["crashes"] * 2 + ["guarded"] * 3


def test_a_second_submission_of_the_same_patch_boots_nothing(backend, tmp_path) -> None:
    from icml.kenv.tasks import kenv_task

    rules = [WORKER[0], Rule(Call("submit", {"diff": GUARD}))]
    for _ in range(2):
        log = run(kenv_task([BUG], backend=backend, folder=tmp_path / "v"), rules, tmp_path)
        assert log.results.scores[0].metrics["mean"].value == 1
    assert len(backend.booted) == 1 + 3


def test_what_was_edited_counts_if_nothing_is_submitted(backend, tmp_path) -> None:
    from icml.kenv.tasks import kenv_task

    rules = [Rule("I forget to submit.", when="edited"), Rule(EDIT)]
    log = run(kenv_task([BUG], backend=backend, folder=tmp_path / "v"), rules, tmp_path)
    assert log.samples[0].scores["kenv_scorer"].metadata["kind"] == "plausible"


def test_without_feedback_there_is_no_run_kernel_and_the_prompt_says_nothing_of_it(
    backend, tmp_path
) -> None:
    from icml.kenv.tasks import kenv_task

    offered = kenv_task([BUG], backend=backend, feedback="none", folder=tmp_path / "v")
    assert "run_kernel" not in offered.dataset[0].input
    log = run(offered, [Rule(Call("run_kernel"))], tmp_path)
    assert log.status == "error"
    assert "those offered are: read_source, find_text, edit_source, submit" in log.error.message


def test_what_a_model_does_wrong_is_told_to_it(backend, tmp_path) -> None:
    from icml.kenv.tasks import kenv_task

    heard = []

    def listen(messages, rng):
        heard.append(messages[-1].error.message)
        return [outside, tried, "enough"][len(heard) - 1]

    outside = Call("read_source", {"path": "../../etc/passwd"})
    tried = Call("edit_source", {"path": "net/x/x.c", "old": "nowhere", "new": ""})
    again = Call("run_kernel", {"diff": GUARD.replace("EAGAIN", "EPERM")})
    rules = [
        Rule(listen, when=lambda messages: getattr(messages[-1], "error", None) is not None),
        Rule(again, when="verdict"),
        Rule(Call("run_kernel", {"diff": GUARD})),
    ]
    task = kenv_task([BUG], backend=backend, max_runs=1, folder=tmp_path / "v")
    log = run(task, rules, tmp_path)
    assert log.status == "success", log.error
    assert "all 1 runs are used" in heard[0]
    assert "is not in the worktree: paths are like net/x/x.c" in heard[1]
    assert "occurs 0 times" in heard[2]


def test_the_fix_is_in_no_part_of_a_sample(backend, tmp_path) -> None:
    from icml.kenv.tasks import kenv_task

    log = run(kenv_task([BUG], backend=backend, folder=tmp_path / "v"), WORKER, tmp_path)
    seen = json.dumps([m.model_dump(mode="json") for m in log.samples[0].messages])
    assert "BUG_ON(a)" in seen
    assert "EINVAL" not in seen


def test_a_log_is_a_set_of_result_rows(backend, tmp_path) -> None:
    from icml.kenv.results import read_results
    from icml.kenv.tasks import kenv_task

    home = tmp_path / "bugs/x-bug"
    home.mkdir(parents=True)
    record = BUG.model_dump(mode="json", exclude={"crash_report"}, exclude_defaults=True)
    (home / "bug.json").write_text(json.dumps(record | {"reproducers": [{}]}))
    (home / "reproducer.c").write_text(BUG.reproducers[0].text)
    (home / "report.txt").write_text(BUG.crash_report)
    task = kenv_task([BUG], backend=backend, feedback="title", folder=tmp_path / "v")
    task.epochs = 2
    run(task, WORKER, tmp_path)
    (file,) = (tmp_path / "logs").glob("*.eval")
    rows = read_results([file], bugs=tmp_path / "bugs")
    told = [(r.agent, r.model, r.feedback, r.bug, r.run, r.kind, r.boots) for r in rows]
    mine = ("inspect-ai", "scripted/model", "title", "x-bug")
    assert told == [(*mine, 1, "plausible", 3), (*mine, 2, "plausible", 3)]
    assert Patch(diff=rows[0].diff).sha256 == Patch(diff=GUARD).sha256
    with pytest.raises(UserError, match="no bug 'x-bug'"):
        read_results([file])


def test_a_file_that_is_no_finished_log_of_the_task_is_refused(backend, tmp_path) -> None:
    from icml.kenv.results import read_results
    from icml.kenv.tasks import kenv_task

    (tmp_path / "no.eval").write_text("[]")
    with pytest.raises(UserError, match=r"no\.eval is no log of inspect-ai"):
        read_results([tmp_path / "no.eval"])
    big = zipfile.ZipFile(tmp_path / "big.eval", "w", zipfile.ZIP_DEFLATED)
    with big as archive, archive.open("header.json", "w") as entry:
        for _ in range(1025):
            entry.write(bytes(2**20))
    with pytest.raises(UserError, match="1074790400 bytes unpacked, at most"):
        read_results([tmp_path / "big.eval"])
    task = kenv_task([BUG], backend=backend, feedback="none", folder=tmp_path / "v")
    run(task, [Rule(Call("run_kernel"))], tmp_path)  # a tool that isn't offered
    (file,) = (tmp_path / "logs").glob("*.eval")
    with pytest.raises(UserError, match="the eval is error: finish it with inspect eval-retry"):
        read_results([file])


@pytest.mark.parametrize(("vote", "equal"), [("equivalent", 1), ("discrepant", 0)])
def test_a_judge_decides_what_is_open_and_is_named_as_the_evidence(
    backend, tmp_path, vote, equal
) -> None:
    from icml.kenv.judge import LLMJudge
    from icml.kenv.tasks import kenv_task

    judge = LLMJudge(scripted([Rule(f"<verdict>{vote}</verdict>")], name="judge"))
    task = kenv_task([BUG], backend=backend, folder=tmp_path / "v", judge=judge)
    score = run(task, WORKER, tmp_path).samples[0].scores["kenv_scorer"]
    assert score.value == {"plausible": 1, "equivalent": equal}
    assert (score.metadata["evidence"], score.metadata["votes"]) == ("judge", {vote: 5})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_runs": 0}, "max_runs must be at least 1"),
        ({"runs": 0}, "runs must be at least 1"),
        ({"feedback": "lots"}, "feedback must be one of none, verdict"),
        ({"bugs": "nothing"}, "no bug 'nothing'"),
        ({"backend": "docker", "bugs": "all"}, "no backend works here"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_a_sentence(options, reason) -> None:
    from icml.kenv.tasks import kenv

    with pytest.raises(UserError, match=reason):
        kenv(**{"backend": "replay", **options})


def test_inspect_s_command_line_says_it_in_a_sentence_and_nothing_else(tmp_path) -> None:
    (tmp_path / "script.json").write_text('[{"reply": "?"}]')
    command = [sys.executable, "-m", "inspect_ai", "eval", "icml/kenv", "--model", "scripted/x"]
    command += ["-M", "script=script.json", "-T", "backend=replay", "-T", "bugs=nothing"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (line, end) = (ended.stdout + ended.stderr).split("\n")
    assert (ended.returncode, end) == (1, "")
    assert line.startswith("Error: no bug 'nothing': there are ")


def inspect_eval(folder: Path, script: list, *options: str, env=None):
    """Run inspect's command line and return the log of its one sample."""
    (folder / "script.json").write_text(json.dumps(script))
    command = [sys.executable, "-m", "inspect_ai", "eval", "icml/kenv", "--display", "none"]
    command += ["--model", "scripted/agent", "-M", f"script={folder / 'script.json'}"]
    command += ["--log-dir", str(folder / "logs"), *options]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    from inspect_ai.log import list_eval_logs, read_eval_log

    return read_eval_log(list_eval_logs(str(folder / "logs"))[0])  # the newest comes first


def boots(folder: Path) -> int:
    steps = [step for file in folder.glob("*.jsonl") for step in Journal(file).read()]
    return sum(step["step"] == "run" for step in steps)


@pytest.mark.kernel
@pytest.mark.slow
def test_inspect_eval_gives_the_verdict_and_key_of_evaluate_and_the_second_boots_nothing(
    module, tmp_path
) -> None:
    bug = load_bug("phonet-autobind")
    verdicts = tmp_path / "verdicts"
    script = [
        {"when": "It is handed in", "reply": "done"},
        {"when": "verdict: plausible", "reply": {"tool": "submit", "arguments": {"diff": "FIX"}}},
        {"reply": {"tool": "run_kernel", "arguments": {"diff": "FIX"}}},
    ]
    script = json.loads(json.dumps(script).replace('"FIX"', json.dumps(derive_fix(bug).diff)))
    options = ["-T", "bugs=phonet-autobind", "-T", "backend=module", "-T", f"folder={verdicts}"]

    log = inspect_eval(tmp_path, script, *options)
    assert log.status == "success", log.error
    score = log.samples[0].scores["kenv_scorer"]
    assert score.value == {"plausible": 1, "equivalent": 1}
    assert boots(verdicts) == 1 + 3

    same = evaluate(bug, derive_fix(bug), backend="module", folder=verdicts)
    assert (score.metadata["kind"], score.metadata["key"]) == (same.kind, same.key)
    again = inspect_eval(tmp_path, script, *options)
    assert again.samples[0].scores["kenv_scorer"].metadata == score.metadata
    assert boots(verdicts) == 1 + 3
