"""SVG elements, as they stand inside an HTML page."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

Element = ET.Element


def element(tag: str, *children: Element, text: str = "", **attributes: object) -> Element:
    """Return an element; the underscores of attributes' names become hyphens, ``class_`` becomes ``class``."""
    made = ET.Element(tag, {_name(name): _text(value) for name, value in attributes.items()})
    made.text = _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
    made.extend(children)
    return made


def drawing(width: float, height: float, label: str, *children: Element, **attributes: object) -> Element:
    """Return an ``svg`` of a size in pixels that shrinks with the page; ``label`` describes it to screen readers."""
    made = element("svg", *children, width=width, height=height, role="group", aria_label=label)
    made.set("viewBox", f"0 0 {_text(width)} {_text(height)}")
    for name, value in attributes.items():
        made.set(_name(name), _text(value))
    return made


def markup(root: Element) -> str:
    """Return an element as text, with everything escaped."""
    return ET.tostring(root, encoding="unicode")


def _name(keyword: str) -> str:
    return keyword.rstrip("_").replace("_", "-")


def _text(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else _NOT_IN_XML.sub("", str(value))
