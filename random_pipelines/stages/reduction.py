"""Reductions along a dimension, to a scalar, and to the index of an extreme."""

from __future__ import annotations

from math import prod

import autosched.lang.rdom as rd
from autosched.random_pipelines.accumulate import Finish, Reduction, accumulate, mean
from autosched.random_pipelines.arithmetic import converted
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value


@kind("reduce_dim", elementwise=0.3)
def reduce_dim(g: Graph) -> Tensor | None:
    """The sum, mean, maximum or minimum along one or two dimensions."""
    t = g.pick(lambda t: len(t.dims) > 1 and max(t.shape) > 1)
    if t is None:
        return None
    dims = g.draw.shuffled([d for d in t.dims if t[d] > 1])[: g.draw.pick((1, 1, 2))]
    shape = t.without(*dims)
    terms = t.points // prod(shape.values())
    if not g.fits(list(shape.values()), terms=terms):
        return None
    return reduced(g, t, [d for d in t.dims if d in dims], g.draw.pick(("sum", "sum", "mean", "max", "min")))


def reduced(g: Graph, t: Tensor, dims: list[str], how: str, *, visible: bool = True) -> Tensor:
    """Return the sum, mean, maximum or minimum of a tensor along some dimensions."""
    ranges = {d: t[d] for d in dims}
    r = rd.RDom("r", **ranges)
    shape = t.without(*dims)
    how_to: Reduction = "sum" if how in ("sum", "mean") else "max" if how == "max" else "min"
    terms = t.points // prod(shape.values())
    finish: Finish | None = mean(terms) if how == "mean" else None
    value = t.at({d: getattr(r, d) for d in dims})
    name = f"{how}_over_{''.join(dims)}"
    return accumulate(g, name, shape, value, r, kind=how_to, finish=finish, visible=visible)


@kind("reduce_all", elementwise=0.5)
def reduce_all(g: Graph) -> Tensor | None:
    """One value of a whole tensor: rows are reduced in parallel, then their results."""
    t = g.pick(lambda t: len(t.dims) > 0 and t.points // t.shape[-1] <= g.settings.max_serial)
    if t is None or not g.fits(t.shape[:-1] or (1,), terms=t.shape[-1]):
        return None
    how = g.draw.pick(("sum", "mean", "max", "min"))
    first = reduced(g, t, [t.dims[-1]], how, visible=False)
    return reduced(g, first, list(first.dims), how) if first.dims else first


@kind("argreduce", gather=0.3)
def argreduce(g: Graph) -> Tensor | None:
    """Index of the first maximum or minimum along a dimension, and sometimes its value."""
    t = g.pick(lambda t: len(t.dims) > 1 and max(t.shape) > 1)
    if t is None:
        return None
    d = g.draw.pick([d for d in t.dims if t[d] > 1])
    shape = t.without(d)
    if not g.fits(list(shape.values()), terms=t[d]):
        return None
    r = rd.RDom("r", **{d: t[d]})
    value = converted(t.at({d: r[0]}), "uint8") if t.dtype.kind == "b" else t.at({d: r[0]})
    place, extreme = g.draw.pick((rd.argmax, rd.argmin))(value.expr, over=r)
    g.stages += 2
    g.operations += 2 * t.points
    if g.draw.chance(0.3):
        g.add_stage("extreme", shape, Value(extreme, value.low, value.high))
    return g.add_stage("place", shape, Value(place, 0.0, t[d] - 1.0))
