"""Schedules, programs and texts over billions of points take no more memory than those over a few.

Nothing runs. A data structure proportional to an extent would take gigabytes; the peak of traced memory shows it.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, maximum
from autosched.lang.expr import Expr
from autosched.target import get_target

x, y, z, i = Var("x"), Var("y"), Var("z"), Var("i")
Shape = tuple[int, int, int]
Shapes = dict[str, tuple[int, ...]]
Case = tuple[Pipeline, Shapes]

EXTENTS = (2**31 - 1, 2**31, 2**32 + 1)
TARGETS = {name: replace(get_target(name), memory_bytes=1 << 60) for name in ("cpu", "h200")}
"""With memory for all arrays, whatever the machine has."""
MOST_BYTES = 200 << 20


def shape_with(axis: int, n: int) -> Shape:
    return (n if axis == 0 else 2, n if axis == 1 else 2, n if axis == 2 else 2)


def over(f: Func, shape: Shape) -> Pipeline:
    return Pipeline(f.over(z=(0, shape[0]), y=(0, shape[1]), x=(0, shape[2])))


def at(axis: int, index: Callable[[Var], Expr]) -> tuple[Expr | Var, ...]:
    """Return the indices of a point with another one in one dimension."""
    return tuple(index(v) if k == axis else v for k, v in enumerate((z, y, x)))


def copies(axis: int, n: int) -> Case:
    a, f = Input("a", "uint8", 3), Func("f")
    f[z, y, x] = a[z, y, x] + 1
    return Pipeline(f), {"a": shape_with(axis, n)}


def coordinates(axis: int, n: int) -> Case:
    f = Func("f")
    f[z, y, x] = cast("uint8", (x + 3 * y + 7 * z) % 251)
    return over(f, shape_with(axis, n)), {}


def stencils(kind: str) -> Callable[[int, int], Case]:
    def case(axis: int, n: int) -> Case:
        a, f, g = Input("a", "uint8", 3), Func("f"), Func("g")
        around = getattr(a, kind)()
        before, after = at(axis, lambda v: v - 1), at(axis, lambda v: v + 1)
        f[z, y, x] = around[before] + around[z, y, x] + around[after]
        g[z, y, x] = f[before] + f[after]
        return over(g, shape_with(axis, n)), {"a": shape_with(axis, n)}

    return case


def resampled(axis: int, n: int) -> Case:
    a, f, g = Input("a", "uint8", 3), Func("f"), Func("g")
    around = a.clamped()
    f[z, y, x] = around[at(axis, lambda v: 2 * v)] + around[at(axis, lambda v: 2 * v + 1)]
    g[z, y, x] = f[at(axis, lambda v: v // 2)] * 2
    return over(g, shape_with(axis, n)), {"a": shape_with(axis, n)}


def flat_indices(axis: int, n: int) -> Case:
    a, f = Input("a", "uint8", 3), Func("f")
    shape = shape_with(axis, n)
    f[i] = a[i // (shape[1] * shape[2]), i // shape[2] % shape[1], i % shape[2]] + 1
    return Pipeline(f.over(i=(0, shape[0] * shape[1] * shape[2]))), {"a": shape}


def sums(axis: int, n: int) -> Case:
    a, s = Input("a", "uint8", 3), Func("s")
    r = RDom("r", k=a.shape[0], j=a.shape[1], i=a.shape[2])
    s[()] = cast("int64", 0)
    s[()] += cast("int64", a[r.k, r.j, r.i])
    return Pipeline(s), {"a": shape_with(axis, n)}


def maxima_along(axis: int, n: int) -> Case:
    a, s = Input("a", "uint8", 3), Func("s")
    r = RDom("r", i=a.shape[axis])
    others = tuple(v for k, v in enumerate((z, y, x)) if k != axis)
    s[others] = maximum(a[at(axis, lambda v: r.i)], r)
    return Pipeline(s.over(**{v.name: (0, 2) for v in others})), {"a": shape_with(axis, n)}


def histograms(axis: int, n: int) -> Case:
    a, h = Input("a", "uint8", 3), Func("h")
    r = RDom("r", k=a.shape[0], j=a.shape[1], i=a.shape[2])
    h[i] = cast("int64", 0)
    h[cast("int32", a[r.k, r.j, r.i])] += cast("int64", 1)
    return Pipeline(h.over(i=(0, 256))), {"a": shape_with(axis, n)}


def scans(axis: int, n: int) -> Case:
    a, f = Input("a", "uint8", 3), Func("f")
    r = RDom("r", i=(1, n))
    f[z, y, x] = a[z, y, x]
    f[at(axis, lambda v: r.i)] = f[at(axis, lambda v: r.i)] + f[at(axis, lambda v: r.i - 1)]
    return over(f, shape_with(axis, n)), {"a": shape_with(axis, n)}


def gathers(axis: int, n: int) -> Case:
    a, where, f = Input("a", "uint8", 3), Input("where", "int64", 1), Func("f")
    f[i] = a[tuple(clamp(where[i], 0, n - 1) if k == axis else 1 for k in range(3))] + 1
    return Pipeline(f.over(i=(0, 1000))), {"a": shape_with(axis, n), "where": (1000,)}


def matrix_products(axis: int, n: int) -> Case:
    a, b, c = Input("a", "uint8", 2), Input("b", "uint8", 2), Func("c")
    rows, columns, terms = (n if k == axis else 8 for k in range(3))
    r = RDom("r", k=terms)
    c[y, x] = cast("uint8", 0)
    c[y, x] += a[y, r.k] * b[r.k, x]
    return Pipeline(c.over(y=(0, rows), x=(0, columns))), {"a": (rows, terms), "b": (terms, columns)}


CASES: dict[str, Callable[[int, int], Case]] = {
    "copies": copies, "coordinates": coordinates, "resampled": resampled, "flat indices": flat_indices, "sums": sums,
    "maxima": maxima_along, "histograms": histograms, "scans": scans, "gathers": gathers,
    "matrix products": matrix_products,
    **{kind: stencils(kind) for kind in ("clamped", "mirrored", "mirrored_without_edge", "wrapped")},
}  # fmt: skip


def assert_scheduled(name: str, axis: int, extent: int, target: str, strategy: str | None) -> None:
    """Schedule, lower and print a case, and check the peak of memory that it takes."""
    pipeline, shapes = CASES[name](axis, extent)
    tracemalloc.start()
    try:
        scheduled = autosched.schedule(pipeline, shapes, TARGETS[target], strategy=strategy, samples=2, reuse=False)
        texts = scheduled.source("cpu" if target == "cpu" else "cuda"), scheduled.text()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST_BYTES
    assert all(len(text) < 1 << 20 for text in texts)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("name", CASES)
def test_roots_over_billions_of_points(name: str, axis: int, target: str) -> None:
    assert_scheduled(name, axis, 2**32 + 1, target, "roots")


@pytest.mark.parametrize("strategy", ["beam", "sioutas"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["copies", "sums"])
def test_search_over_billions_of_points(name: str, target: str, strategy: str) -> None:
    assert_scheduled(name, 2, 2**32 + 1, target, strategy)


@pytest.mark.fuzz
@pytest.mark.parametrize("strategy", ["roots", "beam", "sioutas", None])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("name", CASES)
def test_all_strategies(name: str, axis: int, extent: int, target: str, strategy: str | None) -> None:
    assert_scheduled(name, axis, extent, target, strategy)


def test_more_blocks_than_a_grid_has() -> None:
    """Two of three block loops are longer than y and z of a grid: all are folded into x."""
    f = Func("f")
    f[z, y, x] = cast("uint8", (x + y + z) % 251)
    pipeline = Pipeline(f.over(z=(0, 70_000), y=(0, 90), x=(0, 64)))
    scheduled = autosched.schedule(pipeline, {}, TARGETS["h200"], strategy="roots", reuse=False)
    assert "(int)blockIdx.x" in scheduled.source("cuda") and "blockIdx.z" not in scheduled.source("cuda")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2**32 + 1, 300), (3 * 2**32, 70), (2**33, 2)])
def test_roots_with_more_blocks_than_a_grid_has_in_all(shape: tuple[int, int], target: str) -> None:
    """Threads have several points, of rows too where columns are few."""
    a, f = Input("a", "uint8", 2), Func("f")
    f[y, x] = a[y, x] + 1
    pipeline = Pipeline(f.over(y=(0, shape[0]), x=(0, shape[1])))
    autosched.schedule(pipeline, {"a": shape}, TARGETS[target], strategy="roots", reuse=False).source()
