"""A figure's SVG made fit to stand inside a page: checked, recoloured, its ids its own."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from icml.core.errors import UserError
from icml.core.plots.style import PALETTE

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SHAPES = {"path", "line", "rect", "circle", "ellipse", "polyline", "polygon", "text", "tspan"}
_ELEMENTS = _SHAPES | {"svg", "g", "defs", "clipPath", "use"}
_PLACES = {"x", "x1", "x2", "y", "y1", "y2", "cx", "cy", "r", "rx", "ry", "width", "height"}
_PAINT = {"style", "fill", "stroke", "clip-path", "transform", "text-anchor"}
_ATTRIBUTES = _PLACES | _PAINT | {"id", "href", "d", "points", "viewBox", "version"}
_ATTRIBUTES |= {"role", "aria-label"}
_MATPLOTLIB_STYLE = "*{stroke-linejoin: round; stroke-linecap: butt}"
"""The one style sheet that our figures carry; the page's own says the same of its figures."""

_VARIABLES = {color: f"var(--plot-{name})" for name, color in PALETTE.items()}
_REFERENCE = re.compile(r"url\(#([^)\s\"']+)\)")


def inline(svg: str, *, prefix: str, name: str) -> str:
    """Return an ``<svg>`` element for an HTML page.

    Ids are prefixed, so that two figures don't clash, and our colours become the CSS variables
    ``--plot-…`` of the page. Only what our own figures hold is let through.

    Args:
        svg: Text of an SVG file.
        prefix: Put in front of every id.
        name: What the file is called in an error message.

    Raises:
        UserError: If it is no SVG or holds anything else than shapes and text: a script, an event
            handler, a link or an address outside the figure.
    """
    if "<!ENTITY" in svg:
        raise UserError(f"{name} defines an entity: it is not a figure of ours")
    try:
        root = ElementTree.fromstring(svg)
    except (ElementTree.ParseError, ValueError) as error:
        raise UserError(f"{name} can't be read as SVG: {error}") from error
    if root.tag != f"{_SVG}svg":
        raise UserError(f"{name} can't be read as SVG: its root is {root.tag}")
    _clean(root, prefix, name)
    _size(root, name)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element, prefix: str, name: str) -> None:
    tag = element.tag.removeprefix(_SVG) if isinstance(element.tag, str) else "a comment"
    if tag not in _ELEMENTS:
        raise UserError(f"{name} holds <{tag}>: it is not a figure of ours")
    element.tag = tag
    attributes = {("href" if key == _HREF else key): v for key, v in element.attrib.items()}
    element.attrib.clear()
    for key, value in attributes.items():
        if key not in _ATTRIBUTES:
            raise UserError(f"{name} holds the attribute {key!r}: it is not a figure of ours")
        element.set(key, _value(key, value, prefix, name))
    for child in list(element):
        if child.tag == f"{_SVG}style" and (child.text or "").strip() == _MATPLOTLIB_STYLE:
            element.remove(child)
        else:
            _clean(child, prefix, name)
    if tag == "defs" and not len(element):
        element.text = None


def _value(key: str, value: str, prefix: str, name: str) -> str:
    if key == "id":
        return prefix + value
    if key == "href":
        if not value.startswith("#"):
            raise UserError(f"{name} links to {value!r}: it is not a figure of ours")
        return f"#{prefix}{value[1:]}"
    if key in {"aria-label", "d", "points"}:
        return value
    # What is left when inner references are taken out may hold no url() and no CSS escape.
    if re.search(r"url|\\|@|expression|javascript", _REFERENCE.sub("", value), re.IGNORECASE):
        raise UserError(f"{name} has {key}={value!r}: it is not a figure of ours")
    value = _REFERENCE.sub(lambda match: f"url(#{prefix}{match[1]})", value)
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(match[0], match[0]), value)


def _size(root: ElementTree.Element, name: str) -> None:
    """Say the size in CSS pixels: a drawing's unit is the point."""
    try:
        _, _, width, height = (float(part) for part in root.get("viewBox", "").split())
    except ValueError as error:
        raise UserError(f"{name} has no viewBox: it is not a figure of ours") from error
    root.set("width", f"{width * 4 / 3:.0f}")
    root.set("height", f"{height * 4 / 3:.0f}")
