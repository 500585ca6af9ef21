"""SVG elements inside an HTML page."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

Element = ET.Element


def element(tag: str, *children: Element, text: str = "", **attributes: object) -> Element:
    """Return an element; underscores in attribute names become hyphens, ``class_`` becomes ``class``."""
    node = ET.Element(tag, {_name(name): _text(value) for name, value in attributes.items()})
    node.text = _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
    node.extend(children)
    return node


def drawing(width: float, height: float, label: str, *children: Element, **attributes: object) -> Element:
    """Return an ``svg`` of a size in pixels that shrinks with the page; ``label`` is the text for screen readers."""
    node = element("svg", *children, width=width, height=height, role="group", aria_label=label)
    node.set("viewBox", f"0 0 {_text(width)} {_text(height)}")
    for name, value in attributes.items():
        node.set(_name(name), _text(value))
    return node


def markup(root: Element) -> str:
    """Return an element as text, with everything escaped."""
    return ET.tostring(root, encoding="unicode")


def _name(keyword: str) -> str:
    return keyword.rstrip("_").replace("_", "-")


def _text(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else _NOT_IN_XML.sub("", str(value))
