"""The verdict on a patch: policy, build, boots, comparison; each step is kept as it ends.

An evaluation is named by all that decides it: the bug's record, the patch, the backend with its
source, configuration and compiler, and the number of runs. What it found lies in one journal of
that name. The same call goes on after a kill, and gives a finished verdict without running again;
two processes that evaluate the same patch in one folder take turns.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from icml.core.errors import UserError
from icml.core.journal import Journal, cannot_write
from icml.kenv.backends.choose import BackendName, backend_named
from icml.kenv.building import digest, objects_by_source
from icml.kenv.equivalence import Evidence, compare_patches, transcript_witness
from icml.kenv.models import Bug, BuildResult, Equivalence, Image, Patch, RunResult, Verdict
from icml.kenv.patch import PatchRejected
from icml.kenv.policy import Policy
from icml.kenv.protocol import Backend, Limits, Prepared
from icml.kenv.sources import SourceMissing, cache_folder, derive_fix
from icml.kenv.verdict import (
    RETRIES,
    Decision,
    Plan,
    ReproducerDoesNotReproduce,
    decide_build,
    decide_runs,
    plan_runs,
)

HARNESS = "harness 1"
"""Changed when a verdict could come out otherwise for the same inputs."""

_DISK_FULL = os.strerror(errno.ENOSPC)

BASELINE_RUNS = 5
"""Of the unpatched kernel, where no frozen record says how often it crashes."""


@dataclass(frozen=True)
class _Setting:
    """What stays the same through one evaluation."""

    bug: Bug
    backend: Backend
    prepared: Prepared
    limits: Limits
    folder: Path

    @property
    def titles(self) -> list[str]:
        return [self.bug.title, *self.bug.alt_titles]

    def key(self, *more: str) -> str:
        record = self.bug.model_dump_json()
        return digest(HARNESS, record, self.backend.name, self.prepared.key, *more)


def evaluate(
    bug: Bug,
    patch: Patch,
    *,
    backend: BackendName | Backend = "auto",
    runs: int | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    folder: Path | None = None,
) -> Verdict:
    """Build and boot a patched kernel and say what the patch is worth.

    Args:
        bug: With its fix, which only the comparison reads.
        patch: Nothing of it is trusted.
        backend: Or its name; ``auto`` takes what works here.
        runs: Valid runs without a crash that ``plausible`` takes; None follows from how often the
            unpatched kernel crashes.
        policy: What a patch may do; the backend's scope is added to it.
        limits: Of time and memory.
        folder: Of the journals; None is ``verdicts`` in the cache folder.

    Returns:
        The verdict; a patch that is refused or doesn't fit has one as well.

    Raises:
        BackendUnavailable: If no backend works here.
        SourceMissing: If the kernel's source was not fetched.
        ReproducerDoesNotReproduce: If the unpatched kernel doesn't crash here.
        UserError: If the journal cannot be written; what was finished is kept.
    """
    chosen = _chosen(backend)
    if patch.empty:
        return _refusal(chosen, PatchRejected("patch_empty", "the patch is empty"))
    setting = _Setting(
        bug,
        chosen,
        chosen.prepare(bug),
        limits or Limits(),
        folder if folder is not None else cache_folder() / "verdicts",
    )
    try:
        policy = policy or Policy()
        replace(policy, scope=policy.scope or setting.prepared.scope).check(patch)
    except PatchRejected as refused:
        return _refusal(chosen, refused)
    try:
        setting.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(setting.folder, error) from error
    plan = _plan(setting, runs)
    key = setting.key(patch.sha256, str(plan), repr(policy), repr(setting.limits))
    with FileLock(setting.folder / f"{key}.lock"):
        journal = Journal(setting.folder / f"{key}.jsonl", needs=("step", "value"))
        steps = journal.read()
        if steps and steps[-1]["step"] == "verdict":
            return Verdict.model_validate(steps[-1]["value"])
        try:
            verdict = _judge(setting, patch, plan, journal, key=key)
        except PatchRejected as refused:
            verdict = _refusal(chosen, refused, key)
        journal.append({"step": "verdict", "value": verdict.model_dump(mode="json")})
        return verdict


def _chosen(backend: Any) -> Backend:
    return backend_named(backend) if isinstance(backend, str) else backend


def _refusal(backend: Backend, refused: PatchRejected, key: str = "") -> Verdict:
    return Verdict(
        kind=refused.kind,
        reason=str(refused),
        backend=backend.name,
        recorded=backend.recorded,
        verified=backend.verified,
        key=key,
    )


def _judge(setting: _Setting, patch: Patch, plan: Plan, journal: Journal, *, key: str) -> Verdict:
    steps = journal.read()
    build = _build(setting, patch, journal, steps)
    decision = decide_build(build)
    runs: list[RunResult] = []
    if decision is None:
        assert build.image is not None
        runs = [RunResult.model_validate(s["value"]) for s in steps if s["step"] == "run"]
        decision = _run(setting, build.image, runs, plan.runs, journal)
    verdict = Verdict(
        kind=decision.kind,
        reason=decision.reason,
        runs=runs,
        wanted_runs=plan.runs,
        crash=decision.crash,
        build=build,
        false_plausible_bound=plan.false_plausible_bound,
        backend=setting.backend.name,
        recorded=setting.backend.recorded,
        verified=setting.backend.verified,
        isolation=runs[-1].isolation if runs else build.isolation,
        key=key,
    )
    if not verdict.plausible:
        return verdict
    return verdict.model_copy(update={"equivalence": _compare(setting, patch, build, runs)})


def _build(
    setting: _Setting, patch: Patch, journal: Journal, steps: list[dict[str, Any]]
) -> BuildResult:
    for step in steps:
        if step["step"] == "build":
            kept = BuildResult.model_validate(step["value"])
            if not kept.ok or (kept.image is not None and kept.image.folder.is_dir()):
                return kept
    build = _built(setting, patch)
    journal.append({"step": "build", "value": build.model_dump(mode="json")})
    return build


def _built(setting: _Setting, patch: Patch | None) -> BuildResult:
    """Build a patch, the fix or the unpatched kernel; a full disk is no answer of the compiler."""
    try:
        build = setting.backend.build(setting.prepared, patch, limits=setting.limits)
    except OSError as error:
        raise cannot_write(setting.prepared.work, error) from error
    if not build.ok and _DISK_FULL in build.log_tail:
        raise UserError(
            f"the disk of {setting.prepared.work} is full: make room and repeat the command "
            "(what was finished is kept)"
        )
    return build


def _run(
    setting: _Setting, image: Image, runs: list[RunResult], wanted: int, journal: Journal
) -> Decision:
    """Boot until the runs decide; each run is in the journal before the next one starts."""
    while True:
        decision = decide_runs(runs, wanted=wanted, titles=setting.titles)
        if decision is not None:
            return decision
        _boot(setting, image, runs, journal)


def _boot(setting: _Setting, image: Image, runs: list[RunResult], journal: Journal) -> None:
    reproducer = setting.bug.reproducers[0]
    try:
        run = setting.backend.run(image, reproducer, limits=setting.limits)
    except OSError as error:
        raise cannot_write(setting.prepared.work, error) from error
    journal.append({"step": "run", "value": run.model_dump(mode="json")})
    runs.append(run)


def _plan(setting: _Setting, wanted: int | None) -> Plan:
    """Choose the number of runs after the unpatched kernel has crashed here as it should.

    With a frozen record one crash is enough; without one, five runs tell how often it crashes.
    """
    if setting.backend.recorded:
        frozen = next(iter(setting.bug.baselines), None)
    else:
        frozen = setting.bug.baseline(setting.backend.name)
    if frozen is not None and setting.backend.recorded:
        return plan_runs(frozen.crashes, frozen.runs, wanted=wanted)
    key = setting.key("baseline")
    with FileLock(setting.folder / f"{key}.lock"):
        journal = Journal(setting.folder / f"{key}.jsonl", needs=("step", "value"))
        runs = [RunResult.model_validate(step["value"]) for step in journal.read()]

        def crashes() -> int:
            return sum(r.valid and r.crash is not None and _same(setting, r) for r in runs)

        def enough() -> bool:
            if frozen is not None:
                return crashes() > 0 or len(runs) > RETRIES
            return sum(run.valid for run in runs) >= BASELINE_RUNS or len(runs) > 2 * BASELINE_RUNS

        _until(enough, setting, runs, journal)
        if crashes() == 0:
            last = runs[-1]
            seen = last.infra or (last.crash.title if last.crash else "no crash")
            raise ReproducerDoesNotReproduce(
                f"the unpatched kernel of {setting.bug.id} did not crash with "
                f"{setting.bug.title!r} in {len(runs)} boots with {setting.backend.name}: {seen}"
            )
        if frozen is not None:
            return plan_runs(frozen.crashes, frozen.runs, wanted=wanted)
        return plan_runs(crashes(), sum(run.valid for run in runs), wanted=wanted)


def _until(
    enough: Callable[[], bool], setting: _Setting, runs: list[RunResult], journal: Journal
) -> None:
    if enough():
        return
    build = _built(setting, None)
    if build.image is None:
        reason = build.errors[0].message if build.errors else build.log_tail[-300:]
        raise UserError(f"the unpatched source of {setting.bug.id} does not build: {reason}")
    while not enough():
        _boot(setting, build.image, runs, journal)


def _same(setting: _Setting, run: RunResult) -> bool:
    return run.crash is not None and run.crash.matches(setting.titles)


def _compare(
    setting: _Setting, patch: Patch, build: BuildResult, runs: list[RunResult]
) -> Equivalence | None:
    """Compare with the developers' fix, where there is one; it is built, but not booted."""
    baseline = setting.bug.baseline(setting.backend.name)
    if setting.backend.recorded:
        baseline = next(iter(setting.bug.baselines), None)
    fixed = baseline.fixed_transcript if baseline else None
    told = [run.transcript for run in runs if run.valid and run.transcript is not None]
    # Runs may differ among each other: one that is like the fix leaves no witness.
    transcript = fixed if fixed in told else (told[0] if told else None)
    if setting.backend.recorded:
        return _compare_recorded(setting.bug, patch, transcript, fixed)
    try:
        fix = derive_fix(setting.bug)
    except SourceMissing:
        return None
    if fix is None:
        return None
    developers = _built(setting, fix)
    evidence = Evidence(
        transcript=transcript,
        fixed_transcript=fixed,
        objects=objects_by_source(build),
        fixed_objects=objects_by_source(developers),
    )
    return compare_patches(patch, fix, setting.prepared.tree, evidence=evidence)


def _compare_recorded(
    bug: Bug, patch: Patch, transcript: list[str] | None, fixed: list[str] | None
) -> Equivalence:
    """Compare without a source: by the fix's digest, then by what the reproducer saw."""
    if bug.fix_source is not None and bug.fix_source.sha256 == patch.sha256:
        return Equivalence(answer="equivalent", evidence="identical_text")
    if transcript is not None and fixed is not None:
        witness = transcript_witness(transcript, fixed)
        if witness:
            return Equivalence(answer="discrepant", evidence="transcript", witness=witness)
    return Equivalence(answer="unknown", evidence="structural")
