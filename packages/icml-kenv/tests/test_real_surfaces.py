"""Real boots through Python, HTTP, the shell tool and a local Ray: same verdict, same key."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from icml.core.journal import Journal
from icml.core.testing.commands import ICML
from icml.kenv.bugs import load_bug
from icml.kenv.client import Client
from icml.kenv.models import Patch
from icml.kenv.runner import evaluate
from icml.kenv.sources import derive_fix
from icml.kenv.templates import diff_text

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

BUG = "phonet-autobind"
SOCKET = "net/phonet/socket.c"


def boots(folder: Path) -> list[str]:
    """Return the consoles of all boots that are in the journals: a new boot has a new one."""
    steps = [s for file in sorted(folder.glob("*.jsonl")) for s in Journal(file).read()]
    return sorted(step["value"]["console"] for step in steps if step["step"] == "run")


def remark(backend) -> Patch:
    """Return a patch that changes nothing: one boot shows that it crashes as before."""
    text = (backend.prepare(load_bug(BUG)).tree / SOCKET).read_text()
    return Patch(diff=diff_text(SOCKET, text, text + "/* looked at */\n"))


@pytest.fixture
def server(module, tmp_path):
    out = tmp_path / "service"
    command = [*ICML, "kenv", "serve", "--port", "0", "--out", str(out), "--backend", "module"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        lines = iter(child.stdout.readline, "")
        url = next(line.split()[-1] for line in lines if line.startswith("serving on "))
        client = Client(url, token=(out / "operator-token").read_text().strip())
        try:
            yield client
        finally:
            client.close()
            child.terminate()
            child.wait(20)


def run_kernel(folder: Path, session, url: str, *options: str) -> subprocess.CompletedProcess:
    """Call the tool as an agent's shell would."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "KENV_URL": url}
    env |= {"KENV_SESSION": session.session_id, "KENV_TOKEN": session.token}
    tool = str(Path(sys.executable).with_name("run_kernel"))
    return subprocess.run(
        ["sh", "-c", 'exec "$@"', "sh", tool, *options],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_python_http_and_the_shell_tool_agree_and_a_second_submission_boots_nothing(
    module, server, tmp_path
) -> None:
    bug, patch = load_bug(BUG), remark(module)
    verdicts = tmp_path / "service/verdicts"

    here = evaluate(bug, patch, backend=module, folder=tmp_path / "python")
    assert (here.kind, len(boots(tmp_path / "python"))) == ("crash_same", 2)

    session = server.open_session(BUG, max_runs=2)
    with_token = Client(server.url, session=session.session_id, token=session.token)
    over_http = with_token.wait(with_token.run(patch.diff).run_id)
    assert (over_http.feedback.kind, over_http.key) == (here.kind, here.key)
    assert over_http.feedback.title == bug.title
    assert bug.title.split()[-1] in with_token.artifact(over_http.run_id, "console")
    assert len(boots(verdicts)) == 2  # of its own: one of the unpatched kernel, one of the patch

    tree = with_token.checkout(tmp_path / "agent")
    edited = tree / SOCKET
    edited.write_text(edited.read_text() + "/* looked at */\n")
    before = boots(verdicts)
    said = run_kernel(tree, session, server.url)
    assert (said.returncode, said.stdout.splitlines()[0]) == (10, "verdict: crash_same")
    assert boots(verdicts) == before

    fix = derive_fix(bug)
    subprocess.run(["git", "checkout", "-q", "."], cwd=tree, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tree, input=fix.diff, text=True, check=True)
    said = run_kernel(tree, session, server.url)
    assert (said.returncode, said.stdout.splitlines()[:2]) == (
        0, ["verdict: plausible", "runs left: 0"],
    )  # fmt: skip
    assert len(boots(verdicts)) == 2 + 3
    assert run_kernel(tree, session, server.url, "--submit").returncode == 0

    # Python finds the tool's evaluation under the same name, and the results say the same.
    again = evaluate(bug, fix, backend=module, folder=verdicts)
    (row,) = server.results()
    assert (row.kind, row.key, row.equivalence) == ("plausible", again.key, "equivalent")
    assert len(boots(verdicts)) == 2 + 3

    edited.write_text(edited.read_text() + "int x\n")
    said = run_kernel(tree, session, server.url)
    assert (said.returncode, said.stdout) == (20, "")
    assert "runs_exhausted: all 2 runs are used" in said.stderr
    with_token.close()


def boots_a_kernel(process: psutil.Process) -> bool:
    """Say whether it is Ray's process of an evaluation, and an emulator runs below it."""
    try:
        inside = [below.name() for below in process.children(recursive=True)]
        return process.cmdline()[:1] == ["ray::run_job"] and any("qemu" in name for name in inside)
    except psutil.Error:
        return False


def ray_worker(child: subprocess.Popen, seen: Path, needed: int) -> psutil.Process:
    """Wait until Ray boots a kernel after so many boots are kept; return Ray's process of it."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and child.poll() is None:
        found = filter(boots_a_kernel, psutil.Process(child.pid).children(recursive=True))
        worker = next(found, None)
        if worker is not None and len(boots(seen)) >= needed:
            return worker
        time.sleep(0.1)
    child.kill()  # leaving its `with` block waits for it
    raise AssertionError("Ray booted nothing")


def test_ray_starts_a_killed_evaluation_again_and_counts_nothing_twice(module, tmp_path) -> None:
    files = {"fix.diff": derive_fix(load_bug(BUG)), "remark.diff": remark(module)}
    for name, patch in files.items():
        (tmp_path / name).write_text(patch.diff)
    verdicts = tmp_path / "verdicts"
    command = [*ICML, "kenv", "eval", BUG, *(str(tmp_path / name) for name in files), "--json"]
    command += ["--executor", "ray", "--backend", "module", "--slots", "1", "--out", str(verdicts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        worker = ray_worker(child, verdicts, needed=2)
        tree = worker.children(recursive=True)
        os.kill(worker.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs([worker, *tree], timeout=20)
        said = child.stdout.read()
    assert alive == []
    kinds = {Path(row["patch"]).name: row["kind"] for row in map(json.loads, said.splitlines())}
    assert kinds == {"fix.diff": "plausible", "remark.diff": "crash_same"}
    # One of the unpatched kernel, three of the fix, one of the remark; the killed one is no boot.
    assert len(boots(verdicts)) == 1 + 3 + 1


def test_a_local_ray_works_where_temporary_files_lie_in_the_environment() -> None:
    script = (
        "from icml.kenv.ray_executor import RayExecutor\nwith RayExecutor(slots=1): print('up')"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # short enough for Ray's sockets
        env = {k: v for k, v in os.environ.items() if k != "RAY_TMPDIR"}
        env |= {"VIRTUAL_ENV": folder, "TMPDIR": folder}
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False,
            timeout=110, env=env,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout.split()) == (0, ["up"]), ran.stderr


PLACED = """
import sys, time
from pathlib import Path
import psutil, ray
from ray.cluster_utils import Cluster
from icml.kenv.bugs import load_bug
from icml.kenv.executor import Job
from icml.kenv.models import Patch
from icml.kenv.ray_executor import RayExecutor, cached_trees

bug = load_bug("phonet-autobind")
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
holder = cluster.add_node(num_cpus=4, resources=cached_trees())
try:
    with RayExecutor(cluster.address) as executor:
        job = Job(bug=bug, patch=Patch(diff=Path(sys.argv[1]).read_text()), backend="module",
                  folder=Path(sys.argv[2]))
        handle = executor.submit(job)
        where = None
        while not handle.done() and where is None:
            for process in psutil.process_iter(["cmdline"]):
                if (process.info["cmdline"] or [""])[0] == "ray::run_job":
                    where = process.parent().pid
            time.sleep(0.05)
        raylet = next(p for n, p in holder.all_processes.items() if n == "raylet")[0].process.pid
        print(executor.place(bug, "module"), where == raylet, executor.result(handle).kind)
finally:
    ray.shutdown()
    cluster.shutdown()
"""


def test_an_evaluation_goes_to_the_machine_that_has_the_tree(module, tmp_path) -> None:
    (tmp_path / "remark.diff").write_text(remark(module).diff)
    script = [sys.executable, "-c", PLACED, str(tmp_path / "remark.diff"), str(tmp_path / "v")]
    # The script imports Ray before the executor could say this, and the tests may run by `uv run`.
    env = {**os.environ, "RAY_TMPDIR": "/tmp", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    ran = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300, env=env)
    label, placed, kind = ran.stdout.split()[-3:] if ran.stdout else ("", ran.stderr, "")
    assert label.startswith("kcache:module:")
    assert (placed, kind) == ("True", "crash_same")
