"""The records: bugs, patches, crash reports, builds, runs and verdicts, as checked JSON.

What an agent may see of a bug is :class:`PublicBug`. :class:`Bug` adds what it must never see, so
that a new field of a bug is hidden until somebody makes it public.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    computed_field,
    model_validator,
)

if TYPE_CHECKING:
    from icml.kenv.patch import FileChange

VerdictKind = Literal[
    "patch_empty",
    "patch_invalid",
    "patch_rejected",
    "apply_failed",
    "build_failed",
    "build_timeout",
    "boot_failed",
    "crash_same",
    "crash_other",
    "flaky",
    "plausible",
    "infra_error",
]
"""What can become of a patch, in the order of the stages that decide it."""

VERDICT_KINDS: tuple[VerdictKind, ...] = get_args(VerdictKind)
EquivalenceAnswer = Literal["equivalent", "discrepant", "unknown"]
Evidence = Literal["identical_text", "identical_object", "transcript", "judge", "structural"]


def _stays_inside(path: str) -> str:
    if not path or path.startswith("/") or "\\" in path or ".." in path.split("/"):
        raise ValueError(f"wanted a path inside the kernel tree, got {path!r}")
    return path


TreePath = Annotated[str, AfterValidator(_stays_inside)]
"""A path relative to the root of a kernel tree."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Record(BaseModel):
    """A record that cannot change and refuses keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, data: Any) -> Any:
        """Let a record read its own JSON, in which computed fields are for other readers."""
        if isinstance(data, dict):
            return {
                key: value for key, value in data.items() if key not in cls.model_computed_fields
            }
        return data


class Reproducer(Record):
    """A program of ours or of a reporter that makes the kernel crash; it runs in a guest only."""

    kind: Literal["c"] = "c"
    text: str
    timeout_s: float = Field(default=30, gt=0, le=600)
    """Seconds it may take once."""
    repeat: int = Field(default=1, ge=1, le=1000)
    """How often it runs within one boot."""


class KernelSource(Record):
    """Where a kernel's source comes from."""

    kind: Literal["deb", "tree"]
    """A package of the distribution, or a folder that is there already."""
    ref: str
    """Name of the package, for example ``linux-source-6.1``, or path of the folder."""
    version: str
    """Of the package, for example ``6.1.170-3``."""
    sha256: Sha256 | None = None
    """Of the package file."""


class Patch(Record):
    """A unified diff, as an agent hands it in: nothing of it is trusted."""

    diff: str

    @cached_property
    def changes(self) -> tuple[FileChange, ...]:
        """The files it changes, parsed; raises `PatchRejected` where it isn't a diff."""
        from icml.kenv.patch import parse_diff

        return parse_diff(self.diff)

    @property
    def files(self) -> list[str]:
        """Paths that it touches, without ``a/`` and ``b/``; both names of a renamed file."""
        return sorted({path for change in self.changes for path in change.paths})

    @property
    def hunks(self) -> int:
        """Number of hunks in all files."""
        return sum(len(change.hunks) for change in self.changes)

    @property
    def added(self) -> int:
        """Number of added lines."""
        return sum(len(change.added_lines) for change in self.changes)

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        return sum(len(change.removed_lines) for change in self.changes)

    @property
    def empty(self) -> bool:
        """There is nothing in it but blanks."""
        return not self.diff.strip()

    @property
    def sha256(self) -> str:
        """Of the text without trailing blank lines: the same patch gives the same verdict."""
        return hashlib.sha256(self.diff.rstrip().encode(errors="surrogatepass")).hexdigest()


class FixSource(Record):
    """How to derive the developers' fix from two releases of the source."""

    source: KernelSource
    """The release that has the fix."""
    hunks: dict[TreePath, list[int]]
    """Per file, the hunks that matter, counted from 1; no number stands for all of them."""
    sha256: Sha256 | None = None
    """Of the derived diff, to notice another release than the recorded one."""


class Baseline(Record):
    """What the unpatched and the fixed kernel did when the bug was frozen."""

    backend: str
    runs: int = Field(ge=1)
    """Valid runs of the unpatched kernel."""
    crashes: int = Field(ge=0)
    """Runs of them that crashed with the bug's title or one of its alternatives."""
    titles: dict[str, int] = {}
    """How often each title was seen, the empty title for no crash."""
    fixed_transcript: list[str] | None = None
    """What the reproducer printed on the kernel with the developers' fix."""


class PublicBug(Record):
    """What an agent may see of a bug: no fix, nothing that says where or when it was made."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    title: str
    alt_titles: list[str] = []
    subsystems: list[str] = []
    crash_type: str
    source: KernelSource
    """The kernel that crashes."""
    directory: TreePath
    """The part of the tree that the module backend rebuilds, and patches may touch there."""
    config: list[str] = []
    """Configuration lines, for example ``CONFIG_PHONET=m``."""
    modules: list[str] = []
    """Modules to load before the reproducer, in this order."""
    reported: datetime | None = None
    crash_report: str
    """The part of a recorded console that reports the crash."""
    reproducers: list[Reproducer] = Field(min_length=1)


class Bug(PublicBug):
    """A bug with its fix; only the environment reads what :class:`PublicBug` lacks."""

    fix: Patch | None = None
    fix_source: FixSource | None = None
    bug_patch: Patch | None = None
    """Of an injected bug: what puts it into ``source``, a fix taken back."""
    bug_source: FixSource | None = None
    """How to derive ``bug_patch``: the release without the fix, and the hunks that it lacks."""
    fix_commits: list[str] = []
    fix_time: datetime | None = None
    baselines: list[Baseline] = []

    def public(self) -> PublicBug:
        """Return the view for agents."""
        return PublicBug.model_validate(self.model_dump(include=set(PublicBug.model_fields)))

    def baseline(self, backend: str) -> Baseline | None:
        """Return the frozen record of one backend, if there is one."""
        return next((found for found in self.baselines if found.backend == backend), None)


class Frame(Record):
    """One line of a kernel stack trace."""

    func: str
    """Without the compiler's suffixes (``.cold``, ``.isra.0``)."""
    offset: int | None = None
    """Bytes from the function's start."""
    size: int | None = None
    """Length of the function (bytes)."""
    file: str | None = None
    line: int | None = None
    module: str | None = None
    inline: bool = False
    question: bool = False
    """The unwinder doubts it (``?``)."""


class CrashReport(Record):
    """One crash on a console: the title and the report it was read from are of the same crash."""

    title: str
    alt_titles: list[str] = []
    kind: str
    """Family of the title, for example ``BUG``, ``KASAN``, ``WARNING``, ``divide error``."""
    corrupted: bool = False
    """The report lacks what its title would need, for example a stack."""
    access: Literal["Read", "Write"] | None = None
    access_size: int | None = None
    """Bytes."""
    comm: str | None = None
    pid: int | None = None
    stacks: dict[str, list[Frame]] = {}
    """``call`` and, for KASAN, ``alloc`` and ``free``: frames from the innermost outwards."""
    panicked: bool = False
    raw: str
    start: int
    """First line of the console that belongs to it, counted from 0."""
    end: int
    """Line after its last one."""

    def matches(self, titles: Sequence[str]) -> bool:
        """Its title or an alternative is one of ``titles``, all normalised."""
        from icml.kenv.titles import normalise_title

        wanted = {normalise_title(title) for title in titles}
        return any(normalise_title(title) in wanted for title in (self.title, *self.alt_titles))


class CompileError(Record):
    """One error of the compiler or of make."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


class Image(Record):
    """Something that boots; only the backend that built it knows what lies in its folder."""

    key: str
    """Digest of all that it was built from."""
    folder: Path


class BuildResult(Record):
    """What came of building a patched kernel or module."""

    ok: bool
    seconds: float
    """Wall time."""
    timed_out: bool = False
    log_tail: str = ""
    errors: list[CompileError] = []
    image: Image | None = None
    objects: list[Path] = []
    """The object files of touched sources, for the comparison of object code."""
    cache_hit: bool = False
    isolation: str = ""


class RunResult(Record):
    """One boot of a kernel with one reproducer."""

    booted: bool
    """The boot marker with this run's nonce was seen."""
    finished: bool
    """The end marker with this run's nonce was seen."""
    crash: CrashReport | None = None
    """The first crash after the boot marker, or before it where there was no marker."""
    transcript: list[str] | None = None
    """What the reproducer printed of itself, up to the crash or its end."""
    seconds: float
    """Wall time."""
    console: Path | None = None
    exit: int | None = None
    """Of the emulator; None where a limit ended it."""
    isolation: str = ""
    """What stood between the machine and the guest."""
    infra: str | None = None
    """What went wrong outside of the kernel, for example that the emulator didn't start."""

    @computed_field
    @property
    def valid(self) -> bool:
        """It counts: the kernel booted, and then crashed or ran the reproducer to its end."""
        return self.infra is None and self.booted and (self.finished or self.crash is not None)


class Scores(Record):
    """How alike two patches are, each in [0, 1]; no score proves anything."""

    file_iou: float | None
    """Shared over all touched source files; None where neither touches one."""
    function_iou: float | None
    """Shared over all touched functions, named ``path::function``."""
    token_jaccard: float | None
    """Shared over all changed tokens, as multisets."""
    token_similarity: float | None
    """1 less the normalised edit distance of the changed tokens."""


class Equivalence(Record):
    """Whether a patch does what the developers' fix does, and how that is known."""

    answer: EquivalenceAnswer
    evidence: Evidence
    witness: str | None = None
    """For ``discrepant``: the first line in which the two kernels behave differently."""
    scores: Scores | None = None
    votes: dict[str, int] = {}
    """Of judges: ``equivalent``, ``discrepant``, ``error``."""


class Verdict(Record):
    """What a patch is worth, and on what grounds."""

    kind: VerdictKind
    reason: str = ""
    """One sentence for a reader."""
    runs: list[RunResult] = []
    wanted_runs: int = 0
    """Valid runs without a crash that ``plausible`` takes."""
    crash: CrashReport | None = None
    build: BuildResult | None = None
    false_plausible_bound: float | None = None
    """Upper bound of the chance that a patch which changes nothing passes these runs."""
    equivalence: Equivalence | None = None
    backend: str
    recorded: bool = False
    """It was read from recorded consoles: nothing ran."""
    verified: bool = True
    """The backend is one that our own tests run for real."""
    isolation: str = ""
    """What stood between the machine and the patch, as `icml.core.process` reports it."""
    key: str = ""

    @computed_field
    @property
    def plausible(self) -> bool:
        """The patched kernel builds, boots and ran the reproducer often enough without a crash."""
        return self.kind == "plausible"

    @property
    def seconds(self) -> float:
        """Wall time of the build and all boots."""
        built = self.build.seconds if self.build else 0.0
        return built + sum(run.seconds for run in self.runs)


class Availability(Record):
    """Whether a backend can work here."""

    ok: bool
    reason: str
    """Why it can or cannot, from a probe."""
    missing: list[str] = []
    hint: str = ""
    """The command or package that would make it work."""
