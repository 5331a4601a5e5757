"""The experiment: is a plausible patch found more often with feedback, and is it then right?

Agents are programs, no language model: nothing changed, the developers' fix, and five templates at
the place of the crash (`icml.kenv.templates`). Every candidate is built and booted, so that the
chance of a plausible patch is exact over all orders of the candidates: without feedback the first
one is handed in, with it the first that the environment calls plausible among ``budget``. Bugs,
templates and budget were fixed before an outcome was looked at.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.plots import Plot
    from icml.kenv.models import Bug, Patch, Verdict

TITLE = "Patches for kernel crashes: feedback, and plausible against right"

BUGS = ("kcm-zero-frag", "omfs-sysblock", "phonet-autobind")
FEWEST_BUGS = 6
"""For a rate over bugs with an interval (ours); fewer are counted and listed."""

Cell = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """One size of the experiment."""

    bugs: tuple[str, ...] = BUGS
    """Ids of the bugs."""
    backend: Literal["module", "uml"] = "module"
    """What builds and boots: a module under qemu, or User-Mode Linux (built first: 8 minutes)."""
    budget: int = 2
    """Different diffs that the agent with feedback may have evaluated."""
    seed: int = 0
    """Of the order in which the shown agent tries the candidates; the expectations need none."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not self.bugs or self.budget < 1:
            raise ValueError("the experiment needs at least one bug and a budget of at least 1")


SIZES = {
    "quick": Config(bugs=("phonet-autobind",)),
    "default": Config(),
    "slow": Config(backend="uml"),
}


def assess(bug_id: str, diff: str, folder: str, backend: str, *, log: Any) -> Cell:
    """Evaluate one patch; a worker process calls it.

    Args:
        bug_id: The bug.
        diff: The patch.
        folder: Of the journals, in the run's folder: a boot that ended is kept on its own.
        backend: Its name.
        log: Receives the seconds of each boot.
    """
    from icml.kenv.bugs import load_bug
    from icml.kenv.models import Patch

    verdict = _evaluate(load_bug(bug_id), Patch(diff=diff), Path(folder), backend)
    for number, boot in enumerate(verdict.runs):
        log(number, arm=bug_id, seed=0, seconds=boot.seconds)
    same = verdict.equivalence
    return {
        "verdict": verdict.kind,
        "reason": verdict.reason,
        "boots": len(verdict.runs),
        "boot seconds": sum(boot.seconds for boot in verdict.runs),
        "build seconds": verdict.build.seconds if verdict.build else 0.0,
        "answer": same.answer if same else "",
        "evidence": same.evidence if same else "",
        "witness": (same.witness or "") if same else "",
        "isolation": verdict.isolation,
    }


def _evaluate(bug: Bug, patch: Patch, folder: Path, backend: str) -> Verdict:
    from icml.kenv.backends.choose import backend_named
    from icml.kenv.runner import evaluate

    return evaluate(bug, patch, backend=backend_named(backend), folder=folder)  # ty: ignore[invalid-argument-type]


def run_experiment(config: Config, run: Run) -> None:
    """Evaluate every agent's patches, then tabulate and state the claims.

    Raises:
        UserError: If no kernel can be built and booted here; the message says what to install.
    """
    from icml.kenv.backends.choose import backend_named
    from icml.kenv.bugs import load_bug

    backend = backend_named(config.backend)
    folder = run.dir.absolute() / "verdicts"
    patches: dict[str, dict[str, Patch]] = {}
    for bug_id in config.bugs:
        bug = load_bug(bug_id)
        patches[bug_id] = _patches(bug, backend.prepare(bug).tree)
    jobs = {
        f"{bug_id}/{name}": (bug_id, patch.diff, str(folder), config.backend)
        for bug_id, named in patches.items()
        for name, patch in named.items()
    }
    cells: dict[str, Cell] = run.cells(jobs, assess, desc="patches")
    run.seeds([config.seed])
    found = {
        bug_id: {name: cells[f"{bug_id}/{name}"] for name in named}
        for bug_id, named in patches.items()
    }
    _show_patches(run, found)
    chances = _show_agents(run, config, found)
    shown = partial(_trajectory, config, run.dir.absolute())
    _show_trajectories(run, {bug_id: shown(bug_id, patches[bug_id]) for bug_id in config.bugs})
    _claim(run, config, found, chances)
    _say_what_is_not_shown(run, config)


def _patches(bug: Bug, tree: Path) -> dict[str, Patch]:
    """Return all patches: null, comment, developer, broken, and the candidates in order."""
    from icml.core.errors import UserError
    from icml.kenv.models import Patch
    from icml.kenv.sources import derive_fix
    from icml.kenv.templates import candidates, diff_text

    fix = derive_fix(bug)
    if fix is None:
        raise UserError(f"{bug.id} records no fix")
    path = fix.files[0]
    text = (tree / path).read_text()
    named = {
        "null": Patch(diff=""),
        "comment": Patch(diff=diff_text(path, text, f"{text}/* nothing else */\n")),
        "developer": fix,
        "broken": Patch(diff=diff_text(path, text, f"{text}static int broken = ;\n")),
    }
    for number, candidate in enumerate(candidates(bug.public(), tree), 1):
        named[f"candidate {number} ({candidate.template})"] = candidate.patch
    return named


def _candidates(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name.startswith("candidate")}


def _show_patches(run: Run, found: Mapping[str, Mapping[str, Cell]]) -> None:
    rows = [
        {
            "bug": bug_id,
            "patch": name,
            "verdict": cell["verdict"],
            "boots": cell["boots"],
            "compared with the fix": cell["answer"],
            "how that is known": cell["evidence"].replace("_", " "),
            "build (s)": round(cell["build seconds"], 1),
            "boots (s)": round(cell["boot seconds"], 1),
        }
        for bug_id, cells in found.items()
        for name, cell in cells.items()
    ]
    run.table("patches", rows, caption="Every patch, built and booted (wall time).")
    witnesses = [
        {"bug": bug_id, "patch": name, "witness": cell["witness"]}
        for bug_id, cells in found.items()
        for name, cell in cells.items()
        if cell["witness"]
    ]
    if witnesses:
        caption = "Plausible patches that are refuted: what the reproducer saw otherwise."
        run.table("witnesses", witnesses, caption=caption)


def _show_agents(
    run: Run, config: Config, found: Mapping[str, Mapping[str, Cell]]
) -> dict[str, tuple[float, float]]:
    """Tabulate the chance of a plausible patch by bug, without and with feedback."""
    from icml.kenv.agents import blind_expectation, feedback_expectation

    chances = {}
    rows = []
    for bug_id, cells in found.items():
        verdicts = [cell["verdict"] == "plausible" for cell in _candidates(cells).values()]
        if not verdicts:
            continue
        blind = blind_expectation(verdicts)
        informed = feedback_expectation(verdicts, budget=config.budget)
        chances[bug_id] = (blind, informed)
        rows.append(
            {
                "bug": bug_id,
                "candidates": len(verdicts),
                "plausible": sum(verdicts),
                "chance without feedback": blind,
                f"chance with feedback (budget {config.budget})": informed,
            }
        )
    if rows:
        caption = "Chance of handing in a plausible patch, exact over all orders of the candidates."
        run.table("agents", rows, caption=caption)
        run.figure("feedback", _figure(chances, config.budget), caption=caption)
    return chances


def _trajectory(
    config: Config, folder: Path, bug_id: str, named: Mapping[str, Patch]
) -> dict[str, str]:
    """Let the template agent work in a session, in one seeded order; verdicts are there already."""
    from tempfile import TemporaryDirectory

    from icml.kenv.agents import TemplateAgent
    from icml.kenv.backends.choose import backend_named
    from icml.kenv.bugs import load_bug
    from icml.kenv.session import Session

    bug = load_bug(bug_id)
    names = sorted(_candidates(named))
    random.Random(f"{config.seed} {bug_id}").shuffle(names)
    by_diff = {named[name].diff: name for name in names}
    tree = backend_named(config.backend).prepare(bug).tree
    row = {"bug": bug_id, "order": ", ".join(names)}
    for arm, level in (("without", "none"), ("with", "verdict")):
        with TemporaryDirectory() as work:
            session = Session(
                bug,
                tree,
                Path(work) / "worktree",
                evaluate=lambda patch: _evaluate(bug, patch, folder / "verdicts", config.backend),
                feedback=level,
                max_runs=config.budget,
            )
            TemplateAgent([named[name] for name in names]).solve(session)
            chosen = session.submitted.diff if session.submitted else ""
            row[f"{arm} feedback"] = by_diff.get(chosen, "nothing")
    return row


def _show_trajectories(run: Run, rows: Mapping[str, dict[str, str]]) -> None:
    caption = "One seeded order of the candidates: what the agent handed in."
    run.table("one order", list(rows.values()), caption=caption)


def _claim(
    run: Run,
    config: Config,
    found: Mapping[str, Mapping[str, Cell]],
    chances: Mapping[str, tuple[float, float]],
) -> None:
    bugs = len(found)

    def count(id: str, statement: str, hits: int, of: int) -> None:
        run.claim(id, f"{statement} ({hits} of {of})", value=hits, interval=None, holds=hits == of)

    developer = [cells["developer"] for cells in found.values()]
    good = sum(c["verdict"] == "plausible" and c["answer"] == "equivalent" for c in developer)
    count("developer", "The developers' fix is plausible and equivalent to itself", good, bugs)
    null = sum(cells["null"]["verdict"] == "patch_empty" for cells in found.values())
    count("null", "An agent that changes nothing resolves no crash", null, bugs)
    same = sum(cells["comment"]["verdict"] == "crash_same" for cells in found.values())
    count("comment", "A patch that adds a comment alone crashes as before", same, bugs)
    broken = sum(cells["broken"]["verdict"] == "build_failed" for cells in found.values())
    count("broken", "A patch that does not compile is told apart and never booted", broken, bugs)
    tried = [cell for cells in found.values() for cell in _candidates(cells).values()]
    plausible = [cell for cell in tried if cell["verdict"] == "plausible"]
    refuted = sum(cell["answer"] == "discrepant" for cell in plausible)
    run.claim(
        "plausible-is-not-right",
        f"Some plausible candidates are refuted by what the reproducer saw ({refuted} of "
        f"{len(plausible)} plausible ones, of {len(tried)} candidates)",
        value=refuted,
        interval=None,
        holds=refuted > 0,
        kind="reported",
        paper="74 % plausible and about 20 % equivalent at the first attempt, of 534 bugs",
    )
    _claim_feedback(run, config, chances)


def _claim_feedback(run: Run, config: Config, chances: Mapping[str, tuple[float, float]]) -> None:
    gains = [informed - blind for blind, informed in chances.values()]
    better = sum(gain > 1e-9 for gain in gains)
    statement = (
        f"With feedback on {config.budget} diffs a plausible patch is likelier than without on "
        f"{better} of {len(gains)} bugs with candidates"
    )
    run.claim(
        "feedback-helps",
        statement,
        value=better,
        interval=None,
        holds=better > 0,
        kind="reported",
        paper="29 % more crashes resolved with feedback, language-model agents",
    )
    if len(gains) >= FEWEST_BUGS:
        from icml.core.stats import t_interval

        gain = t_interval(gains)
        run.claim(
            "feedback-gain",
            "Mean gain in the chance of a plausible patch",
            value=gain.estimate,
            interval=(gain.low, gain.high),
            holds=gain.low > 0,
            kind="reported",
        )


def _say_what_is_not_shown(run: Run, config: Config) -> None:
    if len(config.bugs) < FEWEST_BUGS:
        run.note(
            f"{len(config.bugs)} bugs give no rate: outcomes are counted and listed, without "
            f"percentages; at least {FEWEST_BUGS} bugs are wanted for those."
        )
    run.note(
        "The agents are templates, no language models: the paper's rates are neither shown nor "
        "refuted. Feedback that stops at the first plausible candidate cannot lower the chance of "
        "a plausible patch; whether it raises it depends on whether some candidates fail. It says "
        "nothing of whether the patch is right, which the comparison with the fix is for."
    )
    run.note(
        "Equal transcripts of one reproducer prove no equivalence: such patches stay unknown "
        "unless text or object code is the same."
    )


def _figure(chances: Mapping[str, Sequence[float]], budget: int) -> Plot:
    from icml.core.plots import Arm, Bar, bars

    values = [
        Bar(arm, chance, bug_id)
        for bug_id, pair in chances.items()
        for arm, chance in zip(("blind", "feedback"), pair, strict=True)
    ]
    return bars(
        values,
        title="What feedback is worth depends on how many candidates fail",
        arms=[Arm("blind", "baseline", "no feedback"), Arm("feedback", "ours", f"{budget} diffs")],
        x_label="chance of a plausible patch",
        note="exact over all orders of the candidates",
    )
