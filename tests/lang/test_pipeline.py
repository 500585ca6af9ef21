"""Pipelines: reachable Funcs, their order and their names."""

from __future__ import annotations

import networkx as nx

import autosched as a
from autosched import Func, Input, Output, Param, Pipeline, RDom, Var, float32, int32
from autosched.lang.pipeline import producers_of, rvars_of

x, y = Var("x"), Var("y")


def diamond(name: str = "f") -> tuple[Pipeline, list[Func]]:
    img, gain = Input("img", float32, 1), Param("gain", float32, 1.0)
    base, left, right, out, unused = (Func(name) for _ in range(5))
    base[x] = img[x]
    unused[x] = base[x]
    left[x] = base[x - 1] * gain
    right[x] = base[x + 1]
    out[x] = left[x] + right[x]
    return Pipeline(out.over(x=(1, 9))), [base, left, right, out]


def test_funcs_are_in_topological_order() -> None:
    pipeline, funcs = diamond()
    assert list(pipeline.funcs) == funcs
    assert [i.name for i in pipeline.inputs] == ["img"] and [p.name for p in pipeline.params] == ["gain"]


def test_unique_names_follow_the_order_and_outputs_keep_theirs() -> None:
    pipeline, (base, left, right, out) = diamond()
    assert [pipeline.name_of(f) for f in (out, base, left, right)] == ["f", "f_1", "f_2", "f_3"]
    assert all(pipeline.func(pipeline.name_of(f)) is f for f in pipeline.funcs)
    again, _ = diamond()
    assert [again.name_of(f) for f in again.funcs] == ["f_1", "f_2", "f_3", "f"], "no global counter"


def test_inputs_and_params_keep_their_names() -> None:
    pipeline, _ = diamond("img")
    assert pipeline.output_names == ("img_1",)
    assert [pipeline.name_of(f) for f in pipeline.funcs] == ["img_2", "img_3", "img_4", "img_1"]
    pipeline, _ = diamond("gain")
    assert pipeline.output_names == ("gain_1",)


def test_numbered_names_of_the_user_are_respected() -> None:
    first, second, third = Func("f"), Func("f_1"), Func("f")
    first[x] = 0
    second[x] = first[x]
    third[x] = second[x] + first[x]
    pipeline = Pipeline([third.over(x=(0, 9)), second.over(x=(0, 9))])
    assert [pipeline.name_of(f) for f in (first, second, third)] == ["f_2", "f_1", "f"]


def test_names_of_outputs() -> None:
    f, g, h = Func("f"), Func("g"), Func("f_0")
    f[x] = (x, 0.5)
    g[x] = f[x][1]
    h[x] = 1
    pipeline = Pipeline([f.over(x=(0, 3)), g.over(x=(0, 3))])
    assert pipeline.output_names == ("f_0", "f_1", "g")
    assert repr(pipeline) == "Pipeline('pipeline', 2 Funcs, outputs f_0, f_1, g)"
    pipeline = Pipeline([h.over(x=(0, 3)), f.over(x=(0, 3))])
    assert len(set(pipeline.output_names)) == 3


def test_forms_of_outputs() -> None:
    f = Func("f")
    f[()] = 1
    for outputs in (f, [f], (f,), Output(f), [Output(f)]):
        assert [o.func for o in Pipeline(outputs).outputs] == [f]


def test_inputs_of_which_only_the_shape_is_used() -> None:
    img, mask = Input("img", float32, 1), Input("mask", float32, 2)
    f = Func("f")
    f[x] = img[x]
    assert [i.name for i in Pipeline(f.over(x=(0, mask.shape[1]))).inputs] == ["img", "mask"]
    r = RDom("r", k=mask.shape[0])
    g = Func("g")
    g[x] = a.sum(img[x + r.k], over=r)
    assert [i.name for i in Pipeline(g.over(x=(0, 1))).inputs] == ["img", "mask"]


def test_params_are_found_in_indices_bounds_and_boxes() -> None:
    names = ("index", "store", "bound", "box", "value")
    index, store, bound, box, value = (Param(n, int32) for n in names)
    img = Input("img", float32, 1)
    f, r = Func("f"), RDom("r", k=bound)
    f[x] = value
    f[store + r.k] = img[index + r.k]
    assert {p.name for p in Pipeline(f.over(x=(0, box))).params} == set(names)


def test_producers_and_loops() -> None:
    img, r = Input("img", float32, 1), RDom("r", p=3, q=2)
    f, g = Func("f"), Func("g")
    f[x] = img[x]
    g[x] = 0.0
    g[x] = g[x] + f[x + r.q] + img[r.q]
    g[r.p] = f[r.p]
    assert producers_of(g) == (f, img) and producers_of(f) == (img,)
    assert set(rvars_of(g)) == set(r.vars) and rvars_of(f) == ()


def test_order_is_topological_for_a_large_graph() -> None:
    funcs: list[Func] = []
    for k in range(200):
        f = Func("f")
        f[x] = a.min(0, *(funcs[j][x - 1] for j in {k * 7 % (k or 1), k // 2, k - 1} if 0 <= j < k), x)
        funcs.append(f)
    pipeline = Pipeline(funcs[-1].over(x=(0, 2)))
    graph: nx.DiGraph[Func] = nx.DiGraph((p, f) for f in pipeline.funcs for p in producers_of(f) if isinstance(p, Func))
    position = {f: k for k, f in enumerate(pipeline.funcs)}
    assert len(position) == 200 and all(position[p] < position[f] for p, f in graph.edges)
