"""The public pages: right numbers, text that stays text, links that lead somewhere."""

import importlib.util
import json
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.testing import run_icml
from icml.kenv.cutoff import ModelCutoff
from icml.kenv.dashboard import plain, write_dashboard
from icml.kenv.results import Result, write_results

HOSTILE = '</pre></style><script>alert(1)</script><img src=x onerror="alert(2)">&amp;{{ 7 * 7 }}'


def row(bug: str = "b", kind: str = "plausible", **more) -> Result:
    return Result(**{"agent": "a", "bug": bug, "title": "t", "kind": kind, **more})


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def values(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.tags if attrs.get(name)]


def hostile_rows(text: str) -> list[Result]:
    short = text.strip()[:100] or "x"
    return [
        row(
            agent=short, model=short, title=text[:2000], subsystems=[short], crash_type=text[:2000],
            report=text, reason=text[:2000], witness=text[:2000], diff=text, backend=text[:2000],
            fix_time="2025-01-01T00:00:00Z",
        )
    ]  # fmt: skip


def test_hostile_text_shows_as_text_on_every_page(tmp_path) -> None:
    write_dashboard(hostile_rows(HOSTILE), tmp_path / "site")
    for name in ("index.html", "bugs.html", "bugs/b.html"):
        page = Page(tmp_path / "site" / name)
        assert not {"script", "img", "iframe", "style"} & {tag for tag, _ in page.tags}
        assert not any(key.startswith("on") for _, attrs in page.tags for key in attrs)
        assert "alert(1)" in page.text
        assert "49" not in page.text.replace("8049", "")
    assert HOSTILE in Page(tmp_path / "site/bugs/b.html").text


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_no_text_makes_a_tag(tmp_path, text) -> None:
    plainest = write_dashboard(hostile_rows("x"), tmp_path / "plain").parent
    site = write_dashboard(hostile_rows(f"x{text}"), tmp_path / "site").parent
    for name in ("index.html", "bugs.html"):
        tags = [tag for tag, _ in Page(site / name).tags]
        assert tags == [tag for tag, _ in Page(plainest / name).tags]
    json.loads((site / "results.json").read_text())


def test_marks_that_hide_or_turn_text_are_replaced() -> None:
    assert plain("a\u202eb\x00c\u200b\n\td") == "a\ufffdb\ufffdc\ufffd\n\td"
    assert "characters left out" in plain("x" * 100_000)
    assert len(plain("x" * 100_000)) < 13_000


def test_nothing_is_asked_of_elsewhere_and_links_lead_to_files(tmp_path) -> None:
    site = write_dashboard([row("b1"), row("b2", "crash_same")], tmp_path / "site").parent
    pages = sorted(site.rglob("*.html"))
    assert [p.name for p in pages] == ["b1.html", "b2.html", "bugs.html", "index.html"]
    for path in pages:
        page = Page(path)
        for link in page.values("href") + page.values("src"):
            assert link == "data:," or (path.parent / link).is_file(), (path, link)
        assert not re.search(r"https?://|//\w", path.read_text())
        (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv")]
        assert policy.startswith("default-src 'none'")
    assert "url(" not in (site / "style.css").read_text()


def test_tables_have_headings_for_rows_and_columns(tmp_path) -> None:
    site = write_dashboard([row()], tmp_path / "site").parent
    for path in site.rglob("*.html"):
        page = Page(path)
        heads = [attrs for tag, attrs in page.tags if tag == "th"]
        assert all(attrs.get("scope") in ("row", "col") for attrs in heads)
        wide = [attrs for _, attrs in page.tags if attrs.get("role") == "region"]
        assert all("tabindex" in a and ("aria-label" in a or "aria-labelledby" in a) for a in wide)
        ids = page.values("id")
        assert len(ids) == len(set(ids))
        assert set(page.values("aria-labelledby")) <= set(ids)
    assert ("html", {"lang": "en"}) in Page(site / "index.html").tags


def test_the_data_has_the_rates_and_rows_without_long_texts(tmp_path) -> None:
    rows = [row("b1", report="r" * 99, diff="d" * 99), row("b2", "crash_same")]
    site = write_dashboard(rows, tmp_path / "site").parent
    data = json.loads((site / "results.json").read_text())
    assert data["systems"][0]["plausible"]["estimate"] == 0.5
    assert [r["bug"] for r in data["rows"]] == ["b1", "b2"]
    assert not {"report", "diff"} & set(data["rows"][0])


def test_the_same_results_give_the_same_bytes(tmp_path) -> None:
    rows = [row(f"b{n}", run=r, fix_time=f"2025-0{n}-01T00:00Z") for n in (1, 2) for r in (1, 2)]
    sites = [write_dashboard(rows, tmp_path / name).parent for name in "xy"]
    for path in sites[0].rglob("*.*"):
        assert path.read_bytes() == (sites[1] / path.relative_to(sites[0])).read_bytes()


def test_a_cutoff_is_a_line_and_a_small_sample_no_gap(tmp_path) -> None:
    rows = [row(f"b{n}", model="m", fix_time=f"2025-0{n}-01T00:00Z") for n in range(1, 9)]
    models = {"m": ModelCutoff(cutoff="2025-04-15", source="its maker")}
    page = Page(write_dashboard(rows, tmp_path / "site", models=models))
    assert "cutoff 2025-04-15" in page.text
    assert "too few bugs: 4 before, 4 after" in page.text
    assert "its maker" in page.text
    assert len([1 for tag, a in page.tags if a.get("class") == "cutoff"]) == 2  # wide and narrow


def test_a_folder_of_something_else_is_left_alone(tmp_path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "x.txt").write_text("dear")
    with pytest.raises(UserError, match="something else than a dashboard"):
        write_dashboard([row()], tmp_path / "letters")
    assert (tmp_path / "letters" / "x.txt").read_text() == "dear"
    write_dashboard([row("old")], tmp_path / "site")
    write_dashboard([row("new")], tmp_path / "site")
    assert [p.name for p in (tmp_path / "site/bugs").iterdir()] == ["new.html"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["letters", "site"]


def test_the_command_writes_the_first_page(tmp_path) -> None:
    write_results(tmp_path / "r.jsonl", [row()])
    done = run_icml("kenv", "dashboard", str(tmp_path / "r.jsonl"), "-o", str(tmp_path / "site"))
    assert done.stdout.strip() == str(tmp_path / "site/index.html")
    assert (tmp_path / "site/bugs/b.html").is_file()


def made_up() -> list[Result]:
    path = Path(__file__).parent.parent / "benchmarks/dashboard.py"
    if not path.is_file():
        pytest.skip("the benchmarks are not beside these tests")
    spec = importlib.util.spec_from_file_location("made_up", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.made_up()


def test_a_thousand_rows_take_seconds_and_three_megabytes(tmp_path) -> None:
    rows = made_up()
    assert len(rows) >= 1000
    start = time.process_time()
    site = write_dashboard(rows, tmp_path / "site").parent
    assert time.process_time() - start < 10  # measured: benchmarks/dashboard.json
    assert sum(f.stat().st_size for f in site.rglob("*") if f.is_file()) < 3e6


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.slow
@pytest.mark.skipif(
    CHROMIUM is None or shutil.which("chromedriver") is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
def test_a_browser_shows_the_pages_from_files(tmp_path) -> None:
    path = Path(__file__).parents[3] / "shared/core/tests/test_report_browser.py"
    if not path.is_file():
        pytest.skip("core's browser is not beside these tests")
    spec = importlib.util.spec_from_file_location("core_browser", path)
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    rows = [*made_up(), *(r.model_copy(update={"bug": "hostile"}) for r in hostile_rows(HOSTILE))]
    models = {"model-a": ModelCutoff(cutoff="2024-12-31")}
    site = write_dashboard(rows, tmp_path / "site", models=models).parent
    browser = core.Browser(tmp_path / "profile")
    try:
        for name in ("index.html", "bugs.html", "bugs/hostile.html", "bugs/bug-001.html"):
            for width in (320, 390, 1280):
                browser.open(site / name, width=width)
                assert browser.run("document.documentElement.scrollWidth") <= width, (name, width)
                font = browser.run("getComputedStyle(document.querySelector('nav')).display")
                assert font == "flex"  # the style sheet was let in
            assert browser.ask("POST", f"{browser.session}/se/log", {"type": "browser"}) == []
        browser.open(site / "bugs/hostile.html", width=1280)
        assert browser.run("document.querySelector('pre.console').textContent") == HOSTILE
        assert browser.run("document.querySelectorAll('script, img').length") == 0
        for scheme, bright in (("light", True), ("dark", False)):
            browser.open(site / "index.html", width=1280, scheme=scheme)
            red = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
            assert (int(red) > 128) is bright
    finally:
        browser.close()


@pytest.mark.parametrize("name", ["CNAME", ".git/config", "bugs/notes.txt"])
def test_what_somebody_put_beside_the_pages_is_not_replaced(tmp_path, name) -> None:
    site = tmp_path / "site"
    write_dashboard([row()], site)
    write_dashboard([row(), row("c")], site)
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text("mine")
    with pytest.raises(UserError, match="holds something else than a dashboard"):
        write_dashboard([row()], site)
    assert (site / name).read_text() == "mine"


def test_a_link_to_a_dashboard_is_not_replaced(tmp_path) -> None:
    write_dashboard([row()], tmp_path / "site")
    (tmp_path / "link").symlink_to("site")
    with pytest.raises(UserError, match="something else"):
        write_dashboard([row()], tmp_path / "link")


def test_the_last_day_there_is_can_be_a_cutoff(tmp_path) -> None:
    models = {"m": ModelCutoff(cutoff="9999-12-31")}
    write_dashboard([row(model="m", fix_time="2025-01-01T00:00Z")], tmp_path / "s", models=models)
    assert "1 bugs fixed before the cutoff" in (tmp_path / "s/index.html").read_text()
