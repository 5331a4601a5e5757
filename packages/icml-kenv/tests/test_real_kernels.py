"""A real bug through the whole path: crash, fix, silencing patch, other crash, build error."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from icml.core.journal import Journal
from icml.core.testing import check_reproduce, run_icml
from icml.core.testing.commands import ICML
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.models import Patch
from icml.kenv.protocol import Limits
from icml.kenv.runner import evaluate
from icml.kenv.session import source_texts
from icml.kenv.sources import derive_fix
from icml.kenv.templates import candidates, diff_text

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

PHONET = "net/phonet/socket.c"


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> Path:
    """Return a folder for all evaluations: the unpatched kernel is booted once for it."""
    return tmp_path_factory.mktemp("verdicts")


def edited(backend, old: str, new: str) -> Patch:
    """Return the patch that replaces one line of the phonet socket's source."""
    text = (backend.prepare(load_bug("phonet-autobind")).tree / PHONET).read_text()
    assert text.count(old) == 1
    return Patch(diff=diff_text(PHONET, text, text.replace(old, new)))


ASSERTION = "\tBUG_ON(!pn_port(pn_sk(sock->sk)->sobject));\n"


def test_the_unpatched_module_crashes_with_the_recorded_title_and_place(module) -> None:
    bug = load_bug("phonet-autobind")
    prepared = module.prepare(bug)
    build = module.build(prepared, None, limits=Limits())
    found = module.run(build.image, bug.reproducers[0], limits=Limits())
    assert (found.booted, found.finished, found.valid) == (True, False, True)
    assert found.crash.title == bug.title
    assert "kernel BUG at net/phonet/socket.c:213!" in found.crash.raw  # no host's path
    assert found.crash.comm == "reproducer"
    assert found.transcript[-1] == "accepted >= 0 -> 1 errno=0"


def test_the_developers_fix_is_plausible_and_equivalent(module, verdicts) -> None:
    bug = load_bug("phonet-autobind")
    verdict = evaluate(bug, derive_fix(bug), backend=module, folder=verdicts)
    assert (verdict.kind, verdict.equivalence.answer) == ("plausible", "equivalent")
    # 15 of 15 baseline crashes: Wilson's lower end .796, and (1 - .796)^3 = .0085
    assert verdict.wanted_runs == 3
    assert verdict.false_plausible_bound == pytest.approx(0.0085, abs=1e-4)
    assert verdict.runs[-1].transcript[-1].endswith("-> -1 errno=11")  # EAGAIN
    assert verdict.isolation.endswith("vm")


def test_a_silencing_patch_is_plausible_and_refuted_by_a_witness(module, verdicts) -> None:
    silence = edited(module, ASSERTION, "")
    verdict = evaluate(load_bug("phonet-autobind"), silence, backend=module, folder=verdicts)
    assert (verdict.kind, verdict.equivalence.answer) == ("plausible", "discrepant")
    # Without the assertion send() goes on without a port: EOPNOTSUPP (95) in place of EAGAIN (11).
    assert "errno=95" in verdict.equivalence.witness
    assert "errno=11" in verdict.equivalence.witness


def test_a_warning_in_place_of_the_assertion_is_another_crash(module, verdicts) -> None:
    warn = edited(module, ASSERTION, ASSERTION.replace("BUG_ON", "WARN_ON"))
    verdict = evaluate(load_bug("phonet-autobind"), warn, backend=module, folder=verdicts)
    assert verdict.kind == "crash_other"
    assert verdict.crash.title == "WARNING in pn_socket_autobind"


def test_a_build_error_names_its_line_and_boots_nothing_stale(module, verdicts) -> None:
    bug = load_bug("phonet-autobind")
    broken = edited(module, ASSERTION, "\tBUG_ON(1)\n")
    assert module.build(module.prepare(bug), None, limits=Limits()).ok  # a module is there before
    verdict = evaluate(bug, broken, backend=module, folder=verdicts)
    assert verdict.kind == "build_failed"
    assert (verdict.build.errors[0].file, verdict.build.errors[0].line) == (PHONET, 214)
    assert (verdict.runs, verdict.build.image) == ([], None)
    work = module.prepare(bug).work / "build"
    assert not (work / "phonet.ko").exists()


def test_a_module_that_does_not_load_is_a_failed_boot(module, verdicts) -> None:
    init = "net/phonet/af_phonet.c"
    source = (module.prepare(load_bug("phonet-autobind")).tree / init).read_text()
    head = "static int __init phonet_init(void)\n{\n\tint err;\n"
    assert head in source
    failing = source.replace(head, f"{head}\tif (jiffies)\n\t\treturn -ENODEV;\n")
    patch = Patch(diff=diff_text(init, source, failing))
    verdict = evaluate(load_bug("phonet-autobind"), patch, backend=module, folder=verdicts)
    assert verdict.kind == "boot_failed"
    assert not any(run.valid for run in verdict.runs)


def test_a_patch_outside_of_the_module_is_rejected_before_any_build(module, tmp_path) -> None:
    patch = Patch(diff="--- a/net/socket.c\n+++ b/net/socket.c\n@@ -1 +1 @@\n-x\n+y\n")
    verdict = evaluate(load_bug("phonet-autobind"), patch, backend=module, folder=tmp_path)
    assert verdict.kind == "patch_rejected"
    assert "out of scope" in verdict.reason


def test_a_patch_that_does_not_fit_has_its_own_verdict(module, verdicts) -> None:
    patch = Patch(diff=f"--- a/{PHONET}\n+++ b/{PHONET}\n@@ -1 +1 @@\n-int nowhere;\n+int x;\n")
    verdict = evaluate(load_bug("phonet-autobind"), patch, backend=module, folder=verdicts)
    assert verdict.kind == "apply_failed"


def test_a_finished_verdict_is_read_and_not_run_again(module, verdicts) -> None:
    bug = load_bug("phonet-autobind")
    broken = edited(module, ASSERTION, "\tBUG_ON(2)\n")
    first = evaluate(bug, broken, backend=module, folder=verdicts)
    started = time.process_time()
    again = evaluate(bug, broken, backend=module, folder=verdicts)
    assert again == first
    assert time.process_time() - started <= 0.5


def test_a_kill_leaves_no_emulator_and_the_same_command_goes_on(module, tmp_path) -> None:
    command = [*ICML, "kenv", "eval", "phonet-autobind", "--fix", "--backend", "module"]
    command += ["--json", "--out", str(tmp_path / "verdicts")]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as child:
        members = _wait_for_second_boot(child, tmp_path / "verdicts")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert members, "no emulator was seen"
    _, alive = psutil.wait_procs(members, timeout=10)
    assert not alive
    kept = _boots(tmp_path / "verdicts")
    assert len(kept) >= 2

    ended = run_icml(*command[len(ICML) :])
    assert ended.returncode == 0, ended.stderr
    verdict = json.loads(ended.stdout)
    assert verdict["kind"] == "plausible"
    assert set(kept) < set(_boots(tmp_path / "verdicts"))


def _boots(folder: Path) -> list[str]:
    """Return the consoles of all boots that are in the journals: a new boot has a new one."""
    steps = [s for file in sorted(folder.glob("*.jsonl")) for s in Journal(file).read()]
    return sorted(step["value"]["console"] for step in steps if step["step"] == "run")


def _wait_for_second_boot(child, folder: Path) -> list[psutil.Process]:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and child.poll() is None:
        tree = psutil.Process(child.pid).children(recursive=True)
        emulators = [p for p in tree if p.name().startswith("qemu")]
        if emulators and folder.is_dir() and len(_boots(folder)) >= 2:
            return tree
        time.sleep(0.1)
    return []


def test_two_evaluations_of_one_patch_in_one_folder_share_the_runs(module, tmp_path) -> None:
    command = [*ICML, "kenv", "eval", "phonet-autobind", "--fix", "--backend", "module"]
    command += ["--json", "--out", str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [json.loads(child.communicate()[0]) for child in both]
    assert said[0] == said[1]
    assert said[0]["kind"] == "plausible"
    assert len(_boots(tmp_path)) == 1 + 3  # one of the unpatched kernel, three of the patched one


def test_what_an_agent_gets_never_contains_the_fix(module, tmp_path) -> None:
    for bug_id in bug_ids():
        bug = load_bug(bug_id)
        tree = module.prepare(bug).tree
        fix = derive_fix(bug)
        given = [bug.public().model_dump_json(), *source_texts(tree / bug.directory).values()]
        given += [candidate.patch.diff for candidate in candidates(bug.public(), tree)]
        everything = "\n".join(given)
        added = [line.strip() for change in fix.changes for line in change.added_lines]
        telling = [line for line in added if len(line) > 20]
        assert telling
        assert not [line for line in telling if line in everything]
        assert fix.sha256 not in everything
        assert bug.fix_source.source.version not in everything


def test_the_doctor_boots_what_it_calls_good(module) -> None:
    ended = run_icml("kenv", "doctor")
    assert ended.returncode == 0
    assert "module     booted in" in ended.stdout


def test_user_mode_linux_tells_fix_and_unpatched_apart(uml, tmp_path) -> None:
    bug = load_bug("kcm-zero-frag")
    verdict = evaluate(bug, derive_fix(bug), backend=uml, folder=tmp_path)
    assert (verdict.kind, verdict.equivalence.answer) == ("plausible", "equivalent")
    build = uml.build(uml.prepare(bug), None, limits=Limits())
    crash = uml.run(build.image, bug.reproducers[0], limits=Limits()).crash
    assert crash.title == bug.title


def test_the_quick_experiment_holds_its_required_claims(module, tmp_path) -> None:
    summary = check_reproduce("kenv", tmp_path / "run")
    claims = {claim.id: claim for claim in summary.claims}
    assert claims["developer"].holds
    assert claims["null"].holds
    assert claims["comment"].holds
    assert claims["broken"].holds
