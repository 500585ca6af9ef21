"""Differences of neighbours: gradients, time steps of a simulation, matching of two images."""

from __future__ import annotations

from dataclasses import replace

import autosched.lang.functions as fn
from autosched.lang.expr import Var
from autosched.lang.func import Func
from autosched.lang.rdom import RDom, argmin
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate
from autosched.random_pipelines.alignment import random_partner
from autosched.random_pipelines.graph import Graph, shifted_coordinate
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value

MOST_STEPS = 5


@kind("gradient", elementwise=0.3)
def gradient(g: Graph) -> Tensor | None:
    """Central differences along two dimensions: as a tuple, as magnitude, or as direction."""
    t = g.pick(lambda t: len(t.spatial) > 1 and g.fits(t.shape, terms=4))
    if t is None:
        return None
    source = g.readable(t, t.spatial[-2:])
    pair = []
    for d in t.spatial[-2:]:
        after, before = (ar.as_float(source.at(shifted_coordinate(d, i))) for i in (1, -1))
        pair.append(ar.times(ar.subtract(after, before), 0.5))
    if g.draw.chance(0.4):
        func = Func("gradient")
        func[tuple(Var(d) for d in t.dims)] = (pair[0].expr, pair[1].expr)
        parts = [replace(g.tensor(func, t.dims, t.shape, v.low, v.high), component=k) for k, v in enumerate(pair)]
        g.tensors.append(parts[0])
        return g.add(parts[1])
    a, b = map(ar.scaled_down, pair)
    if g.draw.chance(0.7):
        value = Value(fn.sqrt(a.expr * a.expr + b.expr * b.expr), 0.0, a.bound + b.bound)
    else:
        value = Value(fn.atan2(a.expr, b.expr), -4.0, 4.0)
    return g.add_stage("edges", t.extents, value)


@kind("time_step", time_step=0.4)
def time_step(g: Graph) -> Tensor | None:
    """One or several explicit steps of diffusion, or of a wave with the previous state."""
    t = g.pick(lambda t: len(t.spatial) > 1 and t.dtype.kind != "b" and g.fits(t.shape, terms=7 * MOST_STEPS))
    if t is None:
        return None
    before: Tensor | None = None
    rate = g.draw.integer(1, 4) / 32
    with_state = g.draw.chance(0.4)
    steps = g.draw.integer(1, MOST_STEPS)
    for k in range(steps):
        source = g.readable(t, t.spatial)
        centre = ar.as_float(source.at())
        around = [ar.as_float(source.at(shifted_coordinate(d, i))).expr for d in t.spatial for i in (-1, 1)]
        total = around[0]
        for e in around[1:]:
            total = total + e
        expr = centre.expr + (total - centre.expr * len(around)) * rate
        low, high = centre.low, centre.high
        if with_state and before is not None:
            last = ar.as_float(before.at())
            expr, low, high = expr * 0.75 + last.expr * 0.25, min(low, last.low), max(high, last.high)
        before = t
        value = Value(expr, low, high)
        t = g.add_stage("step", t.extents, value, visible=k == steps - 1)
    return t


@kind("local_match")
def local_match(g: Graph) -> Tensor | None:
    """Sums of absolute differences of two images in windows, for several displacements, and the best of them."""
    t = g.pick(lambda t: t.dims == ("y", "x") and t.dtype.kind != "b" and g.fits((*t.shape, 8), terms=49))
    if t is None:
        return None
    other = random_partner(g, t)
    if other is None or (other.dims, other.shape) != (t.dims, t.shape) or other.dtype.kind == "b":
        other = g.add_image(t.dims, t.shape)
    size, places = g.draw.pick((3, 5, 7)), g.draw.pick((4, 8, 5))
    a, b = g.readable(t, ("y", "x")), g.readable(other, ("y", "x"))
    r = RDom("w", y=size, x=size)
    y, x = Var("y") + (r.y - size // 2), Var("x") + (r.x - size // 2)
    left = ar.as_float(a.at({"y": y, "x": x}))
    right = ar.as_float(b.at({"y": y, "x": x + Var("z")}))
    value = ar.absolute(ar.subtract(left, right))
    shape = {"z": places, **t.extents}
    cost = accumulate(g, "cost", shape, value, r)
    d = RDom("d", z=places)
    best, _ = argmin(cost.at({"z": d.z}).expr, over=d)
    g.stages += 2
    g.operations += 2 * cost.points
    return g.add_stage("disparity", t.extents, Value(best, 0.0, places - 1.0))
