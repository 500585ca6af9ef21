"""Ranks of neighbours by networks of minima and maxima, and small morphology, mostly in narrow integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import autosched.lang.functions as fn
from autosched.lang.expr import Expr, Var
from autosched.lang.median import median
from autosched.lang.rdom import RDom
from autosched.lang.selection_network import merge_exchange, selection_network
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import BOUNDARIES, Graph
from autosched.random_pipelines.operands import image, narrow_types
from autosched.random_pipelines.tensor import Tensor, Value

Filter = Callable[[Graph, Tensor, str], Tensor]

Offsets = tuple[tuple[int, int], ...]

CROSS: Offsets = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
PLANE: Offsets = tuple((j, i) for j in (-1, 0, 1) for i in (-1, 0, 1))
LINE: Offsets = ((0, -1), (0, 0), (0, 1))
LONG_LINE: Offsets = tuple((0, i) for i in range(-3, 4))
RANKED: tuple[Offsets, ...] = (PLANE, PLANE, CROSS, LONG_LINE)
ELEMENTS: tuple[Offsets, ...] = (PLANE, CROSS, CROSS, LINE)


@family("rank_filters")
def rank_filters(g: Graph) -> Tensor | None:
    """One to three filters of ranks or extremes in turn."""
    how = g.draw.weighted(FILTER_WEIGHTS)
    types = {**narrow_types(g), "float32": 0.1} if g.real == "float32" else narrow_types(g)
    t = image(g, FILTER_COSTS[how], types, prelude=False)
    if g.draw.chance(0.15):  # the mean of the channels or of two neighbours, before ranks are taken
        half = t.at({"x": fn.min(Var("x") + 1, t["x"] - 1)})
        wide = "int32" if t.dtype.is_int else t.dtype
        total = ar.add(ar.converted(t.at(), wide), ar.converted(half, wide))
        half_value = total.expr // 2 if t.dtype.is_int else total.expr * 0.5
        t = g.add_stage("mean", t.extents, Value(fn.cast(t.dtype, half_value), t.low, t.high), visible=False)
    for _ in range(g.draw.pick((1, 1, 2, 3))):
        boundary = g.draw.pick(BOUNDARIES)
        if not g.fits(t.shape, terms=FILTER_COSTS[how] // 2):
            return None
        t = FILTERS[how](g, t, boundary)
        how = g.draw.pick(("median3", "cross", "morphology", "limit"))
    return t


def _neighbours(t: Tensor, offsets: Offsets) -> list[Expr]:
    return [t.at({"y": Var("y") + j, "x": Var("x") + i}).expr for j, i in offsets]


def _median(g: Graph, t: Tensor, boundary: str, sizes: dict[str, int]) -> Tensor:
    """The median of a window by the idiom of the language."""
    source = g.bounded(t, boundary, list(sizes))
    result = g.tensor(median(source.source, name="median", **sizes), t.dims, t.shape, source.low, source.high)
    return g.add(result, terms=4)


def _median3(g: Graph, t: Tensor, boundary: str) -> Tensor:
    return _median(g, t, boundary, {"y": 3, "x": 3})


def _median5(g: Graph, t: Tensor, boundary: str) -> Tensor:
    sizes = g.draw.pick(({"y": 5, "x": 5}, {"y": 3, "x": 5}, {"y": 5, "x": 1}, {"y": 1, "x": 5}))
    return _median(g, t, boundary, sizes)


def _ranks(g: Graph, t: Tensor, boundary: str) -> Tensor:
    """An element of any rank of nine or five, by a network in one expression; or the mean of the middle ones."""
    offsets = g.draw.pick(RANKED)
    source = g.bounded(t, boundary, ["y", "x"])
    n = len(offsets)
    ranks: tuple[int, ...] = (n // 2,) if g.draw.chance(0.5) else (g.draw.integer(0, n - 1),)
    trimmed = g.draw.chance(0.2)
    ranks = tuple(range(1, n - 1)) if trimmed else ranks
    network = merge_exchange(n) if g.draw.chance(0.2) else selection_network(n, ranks)
    wires = _neighbours(source, offsets)
    for i, j in network:
        wires[i], wires[j] = fn.min(wires[i], wires[j]), fn.max(wires[i], wires[j])
    if not trimmed:
        return g.add_stage("rank", t.extents, Value(wires[ranks[0]], source.low, source.high))
    wide = "int32" if t.dtype.is_int else t.dtype
    total = fn.cast(wide, wires[1])
    for k in ranks[1:]:
        total = total + fn.cast(wide, wires[k])
    value = total // len(ranks) if t.dtype.is_int else total * (1.0 / len(ranks))
    return g.add_stage("trimmed_mean", t.extents, Value(fn.cast(t.dtype, value), source.low, source.high))


def _bisection(g: Graph, t: Tensor, boundary: str) -> Tensor:
    """A rank of a window of bytes by bisection of bits: counts of smaller elements, a Func for each bit."""
    if t.dtype.name != "uint8":
        return _ranks(g, t, boundary)
    size = g.draw.pick((3, 5))
    source = g.bounded(t, boundary, ["y", "x"])
    rank = size * size // 2 if g.draw.chance(0.7) else g.draw.integer(0, size * size - 1)
    level: Expr = fn.cast("int32", 0)
    for bit in reversed(range(8)):
        w = RDom("w", j=(-(size // 2), size // 2 + 1), i=(-(size // 2), size // 2 + 1))
        candidate = level + (1 << bit)
        element = source.at({"y": Var("y") + w.j, "x": Var("x") + w.i}).expr
        smaller = Value(fn.cast("int32", fn.cast("int32", element) < candidate), 0.0, 1.0)
        count = accumulate(g, "count", t.extents, smaller, w, visible=False).at()
        value = Value(fn.select(count.expr <= rank, candidate, level), 0.0, 255.0)
        level = g.add_stage(f"bits_{bit}", t.extents, value, visible=False).at().expr
    return g.add_stage("rank", t.extents, Value(fn.cast("uint8", level), 0.0, 255.0))


def _morphology(g: Graph, t: Tensor, boundary: str) -> Tensor:
    """Dilation, erosion, opening, closing, gradient or top hat with a small element, written out."""
    offsets = g.draw.pick(ELEMENTS)
    how = g.draw.pick(("single", "double", "double", "gradient", "hat"))
    first, second = (fn.min, fn.max) if g.draw.chance(0.5) else (fn.max, fn.min)
    low = _extreme(g, t, boundary, offsets, first)
    if how == "gradient":
        high = _extreme(g, t, boundary, offsets, second)
        return g.add_stage("gradient", t.extents, _distance(high.at(), low.at()))
    if how == "single":
        g.tensors.append(low)
        return low
    both = _extreme(g, low, boundary, offsets, second)
    if how == "hat":
        return g.add_stage("hat", t.extents, _distance(t.at(), both.at()))
    g.tensors.append(both)
    return both


def _extreme(g: Graph, t: Tensor, boundary: str, offsets: Offsets, extreme: Callable[[Expr, Expr], Expr]) -> Tensor:
    source = g.bounded(t, boundary, ["y", "x"])
    values = _neighbours(source, offsets)
    value = values[0]
    for v in values[1:]:
        value = extreme(value, v)
    return g.add_stage("extreme", t.extents, Value(value, source.low, source.high), visible=False)


def _limit(g: Graph, t: Tensor, boundary: str) -> Tensor:
    """A point limited by the extremes of its neighbours (despeckling), or the mean of those."""
    source = g.bounded(t, boundary, ["y", "x"])
    centre, *around = _neighbours(source, CROSS if g.draw.chance(0.5) else ((0, 0), *(p for p in PLANE if p != (0, 0))))
    low = high = around[0]
    for v in around[1:]:
        low, high = fn.min(low, v), fn.max(high, v)
    value = fn.clamp(centre, low, high)
    if g.draw.chance(0.3):
        wide = "int32" if t.dtype.is_int else t.dtype
        total = fn.cast(wide, low) + fn.cast(wide, high)
        value = fn.cast(t.dtype, total // 2 if t.dtype.is_int else total * 0.5)
    return g.add_stage("limited", t.extents, Value(value, source.low, source.high))


def _distance(a: Value, b: Value) -> Value:
    return ar.with_range(Value(fn.absd(a.expr, b.expr), 0.0, max(a.high - b.low, b.high - a.low)))


def _cross(g: Graph, t: Tensor, boundary: str) -> Tensor:
    """The median of a point and its four neighbours."""
    source = g.bounded(t, boundary, ["y", "x"])
    wires = _neighbours(source, CROSS)
    for i, j in selection_network(5, (2,)):
        wires[i], wires[j] = fn.min(wires[i], wires[j]), fn.max(wires[i], wires[j])
    return g.add_stage("median", t.extents, Value(wires[2], source.low, source.high))


FILTERS: Mapping[str, Filter] = {
    "median3": _median3,
    "median5": _median5,
    "ranks": _ranks,
    "cross": _cross,
    "bisection": _bisection,
    "morphology": _morphology,
    "limit": _limit,
}
FILTER_WEIGHTS: Mapping[str, float] = {
    "median3": 2.0, "median5": 1.5, "ranks": 2.0, "cross": 0.5, "bisection": 0.7, "morphology": 2.0, "limit": 1.0
}  # fmt: skip
FILTER_COSTS: Mapping[str, int] = {
    "median3": 40, "median5": 200, "ranks": 40, "cross": 20, "bisection": 400, "morphology": 30, "limit": 20
}  # fmt: skip
"""Operations of a filter at each point."""
