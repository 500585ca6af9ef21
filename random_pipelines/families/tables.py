"""Tables indexed by data: tone curves, colour tables, equalisation of histograms, thresholds by histograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import autosched.lang.functions as fn
import autosched.lang.rdom as rd
from autosched.lang.dtypes import as_dtype
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import Graph, value_range
from autosched.random_pipelines.operands import image, real
from autosched.random_pipelines.stages.gather import index_from
from autosched.random_pipelines.tensor import Tensor, Value

Curve = Callable[[Expr, int], Expr]

BYTES: Mapping[str, float] = {"uint8": 0.8, "uint16": 0.2}
SIZES = (64, 256, 256, 1024, 4096)
"""Entries of a table of values other than bytes."""
MOST_COUNTED = 40
"""Points of a histogram without parallel parts, in multiples of the limit of serial iterations."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram and its cumulative sums.

    Attributes:
        counts: Counts by bin, of the whole image or of each channel or plane.
        cumulative: Their cumulative sums.
        kept: Dimensions of channels or planes.
        points: Points of each histogram.
        bins: Number of bins.
    """

    counts: Tensor
    cumulative: Tensor
    kept: tuple[str, ...]
    points: int
    bins: int


@family("tables")
def tables(g: Graph) -> Tensor | None:
    """A table, and its values by the values of an image."""
    return TABLES[g.draw.weighted(TABLE_WEIGHTS)](g)


def _curve(g: Graph, size: int, dtype: str) -> Tensor:
    """Return a table of one dimension: an input, or computed by a formula."""
    low, high = value_range(g.draw, as_dtype(dtype))
    if g.draw.chance(0.4):
        return g.add_input(dtype, ("k",), (size,), low, high, "table")
    shape = CURVES[g.draw.integer(0, len(CURVES) - 1)](fn.cast(g.real, Var("k")), size)
    if as_dtype(dtype).is_float:
        return g.add_stage("curve", {"k": size}, Value(fn.cast(dtype, shape), -1.0, 1.0), visible=False)
    high = float(min(high, 255.0))
    shape = fn.cast(dtype, fn.clamp(fn.round(shape * high), 0.0, high))
    return g.add_stage("curve", {"k": size}, Value(shape, 0.0, high), visible=False)


def _index(g: Graph, t: Tensor) -> tuple[Expr, int]:
    """Return an index by the values of a tensor, and the size of its table."""
    if t.dtype.name == "uint8":
        return (t.at().expr if g.draw.chance(0.5) else fn.cast("int32", t.at().expr)), 256
    size = g.draw.pick(SIZES)
    return index_from(t.at(), size), size


def _tone(g: Graph) -> Tensor | None:
    """A tone curve for each value: bytes directly, other numbers by scaled or rounded indices; one to three in turn."""
    t = image(g, 6, BYTES if g.draw.chance(0.7) else None, prelude=False)
    if not g.fits(t.shape):
        return None
    for _ in range(g.draw.pick((1, 1, 1, 2, 3))):
        index, size = _index(g, t)
        dtype = g.draw.pick(("uint8", "uint8", g.real, "uint16"))
        value = _curve(g, size, dtype).at({"k": index})
        if g.draw.chance(0.2):  # blended with the image
            value = ar.add(ar.times(real(g, value), 0.75), ar.times(real(g, t.at()), 0.25))
        t = g.add_stage("looked_up", t.extents, value)
    return t


def _colour(g: Graph) -> Tensor | None:
    """A table for each channel, or one of three dimensions for all channels together."""
    t = image(g, 12, BYTES, layouts={("y", "x", "c"): 0.7, ("c", "y", "x"): 0.3}, prelude=False)
    if t.dtype.name != "uint8" or t["c"] < 3 or g.draw.chance(0.5):
        index, size = _index(g, t)
        table = g.add_input(g.draw.pick(("uint8", g.real)), ("c", "k"), (t["c"], size), 0.0, 100.0, "table")
        return g.add_stage("toned", t.extents, table.at({"k": index}))
    bits = g.draw.pick((3, 4, 5))
    n = 1 << bits
    table = g.add_input(g.draw.pick(("uint8", g.real)), ("i", "j", "k", "c"), (n, n, n, 3), 0.0, 200.0, "cube")
    at = {d: fn.cast("int32", t.at({"c": k}).expr >> (8 - bits)) for k, d in enumerate("ijk")}
    return g.add_stage("graded", t.extents | {"c": 3}, table.at(at))


def _interpolated(g: Graph) -> Tensor | None:
    """Linear interpolation between entries of a table at real indices."""
    t = image(g, 12)
    size = g.draw.pick((16, 33, 64, 256, 1024))
    table = _curve(g, size, g.real)
    x = real(g, t.at())
    span = max(x.high - x.low, 1.0 / 64)
    place = (x.expr - x.low) * ((size - 1) / span)
    below = fn.clamp(fn.cast("int32", place), 0, size - 2)
    weight = fn.clamp(place - fn.cast(g.real, below), 0.0, 1.0)
    near, far = table.at({"k": below}), table.at({"k": below + 1})
    return g.add_stage("interpolated", t.extents, Value(fn.lerp(near.expr, far.expr, weight), near.low, near.high))


def _histogram(g: Graph, t: Tensor) -> Histogram:
    """Add a histogram of bytes, of all points or of each plane, in one update or of rows first; and its sums."""
    kept = tuple(d for d in t.dims if d in "nc" and g.draw.chance(0.4))
    counted = {d: n for d, n in t.extents.items() if d not in kept}
    shape = {d: t[d] for d in kept}
    points = t.points
    for d in kept:
        points //= t[d]
    bins = 256 if t.dtype.name == "uint8" else 64

    def bin_of(at: Mapping[str, Expr]) -> Expr:
        return fn.cast("int32", t.at(at).expr) if bins == 256 else index_from(t.at(at), bins)

    if g.draw.chance(0.5) and points <= MOST_COUNTED * g.settings.max_serial:
        r = RDom("r", **counted)
        func = Func("counts")
        func[(*map(Var, kept), Var("b"))] = fn.cast("int32", 0)
        func[(*map(Var, kept), bin_of({d: getattr(r, d) for d in counted}))] += 1
        counts = g.add(_binned(g, func, shape, bins, points), visible=False, terms=max(points // bins, 1))
    else:
        r, rows = RDom("r", x=t["x"]), RDom("rows", y=t["y"])
        others = [d for d in counted if d not in "yx"]
        part, func = Func("row_counts"), Func("counts")
        own = {**shape, **{d: t[d] for d in others}, "y": t["y"]}
        part[(*map(Var, own), Var("b"))] = fn.cast("int32", 0)
        part[(*map(Var, own), bin_of({"x": r.x}))] += 1
        g.add(_binned(g, part, own, bins, t["x"]), visible=False)
        r2 = RDom("planes", **{d: t[d] for d in others}) if others else None
        func[(*map(Var, kept), Var("b"))] = fn.cast("int32", 0)
        at = {"y": rows.y, **({d: getattr(r2, d) for d in others} if r2 is not None else {})}
        value = part[(*(at.get(d, Var(d)) for d in own), Var("b"))]
        loops = rows.vars if r2 is None else (*r2.vars, *rows.vars)
        func.update((*map(Var, kept), Var("b")), func[(*map(Var, kept), Var("b"))] + value, over=loops)
        counts = g.add(_binned(g, func, shape, bins, points), visible=False, terms=t["y"])
    source = counts
    if g.draw.chance(0.3):  # limited contrast
        clipped = fn.min(counts.at().expr, max(2 * points // bins, 1))
        source = g.add_stage("clipped", counts.extents, Value(clipped, 0.0, points), visible=False)
    sums, k = Func("cumulative"), RDom("k", b=(1, bins))
    at_bin = (*map(Var, kept), k.b)
    sums[(*map(Var, kept), Var("b"))] = source.at().expr
    sums[at_bin] += sums[(*map(Var, kept), k.b - 1)]
    cumulative = g.add(_binned(g, sums, shape, bins, points), visible=False, terms=2)
    return Histogram(counts, cumulative, kept, points, bins)


def _binned(g: Graph, func: Func, shape: Mapping[str, int], bins: int, high: int) -> Tensor:
    return g.tensor(func, (*shape, "b"), (*shape.values(), bins), 0.0, float(high))


def _equalised(g: Graph) -> Tensor | None:
    """Equalisation: a table of the scaled cumulative histogram, and its values by the image."""
    t = image(g, 8, BYTES, prelude=False)
    if t.points // t["x"] > g.settings.max_serial or not g.fits(t.shape, terms=4):
        return None
    h = _histogram(g, t)
    here = h.cumulative.at().expr
    whole: Expr = h.cumulative.at({"b": h.bins - 1}).expr
    first: Expr = fn.cast("int32", 0)
    if g.draw.chance(0.5):  # the count of the first occupied bin
        m = RDom("m", b=h.bins)
        at_m = (*map(Var, h.kept), m.b)
        occupied = fn.select(h.counts.source[at_m] > 0, h.cumulative.source[at_m], h.points)
        first = rd.minimum(occupied, over=m, name="first")
        g.stages += 2
    scale = 255.0 / fn.cast(g.real, fn.max(whole - first, 1))
    level = fn.clamp(fn.round(fn.cast(g.real, here - first) * scale), 0.0, 255.0)
    keeps_bytes = g.draw.chance(0.75)
    table = g.add_stage(
        "table", h.cumulative.extents, Value(fn.cast("uint8", level) if keeps_bytes else level, 0.0, 255.0),
        visible=False,
    )  # fmt: skip
    index = fn.cast("int32", t.at().expr) if h.bins == 256 else index_from(t.at(), h.bins)
    return g.add_stage("equalised", t.extents, table.at({"b": index}))


def _threshold(g: Graph) -> Tensor | None:
    """A threshold found from a histogram, by the largest variance between classes (Otsu) or a share of points."""
    t = image(g, 8, BYTES, layouts={("y", "x"): 0.7, ("n", "y", "x"): 0.3}, prelude=False)
    if t.points // t["x"] > g.settings.max_serial or not g.fits(t.shape, terms=4):
        return None
    h = _histogram(g, t)
    shape = {d: t[d] for d in h.kept}
    m = RDom("m", b=h.bins)
    at_m = {"b": m.b}
    if g.draw.chance(0.5):
        share = h.points * g.draw.integer(1, 15) // 16
        below = rd.sum(fn.cast("int32", h.cumulative.at(at_m).expr <= share), over=m, name="below")
        level = g.add_stage("level", shape, Value(below, 0.0, float(h.bins)), visible=False)
    else:
        moments, k = Func("moments"), RDom("k", b=(1, h.bins))
        point = (*map(Var, h.kept), Var("b"))
        moments[point] = fn.cast(g.real, h.counts.at().expr) * fn.cast(g.real, Var("b")) * (1.0 / h.points)
        moments[(*map(Var, h.kept), k.b)] += moments[(*map(Var, h.kept), k.b - 1)]
        sums = g.add(g.tensor(moments, h.cumulative.dims, h.cumulative.shape, 0.0, 256.0), visible=False, terms=2)
        share_of = fn.cast(g.real, h.cumulative.at().expr) * (1.0 / h.points)
        mean = sums.at().expr
        away = sums.at({"b": h.bins - 1}).expr * share_of - mean
        between = away * away / fn.max(share_of * (1.0 - share_of), 1.0 / 1024)
        curve = g.add_stage("between", h.cumulative.extents, Value(between, 0.0, 1 << 19), visible=False)
        place, _ = rd.argmax(curve.at(at_m).expr, over=m)
        g.stages += 2
        level = g.add_stage("level", shape, Value(place, 0.0, h.bins - 1.0), visible=False)
    index = fn.cast("int32", t.at().expr) if h.bins == 256 else index_from(t.at(), h.bins)
    above = index > fn.cast("int32", level.at().expr)
    value = Value(above, 0.0, 1.0)
    if g.draw.chance(0.5):
        value = Value(fn.cast("uint8", fn.select(above, 255, 0)), 0.0, 255.0)
    return g.add_stage("mask", t.extents, value)


CURVES: tuple[Curve, ...] = (
    lambda k, n: fn.sqrt(k * (1.0 / n)),
    lambda k, n: fn.pow(k * (1.0 / n), 1 / 2.2),
    lambda k, n: fn.tanh(k * (4.0 / n) - 2.0),
    lambda k, n: k * (2.0 / n) - k * k * (1.0 / (n * n)),
)
TABLES: Mapping[str, Callable[[Graph], Tensor | None]] = {
    "tone": _tone,
    "colour": _colour,
    "interpolated": _interpolated,
    "equalised": _equalised,
    "threshold": _threshold,
}
TABLE_WEIGHTS: Mapping[str, float] = {
    "tone": 2.0, "colour": 1.0, "interpolated": 1.0, "equalised": 2.0, "threshold": 1.0
}  # fmt: skip
