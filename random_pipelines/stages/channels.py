"""Stages over channels: convolutions of all channels, mixes at one point, concatenation."""

from __future__ import annotations

import autosched.lang.functions as fn
from autosched.lang.expr import Const, Expr, ExprLike, Var
from autosched.lang.rdom import RDom
from autosched.random_pipelines.accumulate import accumulate, unrolled
from autosched.random_pipelines.arithmetic import as_float, converted, rescaled_if_large, times
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.sizes import channel_count
from autosched.random_pipelines.stages.layout import with_extent
from autosched.random_pipelines.tensor import Tensor, Value
from autosched.random_pipelines.weights import bias_for, weighted, weights_for
from autosched.random_pipelines.window import window

MAX_MIXED = 4
"""Most channels of a mix with constant coefficients."""


@kind("conv_channels", activation=0.7)
def conv_channels(g: Graph) -> Tensor | None:
    """A convolution layer: every output channel from a window of all input channels."""
    t = g.pick(lambda t: "c" in t.dims and sum(t[d] > 2 for d in t.spatial) >= 2 and t.points > 0)
    if t is None:
        return None
    out, size = channel_count(g.draw, g.settings), g.draw.pick((3, 3, 3, 1, 5))
    stride = g.draw.pick((1, 1, 1, 2))
    dims = [d for d in t.spatial if t[d] > 2][-2:]
    terms = t["c"] * size * size
    while out > 1 and not g.fits(with_extent(t.extents, "c", out).values(), terms=terms):
        out //= 2
    if not g.fits(with_extent(t.extents, "c", out).values(), terms=terms):
        return None
    w = window(g, t, {d: min(size, t[d]) for d in dims}, stride=stride)
    if w is None:
        return None
    r = RDom("k", c=t["c"], **w.taps)
    loops = {d: getattr(r, d) for d in w.taps}
    # output channels outermost, as PyTorch has them, or innermost, so that neighbouring threads read neighbours
    order = g.draw.pick((("c", "kc", *(f"k{d}" for d in w.taps)), ("kc", *(f"k{d}" for d in w.taps), "c")))
    extents = {"c": out, "kc": t["c"]} | {f"k{d}": n for d, n in w.taps.items()}
    weights = weights_for(g, t, order, [extents[d] for d in order], terms)
    value = weighted(w.at(loops, {"c": r.c}), weights.at({"kc": r.c} | {f"k{d}": loops[d] for d in w.taps}))
    start = bias_for(g, weights, ("c",), (out,)) if g.draw.chance(0.6) else None
    return accumulate(g, "conv", with_extent(w.shape, "c", out), value, r, start=start)


@kind("channel_mix", activation=0.4)
def channel_mix(g: Graph) -> Tensor | None:
    """Channels mixed at each point: a colour matrix, gray, or a 1x1 convolution."""
    t = g.pick(lambda t: "c" in t.dims and t["c"] > 1 and len(t.dims) > 1 and g.fits(t.shape, terms=t["c"]))
    if t is None:
        return None
    if t["c"] <= MAX_MIXED and g.draw.chance(0.7):
        return _gray(g, t) if g.draw.chance(0.5) else _colour_matrix(g, t)
    out = channel_count(g.draw, g.settings)
    while out > 1 and not g.fits(with_extent(t.extents, "c", out).values(), terms=t["c"]):
        out //= 2
    weights = weights_for(g, t, ("c", "k"), (out, t["c"]), t["c"])
    r = RDom("r", k=t["c"])
    value = weighted(t.at({"c": r.k}), weights.at({"k": r.k}))
    return accumulate(g, "mix", with_extent(t.extents, "c", out), value, r)


def _gray(g: Graph, t: Tensor) -> Tensor:
    value = unrolled([times(as_float(t.at({"c": k})), g.draw.integer(1, 16) / 16) for k in range(t["c"])], "sum")
    shape = t.without("c")
    return g.add_stage("gray", shape, rescaled_if_large(value))


def _colour_matrix(g: Graph, t: Tensor) -> Tensor:
    """Return the same number of channels, with coefficients selected by the output channel."""
    rows = [
        unrolled([times(as_float(t.at({"c": k})), g.draw.coefficient()) for k in range(t["c"])], "sum")
        for _ in range(t["c"])
    ]
    low, high = min(v.low for v in rows), max(v.high for v in rows)
    expr = rows[-1].expr
    for k in reversed(range(t["c"] - 1)):
        expr = fn.select(Var("c") == k, rows[k].expr, expr)
    return g.add_stage("colour", t.extents, rescaled_if_large(Value(expr, low, high)))


@kind("concatenate", conv_channels=0.3, channel_mix=0.3)
def concatenate(g: Graph) -> Tensor | None:
    """Concatenation of two tensors along a dimension, mostly channels, as at the end of a skip connection."""
    a = g.pick(lambda t: len(t.dims) > 1 and g.fits(t.shape))
    if a is None:
        return None
    dim = "c" if "c" in a.dims else g.draw.pick(a.dims)
    common = with_extent(a.extents, dim, 0)
    b = g.pick(lambda t: t is not a and t.dims == a.dims and with_extent(t.extents, dim, 0) == common)
    if b is None:
        return None
    shape = with_extent(a.extents, dim, a[dim] + b[dim])
    if not g.fits(shape.values()):
        return None
    first, second = a.at({dim: _within(Var(dim), a[dim])}), b.at({dim: _within(Var(dim) - a[dim], b[dim])})
    if first.dtype != second.dtype:
        first, second = converted(first, "float32"), converted(second, "float32")
    expr = fn.select(Var(dim) < a[dim], first.expr, second.expr)
    value = Value(expr, min(first.low, second.low), max(first.high, second.high))
    return g.add_stage("concat", shape, value)


def _within(coordinate: ExprLike, extent: int) -> Expr:
    """Return a coordinate clamped to a dimension, as a select does not guard reads."""
    return Const(0, Var("x").dtype, weak=True) if extent == 1 else fn.clamp(coordinate, 0, extent - 1)
