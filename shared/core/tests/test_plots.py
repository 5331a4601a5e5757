"""Figures: what is drawn is what the CSV says, the look is fixed, the bytes are too."""

import csv
import io
import math
import os
import subprocess
import sys
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.core.plots import Arm, Bar, Estimate, Plot, bars, curves, intervals
from icml.core.plots.layout import spread
from icml.core.plots.style import NARROW, PALETTE, WIDE, looks, own_settings

SVG = "{http://www.w3.org/2000/svg}"
GRPO, GDPO = Arm("grpo", "baseline", "GRPO"), Arm("gdpo", "ours", "GDPO")
WEIGHTED = Arm("grpo6", "other", "GRPO, format weight 6")
ROWS = [
    {"step": step, "arm": arm, "seed": seed, "format": step * gain + seed, "right": seed - step}
    for arm, gain in (("grpo", 0.1), ("gdpo", 0.3), ("grpo6", 0.2))
    for seed in (0, 1, 5)
    for step in (0, 10, 20)
]


def learning(arms=(GRPO, WEIGHTED, GDPO), rows=ROWS, title="The format is learnt sooner") -> Plot:
    panels = {"format": "right format (share)", "right": "correctness (-3 to 3)"}
    return curves(rows, title=title, arms=arms, panels=panels, x_label="training step")


def rates() -> Plot:
    estimates = [
        Estimate(arm, centre, centre - 0.05, centre + 0.07, f"rate {rate}")
        for rate, shift in (("3e-4", 0.0), ("1e-3", 0.1))
        for arm, centre in (("grpo", 0.3 + shift), ("gdpo", 0.6 + shift))
    ]
    return intervals(
        estimates, title="Higher at every rate", arms=[GRPO, GDPO], x_label="area (share)",
        note="95 % t interval over 8 seeds", reference=0.0,
    )  # fmt: skip


def counts() -> Plot:
    values = [Bar("grpo", 7, "4 rollouts"), Bar("gdpo", 14, "4 rollouts"), Bar("gdpo", 26, "5")]
    return bars(values, title="More values", arms=[GRPO, GDPO], x_label="distinct values (count)")


PLOTS = [learning, rates, counts]


def read(plot: Plot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plot.csv())))


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def drawn(plot: Plot, width: int = WIDE):
    with own_settings():
        return plot.draw(width)


def test_mean_and_range_over_seeds_are_those_worked_out_by_hand():
    # gdpo at step 20: 6 + (0, 1, 5): mean 8, from 6 to 11
    row = next(r for r in learning().rows if r[:3] == ("format", "gdpo", 20.0))
    assert row == ("format", "gdpo", 20.0, 8.0, 6.0, 11.0, 3)


def test_csv_of_curves_reads_back_as_the_drawn_values():
    figure = drawn(learning())
    for axes, metric in zip(figure.axes, ("format", "right"), strict=True):
        for line, arm in zip(axes.lines, ("grpo", "grpo6", "gdpo"), strict=True):
            rows = [r for r in read(learning()) if (r["metric"], r["arm"]) == (metric, arm)]
            assert list(line.get_xdata()) == [float(r["step"]) for r in rows]
            assert list(line.get_ydata()) == [float(r["mean"]) for r in rows]


def test_csv_of_curves_reads_back_as_the_drawn_bands():
    bands = drawn(learning()).axes[0].collections
    for band, arm in zip(bands, ("grpo", "grpo6", "gdpo"), strict=True):
        rows = [r for r in read(learning()) if (r["metric"], r["arm"]) == ("format", arm)]
        corners = {(float(r["step"]), float(r[end])) for r in rows for end in ("low", "high")}
        assert {(x, y) for x, y in band.get_paths()[0].vertices} == corners


def test_csv_of_intervals_reads_back_as_the_drawn_points_and_intervals():
    lines = drawn(rates()).axes[0].lines[1:]  # the first is the reference
    said = [[float(r[key]) for key in ("low", "high", "value")] for r in read(rates())]
    shown = [
        [*bar.get_xdata(), *point.get_xdata()]
        for bar, point in zip(lines[::2], lines[1::2], strict=True)
    ]
    assert shown == said


def test_csv_of_bars_reads_back_as_the_drawn_bars_which_start_at_zero():
    patches = drawn(counts()).axes[0].patches
    assert [bar.get_width() for bar in patches] == [float(r["value"]) for r in read(counts())]
    assert {bar.get_x() for bar in patches} == {0}
    assert drawn(counts()).axes[0].get_xlim()[0] == 0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_csv_keeps_every_float_bit_for_bit(value):
    plot = intervals(
        [Estimate("gdpo", value, value, value)], title="t", arms=[GDPO], x_label="x", note="n"
    )
    assert float(read(plot)[0]["value"]) == value


def test_same_input_gives_the_same_bytes_in_another_process(tmp_path):
    code = f"""if True:
    import sys, pathlib, matplotlib
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import test_plots
    matplotlib.rcParams["font.size"] = 30
    for make in test_plots.PLOTS:
        make().save(pathlib.Path({str(tmp_path)!r}), make.__name__)
    """
    env = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    for make in PLOTS:
        stem = make.__name__
        assert (tmp_path / f"{stem}.svg").read_bytes() == make().svg(WIDE).encode()
        assert (tmp_path / f"{stem}.narrow.svg").read_bytes() == make().svg(NARROW).encode()
        assert (tmp_path / f"{stem}.csv").read_bytes() == make().csv().encode()


def test_drawing_changes_no_setting_of_matplotlib_and_loads_no_pyplot():
    code = """if True:
    import sys
    from icml.core.plots import Arm, Bar, bars
    assert "matplotlib" not in sys.modules and "numpy" not in sys.modules
    import matplotlib
    before = str(sorted(matplotlib.rcParams.copy().items(), key=str))
    bars([Bar("gdpo", 1)], title="t", arms=[Arm("gdpo")], x_label="x").svg()
    assert str(sorted(matplotlib.rcParams.copy().items(), key=str)) == before
    assert "matplotlib.pyplot" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("make", PLOTS)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_nothing_drawn_leaves_the_figure(make, width):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = drawn(make(), width)
    with own_settings():
        box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    slack = 1 / 96  # inches: the caps of lines
    assert box.x0 >= -slack
    assert box.y0 >= -slack
    assert box.x1 <= figure.get_figwidth() + slack
    assert box.y1 <= figure.get_figheight() + slack


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_claim_axes_and_number_of_seeds_are_written_in_the_figure(width):
    words = " ".join(texts(learning().svg(width)))
    for text in ("The format is learnt sooner", "right format (share)", "training step", "3 seeds"):
        assert text in words


def test_up_to_three_curves_are_labelled_in_place_and_more_get_a_key():
    four = [Arm(f"arm{n}") for n in range(4)]
    rows = [{"step": s, "arm": a.name, "seed": 0, "m": s} for a in four for s in (0, 1)]
    few, many = (
        curves(rows, title="t", arms=arms, panels={"m": "m (1)"}, x_label="step")
        for arms in (four[:3], four)
    )
    assert [t.get_text() for t in drawn(few).axes[0].texts] == ["arm0", "arm1", "arm2"]
    assert not drawn(many).axes[0].texts
    assert {arm.name for arm in four} <= set(texts(many.svg()))


def test_panels_stand_below_each_other_on_a_phone():
    wide, narrow = (
        [axes.get_position() for axes in drawn(learning(), width).axes] for width in (WIDE, NARROW)
    )
    assert wide[0].y0 == wide[1].y0
    assert narrow[0].x0 == narrow[1].x0


def test_a_role_has_the_same_colour_whatever_stands_beside_it():
    alone = looks([GDPO])["gdpo"]
    assert looks([GRPO, WEIGHTED, GDPO])["gdpo"] == alone
    assert alone.color == PALETTE["ours"]
    assert looks([WEIGHTED, GRPO])["grpo"].color == PALETTE["baseline"]


def test_arms_differ_in_dashes_or_marker_and_not_in_colour_alone():
    arms = [GRPO, GDPO, *(Arm(f"other{n}") for n in range(4))]
    assert len({(str(s.dashes), s.marker) for s in looks(arms).values()}) == len(arms)


def test_markup_and_mathematics_in_a_title_are_drawn_as_they_are():
    title = 'a < b & $x_1$ "q" \\alpha'
    svg = learning(title=title).svg()
    assert title in texts(svg)
    assert ElementTree.fromstring(svg).get("aria-label", "").startswith(title)


@pytest.mark.parametrize("make", PLOTS)
def test_a_reader_who_sees_nothing_is_told_the_title_and_the_numbers(make):
    root = ElementTree.fromstring(make().svg())
    assert root.get("role") == "img"
    said = root.get("aria-label", "")
    assert make().title in said
    assert "GDPO" in said
    assert any(character.isdigit() for character in said)


def test_one_seed_and_one_step_are_drawn_as_a_point():
    plot = learning(arms=[GDPO], rows=[r for r in ROWS if r["seed"] == r["step"] == 0])
    assert plot.rows[0] == ("format", "gdpo", 0.0, 0.0, 0.0, 0.0, 1)
    assert "One seed." in texts(plot.svg())
    assert drawn(plot).axes[0].lines[0].get_marker() == "D"


def test_nan_makes_a_gap_in_the_curve_and_in_the_csv():
    rows = [{**r, "format": math.nan} if r["step"] == 10 else r for r in ROWS]
    plot = learning(rows=rows)
    assert [r["mean"] for r in read(plot)][:3] == ["2.0", "nan", "4.0"]
    assert plot.svg()


def test_a_metric_logged_at_some_steps_only_is_drawn_at_those():
    rows = [{k: v for k, v in r.items() if k != "right" or r["step"] == 20} for r in ROWS]
    assert {r[2] for r in learning(rows=rows).rows if r[0] == "right"} == {20.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no row has 'format' of arm 'gdpo'"),
        ([*ROWS, ROWS[9]], "given twice"),
        ([{**ROWS[9], "format": math.inf}], "finite"),
    ],
)
def test_curves_refuse_what_would_mislead(rows, message):
    with pytest.raises(ValueError, match=message):
        learning(arms=[GDPO], rows=rows)


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        ([], "nothing to draw"),
        ([Estimate("x", 0, 0, 0)], "not one of"),
        ([Estimate("gdpo", 0, 1, 2)], "doesn't hold"),
        ([Estimate("gdpo", math.nan, 0, 1)], "finite"),
        ([Estimate("gdpo", 0, 0, 0, "g")] * 2, "twice in group 'g'"),
    ],
)
def test_intervals_refuse_what_would_mislead(estimates, message):
    with pytest.raises(ValueError, match=message):
        intervals(estimates, title="t", arms=[GDPO], x_label="x", note="n")


def test_bars_refuse_a_negative_value():
    with pytest.raises(ValueError, match="use intervals"):
        bars([Bar("gdpo", -1)], title="t", arms=[GDPO], x_label="x")


def test_bars_of_zero_can_be_drawn():
    assert bars([Bar("gdpo", 0)], title="t", arms=[GDPO], x_label="x").svg()


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([], "at least one"),
        ([GDPO, GDPO], "different names"),
        ([GDPO, Arm("b", "ours")], "one is ours"),
        ([Arm(str(n)) for n in range(5)], "at most 4"),
    ],
)
def test_arms_that_cannot_be_told_apart_are_refused(arms, message):
    with pytest.raises(ValueError, match=message):
        looks(arms)


LABELS = st.lists(st.tuples(st.floats(-50, 250), st.floats(5, 45)), min_size=1, max_size=6)


@given(LABELS)
@settings(max_examples=300)
def test_spread_labels_never_overlap_and_stay_in_the_room_where_they_fit(labels):
    wanted, heights = [w for w, _ in labels], [h for _, h in labels]
    placed = spread(wanted, heights, 200)
    boxes = sorted((p - h / 2, p + h / 2) for p, h in zip(placed, heights, strict=True))
    assert all(above <= start + 1e-6 for (_, above), (start, _) in pairwise(boxes))
    assert boxes[0][0] >= -1e-6
    assert boxes[-1][1] <= max(200, sum(heights)) + 1e-6


def test_labels_with_enough_room_stay_where_they_belong():
    assert spread([150, 20, 80], [10, 10, 10], 200) == [150, 20, 80]


# Machado, Oliveira and Fernandes 2009, severity 1; linear RGB.
SIGHT = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def linear(color: str) -> list[float]:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def lab(color: str, matrix) -> list[float]:
    seen = [sum(m * c for m, c in zip(row, linear(color), strict=True)) for row in matrix]
    r, g, b = (min(1.0, max(0.0, value)) for value in seen)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("sight", SIGHT)
def test_arms_stay_apart_for_the_colour_blind(sight):
    names = ["baseline", "ours", *(f"other-{n}" for n in (1, 2, 3, 4))]
    labs = [lab(PALETTE[name], SIGHT[sight]) for name in names]
    # A CIELAB distance of 10 is several times what can just be noticed (about 2.3).
    assert min(math.dist(a, b) for a, b in combinations(labs, 2)) > 10
