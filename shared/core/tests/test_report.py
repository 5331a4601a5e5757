"""The report page: its structure, its numbers, and that nothing foreign gets into it."""

import csv
import json
import re
import string
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.plots import Arm, Bar, Estimate, bars, intervals
from icml.core.report import numbers, write_index, write_report
from icml.core.summary import Claim, Figure, Summary, Table, Timing

CSS = (Path(numbers.__file__).parent / "templates" / "report.css").read_text()
VOID = {"meta", "link", "br", "hr", "img", "input"}


def claim(
    id="gain", *, holds=True, kind="required", value=0.28312, interval=(0.2289, 0.3371), **kw
):
    statement = kw.pop("statement", f"The claim {id}.")
    return Claim(
        id=id, statement=statement, value=value, interval=interval, holds=holds, kind=kind, **kw
    )


def summary(**changes) -> Summary:
    values = {
        "paper": "gdpo",
        "title": "Decoupled rewards",
        "command": "icml gdpo reproduce --out 'my runs/a'",
        "config": {"steps": 100, "loss": {"clip": [0.2, 0.28]}},
        "seeds": [7, 8],
        "versions": {"icml-core": "0.1.0", "torch": "2.13.0"},
        "hardware": {"cpu": "Some CPU", "cores": 2, "memory_gb": 15.6},
        "git": "abc123",
        "claims": [
            claim("exact", interval=None, value=10),
            claim("gain", kind="reported", paper="76.33 to 80.66 %"),
            claim("right", kind="reported", holds=False, value=-0.0352, interval=(-0.0911, 0.0207)),
        ],
        "tables": [
            Table(
                name="rates",
                caption="Area at every rate.",
                columns=["method", "rate", "area", "area low", "area high", "best"],
                rows=[["GRPO", 3e-4, 0.31, 0.25, 0.37, None], ["GDPO", 1e-3, 0.61, 0.5, 0.7, True]],
            )
        ],
        "figures": [
            Figure(name=n, caption=f"On {n}.", svg=f"figures/{n}.svg", csv=f"figures/{n}.csv")
            for n in ("counts", "rates")
        ],
        "notes": ["Nothing about large models."],
        "timing": Timing(
            started="2026-01-02T03:00:00+00:00",
            finished="2026-01-02T03:04:12+00:00",
            wall_seconds=252.0,
            peak_memory_mb=812.4,
        ),
    }
    return Summary.model_validate(values | changes)


FIGURES = {
    "counts": bars([Bar("gdpo", 3)], title="More", arms=[Arm("gdpo", "ours")], x_label="n (count)"),
    "rates": intervals(
        [Estimate("gdpo", 1, 0, 2)], title="Up", arms=[Arm("gdpo", "ours")], x_label="x", note="t"
    ),
}
SAVED: dict[str, str] = {}


def run_folder(folder: Path, **changes) -> Path:
    """Write a finished run; figures are drawn once for all tests."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    if not SAVED:
        for name, plot in FIGURES.items():
            SAVED[f"{name}.svg"], SAVED[f"{name}.narrow.svg"] = plot.svg(760), plot.svg(340)
            SAVED[f"{name}.csv"] = plot.csv()
    for name, text in SAVED.items():
        (folder / "figures" / name).write_text(text)
    (folder / "summary.json").write_text(summary(**changes).model_dump_json())
    return folder


class Page(HTMLParser):
    """Reads a page strictly: every element that opens must close, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []  # (innermost element, text)
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self, tag: str) -> list[str]:
        return [" ".join(t.split()) for name, t in self.texts if name == tag and t.strip()]

    @property
    def words(self) -> str:
        return " ".join(" ".join(t for name, t in self.texts if name != "style").split())


def page(folder: Path, **changes) -> Page:
    return Page(write_report(run_folder(folder, **changes)).read_text())


def test_page_says_claims_then_figures_tables_how_to_repeat_it_and_limits(tmp_path):
    assert page(tmp_path).text("h2") == [
        "Claims", "Figures", "Tables", "Run it again", "What this small run does not show", "Files",
    ]  # fmt: skip


def test_page_has_one_heading_a_language_a_title_and_a_viewport(tmp_path):
    read = page(tmp_path)
    assert read.text("h1") == ["Decoupled rewards"]
    assert read.text("title") == ["Decoupled rewards \N{EN DASH} icml gdpo"]
    assert read.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all(
        "meta"
    )


def test_every_figure_has_a_caption_its_data_and_words_for_who_cannot_see_it(tmp_path):
    read = page(tmp_path)
    assert len(read.all("figure")) == len(read.all("figcaption")) == 2
    assert [svg["role"] for svg in read.all("svg")] == ["img"] * 4
    assert all(svg["aria-label"] for svg in read.all("svg"))
    assert "figures/counts.csv" in [a["href"] for a in read.all("a")]


def test_every_table_has_a_caption_and_headers_with_a_scope(tmp_path):
    read = page(tmp_path)
    assert len(read.all("caption")) == len(read.all("table")) == 1
    scopes = [th.get("scope") for th in read.all("th")]
    assert scopes == ["col"] * 4 + ["row"] * 2


def test_bounds_of_an_interval_are_shown_in_their_value_s_column(tmp_path):
    read = page(tmp_path)
    assert read.text("th")[:4] == ["method", "rate", "area", "best"]
    assert read.text("td") == [
        "0.0003", "0.310 [0.250, 0.370]", "n/a", "0.001", "0.61 [0.50, 0.70]", "yes",
    ]  # fmt: skip


def test_seeds_command_versions_machine_time_settings_and_limits_are_told(tmp_path):
    words = page(tmp_path).words
    for text in (
        "icml gdpo reproduce --out 'my runs/a'", "7, 8", "torch 2.13.0", "cpu Some CPU, cores 2",
        "memory 15.6 GB", "4 min 12 s, finished 2026-01-02 03:04 UTC", "812 MB", "abc123",
        "loss.clip 0.2, 0.28", "Nothing about large models.", "Paper: 76.33 to 80.66 %",
        "0.283 [0.229, 0.337]",
    ):  # fmt: skip
        assert text in words


def test_every_link_of_the_page_leads_to_a_file_of_the_run(tmp_path):
    links = [a["href"] for a in page(tmp_path).all("a")]
    assert "summary.json" in links
    assert all((tmp_path / str(link)).is_file() for link in links)


def test_a_path_that_looks_like_an_address_stays_a_path(tmp_path):
    figure = Figure(name="f", caption="c", svg="figures/counts.svg", csv="javascript:alert(1)")
    links = [str(a["href"]) for a in page(tmp_path, figures=[figure]).all("a")]
    assert links
    assert not [link for link in links if ":" in link]


def test_page_runs_no_script_and_loads_nothing(tmp_path):
    read = page(tmp_path)
    assert not {"script", "img", "iframe", "object", "embed", "image"} & {t for t, _ in read.tags}
    for _, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
    assert [link["href"] for link in read.all("link")] == ["data:,"]
    html = (tmp_path / "report.html").read_text()
    assert "@import" not in html
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*[\"']?([^)]*)", html))
    policy = next(m["content"] for m in read.all("meta") if "http-equiv" in m)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique_and_every_reference_has_its_target(tmp_path):
    read = page(tmp_path)
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    html = (tmp_path / "report.html").read_text()
    for target in re.findall(r"url\(#([^)]*)\)|href=\"#([^\"]*)\"|labelledby=\"([^\"]*)\"", html):
        assert "".join(target) in ids


def test_drawings_take_their_colours_from_the_page(tmp_path):
    page(tmp_path)
    drawings = re.findall(r"<svg.*?</svg>", (tmp_path / "report.html").read_text(), re.DOTALL)
    assert all("var(--plot-ours)" in svg and "var(--plot-ink)" in svg for svg in drawings)
    assert not [svg for svg in drawings if re.search(r":\s*#[0-9a-f]{3}", svg)]


def test_same_run_gives_the_same_bytes(tmp_path):
    first, second = (write_report(run_folder(tmp_path / name)).read_bytes() for name in "ab")
    assert first == second


def test_a_run_without_claims_figures_tables_or_notes_has_a_page_too(tmp_path):
    read = page(tmp_path, claims=[], figures=[], tables=[], notes=[], config={}, title="")
    assert read.text("h1") == ["gdpo"]
    assert read.text("h2") == ["Claims", "Run it again", "Files"]


def test_a_table_without_rows_keeps_its_headers(tmp_path):
    table = Table(name="t", caption="c", columns=["a", "a low", "a high"], rows=[])
    assert page(tmp_path, tables=[table]).text("th") == ["a"]


def test_outcome_is_counted_for_either_kind_of_claim(tmp_path):
    claims = [claim("a"), claim("b"), *(claim(c, kind="reported", holds=c == "c") for c in "cde")]
    words = "Required claims that hold: 2 of 2. Reported claims supported at this scale: 1 of 3."
    assert page(tmp_path, claims=claims).text("p")[1] == words


def test_a_failed_required_claim_stands_above_everything_else(tmp_path):
    words = page(tmp_path, claims=[claim(holds=False, statement="Ours equals theirs.")]).words
    alarm = "1 required claim FAILED. This run does not show what the package stands for: "
    assert words.index(alarm + "Ours equals theirs.") < words.index("Claims")


def test_a_reported_claim_that_does_not_hold_raises_no_alarm(tmp_path):
    read = page(tmp_path)
    assert "FAILED" not in read.words
    assert "not supported at this scale" in read.text("span")


HOSTILE = st.one_of(
    st.sampled_from(
        [
            "<script>alert(1)</script>", "</style><script>x</script>", '" onload="x', "' onx='",
            "<img src=x onerror=x>", "{{ 7*7 }}", "{% raw %}", "</svg>", "-->", "<!--", "]]>",
            "&lt;b&gt;", "javascript:alert(1)", "http://example.org/", "a\u2028b", "\x00\x1b",
        ]
    ),
    st.text(st.sampled_from(string.punctuation + "ab \n\t\x01"), max_size=30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)  # fmt: skip


@given(text=HOSTILE)
@settings(max_examples=30, deadline=None)
def test_no_text_of_a_run_adds_an_element_or_an_attribute(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp() / "hostile"

    def shape(t: str) -> list[tuple[str, list[str]]]:
        read = page(
            folder,
            paper="p" + t,
            title="t" + t,
            command="c" + t,
            config={"k" + t: t, "n": {"m" + t: [t]}},
            versions={"v" + t: t},
            hardware={"h" + t: t},
            git="g" + t,
            claims=[claim(t, statement="s" + t, paper="q" + t), claim(t, holds=False, statement=t)],
            tables=[Table(name=t, caption=t, columns=["a", "b" + t], rows=[[t, 1], [None, t]])],
            figures=[Figure(name=t, caption="f" + t, svg="figures/counts.svg", csv="figures/" + t)],
            notes=["o" + t],
        )
        return [(tag, sorted(attributes)) for tag, attributes in read.tags]

    assert shape(text) == shape("x")


def test_text_is_shown_as_it_was_written(tmp_path):
    note = "<b>a & b</b> {{ 7*7 }} \N{GREEK SMALL LETTER ALPHA}"
    assert note in page(tmp_path, notes=[note]).text("li")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("summary.json", None, "holds no finished run"),
        ("summary.json", b"{", "is not a run's summary"),
        ("summary.json", b'{"schema_version": 2}', "summary: schema_version"),
        ("figures/counts.svg", None, r"counts\.svg can't be read"),
        ("figures/counts.svg", b"\xff", r"counts\.svg can't be read"),
    ],
)
def test_a_run_that_cannot_be_shown_is_refused_and_no_page_is_left(
    tmp_path, file, content, message
):
    path = run_folder(tmp_path) / file
    path.write_bytes(content) if content is not None else path.unlink()
    with pytest.raises(UserError, match=message):
        write_report(tmp_path)
    assert not list(tmp_path.glob("*.html"))


def test_a_time_that_is_no_number_is_refused(tmp_path):
    path = run_folder(tmp_path) / "summary.json"
    values = json.loads(path.read_text())
    values["timing"]["wall_seconds"] = float("nan")
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"timing\.wall_seconds"):
        write_report(tmp_path)


def test_a_figure_outside_the_run_is_refused(tmp_path):
    run_folder(tmp_path)
    figure = Figure(name="f", caption="c", svg="../f.svg", csv="f.csv")
    with pytest.raises(UserError, match="lies outside"):
        write_report(run_folder(tmp_path / "run", figures=[figure]))


def test_a_figure_without_a_drawing_for_phones_is_shown_everywhere(tmp_path):
    run_folder(tmp_path)
    for narrow in (tmp_path / "figures").glob("*.narrow.svg"):
        narrow.unlink()
    read = Page(write_report(tmp_path).read_text())
    assert [d["class"] for d in read.all("div") if "plot" in str(d.get("class"))] == ["plot"] * 2


def test_index_tells_each_outcome_and_links_to_its_report(tmp_path):
    good, bad = run_folder(tmp_path / "runs/a b/q"), tmp_path / "runs/b/q"
    run_folder(bad, title="Other", claims=[claim(holds=False, statement="Mine.")])
    write_report(good)
    out = write_index([good, bad], tmp_path / "runs/index.html")
    read = Page(out.read_text())
    assert [a["href"] for a in read.all("a")] == ["a%20b/q/report.html", "b/q/report.html"]
    assert read.text("a") == ["Decoupled rewards", "Other"]
    assert "The claim gain. Measured 0.283 [0.229, 0.337]" in read.words
    assert "1 required claim FAILED." in read.words


def test_index_refuses_a_run_that_is_not_finished_and_writes_nothing(tmp_path):
    with pytest.raises(UserError, match="holds no finished run"):
        write_index([run_folder(tmp_path / "a"), tmp_path / "b"], tmp_path / "index.html")
    assert not (tmp_path / "index.html").exists()


def test_index_of_nothing_is_a_page(tmp_path):
    assert "0 runs." in Page(write_index([], tmp_path / "index.html").read_text()).words


def test_csv_of_a_figure_is_where_the_page_says(tmp_path):
    page(tmp_path)
    with (tmp_path / "figures/counts.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["group", "arm", "value"], ["", "gdpo", "3"]]
