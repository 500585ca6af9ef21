"""The stage graph: every Func once, in its kernel's colour, linked to it."""

from __future__ import annotations

import os
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

import autosched
from autosched import Func, Input, Pipeline, ScheduledPipeline, Var, float32
from autosched.apps import get_app
from autosched.report.colours import kernel_colour
from autosched.report.graph import kinds, places
from autosched.report.graph_svg import LONGEST_NAME, graph_svg
from autosched.report.svg import element, markup
from autosched.schedule.types import Level


def scheduled(name: str, strategy: str = "roots") -> ScheduledPipeline:
    app = get_app(name)
    return autosched.schedule(app.build(), app.shapes(app.small_sizes), "h200", strategy=strategy)


def nodes(svg: ET.Element) -> dict[str, ET.Element]:
    """Return the boxes by the name that their tooltip begins with."""
    found = [e for e in svg.iter() if e.get("class", "").startswith("node")]
    return {e.findtext("title", "").removeprefix("output ").partition(":")[0]: e for e in found}


@pytest.mark.parametrize("name", ["harris", "local_laplacian", "camera_pipe", "iir_blur"])
def test_every_func_has_a_box(name: str) -> None:
    s = scheduled(name)
    svg = ET.fromstring(markup(graph_svg(s.bound, s.schedule)))
    found = nodes(svg)
    assert found.keys() == set(s.bound.inputs) | set(s.bound.funcs)
    for func, kind in kinds(s.bound, s.schedule).items():
        assert found[func].get("class") == f"node {kind}"
        assert (found[func].tag == "a") == (kind != "input")


def test_boxes_have_the_colour_of_their_kernel() -> None:
    s = scheduled("harris", "beam")
    found = nodes(graph_svg(s.bound, s.schedule))
    by_func = places(s.schedule)
    for k, kernel in enumerate(s.schedule.kernels):
        for func in (*kernel.root_funcs, *(m.func for m in kernel.fused)):
            if func in s.bound.funcs:
                assert by_func[func].kernels == (k,)
                assert found[func].find("rect").get("fill") == kernel_colour(k)  # type: ignore[union-attr]
                assert found[func].get("href") == f"#kernel-{k}"
                assert [t.text for t in found[func].findall("text")] == [str(k), func]
        for i in kernel.inlined:
            if by_func[i.func].level is Level.INLINE:
                assert k in by_func[i.func].kernels
                assert found[i.func].find("rect").get("fill") == "#ffffff"  # type: ignore[union-attr]


def test_boxes_do_not_overlap_and_lie_inside() -> None:
    s = scheduled("local_laplacian")
    svg = graph_svg(s.bound, s.schedule)
    width, height = float(svg.get("width", "")), float(svg.get("height", ""))
    boxes = [{k: float(r.get(k, "nan")) for k in ("x", "y", "width", "height")} for r in svg.iter("rect")]
    assert len(boxes) > 100 and width < 1000
    for b in boxes:
        assert b["x"] >= 0 and b["x"] + b["width"] <= width and b["y"] >= 0 and b["y"] + b["height"] <= height
    for a in boxes:
        same_row = [b for b in boxes if b["y"] == a["y"] and b is not a]
        assert all(a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"] for b in same_row)


def test_without_links() -> None:
    s = scheduled("blur")
    svg = graph_svg(s.bound, s.schedule, links=False)
    assert list(svg.iter("a")) == []
    assert len(nodes(svg)) == 3


def test_long_names_are_shortened_and_kept_in_the_tooltip() -> None:
    x, image = Var("x"), Input("image", float32, 1)
    long = "a_name_that_nobody_wants_to_read_in_full"
    func = Func(long)
    func[x] = image[x] + 1
    s = autosched.schedule(Pipeline(func), {"image": (64,)}, "h200", strategy="roots")
    box = nodes(graph_svg(s.bound, s.schedule))[long]
    shown = box.findall("text")[-1].text or ""
    assert len(shown) == LONGEST_NAME and shown[0] == long[0] and shown[-1] == long[-1]


def test_updates_are_counted() -> None:
    s = scheduled("iir_blur")
    found = nodes(graph_svg(s.bound, s.schedule))
    updated = {name: len(f.stages) - 1 for name, f in s.bound.funcs.items() if len(f.stages) > 1}
    assert updated
    for name, count in updated.items():
        assert (found[name].findall("text")[-1].text or "").endswith(f" +{count}")


def test_the_same_drawing_in_every_process() -> None:
    program = """
import hashlib
from autosched import schedule
from autosched.apps import get_app
from autosched.report.graph_svg import graph_svg
from autosched.report.svg import markup
app = get_app("camera_pipe")
s = schedule(app.build(), app.shapes(app.small_sizes), "h200", strategy="roots")
print(hashlib.sha256(markup(graph_svg(s.bound, s.schedule)).encode()).hexdigest())
"""
    drawn = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(drawn) == 1 and len(drawn.pop().strip()) == 64


def test_colours_differ_and_are_light() -> None:
    colours = [kernel_colour(k) for k in range(60)]
    assert len(set(colours)) == 60
    for c in colours:
        red, green, blue = (int(c[k : k + 2], 16) for k in (1, 3, 5))
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue > 128


def test_text_is_escaped() -> None:
    text = markup(element("text", text="</text><script>&\x00\x1b", data_name='"><b>', x=1.25))
    assert ET.fromstring(text).text == "</text><script>&\ufffd\ufffd"
    assert ET.fromstring(text).get("data-name") == '"><b>'
    assert ET.fromstring(text).get("x") == "1.2"
    assert "<script>" not in text
