"""A real server on a free port of this machine, asked by real clients."""

import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from icml.core.testing import run_icml
from icml.core.testing.commands import ICML
from icml.kenv.bugs import BUGS, load_bug
from icml.kenv.client import ApiError, Client, Unreachable

BUG = "phonet-autobind"
OTHER = "--- a/net/Makefile\n+++ b/net/Makefile\n@@ -1 +1 @@\n-a\n+{}\n"


@contextmanager
def serving(out: Path, *options: str):
    """Start the command and yield its process with the address that it prints."""
    command = [*ICML, "kenv", "serve", "--port", "0", "--out", str(out), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            lines = iter(child.stdout.readline, "")
            url = next((x.split()[-1] for x in lines if x.startswith("serving on ")), None)
            assert url is not None, child.stderr.read()
            child.url = url
            yield child
        finally:
            child.terminate()
            child.wait(20)


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def url(out, shelf):
    with serving(out, "--bugs", str(shelf), "--backend", "replay") as child:
        yield child.url


CONNECTED: list[Client] = []


@pytest.fixture(autouse=True)
def disconnected():
    yield
    while CONNECTED:
        CONNECTED.pop().close()


def connect(url: str, **more: str) -> Client:
    CONNECTED.append(Client(url, **more))
    return CONNECTED[-1]


def operator(url: str, out: Path) -> Client:
    return connect(url, token=(out / "operator-token").read_text().strip())


def opened(url: str, out: Path, **wanted) -> Client:
    session = operator(url, out).open_session(BUG, **wanted)
    return connect(url, session=session.session_id, token=session.token)


@pytest.fixture
def session(url, out):
    return lambda **wanted: opened(url, out, **wanted)


def refusal(function, *arguments) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as caught:
        function(*arguments)
    return caught.value.status, caught.value.error, str(caught.value)


def test_a_run_over_http_has_the_verdict_and_the_key_of_python(session, recorded) -> None:
    job = recorded("clean")
    here = job.run()
    client = session()
    view = client.wait(client.run(job.patch.diff).run_id)
    assert (view.state, view.feedback.kind, view.key) == ("done", here.kind, here.key)
    assert view.feedback.runs_left == 3


def test_the_same_diff_is_the_same_run_and_costs_no_boot(session, recorded, out) -> None:
    client, another = session(), session()
    diff = recorded("crash").patch.diff
    first = client.wait(client.run(diff).run_id)
    journal = out / "verdicts" / f"{first.key}.jsonl"
    before = journal.read_bytes()
    again = client.run(diff + "\n")
    assert (again.run_id, again.state) == (first.run_id, "done")
    theirs = another.wait(another.run(diff).run_id)
    assert theirs.run_id != first.run_id
    assert theirs.key == first.key
    assert journal.read_bytes() == before
    assert before.count(b'"step":"run"') == 1


def test_twenty_at_once_get_one_run(session, recorded) -> None:
    client = session(max_runs=1)
    diff = recorded("clean").patch.diff
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: client.run(diff).run_id, range(20)))
    assert len(set(found)) == 1


def test_over_budget_off_and_unknown_have_their_status_and_one_sentence(session) -> None:
    client = session(max_runs=1)
    client.run(OTHER.format(1))
    assert refusal(client.run, OTHER.format(2)) == (
        429, "runs_exhausted", "all 1 runs are used: submit a diff",
    )  # fmt: skip
    assert refusal(session(feedback="none").run, OTHER.format(1)) == (
        403, "feedback_disabled", "this session gives no feedback: submit a diff",
    )  # fmt: skip
    assert refusal(client.view, "0" * 32) == (
        404, "unknown_run", "this session has no run of this name",
    )  # fmt: skip


def test_a_token_opens_its_own_session_alone(session, url, out) -> None:
    mine, theirs = session(), session()
    run_id = mine.wait(mine.run(OTHER.format(1)).run_id).run_id
    for ask in (theirs.view, theirs.cancel, lambda run: theirs.artifact(run, "build")):
        assert refusal(ask, run_id)[:2] == (404, "unknown_run")
    theirs.session = mine.session
    assert refusal(theirs.run, OTHER.format(1))[:2] == (401, "unauthorized")
    assert refusal(theirs.submit, OTHER.format(1))[:2] == (401, "unauthorized")
    for token in ("", "x", mine.session, f"{mine.session}.", mine.token[:-1], f"{mine.token}x"):
        stranger = connect(url, session=mine.session, token=token)
        assert refusal(stranger.run, OTHER.format(1))[:2] == (401, "unauthorized")
        assert refusal(stranger.view, run_id)[:2] == (401, "unauthorized")
    # The operator's token opens no session, and a session's neither sessions nor results.
    assert refusal(connect(url, token=operator(url, out).token).view, run_id)[0] == 401
    assert refusal(mine.open_session, BUG)[:2] == (401, "unauthorized")
    assert refusal(mine.results)[:2] == (401, "unauthorized")


def test_levels_hold_back_artifacts(session, recorded) -> None:
    diff = recorded("crash").patch.diff
    for level, told in {"title": [], "report": ["report", "build"], "full": None}.items():
        client = session(feedback=level)
        run_id = client.wait(client.run(diff).run_id).run_id
        for name in ("report", "build", "console"):
            if told is None or name in told:
                text = client.artifact(run_id, name)
                assert name == "build" or "kernel BUG at net/phonet/socket.c" in text
            else:
                assert refusal(client.artifact, run_id, name)[:2] == (403, "feedback_disabled")


def test_a_missing_artifact_is_told_apart_from_one_that_is_not_there_yet(
    session, recorded, held, out
) -> None:
    client = session()
    job = recorded("clean")
    run_id = client.wait(client.run(job.patch.diff).run_id).run_id
    assert refusal(client.artifact, run_id, "report")[:2] == (404, "no_artifact")


def test_events_tell_each_state_once_and_end(url, out, shelf, tmp_path, recorded, held) -> None:
    job = recorded("clean")
    options = ["--bugs", str(shelf), "--backend", "replay", "--slots", "1"]
    with serving(tmp_path / "own", *options) as child:
        client = opened(child.url, tmp_path / "own")
        headers = {"Authorization": f"Bearer {client.token}"}
        seen = []
        with held(job, tmp_path / "own/verdicts"):
            run_id = client.run(job.patch.diff).run_id
            with ThreadPoolExecutor(1) as pool:
                link = f"{child.url}/v1/runs/{run_id}/events"
                follow = pool.submit(httpx.get, link, headers=headers, timeout=60)
                while client.view(run_id).state != "running":
                    pass
                waiting = client.run(OTHER.format(7))
                assert waiting.state == "queued"
                assert refusal(client.artifact, run_id, "build")[:2] == (409, "run_not_finished")
                cancelled = client.cancel(waiting.run_id)
                assert cancelled.state == "cancelled"
                assert client.cancel(run_id).state == "cancelled"
                answer = follow.result()
        seen = [x[7:] for x in answer.text.splitlines() if x.startswith("event: ")]
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert seen[-2:] == ["running", "cancelled"]
        # A cancelled run doesn't count, and can be asked for again.
        again = client.wait(client.run(job.patch.diff).run_id)
        assert (again.run_id, again.state) == (run_id, "done")
        assert again.feedback.runs_left == 3


def test_a_killed_server_goes_on_with_its_sessions_and_runs(
    shelf, tmp_path, recorded, held
) -> None:
    job, out = recorded("clean"), tmp_path / "own"
    options = ["--bugs", str(shelf), "--backend", "replay"]
    with held(job, out / "verdicts"), serving(out, *options) as child:
        client = opened(child.url, out, max_runs=2)
        done = client.wait(client.run(OTHER.format(1)).run_id)
        running = client.run(job.patch.diff)
        client.submit(job.patch.diff)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        with pytest.raises(Unreachable, match="no answer from"):
            client.view(running.run_id)
    with serving(out, *options) as child:
        client = connect(child.url, session=client.session, token=client.token)
        assert client.view(done.run_id).feedback.kind == "patch_rejected"
        assert client.wait(running.run_id).feedback.kind == "plausible"
        assert refusal(client.run, OTHER.format(2))[:2] == (429, "runs_exhausted")
        (row,) = operator(child.url, out).results()
        assert (row.kind, row.runs, row.submitted) == ("plausible", 2, job.patch.sha256)


def test_the_first_submission_counts_and_only_the_operator_reads_its_verdict(
    session, url, out, recorded
) -> None:
    client = session(feedback="none", agent="me", model="m")
    diff = recorded("crash").patch.diff
    assert client.submit(diff) == client.submit(diff)
    assert refusal(client.submit, OTHER.format(3))[:2] == (409, "already_submitted")
    while True:
        (row,) = [r for r in operator(url, out).results() if r.session_id == client.session]
        if row.state == "done":
            break
    assert (row.kind, row.plausible, row.agent, row.model) == ("crash_same", False, "me", "m")


def test_no_token_is_kept_or_said_and_no_fix_is_served(out, shelf, tmp_path, recorded) -> None:
    own = tmp_path / "own"
    bug = load_bug(BUG)
    with serving(own, "--bugs", str(shelf), "--backend", "replay") as child:
        client = opened(child.url, own)
        view = client.wait(client.run(recorded("clean").patch.diff).run_id)
        client.submit(recorded("clean").patch.diff)
        headers = {"Authorization": f"Bearer {client.token}"}
        paths = [
            "health",
            "bugs",
            f"bugs/{BUG}",
            f"runs/{view.run_id}",
            f"runs/{view.run_id}/events",
        ]
        paths += [f"runs/{view.run_id}/artifacts/{name}" for name in ("console", "build")]
        served = [httpx.get(f"{child.url}/v1/{path}", headers=headers).text for path in paths]
        served += [httpx.get(f"{child.url}/openapi.json").text]
        served += [
            json.dumps([row.model_dump(mode="json") for row in operator(child.url, own).results()])
        ]
        secret = client.token.partition(".")[2]
        child.terminate()
        said = child.stdout.read() + child.stderr.read()
    everything = b"".join(f.read_bytes() for f in own.rglob("*") if f.is_file())
    assert client.session.encode() in everything
    assert secret.encode() not in everything
    assert secret not in said
    assert (own / "operator-token").stat().st_mode & 0o777 == 0o600
    telling = [
        bug.fix_source.sha256,
        bug.fix_source.source.version,
        "fixed_transcript",
        "baselines",
    ]
    assert bug.title in "".join(served)
    assert [word for word in telling if word in "".join(served)] == []


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 422, "invalid_request"),
        (b'{"diff": 3}', 422, "invalid_request"),
        (b'{"diff": "\\ud800"}', 422, "invalid_request"),
        (b'{"diff": "x", "more": 1}', 422, "invalid_request"),
        (b'{"diff": "' + b"x" * (5 * 2**20) + b'"}', 413, "too_large"),
    ],
)
def test_a_bad_body_is_one_sentence_that_does_not_repeat_it(session, body, status, error) -> None:
    client = session()
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    link = f"{client.url}/v1/sessions/{client.session}/runs"
    answer = httpx.post(link, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert len(answer.json()["message"]) < 200

    def piecewise():
        yield from (body[i : i + 65536] for i in range(0, len(body), 65536))

    answer = httpx.post(link, content=piecewise(), headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (status, error)


def test_bugs_are_public_views_and_filters_hold(url) -> None:
    client = connect(url)
    assert [bug.id for bug in client.bugs()] == [BUG]
    assert client.bugs(subsystem="no such") == []
    assert refusal(lambda: client.bugs(frozen="2020-01"))[0] == 404
    with pytest.raises(ApiError, match="no such bug: there are phonet-autobind"):
        client._ask("GET", "/v1/bugs/nonsense")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "give --allow-remote"),
        (["--host", "::"], "give --allow-remote"),
        (["--host", "no such host"], "no address 'no such host'"),
        (["--address", "a:1"], "--address is of a Ray cluster"),
        (["--bugs", "/no/such/folder"], "there are no bugs in /no/such/folder"),
    ],
)
def test_a_server_that_should_not_start_says_why(options, sentence, tmp_path) -> None:
    ran = run_icml("kenv", "serve", "--port", "0", "--out", str(tmp_path), *options)
    assert ran.returncode == 2
    assert sentence in ran.stderr


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_that_is_none_is_refused(port, tmp_path) -> None:
    ran = run_icml("kenv", "serve", "--port", port, "--out", str(tmp_path))
    assert ran.returncode == 2
    assert f"--port must be between 0 and 65535, got {port}" in ran.stderr


def test_a_folder_or_port_that_is_in_use_is_refused(url, out, shelf, tmp_path) -> None:
    ran = run_icml("kenv", "serve", "--port", "0", "--out", str(out), "--backend", "replay")
    assert ran.returncode == 2
    assert "another process is running in" in ran.stderr
    port = url.rpartition(":")[2]
    ran = run_icml("kenv", "serve", "--port", port, "--out", str(tmp_path))
    assert ran.returncode == 2
    assert f"cannot serve on 127.0.0.1:{port}" in ran.stderr


def test_what_is_no_folder_of_a_server_is_refused(tmp_path, shelf) -> None:
    (tmp_path / "file").write_text("x")
    ran = run_icml("kenv", "serve", "--port", "0", "--out", str(tmp_path / "file"))
    assert (ran.returncode, "cannot write" in ran.stderr) == (2, True)
    (tmp_path / "o").mkdir()
    wrong = {"step": "session", "value": {}}, {"step": "nonsense", "value": {}}
    for record in wrong:
        (tmp_path / "o/service.jsonl").write_text(json.dumps(record) + "\n")
        ran = run_icml("kenv", "serve", "--port", "0", "--out", str(tmp_path / "o"))
        assert ran.returncode == 2
        assert "service.jsonl, record 1 was not written by this server" in ran.stderr


def test_sessions_of_bugs_that_are_gone_are_named(tmp_path, shelf, recorded) -> None:
    out = tmp_path / "own"
    with serving(out, "--bugs", str(shelf), "--backend", "replay") as child:
        opened(child.url, out).run(recorded("clean").patch.diff)
    (tmp_path / "others").mkdir()
    shutil.copytree(BUGS / "omfs-sysblock", tmp_path / "others/omfs-sysblock")
    options = ["--bugs", str(tmp_path / "others"), "--backend", "replay"]
    ran = run_icml("kenv", "serve", "--port", "0", "--out", str(out), *options)
    assert ran.returncode == 2
    assert "service.jsonl, record 2 can't be gone on with: no such bug" in ran.stderr


def test_an_operators_token_that_a_kill_left_empty_is_made_anew(tmp_path, shelf) -> None:
    out = tmp_path / "own"
    out.mkdir()
    (out / "operator-token").touch()
    with serving(out, "--bugs", str(shelf), "--backend", "replay") as child:
        assert operator(child.url, out).results() == []
    assert [path.name for path in out.glob(".operator*")] == []
