"""``icml kenv …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from icml.core.reproduce import ReproduceOptions
from icml.kenv.benchmark_cli import benchmark_commands
from icml.kenv.mcp_cli import mcp
from icml.kenv.serve_cli import BackendName, serve, trees

if TYPE_CHECKING:
    from icml.kenv.judge import LLMJudge
    from icml.kenv.models import Bug, BuildResult, Patch, Verdict
    from icml.kenv.protocol import Backend


def _required(name: str) -> Any:
    return arg(metavar=name, help_behavior_hint="(required)")


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.kenv.reproduce import SIZES, TITLE, run_experiment

    return run("kenv", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


@dataclass(frozen=True)
class ParseOptions:
    """Which console to read."""

    log: Annotated[Positional[Path], _required("LOG")]
    """What a kernel printed: x86 or User-Mode Linux, with or without time stamps."""
    json: bool = False
    """Print the reports as JSON, a line each."""


def parse(options: ParseOptions) -> int:
    """Show the crashes on a kernel's console; exits with 1 if there is none."""
    from icml.kenv.report import parse_report
    from icml.kenv.show import report_lines

    reports = parse_report(_text(options.log))
    if options.json:
        for report in reports:
            print(report.model_dump_json())
    else:
        print("\n".join(report_lines(reports)))
    return 0 if reports else 1


@dataclass(frozen=True)
class CompareOptions:
    """Which patches to compare, of which source."""

    patch: Annotated[Positional[Path], _required("PATCH")]
    """A unified diff."""
    fix: Annotated[Positional[Path], _required("FIX")]
    """The developers' fix, a unified diff of the same source."""
    tree: Path = Path()
    """Root of the unpatched source."""
    judge: str | None = None
    """A model of inspect-ai whose votes decide what stays open, for example openai/gpt-5-mini."""
    json: bool = False
    """Print the comparison as JSON."""


def compare(options: CompareOptions) -> None:
    """Compare a patch with a fix by their text: equivalent, or unknown with scores.

    What the patched kernels do refutes an equivalence: icml kenv eval knows that.
    """
    from icml.kenv.equivalence import compare_patches
    from icml.kenv.models import Patch
    from icml.kenv.show import equivalence_lines

    judge = _judge(options.judge)
    agent, fix = (Patch(diff=_text(path)) for path in (options.patch, options.fix))
    found = compare_patches(agent, fix, options.tree, judge=judge)
    print(found.model_dump_json() if options.json else "\n".join(equivalence_lines(found)))


@dataclass(frozen=True)
class BugsOptions:
    """Which bug to show."""

    id: Annotated[
        Positional[str], arg(metavar="[ID]", help_behavior_hint="(default: list all)")
    ] = ""
    """For example phonet-autobind."""
    json: bool = False
    """Print what an agent may see of it as JSON."""


def bugs(options: BugsOptions) -> None:
    """List the bugs, or show what is public of one: never its fix."""
    from icml.kenv.bugs import bug_ids, load_bug
    from icml.kenv.show import bug_lines

    chosen = [load_bug(name).public() for name in ([options.id] if options.id else bug_ids())]
    for bug in chosen:
        if options.json:
            print(bug.model_dump_json())
        elif options.id:
            print("\n".join(bug_lines(bug)))
        else:
            print(f"{bug.id:20} {bug.title}")


@dataclass(frozen=True)
class DoctorOptions:
    """Nothing to choose: everything is looked at."""


def doctor(options: DoctorOptions) -> int:
    """Show which backends work here, by booting them; exits with 1 if no kernel can run."""
    from icml.kenv.doctor import examine

    runs = False
    for finding in examine():
        runs = runs or (finding.ok and finding.name in ("module", "uml"))
        print(f"{'ok' if finding.ok else 'no':3} {finding.name:10} {finding.text}", flush=True)
    return 0 if runs else 1


@dataclass(frozen=True)
class FetchOptions:
    """Where the packages come from."""

    debs: Path | None = None
    """A folder with the package files; None asks apt for those that are missing."""


def fetch(options: FetchOptions) -> None:
    """Get the kernel, its headers and two sources from Debian's archive, and unpack them."""
    from icml.kenv.sources import fetch as get

    print("\n".join(str(folder) for folder in get(debs=options.debs)))


@dataclass(frozen=True)
class _Choice:
    """Which bug and which patch, on which backend."""

    id: Annotated[Positional[str], _required("ID")]
    """For example phonet-autobind."""
    patch: Path | None = None
    """A unified diff; None is the unpatched kernel."""
    fix: bool = False
    """Take the developers' fix in place of a patch."""
    backend: BackendName = "auto"
    """auto takes uml where a tree is built, else module, else replay."""
    bugs: Path | None = None
    """Folder of bugs, as icml kenv bugs inject writes one; None takes the package's."""

    def __post_init__(self) -> None:
        """Refuse two patches."""
        if self.fix and self.patch is not None:
            raise ValueError("--fix and --patch exclude each other: give one of them")


@dataclass(frozen=True)
class BuildOptions(_Choice):
    """What to build."""


def build(options: BuildOptions) -> int:
    """Build a kernel or module, unpatched or with a patch; exits with 1 if it does not build."""
    from icml.kenv.backends.choose import backend_named

    built = _built(options, backend_named(options.backend), _bug(options))
    if built.image is not None:
        print(f"{built.image.folder} ({built.seconds:.1f} s{', kept' if built.cache_hit else ''})")
        return 0
    for error in built.errors:
        place = f"{error.file}:{error.line}: " if error.file else ""
        print(f"{place}{error.message}")
    return 1


@dataclass(frozen=True)
class RunOptions(_Choice):
    """What to boot."""

    console: bool = False
    """Print all that the kernel printed."""


def run(options: RunOptions) -> int:
    """Build a kernel and boot it once with the bug's reproducer; exits with 1 if it crashed."""
    from icml.core.errors import UserError
    from icml.kenv.backends.choose import backend_named
    from icml.kenv.protocol import Limits
    from icml.kenv.show import run_lines

    bug = _bug(options)
    backend = backend_named(options.backend)
    built = _built(options, backend, bug)
    if built.image is None:
        raise UserError(f"it does not build: {built.log_tail[-400:].strip()}")
    found = backend.run(built.image, bug.reproducers[0], limits=Limits())
    if options.console and found.console is not None:
        print(_text(found.console))
    print("\n".join(run_lines(found)))
    return 0 if found.valid and found.crash is None else 1


@dataclass(frozen=True)
class EvalOptions(_Choice):
    """What to evaluate, and where."""

    patches: Annotated[Positional[tuple[Path, ...]], arg(metavar="[PATCH ...]")] = ()
    """Unified diffs, several at a time; one may be given by --patch as well."""
    executor: Literal["local", "ray"] = "local"
    """local uses processes here; ray a cluster, or a local Ray that it starts and ends."""
    address: str | None = None
    """Of a Ray cluster, for example 10.0.0.1:6379 or auto; None starts a local Ray."""
    slots: int | None = None
    """Evaluations at a time on this machine; None is one per two processors."""
    runs: int | None = None
    """Boots without a crash that plausible takes; None follows from the bug's baseline."""
    out: Path | None = None
    """Folder of the journals; None is in the cache. The same command continues an evaluation."""
    judge: str | None = None
    """A model of inspect-ai whose votes decide what the comparison leaves open."""
    json: bool = False
    """Print the verdict as JSON."""
    results: Path | None = None
    """File to which a row for icml kenv stats and dashboard is added for each verdict."""
    agent: str = ""
    """Who made the patch, for --results."""
    model: str = "none"
    """The agent's language model, for --results."""

    def __post_init__(self) -> None:
        """Refuse a number of boots that would show nothing."""
        super().__post_init__()
        for name in ("runs", "slots"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"--{name} must be at least 1, got {number}")
        for name in ("agent", "model"):
            word = getattr(self, name)
            if word and not 0 < len(word.strip()) <= 120:
                raise ValueError(f"--{name} must have 1 to 120 letters, got {len(word.strip())}")
        if self.patches and (self.fix or self.patch is not None):
            raise ValueError("give patches as arguments, or one by --patch or --fix, not both")
        if self.judge is not None and (self.patches or self.executor != "local"):
            raise ValueError("--judge is asked about one patch: give it by --patch, without Ray")
        if self.results is not None and not self.agent:
            raise ValueError("--results needs --agent: who made the patch")


def evaluate(options: EvalOptions) -> int:
    """Say what patches are worth: build, boot, compare; exits with 1 if one is not plausible."""
    from icml.kenv.models import Patch
    from icml.kenv.runner import evaluate as find_out
    from icml.kenv.show import verdict_lines

    if options.patches or options.executor != "local":
        return _evaluate_all(options)
    judge = _judge(options.judge)
    bug, patch = _bug(options), _patch(options) or Patch(diff="")
    verdict = find_out(bug, patch, backend=options.backend, runs=options.runs, folder=options.out)
    if judge is not None:
        verdict = judge.verdict(bug, patch, verdict)
    _keep(options, bug, patch, verdict)
    print(verdict.model_dump_json() if options.json else "\n".join(verdict_lines(verdict)))
    return 0 if verdict.plausible else 1


def _keep(options: EvalOptions, bug: Bug, patch: Patch, verdict: Verdict) -> None:
    if options.results is not None:
        from icml.kenv.results import add_result

        add_result(
            options.results, bug, verdict, agent=options.agent, model=options.model, patch=patch
        )


def _evaluate_all(options: EvalOptions) -> int:
    import sys
    from contextlib import redirect_stdout

    from icml.core.errors import UserError
    from icml.kenv.executor import Job
    from icml.kenv.many import evaluate_all, executor_named
    from icml.kenv.models import Patch, Verdict
    from icml.kenv.show import verdict_lines

    bug = _bug(options)
    patches = {str(path): Patch(diff=_text(path)) for path in options.patches}
    if not patches:
        patches = {str(options.patch or options.id): _patch(options) or Patch(diff="")}
    names = list(patches)
    answers = sys.stdout  # for verdicts alone: Ray says there what it has seen
    folder = None if options.out is None else options.out.resolve()
    jobs = [
        Job(bug=bug, patch=p, backend=options.backend, runs=options.runs, folder=folder)
        for p in patches.values()
    ]

    def tell(number: int, came: Verdict | UserError) -> None:
        name = names[number]
        if isinstance(came, Verdict):
            _keep(options, bug, patches[name], came)
        if options.json:
            told = (
                {"error": str(came)}
                if isinstance(came, UserError)
                else came.model_dump(mode="json")
            )
            print(json.dumps({"patch": name, **told}), file=answers, flush=True)
        elif isinstance(came, UserError):
            print(f"{name}: no verdict: {came}", file=answers, flush=True)
        else:
            print(f"{name}: " + "\n".join(verdict_lines(came)), file=answers, flush=True)

    with redirect_stdout(sys.stderr):
        executor = executor_named(options.executor, address=options.address, slots=options.slots)
        found = evaluate_all(jobs, executor, tell=tell)
    if any(isinstance(came, UserError) for came in found):
        return 2
    return 0 if all(isinstance(came, Verdict) and came.plausible for came in found) else 1


def _built(options: _Choice, backend: Backend, bug: Bug) -> BuildResult:
    from icml.kenv.policy import Policy
    from icml.kenv.protocol import Limits

    prepared = backend.prepare(bug)
    patch = _patch(options)
    if patch is not None:
        Policy(scope=prepared.scope).check(patch)
    return backend.build(prepared, patch, limits=Limits())


def _bug(options: _Choice) -> Bug:
    from icml.kenv.bugs import BUGS, load_bug

    return load_bug(options.id, options.bugs or BUGS)


def _patch(options: _Choice) -> Patch | None:
    from icml.core.errors import UserError
    from icml.kenv.models import Patch
    from icml.kenv.sources import derive_fix

    if options.fix:
        fix = derive_fix(_bug(options))
        if fix is None:
            raise UserError(f"{options.id} records no fix: give --patch")
        return fix
    return None if options.patch is None else Patch(diff=_text(options.patch))


def _judge(name: str | None) -> LLMJudge | None:
    if name is None:
        return None
    from icml.kenv.judge import LLMJudge, judge_model

    return LLMJudge(judge_model(name))


def _text(path: Path) -> str:
    from icml.core.errors import UserError

    try:
        return path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


app: Mapping[str, Callable[[Any], int | None]] = {
    "doctor": doctor,
    "fetch": fetch,
    "build": build,
    "run": run,
    "eval": evaluate,
    "trees": trees,
    "serve": serve,
    "reproduce": reproduce,
    "bugs": bugs,
    "parse": parse,
    "compare": compare,
    **benchmark_commands,
    "mcp": mcp,
}
