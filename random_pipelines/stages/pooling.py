"""Windows reduced to one value: pooling and morphology."""

from __future__ import annotations

import itertools
from math import prod

from autosched.lang.rdom import RDom
from autosched.random_pipelines.accumulate import Reduction, accumulate, mean, unrolled
from autosched.random_pipelines.arithmetic import accumulable, converted, narrowed_type, numeric
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value
from autosched.random_pipelines.window import StencilWindow, window

MAX_UNROLLED = 9


@kind("pool", conv2d=0.2, conv_channels=0.3)
def pool(g: Graph) -> Tensor | None:
    """The mean or maximum of windows that do not overlap, or overlap a little."""
    t = g.pick(lambda t: sum(t[d] >= 4 for d in t.spatial) >= 2 and g.fits(t.shape, terms=4))
    if t is None:
        return None
    size = g.draw.pick((2, 2, 3, 4))
    stride = g.draw.pick((size, size, 2))
    dims = [d for d in t.spatial if t[d] >= 4][-2:]
    w = window(g, t, dict.fromkeys(dims, size), stride=stride)
    return None if w is None else _reduced(g, w, g.draw.pick(("sum", "max")), "pool")


@kind("morphology")
def morphology(g: Graph) -> Tensor | None:
    """Dilation or erosion: the maximum or minimum of each point's neighbours; one dimension, two, or three."""
    t = g.pick(lambda t: any(t[d] > 2 for d in t.spatial) and g.fits(t.shape, terms=49))
    if t is None:
        return None
    size = g.draw.pick((3, 3, 5, 7))
    dims = [d for d in t.spatial if t[d] >= size]
    dims = dims if g.draw.chance(0.6) else dims[-1:]
    if not dims or not g.fits(t.shape, terms=size ** len(dims)):
        return None
    w = window(g, t, dict.fromkeys(dims, size))
    return None if w is None else _reduced(g, w, g.draw.pick(("max", "min")), "morphology")


def _reduced(g: Graph, w: StencilWindow, how: Reduction, name: str) -> Tensor:
    """Return a window's mean, maximum or minimum, unrolled if it is small."""
    points, dtype = prod(w.taps.values()), w.source.dtype

    def finish(total: Value) -> Value:
        return narrowed_type(g.draw, mean(points)(total), dtype) if how == "sum" else total

    if points <= MAX_UNROLLED and g.draw.chance(0.5):
        taps = itertools.product(*(range(n) for n in w.taps.values()))
        values = [numeric(w.at(dict(zip(w.taps, tap, strict=True)))) for tap in taps]
        if how == "sum":
            wide = accumulable(g.draw, values[0], points).dtype
            values = [converted(v, wide) for v in values]
        return g.add_stage(name, w.shape, finish(unrolled(values, how)))
    r = RDom("w", **w.taps)
    value = w.at({d: getattr(r, d) for d in w.taps})
    return accumulate(g, name, w.shape, value, r, kind=how, finish=finish)
