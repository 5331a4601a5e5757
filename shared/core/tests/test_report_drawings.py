"""Drawings inside the page: nothing but shapes and text gets in, and colours can be read."""

import re
from pathlib import Path

import pytest

from icml.core.errors import UserError
from icml.core.plots.style import PALETTE
from icml.core.report import numbers
from icml.core.report.inline import inline

CSS = (Path(numbers.__file__).parent / "templates" / "report.css").read_text()


def svg(inside: str, attributes: str = "") -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        f' viewBox="0 0 3 3" {attributes}>{inside}</svg>'
    )


@pytest.mark.parametrize(
    "text",
    [
        svg("<script>alert(1)</script>"),
        svg("<g><foreignObject/></g>"),
        svg("<image href='data:image/png;base64,'/>"),
        svg("<a href='#x'><text>x</text></a>"),
        svg("<animate attributeName='x'/>"),
        svg("<style>*{fill: url(http://x)}</style>"),
        svg("<path onclick='x'/>"),
        svg("", "onload='x'"),
        svg("<use xlink:href='http://example.org/#a'/>"),
        svg("<use href='other.svg#a'/>"),
        svg("<path style='fill: url(http://example.org/)'/>"),
        svg("<path style='fill: url(\"http://example.org/\")'/>"),
        svg(r"<path style='fill: u\72l(http://example.org/)'/>"),
        svg("<path fill='URL(//example.org)'/>"),
        svg("<!-- x --><path xmlns:e='urn:e' e:d='x'/>"),
        "<!DOCTYPE svg [<!ENTITY a 'aaaa'>]>" + svg("<text>&a;</text>"),
        "<html xmlns='http://www.w3.org/1999/xhtml'/>",
        "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "no svg at all",
        "",
    ],
)
def test_a_drawing_with_anything_but_shapes_and_text_is_refused(text):
    with pytest.raises(UserError, match=r"^f\.svg "):
        inline(text, prefix="p-", name="f.svg")


def test_inlined_drawing_keeps_its_text_and_its_inner_references():
    text = svg("<g id='a'/><use xlink:href='#a' clip-path='url(#a)'/><text>1 &lt; 2</text>")
    assert inline(text, prefix="p-", name="f.svg") == (
        '<svg viewBox="0 0 3 3" width="4" height="4"><g id="p-a" />'
        '<use href="#p-a" clip-path="url(#p-a)" /><text>1 &lt; 2</text></svg>'
    )


def variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6});", css))


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    """WCAG 2.2, section 1.4.3."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


LIGHT = variables(CSS.split("@media screen and (prefers-color-scheme: dark)")[0])
DARK = LIGHT | variables(CSS.split("@media screen and (prefers-color-scheme: dark)")[1])


@pytest.mark.parametrize("mode", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_has_a_contrast_of_at_least_four_and_a_half(mode):
    on_paper = {"ink", "muted", "link", "plot-ink", "plot-muted"} | {
        f"plot-{name}" for name in PALETTE if name not in {"grid", "paper"}
    }
    pairs = [(name, "paper") for name in on_paper]
    pairs += [
        ("good", "good-tint"),
        ("calm", "calm-tint"),
        ("on-alarm", "alarm"),
        ("ink", "raised"),
    ]
    poor = {pair: contrast(mode[pair[0]], mode[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < 4.5} == {}


def test_light_page_draws_figures_in_the_colours_of_their_files():
    drawn = {f"plot-{name}": color for name, color in PALETTE.items() if name != "paper"}
    assert {name: LIGHT[name] for name in drawn} == drawn


def test_dark_page_redraws_every_colour_of_a_figure():
    names = [f"plot-{name}" for name in PALETTE if name != "paper"]
    assert all(DARK[name] != LIGHT[name] for name in names)
