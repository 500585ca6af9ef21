"""Resampling: nearest neighbour, linear interpolation, averages."""

from __future__ import annotations

import itertools

from autosched.lang.expr import ExprLike, Var
from autosched.lang.functions import cast, clamp, lerp, select
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import unrolled
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value
from autosched.random_pipelines.window import window

TRIANGLE = (0.25, 0.75, 0.75, 0.25)


@kind("downsample")
def downsample(g: Graph) -> Tensor | None:
    """Half, a third or a quarter of the resolution in some dimensions: every n-th point, a mean, or a filter."""
    t = g.pick(lambda t: bool(t.spatial) and min(t[d] for d in t.spatial) >= 8)
    if t is None:
        return None
    factor = g.draw.pick((2, 2, 2, 3, 4))
    dims = list(t.spatial) if g.draw.chance(0.7) else [g.draw.pick(t.spatial)]
    if g.draw.chance(0.35):
        at = {d: Var(d) * factor for d in dims}
        shape = {d: -(-n // factor) if d in dims else n for d, n in t.extents.items()}
        return g.add_stage("nearest_down", shape, t.at(at))
    return shrunk(g, t, dims, factor, filtered=g.draw.chance(0.5))


def shrunk(g: Graph, t: Tensor, dims: list[str], factor: int, *, filtered: bool, visible: bool = True) -> Tensor:
    """Return a tensor at a lower resolution in some dimensions.

    Args:
        g: The graph.
        t: The tensor.
        dims: Its dimensions.
        factor: Points of the tensor for each point of the result.
        filtered: Whether a separable filter of four points is used instead of the mean of a box.
        visible: Whether other stages may read the result.
    """
    if not filtered:
        w = window(g, t, dict.fromkeys(dims, factor), stride=factor)
        if w is not None and factor ** len(dims) <= 16:
            taps = itertools.product(range(factor), repeat=len(dims))
            values = [ar.as_float(w.at(dict(zip(dims, tap, strict=True)))) for tap in taps]
            value = ar.narrowed_type(g.draw, ar.times(unrolled(values, "sum"), 1.0 / len(values)), t.dtype)
            return g.add_stage("box_down", w.shape, value, visible=visible)
    for k, d in enumerate(dims):
        w = window(g, t, {d: min(len(TRIANGLE), t[d])}, stride=factor)
        if w is None:
            break
        values = [ar.times(ar.as_float(w.at({d: i})), TRIANGLE[i] / 2) for i in range(w.taps[d])]
        last = k == len(dims) - 1
        t = g.add_stage(f"down_{d}", w.shape, unrolled(values, "sum"), visible=visible and last)
    return t


@kind("upsample")
def upsample(g: Graph) -> Tensor | None:
    """A multiple of the resolution in some dimensions: nearest neighbour or linear interpolation."""
    factor = g.draw.pick((2, 2, 2, 3, 4))
    t = g.pick(lambda t: bool(t.spatial) and g.fits([n * factor for n in t.shape]))
    if t is None:
        return None
    dims = list(t.spatial) if g.draw.chance(0.7) else [g.draw.pick(t.spatial)]
    if not g.fits([n * factor if d in dims else n for d, n in t.extents.items()]):
        return None
    if g.draw.chance(0.4):
        shape = {d: n * factor if d in dims else n for d, n in t.extents.items()}
        return g.add_stage("nearest_up", shape, t.at({d: Var(d) // factor for d in dims}))
    return enlarged(g, t, {d: t[d] * factor for d in dims}, factor)


def enlarged(g: Graph, t: Tensor, extents: dict[str, int], factor: int, *, visible: bool = True) -> Tensor:
    """Return a tensor at a higher resolution, interpolated along one dimension after the other.

    Args:
        g: The graph.
        t: The tensor.
        extents: The new extents of the dimensions that become longer.
        factor: Points of the result for each point of the tensor.
        visible: Whether other stages may read the result.
    """
    for k, (d, extent) in enumerate(extents.items()):
        source = g.readable(t, [d])
        x = Var(d)
        near, far = (ar.as_float(source.at({d: x // factor + i})) for i in (0, 1))
        if factor == 2 and g.draw.chance(0.5):
            expr = select(x % 2 == 0, near.expr, (near.expr + far.expr) * 0.5)
        else:
            expr = lerp(near.expr, far.expr, cast("float32", x % factor) * (1.0 / factor))
        shape = {e: extent if e == d else n for e, n in t.extents.items()}
        last = k == len(extents) - 1
        value = ar.narrowed_type(g.draw, Value(expr, source.low, source.high), t.dtype)
        t = g.add_stage(f"up_{d}", shape, value, visible=visible and last)
    return t


@kind("bilinear_warp")
def bilinear_warp(g: Graph) -> Tensor | None:
    """An image resampled at any scale or by a field of displacements: four reads at computed indices."""
    t = g.pick(lambda t: len(t.spatial) > 1 and t.dtype.kind != "b" and min(t[d] for d in t.spatial[-2:]) > 2)
    if t is None:
        return None
    rows, columns = t.spatial[-2:]
    shape = t.extents
    fractions: dict[str, Value] = {}
    if g.draw.chance(0.5):
        for d in (rows, columns):
            shape[d] = max(t[d] * g.draw.integer(6, 30) // 16, 1)
            fractions[d] = Value(cast("float32", Var(d)) * (t[d] / shape[d]), 0.0, float(t[d]))
    else:
        plane = (shape[rows], shape[columns])
        for d in (rows, columns):
            flow = g.add_input("float32", (rows, columns), plane, -8.0, 8.0, "flow")
            fractions[d] = ar.add(flow.at(), Value(cast("float32", Var(d)), 0.0, float(t[d])))
    if not g.fits(shape.values(), terms=4):
        return None
    value = _interpolated(t, fractions)
    return g.add_stage("warped", shape, value)


def _interpolated(t: Tensor, places: dict[str, Value], fixed: dict[str, ExprLike] | None = None) -> Value:
    """Return a tensor's value between points; ``fixed`` are its indices in the other dimensions."""
    if not places:
        return ar.as_float(t.at(fixed))
    d = next(iter(places))
    rest = {e: v for e, v in places.items() if e != d}
    below = clamp(cast("int32", places[d].expr), 0, t[d] - 2)
    weight = clamp(places[d].expr - cast("float32", below), 0.0, 1.0)
    near = _interpolated(t, rest, {**(fixed or {}), d: below})
    far = _interpolated(t, rest, {**(fixed or {}), d: below + 1})
    return Value(lerp(near.expr, far.expr, weight), near.low, near.high)
