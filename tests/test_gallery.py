"""The gallery: its page lists every image app, its script draws one, and drawings have the form they claim."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import networkx as nx
import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.apps.sizes import H, Size, W
from autosched.search.roots import schedule_roots
from autosched.target import get_target

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets scripts, which import one another, be imported."""
    monkeypatch.syspath_prepend(ROOT / "scripts")


@pytest.fixture
def gallery(scripts: None) -> ModuleType:
    return importlib.import_module("gallery")


def test_page_is_up_to_date(gallery: ModuleType) -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page == gallery.page(gallery.image_apps()), "run `make gallery`"


def test_page_shows_every_image_app(gallery: ModuleType) -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(gallery.image_apps())
    shown = re.findall(r"\]\((gallery/[^)]+)\)", page)
    assert {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / "gallery").iterdir()} == set(shown)


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs" / "gallery").iterdir()) < 3e6


def test_image_apps_are_told_by_their_inputs(gallery: ModuleType) -> None:
    assert {"blur", "harris", "stencil_chain"} <= gallery.image_apps().keys()
    assert "sgemm" not in gallery.image_apps()
    assert all(gallery.is_image(e) for e in ((H, W), (H + 2, W + 2), (3, H, W), (1, H + 4, W + 4)))
    others = ((W,), (W, H), (Size("D"), H, W), (16, H, W), (Size("N"), 3, H, W), (3, 4), (Size("K"), Size("N")))
    assert not any(gallery.is_image(e) for e in others)


def test_script_draws_one_app(gallery: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import PIL.Image

    monkeypatch.setattr("sys.argv", ["gallery.py", "--apps", "harris", "--out", str(tmp_path)])
    gallery.main()
    drawn = {}
    for path in (tmp_path / "gallery").iterdir():
        with PIL.Image.open(path) as picture:
            drawn[path.name] = picture.size
    assert drawn.keys() == {
        "harris-input-input.png", "harris-output-output.png", "harris-stages.png", "harris-loops.png",
        "harris-by-hand.png",
    }  # fmt: skip
    assert max(drawn["harris-input-input.png"]) == gallery.LONGER_SIDE
    assert drawn["harris-output-output.png"][0] == drawn["harris-input-input.png"][0] - 6
    assert (tmp_path / "gallery.md").read_text(encoding="utf-8") == gallery.page(gallery.image_apps())


def test_pictures_of_arrays(gallery: ModuleType) -> None:
    scaled = gallery.in_unit_range(np.arange(1001, dtype=np.float32) * 4 - 2000)
    assert (scaled.min(), scaled.max(), scaled[500]) == (0, 1, pytest.approx(0.5))
    assert gallery.in_unit_range(np.float32([0.25, 0.5])).tolist() == [0.25, 0.5]
    assert gallery.in_unit_range(np.uint8([0, 51])).tolist() == [0, 0.2]
    assert gallery.in_unit_range(np.full((2, 2), 7, np.uint16)).tolist() == [[0, 0], [0, 0]]
    assert gallery.as_rgb(np.ones((2, 5, 6))).shape == (5, 6)
    weighted = gallery.as_rgb(np.stack([np.ones((5, 6))] * 3 + [np.zeros((5, 6))]))
    assert weighted.shape == (5, 6, 3) and not weighted.any()


@pytest.mark.parametrize("name", load_apps())
def test_stage_graphs_are_layered(name: str, scripts: None) -> None:
    layered, draw_graph = importlib.import_module("layered"), importlib.import_module("draw_graph")
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    graph = draw_graph.func_graph(bound)
    assert set(graph) == set(bound.inputs) | set(bound.funcs)
    layout = layered.layered_layout(graph, dict.fromkeys(graph, 1.0), 0.25)
    for (a, b), route in layout.routes.items():
        assert [layer for _, layer in route] == list(range(layout.positions[a][1], layout.positions[b][1] + 1))
    rows: dict[int, list[float]] = {}
    for x, layer in layout.positions.values():
        rows.setdefault(layer, []).append(x)
        assert 0.5 - 1e-9 <= x <= layout.width - 0.5 + 1e-9
    for row in rows.values():
        assert np.all(np.diff(sorted(row)) >= 1.25 - 1e-9), "nodes overlap"
    assert {0, layout.layers - 1} <= set(rows)
    kinds = draw_graph.kinds(bound, schedule_roots(bound, get_target("h200")))
    assert {n for n, kind in kinds.items() if kind == "input"} == set(bound.inputs)
    assert {n for n, kind in kinds.items() if kind == "output"} == set(bound.outputs.values())


def test_layers_keep_edges_short(scripts: None) -> None:
    layered = importlib.import_module("layered")
    graph: nx.DiGraph[str] = nx.DiGraph([("in", "a"), ("a", "b"), ("b", "c"), ("table", "c")])
    assert layered.assign_layers(graph) == {"in": 0, "a": 1, "b": 2, "c": 3, "table": 2}
    alone: nx.DiGraph[str] = nx.DiGraph()
    alone.add_nodes_from("xy")
    assert layered.layered_layout(alone, {"x": 1, "y": 2}, 0.5).width == 3.5


def test_crossings_are_untangled(scripts: None) -> None:
    layered = importlib.import_module("layered")
    graph: nx.DiGraph[str] = nx.DiGraph([("a", "z"), ("b", "y"), ("c", "x"), ("z", "end"), ("y", "end"), ("x", "end")])
    rows = layered.ordered(graph, layered.assign_layers(graph))
    assert layered.crossings(graph, rows) == 0
    assert layered.crossings(graph, [["a", "b", "c"], ["x", "y", "z"], ["end"]]) == 3


@pytest.mark.parametrize(
    ("wanted", "apart", "expected"),
    [
        ([0, 10], [2], [0, 10]),
        ([5, 5], [2], [4, 6]),
        ([3, 0, 0], [1, 1], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_separated(wanted: list[float], apart: list[float], expected: list[float], scripts: None) -> None:
    layered = importlib.import_module("layered")
    assert layered.separated(wanted, apart, [1.0] * len(wanted)) == pytest.approx(expected)


def test_loop_nests_are_nested(scripts: None) -> None:
    draw_nest, hand = importlib.import_module("draw_nest"), importlib.import_module("hand_schedules")
    app = get_app("harris")
    bound = bind(app.build(), app.shapes())
    (panel,) = draw_nest.panels(bound, hand.HAND["harris"](bound))
    texts = [box.text for box in panel.boxes]
    assert texts[:3] == ["block y 80  (step 32), x 12  (step 128)", "gray[y 36, x 132]: in shared memory, 19008 bytes",
                         "thread x 132  (threadIdx.x)"]  # fmt: skip
    assert texts.count("barrier") == 2
    open_: list[tuple[int, float]] = []  # depth and end of the boxes around the next one
    for box in panel.boxes:
        while open_ and open_[-1][0] >= box.depth:
            open_.pop()
        assert all(box.top + box.height <= bottom for _, bottom in open_)
        open_.append((box.depth, box.top + box.height))


def test_columns_keep_the_order(scripts: None) -> None:
    draw_nest = importlib.import_module("draw_nest")
    drawn = [draw_nest.Panel(str(k), [], 1.0) for k in range(46)]
    columns = draw_nest.in_columns(drawn)
    assert [p for column in columns for p in column] == drawn
    assert max(map(len, columns)) - min(map(len, columns)) <= 1
