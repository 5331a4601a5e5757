"""The report in a real browser: phones, dark pages, and that nothing is asked of the network."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from icml.core.plots import Arm, Bar, Estimate, bars, curves, intervals
from icml.core.report import write_index, write_report
from icml.core.summary import Claim, Figure, Summary, Table, Timing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
    ),
]

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


class Browser:
    """A headless chromium, spoken to through chromedriver."""

    def __init__(self, profile: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.base = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.driver = subprocess.Popen(
            [str(DRIVER), f"--port={self.base.rpartition(':')[2]}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.session = ""
        while self.driver.poll() is None:
            try:
                self.ask("GET", "/status")
                break
            except OSError:
                time.sleep(0.1)
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        opened = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{opened['sessionId']}"

    def ask(self, method: str, path: str, body: object = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def emulate(self, command: str, **params: object) -> None:
        path = f"{self.session}/goog/cdp/execute"
        self.ask("POST", path, {"cmd": f"Emulation.{command}", "params": params})

    def open(self, page: Path, *, width: int, scheme: str = "light", media: str = "screen") -> None:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.emulate("setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.emulate("setEmulatedMedia", media=media, features=[feature])
        self.ask("POST", f"{self.session}/url", {"url": page.as_uri()})

    def run(self, script: str):
        body = {"script": f"return {script}", "args": []}
        return self.ask("POST", f"{self.session}/execute/sync", body)

    def close(self) -> None:
        if self.session:
            self.ask("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "gdpo"
    arms = [Arm("a", "baseline", "GRPO"), Arm("b", "other", "weighted"), Arm("c", "ours", "GDPO")]
    rows = [{"step": s, "arm": a.name, "seed": 0, "m": s, "n": 1} for a in arms for s in (0, 1)]
    plots = {
        "learning": curves(rows, title="A claim of some length about how fast all of it is learnt",
                           arms=arms, panels={"m": "m (1)", "n": "n (1)"}, x_label="step"),
        "rates": intervals([Estimate(a.name, 1, 0, 2, "rate 1e-3") for a in arms], title="Higher",
                           arms=arms, x_label="area (share)", note="t interval"),
        "counts": bars([Bar("c", 4, "4 rollouts")], title="More", arms=arms, x_label="n (count)"),
    }  # fmt: skip
    for name, plot in plots.items():
        plot.save(folder / "figures", name)
    wide = {f"a_rather_long_column_{n}": 0.123456 * n for n in range(9)}
    text = "a/very/long/path/without/any/blank/" * 6
    summary = Summary(
        paper="gdpo", title="A title with an unbreakable_" + "word" * 20, command="icml " + text,
        config={"path": text}, seeds=list(range(60)), versions={"icml-core": "1+" + "f" * 60},
        hardware={"cpu": text}, git=text, notes=[text],
        claims=[Claim(id="a", statement=text, value=1.5, interval=(1, 2), holds=holds, kind=kind,
                      paper=text) for kind in ("required", "reported") for holds in (True, False)],
        tables=[Table(name="t", caption="A caption. " * 20, columns=list(wide),
                      rows=[list(wide.values())])],
        figures=[Figure(name=n, caption="c " * 80, svg=f"figures/{n}.svg", csv=f"figures/{n}.csv")
                 for n in plots],
        timing=Timing(started="2026-01-01T00:00:00Z", finished="2026-01-01T00:00:00Z",
                      wall_seconds=1, peak_memory_mb=1),
    )  # fmt: skip
    (folder / "summary.json").write_text(summary.model_dump_json())
    return write_report(folder)


@pytest.mark.parametrize("width", [320, 360, 390, 700, 1280])
def test_page_never_scrolls_sideways_whatever_its_texts(browser, report, width):
    browser.open(report, width=width)
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_index_never_scrolls_sideways(browser, report):
    index = write_index([report.parent, report.parent], report.parent.parent / "i.html")
    browser.open(index, width=360)
    assert browser.run("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [360, 1280])
def test_letters_of_a_figure_are_not_shrunk_below_eleven_pixels(browser, report, width):
    browser.open(report, width=width)
    heights = browser.run(
        "[...document.querySelectorAll('svg')].filter(s => s.getClientRects().length).map(s =>"
        " s.getBoundingClientRect().width / s.viewBox.baseVal.width * Math.min(...[..."
        "s.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize))))"
    )
    assert len(heights) == 3
    assert min(heights) >= 11


@pytest.mark.parametrize(("scheme", "bright"), [("light", True), ("dark", False)])
def test_page_follows_the_reader_s_colour_scheme(browser, report, scheme, bright):
    browser.open(report, width=1280, scheme=scheme)
    channels = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")
    assert (int(channels[0]) > 128) is bright


def test_paper_is_white_whatever_the_screen(browser, report):
    browser.open(report, width=1280, scheme="dark", media="print")
    channels = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")
    assert int(channels[0]) > 128


def test_page_asks_nothing_of_the_network_and_the_console_stays_empty(browser, report):
    browser.open(report, width=1280)
    assert browser.run("performance.getEntriesByType('resource').map(r => r.name)") == []
    assert browser.ask("POST", f"{browser.session}/se/log", {"type": "browser"}) == []


def test_markup_is_what_the_html_parser_makes_of_it(browser, report):
    browser.open(report, width=1280)
    # A parser that had to mend the page would have moved figures or tables out of the sections.
    assert (
        browser.run("document.querySelectorAll('main > section > figure > .plot > svg').length")
        == 6
    )
    assert browser.run("document.querySelectorAll('main > section > .scroll > table').length") == 1
    assert browser.run("[...document.body.children].map(e => e.tagName)") == ["MAIN"]
