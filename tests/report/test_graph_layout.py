"""Layered drawings: short edges, few crossings, no overlaps."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.report.graph import func_graph
from autosched.report.graph_layout import assign_layers, crossings, layered_layout, ordered, separated


@pytest.mark.parametrize("name", load_apps())
def test_stage_graphs_are_layered(name: str) -> None:
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    graph = func_graph(bound)
    assert set(graph) == set(bound.inputs) | set(bound.funcs)
    layout = layered_layout(graph, dict.fromkeys(graph, 1.0), 0.25)
    for (a, b), route in layout.routes.items():
        assert [layer for _, layer in route] == list(range(layout.positions[a][1], layout.positions[b][1] + 1))
    rows: dict[int, list[float]] = {}
    for x, layer in layout.positions.values():
        rows.setdefault(layer, []).append(x)
        assert 0.5 - 1e-9 <= x <= layout.width - 0.5 + 1e-9
    for row in rows.values():
        assert np.all(np.diff(sorted(row)) >= 1.25 - 1e-9), "nodes overlap"
    assert {0, layout.layers - 1} <= set(rows)


def test_layers_keep_edges_short() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph([("in", "a"), ("a", "b"), ("b", "c"), ("table", "c")])
    assert assign_layers(graph) == {"in": 0, "a": 1, "b": 2, "c": 3, "table": 2}
    alone: nx.DiGraph[str] = nx.DiGraph()
    alone.add_nodes_from("xy")
    assert layered_layout(alone, {"x": 1, "y": 2}, 0.5).width == 3.5


@pytest.mark.parametrize("seed", range(8))
def test_no_edges_could_be_shorter(seed: int) -> None:
    """The linear program of the layers, solved by another method, has the same optimum."""
    scipy_optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(seed)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(12))
    graph.add_edges_from((a, b) for a in range(12) for b in range(a + 1, 12) if rng.random() < 0.25)
    spans = np.array([[(n == a) * 1.0 - (n == b) for n in graph] for a, b in graph.edges])
    best = scipy_optimize.linprog(-spans.sum(axis=0), A_ub=spans, b_ub=np.full(len(spans), -1))
    layers = assign_layers(graph)
    assert all(layers[a] < layers[b] for a, b in graph.edges)
    assert sum(layers[b] - layers[a] for a, b in graph.edges) == pytest.approx(best.fun)


def test_crossings_are_untangled() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph([("a", "z"), ("b", "y"), ("c", "x"), ("z", "end"), ("y", "end"), ("x", "end")])
    rows = ordered(graph, assign_layers(graph))
    assert crossings(graph, rows) == 0
    assert crossings(graph, [["a", "b", "c"], ["x", "y", "z"], ["end"]]) == 3


@pytest.mark.parametrize(
    ("wanted", "apart", "expected"),
    [
        ([0, 10], [2], [0, 10]),
        ([5, 5], [2], [4, 6]),
        ([3, 0, 0], [1, 1], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_separated(wanted: list[float], apart: list[float], expected: list[float]) -> None:
    assert separated(wanted, apart, [1.0] * len(wanted)) == pytest.approx(expected)
