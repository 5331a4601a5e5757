"""The task ``icml/kenv`` of inspect-ai: a model resolves kernel crashes, real boots decide.

::

    inspect eval icml/kenv --model openai/… -T bugs=phonet-autobind -T feedback=full -T max_runs=4
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from icml.core.chat.refusals import in_a_sentence
from icml.core.errors import UserError
from icml.kenv.attempt import Attempt
from icml.kenv.backends.choose import BackendName, backend_named
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.judge import LLMJudge, judge_model, voted
from icml.kenv.models import Bug, Patch, PublicBug, Verdict
from icml.kenv.protocol import Backend
from icml.kenv.session import LEVELS, FeedbackLevel, source_texts
from icml.kenv.show import verdict_lines
from icml.kenv.tools import evaluated, session_tools

PROMPT = """\
The kernel {source} crashes with "{title}". Find the cause and mend it, in the folder {directory}.

A patch is good if the kernel builds with it, boots, and runs the reproducer to its end every time
without any crash, and if it mends the cause as the kernel's developers would: don't hide the crash
and don't turn it into another one. Only C and assembler sources and headers may change.

Edit the sources with the tools{feedback}, and hand in your edits with `submit`.

The console's report of the crash:

{report}

The reproducer:

{reproducer}
"""


def sample(bug: PublicBug, *, feedback: FeedbackLevel, max_runs: int) -> Sample:
    """Return what a model gets of a bug: nothing but its public view."""
    runs = f", try them with `run_kernel` on at most {max_runs} different states"
    prompt = PROMPT.format(
        source=f"{bug.source.ref} {bug.source.version}",
        title=bug.title,
        directory=bug.directory,
        feedback="" if feedback == "none" else runs,
        report=bug.crash_report,
        reproducer=bug.reproducers[0].text,
    )
    facts = {"crash_type": bug.crash_type, "subsystems": bug.subsystems}
    return Sample(id=bug.id, input=prompt, target="plausible", metadata=facts)


class _Attempts:
    """The attempts of a task's running samples, by the sample's id."""

    def __init__(self, bugs: Sequence[Bug], **options: Any) -> None:
        self.bugs = {bug.id: bug for bug in bugs}
        self.feedback: FeedbackLevel = options["feedback"]
        self._options = options
        self._open: dict[str, Attempt] = {}

    def start(self, state: TaskState) -> Attempt:
        attempt = Attempt(self.bugs[str(state.sample_id)], **self._options)
        self._open[state.uuid] = attempt
        return attempt

    def of(self, state: TaskState) -> Attempt:
        if state.uuid not in self._open:
            raise UserError("a sample is scored within its eval: its worktree is gone afterwards")
        return self._open[state.uuid]

    async def end(self, state: TaskState) -> None:
        attempt = self._open.pop(state.uuid, None)
        if attempt is not None:
            attempt.close()


@solver
def kenv_worktree(attempts: _Attempts) -> Solver:
    """Lay out a worktree for the sample and give its tools to the model."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        attempt = attempts.start(state)
        state.tools = [*state.tools, *session_tools(attempt.session)]
        names = ", ".join(source_texts(attempt.session.worktree))
        state.user_prompt.text += f"\nThe sources: {names}\n"
        return state

    return solve


@scorer(
    metrics={
        "plausible": [mean(), stderr()],
        "equivalent": [mean(), stderr()],
    }
)
def kenv_scorer(attempts: _Attempts, judge: LLMJudge | None = None) -> Scorer:
    """Build and boot what was submitted; what was edited counts if nothing was.

    ``equivalent`` is 1 where it is proved, or a judge's votes say so (the metadata tell which);
    what is unknown counts as 0. A verdict of ``infra_error`` says nothing and is left out.
    """

    async def score(state: TaskState, target: Target) -> Score:
        attempt = attempts.of(state)
        verdict = await evaluated(attempt.verdict)
        assert attempt.session.submitted is not None
        patch = attempt.session.submitted
        if judge is not None:
            verdict = await voted(attempt.bug, patch, verdict, judge)
        return _score(verdict, patch, attempts.feedback)

    return score


def _score(verdict: Verdict, patch: Patch, feedback: FeedbackLevel) -> Score:
    same = verdict.equivalence
    facts = {
        "kind": verdict.kind,
        "reason": verdict.reason,
        "key": verdict.key,
        "backend": verdict.backend,
        "recorded": verdict.recorded,
        "feedback": feedback,
        "boots": len(verdict.runs),
        "seconds": verdict.seconds,
        "false_plausible_bound": verdict.false_plausible_bound,
        "answer": same.answer if same else "",
        "evidence": same.evidence if same else "",
        "votes": same.votes if same else {},
    }
    text = "\n".join(verdict_lines(verdict))
    if verdict.kind == "infra_error":
        return Score.unscored(
            reason="infra_error", answer=patch.diff, explanation=text, metadata=facts
        )
    equal = verdict.plausible and same is not None and same.answer == "equivalent"
    value = {"plausible": int(verdict.plausible), "equivalent": int(equal)}
    return Score(value=value, answer=patch.diff, explanation=text, metadata=facts)


def kenv_task(
    bugs: Sequence[Bug],
    *,
    backend: Backend,
    feedback: FeedbackLevel = "full",
    max_runs: int = 4,
    runs: int | None = None,
    folder: Path | None = None,
    judge: LLMJudge | None = None,
) -> Task:
    """Return the task for bugs of one's own.

    Args:
        bugs: A sample each.
        backend: Builds and boots.
        feedback: How much `run_kernel` tells the model; ``none`` takes the tool away.
        max_runs: How many different diffs it evaluates.
        runs: Boots without a crash that ``plausible`` takes; None follows from the bug.
        folder: Of the journals; None is in the cache.
        judge: Votes where a plausible patch is neither proved nor refuted.

    Raises:
        UserError: If there are no bugs, or the numbers make no sense.
    """
    if not bugs:
        raise UserError("the task needs at least one bug")
    if max_runs < 1:
        raise UserError(f"max_runs must be at least 1, got {max_runs}; feedback=none allows none")
    if runs is not None and runs < 1:
        raise UserError(f"runs must be at least 1, got {runs}")
    if feedback not in LEVELS:
        raise UserError(f"feedback must be one of {', '.join(LEVELS)}, got {feedback!r}")
    attempts = _Attempts(
        bugs, backend=backend, feedback=feedback, max_runs=max_runs, runs=runs, folder=folder
    )
    samples = [sample(bug.public(), feedback=feedback, max_runs=max_runs) for bug in bugs]
    return Task(
        dataset=MemoryDataset(samples, name="kenv"),
        setup=kenv_worktree(attempts),
        solver=generate(),
        scorer=kenv_scorer(attempts, judge),
        cleanup=attempts.end,
        name="kenv",
        version=1,
    )


@task
def kenv(
    *,
    bugs: str | list[str] = "all",
    feedback: FeedbackLevel = "full",
    max_runs: int = 4,
    backend: BackendName = "auto",
    runs: int | None = None,
    folder: str | None = None,
    judge: str | None = None,
) -> Task:
    """Resolve crashes of real kernels; see `kenv_task`.

    Args:
        bugs: Ids, separated by commas, or ``all`` that come with the package.
        feedback: none, verdict, title, report or full.
        max_runs: How many different diffs `run_kernel` evaluates.
        backend: auto, module, uml, docker or replay.
        runs: Boots without a crash that ``plausible`` takes.
        folder: Of the journals.
        judge: A model of inspect-ai that votes on equivalence, for example openai/gpt-5-mini.
    """
    named = bugs.split(",") if isinstance(bugs, str) else bugs
    ids = list(dict.fromkeys(str(name).strip() for name in named))
    with in_a_sentence():
        return kenv_task(
            [load_bug(bug_id) for bug_id in (bug_ids() if ids == ["all"] else ids)],
            backend=backend_named(backend),
            feedback=feedback,
            max_runs=max_runs,
            runs=runs,
            folder=None if folder is None else Path(folder).absolute(),
            judge=None if judge is None else LLMJudge(judge_model(judge)),
        )
