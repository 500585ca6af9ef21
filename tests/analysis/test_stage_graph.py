"""The stage graph and the counts of a stage's work."""

from __future__ import annotations

import networkx as nx

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, float32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.operation_count import CALL_OPERATIONS, operations
from autosched.analysis.stage_graph import stage_graph

y, x = Var("y"), Var("x")


def histogram() -> BoundPipeline:
    """Return a pipeline with the stage graph of histogram equalisation."""
    img, r, bins = Input("img", uint8, 2), RDom("r", y=6, x=8), RDom("bins", k=(1, 256))
    counts, sums, out = Func("counts"), Func("sums"), Func("out")
    counts[x] = 0
    counts[img[r.y, r.x]] += 1
    sums[x] = counts[x]
    sums[bins.k] = sums[bins.k - 1] + sums[bins.k]
    out[y, x] = a.sqrt(a.cast(float32, sums[img[y, x]])) / (sums[255] - sums[0]) + img[y, x]
    return bind(Pipeline(out.over(y=(0, 6), x=(0, 8))), {"img": (6, 8)})


def test_nodes() -> None:
    graph = stage_graph(histogram())
    stages = {
        ("counts", 0): (256,),
        ("counts", 1): (256,),
        ("sums", 0): (256,),
        ("sums", 1): (256,),
        ("out", 0): (6, 8),
    }
    assert dict(graph.nodes(data="kind")) == {"img": "input", **dict.fromkeys(stages, "stage")}
    assert {n: e for n, e in graph.nodes(data="extents") if e} == stages


def test_edges() -> None:
    graph = stage_graph(histogram())
    assert dict.fromkeys(graph.edges) == dict.fromkeys([
        ("img", ("counts", 1)), ("img", ("out", 0)), (("counts", 0), ("counts", 1)), (("counts", 1), ("sums", 0)),
        (("sums", 0), ("sums", 1)), (("sums", 1), ("out", 0)),
    ])  # fmt: skip
    assert {(str(u), str(v)): n for u, v, n in graph.edges(data="loads")} == {
        ("img", "('counts', 1)"): 1, ("img", "('out', 0)"): 1, ("('counts', 0)", "('counts', 1)"): 1,
        ("('counts', 1)", "('sums', 0)"): 1, ("('sums', 0)", "('sums', 1)"): 2, ("('sums', 1)", "('out', 0)"): 3,
    }  # fmt: skip
    assert nx.is_directed_acyclic_graph(graph)


def test_stages_that_only_write_are_chained() -> None:
    f = Func("f")
    f[x] = 0
    f[3] = 1
    graph = stage_graph(bind(Pipeline(f.over(x=(0, 8))), {}))
    assert list(graph.edges(data="loads")) == [(("f", 0), ("f", 1), 0)]


def test_scatter_reads_its_store_index() -> None:
    img, r, f = Input("img", uint8, 1), RDom("r", k=8), Func("f")
    f[x] = 0
    f[img[r.k]] = 1
    graph = stage_graph(bind(Pipeline(f.over(x=(0, 8))), {"img": (8,)}))
    assert graph.has_edge("img", ("f", 1))


def test_producers_read_only_in_empty_loops_are_left_out() -> None:
    img, r, f, g = Input("img", float32, 1), RDom("r", k=0), Func("f"), Func("g")
    g[x] = img[x]
    f[x] = 0.0
    f[x] = f[x] + g[r.k]
    graph = stage_graph(bind(Pipeline(f.over(x=(0, 8))), {"img": (8,)}))
    assert set(graph.nodes) == {"img", ("f", 0), ("f", 1)}


def test_order_of_stages_is_that_of_the_pipeline() -> None:
    bound = histogram()
    order = [n for n in stage_graph(bound).nodes if isinstance(n, tuple)]
    assert order == [(f.name, s.number) for f in bound.funcs.values() for s in f.stages]


def test_operations() -> None:
    img = Input("img", float32, 2)

    def count(value: object) -> int:
        f = Func("f")
        f[y, x] = value  # type: ignore[assignment]
        return operations(bind(Pipeline(f.over(y=(0, 4), x=(0, 4))), {"img": (8, 8)}).stage("f", 0))

    v = img[y, x]
    assert count(v) == 0
    assert count(img[2 * y + 1, x // 2]) == 0, "index arithmetic is free"
    assert count(v * 2 + 1) == 2
    assert count(a.sin(v) + v) == CALL_OPERATIONS + 1
    assert count(a.select(v > 0, -v, v)) == 3
    assert count((v + 1) * (img[y, x] + 1)) == 2, "alike expressions count once"
    assert count(a.cast(uint8, v)) == 0
