"""Evaluations whose emulator is a real child process that prints what a kernel would print."""

import resource
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from icml.core.errors import UserError
from icml.core.journal import Journal
from icml.kenv.backends.choose import BackendUnavailable, backend_named
from icml.kenv.backends.replay import ReplayBackend
from icml.kenv.console import markers, new_nonce
from icml.kenv.guest import boot
from icml.kenv.models import (
    Availability,
    Baseline,
    Bug,
    BuildResult,
    Image,
    KernelSource,
    Patch,
    Reproducer,
)
from icml.kenv.protocol import Limits, Prepared
from icml.kenv.runner import evaluate
from icml.kenv.verdict import ReproducerDoesNotReproduce

CRASH = """\
[    7.102040] kernel BUG at net/phonet/socket.c:213!
[    7.102411] invalid opcode: 0000 [#1] PREEMPT SMP NOPTI
[    7.102655] CPU: 0 PID: 86 Comm: repro Not tainted 6.1.0-47-amd64 #1
[    7.103037] RIP: 0010:f+0x75/0x80
[    7.103811] Kernel panic - not syncing: Fatal exception"""
OTHER = CRASH.replace("f+0x75", "g+0x75")
CLEAN = "{boot}\nrepro: send -> 0 errno=0\n{exit} 0\n{done}"
CRASHED = f"{{boot}}\n{CRASH}"


def patch(behaviour: str) -> Patch:
    """Return a patch; the pretended kernel behaves as its added line says."""
    return Patch(diff=f"--- a/net/x.c\n+++ b/net/x.c\n@@ -1 +1 @@\n-int a;\n+{behaviour}\n")


SAID = {
    "clean": CLEAN,
    "crash": CRASHED,
    "other": f"{{boot}}\n{OTHER}",
    "dead": f"starting\n{CRASH}",
    "hangs": "{boot}\nrepro: send -> 0 errno=0",
    "silent": "",
    "forged": "KENV_BOOT_OK 0123456789abcdef\nKENV_DONE 0123456789abcdef",
    "flaky": "",
}


BUILDS = {"broken": "net/x.c:1:1: error: no", "full": "as: No space left on device"}


@dataclass
class Pretended:
    """A backend whose kernels are shell commands; real children, real limits."""

    unpatched: str = CRASHED
    name: str = "module"
    recorded: bool = False
    verified: bool = True
    booted: list[str] = field(default_factory=list)
    stop_after: int = 100

    def available(self) -> Availability:
        return Availability(ok=True, reason="always")

    def prepare(self, bug: Bug) -> Prepared:
        return Prepared(bug, self.tree, Path("/"), "key", scope=("net",))

    def build(self, prepared: Prepared, patch: Patch | None, *, limits: Limits) -> BuildResult:
        added = patch.changes[0].added_lines[0].strip() if patch else ""
        if added in BUILDS:
            return BuildResult(ok=False, seconds=0, log_tail=BUILDS[added])
        return BuildResult(ok=True, seconds=0, image=Image(key=added or "none", folder=Path("/")))

    def run(self, image: Image, reproducer: Reproducer, *, limits: Limits):
        if len(self.booted) >= self.stop_after:
            raise KeyboardInterrupt
        self.booted.append(image.key)
        nonce = new_nonce()
        text = self.unpatched if image.key == "none" else SAID[image.key]
        mark = markers(nonce)
        said = text.format(boot=mark.boot, exit=mark.exit, done=mark.done)
        return boot(
            ["sh", "-c", 'printf "%s\\n" "$1"', "sh", said] if said else ["sh", "-c", "exit 1"],
            cwd=Path("/"),
            nonce=nonce,
            console=self.folder / f"{nonce}.txt",
            limits=limits,
        )

    folder: Path = Path()
    tree: Path = Path("/")


@pytest.fixture
def kernel(tmp_path) -> Pretended:
    return Pretended(folder=tmp_path)


BUG = Bug(
    id="a-bug",
    title="kernel BUG in f",
    crash_type="BUG",
    source=KernelSource(kind="tree", ref="/", version="1"),
    directory="net",
    crash_report=CRASH,
    reproducers=[Reproducer(text="int main(void) { return 0; }")],
    baselines=[Baseline(backend="module", runs=15, crashes=15)],
)


@pytest.mark.parametrize(
    ("behaviour", "kind", "boots"),
    [
        ("clean", "plausible", 3),
        ("crash", "crash_same", 1),
        ("other", "crash_other", 1),
        ("dead", "boot_failed", 3),
        ("hangs", "flaky", 3),
        ("silent", "infra_error", 3),
        ("forged", "boot_failed", 3),  # markers of another boot are nobody's
        ("broken", "build_failed", 0),
    ],
)
def test_each_behaviour_has_its_verdict(kernel, tmp_path, behaviour, kind, boots) -> None:
    verdict = evaluate(BUG, patch(behaviour), backend=kernel, folder=tmp_path / "v")
    assert verdict.kind == kind
    assert kernel.booted.count(behaviour) == boots
    assert verdict.plausible == (kind == "plausible")


def test_an_empty_patch_is_judged_without_a_build(kernel, tmp_path) -> None:
    verdict = evaluate(BUG, Patch(diff=" \n"), backend=kernel, folder=tmp_path / "v")
    assert (verdict.kind, kernel.booted) == ("patch_empty", [])


def test_a_kernel_that_never_crashed_here_gives_no_verdict_at_all(kernel, tmp_path) -> None:
    kernel.unpatched = CLEAN
    with pytest.raises(ReproducerDoesNotReproduce, match="did not crash"):
        evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    assert "clean" not in kernel.booted


def test_without_a_frozen_record_five_boots_tell_how_often_it_crashes(kernel, tmp_path) -> None:
    bug = BUG.model_copy(update={"baselines": []})
    verdict = evaluate(bug, patch("clean"), backend=kernel, folder=tmp_path / "v")
    assert kernel.booted.count("none") == 5
    # 5 of 5: Wilson's lower end is 1 / (1 + 1.96^2 / 5) = .566, and .434^6 <= .01 < .434^5
    assert verdict.wanted_runs == 6


def test_an_interrupted_evaluation_goes_on_where_it_was(kernel, tmp_path) -> None:
    kernel.stop_after = 3  # the unpatched kernel's, and two of the patched one
    with pytest.raises(KeyboardInterrupt):
        evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    kernel.stop_after = 100
    verdict = evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    assert (verdict.kind, len(verdict.runs)) == ("plausible", 3)
    assert kernel.booted == ["none", "clean", "clean", "clean"]
    assert evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v") == verdict
    assert len(kernel.booted) == 4


def test_a_torn_last_line_costs_one_boot(kernel, tmp_path) -> None:
    kernel.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    kernel.stop_after = 100
    (file,) = (f for f in (tmp_path / "v").glob("*.jsonl") if '"build"' in f.read_text())
    file.write_bytes(file.read_bytes()[:-20])
    verdict = evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    assert verdict.kind == "plausible"
    assert kernel.booted.count("clean") == 4


def test_a_full_disk_is_an_error_and_what_was_finished_is_kept(kernel, tmp_path) -> None:
    kernel.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    kernel.stop_after = 100
    journals = list((tmp_path / "v").glob("*.jsonl"))
    before = {file: Journal(file).read() for file in journals}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(file.stat().st_size for file in journals)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 50, hard))
    try:
        with pytest.raises(UserError, match="cannot write"):
            evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert all(Journal(file).read()[: len(kept)] == kept for file, kept in before.items())
    verdict = evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v")
    assert verdict.kind == "plausible"


def test_a_build_on_a_full_disk_blames_the_disk_and_not_the_patch(kernel, tmp_path) -> None:
    with pytest.raises(UserError, match="is full"):
        evaluate(BUG, patch("full"), backend=kernel, folder=tmp_path / "v")


def test_a_full_disk_in_the_build_of_the_fix_leaves_no_verdict_without_it(
    kernel, tmp_path, monkeypatch
) -> None:
    bug = BUG.model_copy(update={"fix": patch("fixed")})
    (tmp_path / "net").mkdir()
    (tmp_path / "net/x.c").write_text("int a;\n")
    kernel.tree = tmp_path
    monkeypatch.setitem(BUILDS, "fixed", "as: No space left on device")
    with pytest.raises(UserError, match="is full"):
        evaluate(bug, patch("clean"), backend=kernel, folder=tmp_path / "v")
    monkeypatch.delitem(BUILDS, "fixed")
    verdict = evaluate(bug, patch("clean"), backend=kernel, folder=tmp_path / "v")
    assert (verdict.kind, verdict.equivalence.answer) == ("plausible", "unknown")
    assert kernel.booted.count("clean") == 3  # before the disk was full


def test_another_patch_backend_or_number_of_runs_is_another_evaluation(kernel, tmp_path) -> None:
    keys = {
        evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v").key,
        evaluate(BUG, patch("crash"), backend=kernel, folder=tmp_path / "v").key,
        evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v", runs=4).key,
    }
    kernel.name = "uml"
    keys.add(evaluate(BUG, patch("clean"), backend=kernel, folder=tmp_path / "v").key)
    assert len(keys) == 4


def test_hostile_patches_never_reach_a_build(kernel, tmp_path) -> None:
    for diff in (
        "--- a/../x.c\n+++ b/../x.c\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/net/Makefile\n+++ b/net/Makefile\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/fs/x.c\n+++ b/fs/x.c\n@@ -1 +1 @@\n-a\n+b\n",
        patch('#include "/etc/passwd"').diff,
    ):
        verdict = evaluate(BUG, Patch(diff=diff), backend=kernel, folder=tmp_path / "v")
        assert verdict.kind == "patch_rejected"
    assert kernel.booted == []


def test_recorded_consoles_give_a_verdict_that_says_so(tmp_path) -> None:
    folder = tmp_path / "a-bug/consoles"
    nonce = "0123456789abcdef"
    mark = markers(nonce)
    for name, text in ((patch("clean").sha256, CLEAN), (patch("crash").sha256, CRASHED)):
        (folder / name).mkdir(parents=True)
        (folder / name / "nonce.txt").write_text(nonce)
        said = text.format(boot=mark.boot, exit=mark.exit, done=mark.done)
        (folder / name / "1.txt").write_text(said)
    replay = ReplayBackend(tmp_path)
    found = [
        evaluate(BUG, patch(what), backend=replay, folder=tmp_path / "v")
        for what in ("clean", "crash")
    ]
    assert [verdict.kind for verdict in found] == ["plausible", "crash_same"]
    assert all(verdict.recorded for verdict in found)
    with pytest.raises(UserError, match="no consoles of this patch"):
        evaluate(BUG, patch("other"), backend=replay, folder=tmp_path / "v")


def test_without_a_kernel_the_reason_and_the_remedy_are_told() -> None:
    # The test's own cache folder is empty.
    with pytest.raises(BackendUnavailable, match=r"icml kenv fetch|apt-get install"):
        backend_named("module")


def test_auto_falls_back_to_recorded_consoles_and_never_starts_a_long_build() -> None:
    assert backend_named("auto").name == "replay"
