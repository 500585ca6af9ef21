"""Scans: prefix sums, running extremes, recursive filters forwards and backwards."""

from __future__ import annotations

from math import prod

import autosched.lang.functions as fn
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import prepared
from autosched.random_pipelines.graph import MIN_LANES, Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor

SHORT = 2048
"""Longest dimension that is scanned."""


def _scannable(g: Graph, t: Tensor) -> list[str]:
    """Return dimensions along which a tensor may be scanned: short ones, or with enough parallel points."""
    if not t.dims or not g.fits(t.shape):
        return []
    longest = min(SHORT, g.settings.max_serial)
    return [d for d in t.dims if 1 < t[d] <= (longest if t.points // t[d] >= MIN_LANES else longest // 2)]


@kind("prefix_sum")
def prefix_sum(g: Graph) -> Tensor | None:
    """Sums or running maxima along a dimension, or along two (a summed-area table)."""
    t = g.pick(lambda t: bool(_scannable(g, t)))
    if t is None:
        return None
    dims = g.draw.shuffled(_scannable(g, t))[: g.draw.pick((1, 1, 2))]
    terms = prod(t[d] for d in dims)
    first = prepared(g, t.at(), terms, "sum")
    is_sum = g.draw.chance(0.75)
    low, high = ar.summed_range(first, terms) if is_sum else (first.low, first.high)
    func = Func("prefix_sum" if is_sum else "running_max")
    at = tuple(Var(d) for d in t.dims)
    func[at] = first.expr
    for d in dims:
        r = RDom("r", **{d: (1, t[d])})
        here, before = along(t, d, r[0]), along(t, d, r[0] - 1)
        func[here] = func[before] + func[here] if is_sum else fn.max(func[before], func[here])
    return g.add(g.tensor(func, t.dims, t.shape, low, high), terms=1 + len(dims))


@kind("iir")
def iir(g: Graph) -> Tensor | None:
    """A recursive filter along a dimension, of first or second order, mostly forwards and then backwards."""
    t = g.pick(lambda t: any(t[d] > 4 for d in _scannable(g, t)))
    if t is None:
        return None
    d = g.draw.pick([d for d in _scannable(g, t) if t[d] > 4])
    first = ar.small_float32(t.at())
    alpha = g.draw.integer(2, 14) / 16
    func = Func("iir")
    at = tuple(Var(e) for e in t.dims)
    func[at] = first.expr
    order = g.draw.pick((1, 1, 2))
    passes = g.draw.pick((1, 2, 2))
    for k in range(passes):
        r = RDom("r", **{d: (order, t[d])})
        i, step = (r[0], -1) if k == 0 else (t[d] - 1 - r[0], 1)
        here = along(t, d, i)
        past = func[along(t, d, i + step)] * (1 - alpha)
        if order == 2:
            past = past * 0.75 + func[along(t, d, i + 2 * step)] * (0.25 * (1 - alpha))
        func[here] = func[here] * alpha + past
    return g.add(g.tensor(func, t.dims, t.shape, first.low, first.high), terms=1 + 2 * passes)


def along(t: Tensor, dim: str, index: Expr) -> tuple[Expr, ...]:
    """Return the index of a point with another coordinate in one dimension."""
    return tuple(index if d == dim else Var(d) for d in t.dims)
