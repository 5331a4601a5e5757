"""``inspect eval icml/brokenmath`` as a user types it, and its log in inspect's viewer."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")
sys.path.insert(0, str(Path(__file__).parent))

from brokenmath_asking import item, said

from icml.brokenmath.answers import read_answers
from icml.brokenmath.items import save_jsonl

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
OFFLINE = {**os.environ, "HF_HUB_OFFLINE": "1", "INSPECT_LOG_LEVEL": "warning"}
ITEMS = [item(number) for number in range(1, 9)]
MIX = ["sycophant", "ideal", "detected", "corrected", "invalid", "sycophant", "ideal", "detected"]


def inspect_eval(folder: Path, *options: str, task: str = "icml/brokenmath") -> Path:
    """Run inspect's command line and return the log."""
    command = [sys.executable, "-m", "inspect_ai", "eval", task, "--display", "none"]
    command += ["--log-dir", str(folder / "logs"), *options]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=OFFLINE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return max((folder / "logs").glob("*.eval"), key=lambda path: path.stat().st_mtime)


def scripted_options(folder: Path) -> list[str]:
    rules = [
        {"when": f"divides {each} \\(", "reply": said(MIX[each - 1], each)} for each in range(1, 9)
    ]
    (folder / "script.json").write_text(json.dumps(rules))
    save_jsonl(ITEMS, folder / "items.jsonl")
    options = ["--model", "scripted/solver", "-M", f"script={folder / 'script.json'}"]
    return [*options, "-T", f"items={folder / 'items.jsonl'}"]


def test_a_scripted_model_is_evaluated_offline_by_name(tmp_path) -> None:
    log = inspect_eval(tmp_path, *scripted_options(tmp_path), "-T", "condition=confidence")
    found = read_answers(log)
    assert (found.condition, found.categories) == ("confidence", MIX)


def test_the_utility_is_a_task_of_its_own(tmp_path) -> None:
    options = scripted_options(tmp_path)
    found = read_answers(inspect_eval(tmp_path, *options, task="icml/brokenmath_utility"))
    wanted = {"sycophant": "correct", "corrected": "correct", "invalid": "invalid"}
    assert found.categories == [wanted.get(name, "incorrect") for name in MIX]


@pytest.mark.usefixtures("model_cache")
def test_a_real_local_model_is_evaluated_offline(tmp_path) -> None:
    """SmolLM2 answers two items; what it says is counted, whatever it is."""
    from icml.core.models.gguf import convert_gguf
    from icml.core.models.packaged import packaged

    folder = convert_gguf(packaged("smollm2").locate())
    save_jsonl(ITEMS[:2], tmp_path / "items.jsonl")
    options = ["--model", "hf/local", "-M", f"model_path={folder}"]
    options += ["-M", f"tokenizer_path={folder}", "-M", "device=cpu", "--max-tokens", "48"]
    found = read_answers(inspect_eval(tmp_path, *options, "-T", f"items={tmp_path}/items.jsonl"))
    assert len(found.rows) == 2
    assert all(row.text.strip() and not row.error for row in found.rows)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ask(base: str, method: str, path: str, body: object = None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["value"]


def until(check, seconds: float, what: str):
    """Return what ``check`` gives as soon as it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = check()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {seconds} s")


@pytest.fixture
def viewer(tmp_path):
    """Return a function that starts inspect's viewer on a folder and returns its address."""
    started = []

    def start(logs: Path) -> str:
        port = free_port()
        command = [sys.executable, "-m", "inspect_ai", "view", "start", "--log-dir", str(logs)]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        started.append(process)
        address = f"http://127.0.0.1:{port}"
        until(lambda: urllib.request.urlopen(address, timeout=5).status == 200, 180, "the viewer")
        return address

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@pytest.fixture
def browser(tmp_path):
    """Return a function that asks a headless chromium."""
    base = f"http://127.0.0.1:{free_port()}"
    driver = subprocess.Popen(
        [str(DRIVER), f"--port={base.rpartition(':')[2]}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: ask(base, "GET", "/status"), 60, "chromedriver")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,900"]
    wanted = {"goog:chromeOptions": {"binary": CHROMIUM, "args": flags}}
    opened = ask(base, "POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
    session = f"/session/{opened['sessionId']}"
    yield lambda method, path, body=None: ask(base, method, session + path, body)
    ask(base, "DELETE", session)
    driver.terminate()
    driver.wait()


@pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
def test_the_log_opens_in_inspect_s_viewer_and_shows_each_item_and_its_behaviour(
    tmp_path, viewer, browser
) -> None:
    log = inspect_eval(tmp_path, *scripted_options(tmp_path))
    address = viewer(log.parent)

    def text() -> str:
        script = {"script": "return document.body.innerText", "args": []}
        return browser("POST", "/execute/sync", script)

    browser("POST", "/url", {"url": f"{address}/#/tasks/{log.name}/samples"})
    until(lambda: all(each.id in text() for each in ITEMS), 120, "rows of all items")
    words = Counter(text().split())
    for category in set(MIX):
        assert words[category] >= MIX.count(category)
    if folder := os.environ.get("BROKENMATH_SCREENSHOTS"):
        import base64

        picture = base64.b64decode(browser("GET", "/screenshot"))
        (Path(folder) / "viewer.png").write_bytes(picture)
