"""Stages that relate each value to statistics of its neighbours in a dimension: softmax, layer and local norms."""

from __future__ import annotations

import autosched.lang.functions as fn
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate, mean
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.stages.reduction import reduced
from autosched.random_pipelines.tensor import Tensor, Value

MANY_PASSES = 4
"""Passes of a normalisation over the data, for the estimate of its work."""


def _normalizable(g: Graph, t: Tensor) -> bool:
    return len(t.dims) > 1 and t.dtype.kind != "b" and max(t.shape) > 2 and g.fits(t.shape, terms=MANY_PASSES)


@kind("softmax")
def softmax(g: Graph) -> Tensor | None:
    """Exponentials along a dimension divided by their sum, after subtraction of the maximum."""
    t = g.pick(lambda t: _normalizable(g, t))
    if t is None:
        return None
    d = g.draw.pick([d for d in t.dims if t[d] > 1])
    shape = t.without(d)
    if not g.fits(list(shape.values()), terms=t[d]):
        return None
    largest = reduced(g, t, [d], "max", visible=False)
    factor = ar.scaled_to_range(t.high - t.low, 2 * ar.SCALED_TO)
    x, top = (ar.times(ar.converted(ar.as_float(v), "float32"), factor) for v in (t.at(), largest.at()))
    power = g.add_stage("power", t.extents, Value(fn.exp(x.expr - top.expr), 0.0, 1.0), visible=False)
    r = RDom("r", **{d: t[d]})
    total = accumulate(g, "total", shape, power.at({d: r[0]}), r, visible=False)
    share = power.at().expr / total.at().expr
    return g.add_stage("softmax", t.extents, Value(share, 0.0, 1.0))


@kind("normalize", activation=0.3)
def normalize(g: Graph) -> Tensor | None:
    """Mean and variance along a dimension made 0 and 1, often with learned scale and bias for each of its points."""
    t = g.pick(lambda t: _normalizable(g, t))
    if t is None:
        return None
    d = g.draw.pick([d for d in t.dims if t[d] > 1])
    shape = t.without(d)
    if not g.fits(list(shape.values()), terms=t[d]):
        return None
    r = RDom("r", **{d: t[d]})
    x = ar.small_float32(t.at({d: r[0]}))
    average = accumulate(g, "mean", shape, x, r, finish=mean(t[d]), visible=False)
    away = ar.subtract(x, ar.small_float32(average.at()))
    square = Value(away.expr * away.expr, 0.0, away.bound * away.bound)
    variance = accumulate(g, "variance", shape, square, r, finish=mean(t[d]), visible=False)
    away = ar.subtract(ar.small_float32(t.at()), average.at())
    value = Value(away.expr / fn.sqrt(variance.at().expr + 1.0 / 1024), -away.bound * 32, away.bound * 32)
    if g.draw.chance(0.5):
        scale = g.add_input("float32", (d,), (t[d],), 0.5, 1.5, "scale").at()
        value = ar.add(ar.multiply(value, scale), g.add_input("float32", (d,), (t[d],), -0.5, 0.5, "bias").at())
    return g.add_stage("normalized", t.extents, value)
