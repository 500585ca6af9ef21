"""Linear filters of each channel: one-dimensional, separable, two-dimensional, with learned weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from autosched.lang.rdom import RDom
from autosched.random_pipelines.accumulate import accumulate, unrolled
from autosched.random_pipelines.arithmetic import as_float, narrowed_type, numeric, rescaled_if_large, times
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value
from autosched.random_pipelines.weights import bias_for, weighted, weights_for
from autosched.random_pipelines.window import StencilWindow, window

BINOMIALS = ((1, 2, 1), (1, 4, 6, 4, 1), (1, 3, 3, 1), (1, 6, 15, 20, 15, 6, 1))
MAX_UNROLLED = 9
"""Most taps along one dimension of an unrolled sum; more are a reduction."""
LAPLACIAN: dict[tuple[int, ...], float] = {(0, 1): 1.0, (1, 0): 1.0, (1, 2): 1.0, (2, 1): 1.0, (1, 1): -4.0}


@kind("conv1d", activation=0.3)
def conv1d(g: Graph) -> Tensor | None:
    """A filter along one dimension: coefficients, or weights from an array."""
    t = g.pick(lambda t: any(t[d] > 2 for d in t.dims if d != "n") and g.fits(t.shape, terms=15))
    if t is None:
        return None
    dim = g.draw.pick([d for d in t.dims if d != "n" and t[d] > 2])
    taps = min(g.draw.pick((3, 3, 5, 5, 7, 9, 11, 15, 2, 4)), t[dim])
    stride = g.draw.pick((1, 1, 1, 2))
    dilation = g.draw.pick((1, 1, 1, 2)) if t[dim] > 4 * taps else 1
    w = window(g, t, {dim: taps}, stride=stride, dilation=dilation)
    if w is None:
        return None
    if taps <= MAX_UNROLLED and g.draw.chance(0.6):
        value = _weighted(g, w, {(k,): c for k, c in enumerate(coefficients(g.draw, taps))})
        return g.add_stage(f"conv_{dim}", w.shape, value)
    return _learned(g, f"conv_{dim}", w, ())


@kind("separable")
def separable(g: Graph) -> Tensor | None:
    """A separable filter: the same one along two or three dimensions in turn."""
    t = g.pick(lambda t: sum(t[d] > 4 for d in t.spatial) >= 2 and g.fits(t.shape, terms=15))
    if t is None:
        return None
    taps = g.draw.pick((3, 5, 5, 7, 9))
    weights = coefficients(g.draw, taps)
    dims = g.draw.shuffled([d for d in t.spatial if t[d] > 4])
    for k, d in enumerate(dims):
        w = window(g, t, {d: min(taps, t[d])})
        if w is None:
            break
        value = _weighted(g, w, {(i,): weights[i] for i in range(w.taps[d])})
        last = k == len(dims) - 1
        t = g.add_stage(f"blur_{d}", w.shape, value, visible=last or g.draw.chance(0.2))
    return t


@kind("conv2d", activation=0.4)
def conv2d(g: Graph) -> Tensor | None:
    """A two-dimensional filter that is not separable: a few constant coefficients, or an array of weights."""
    t = g.pick(lambda t: sum(t[d] > 2 for d in t.spatial) >= 2 and g.fits(t.shape, terms=81))
    if t is None:
        return None
    dims = [d for d in t.spatial if t[d] > 2][-2:]
    if g.draw.chance(0.5):
        w = window(g, t, dict.fromkeys(dims, 3), stride=g.draw.pick((1, 1, 1, 2)))
        if w is None:
            return None
        table = LAPLACIAN
        if g.draw.chance(0.7):
            points = itertools.product(range(3), repeat=2)
            table = {p: g.draw.coefficient() for p in points if g.draw.chance(0.8)}
        value = _weighted(g, w, table or LAPLACIAN)
        return g.add_stage("filter", w.shape, value)
    size = g.draw.pick((3, 5, 5, 7, 9, 4))
    w = window(g, t, {d: min(size, t[d]) for d in dims}, stride=g.draw.pick((1, 1, 1, 2)))
    return None if w is None else _learned(g, "filter", w, ())


@kind("depthwise", activation=0.5, channel_mix=0.3)
def depthwise(g: Graph) -> Tensor | None:
    """A depthwise convolution: a two-dimensional filter with weights per channel."""
    t = g.pick(lambda t: "c" in t.dims and sum(t[d] > 2 for d in t.spatial) >= 2 and g.fits(t.shape, terms=25))
    if t is None:
        return None
    size = g.draw.pick((3, 3, 3, 5))
    dims = [d for d in t.spatial if t[d] > 2][-2:]
    stride = g.draw.pick((1, 1, 2))
    w = window(g, t, {d: min(size, t[d]) for d in dims}, stride=stride, dilation=g.draw.pick((1, 1, 1, 2)))
    return None if w is None else _learned(g, "depthwise", w, ("c",))


def _weighted(g: Graph, w: StencilWindow, table: dict[tuple[int, ...], float]) -> Value:
    """Return an unrolled weighted sum of neighbours; integers stay integers if all weights are integers."""
    terms = []
    for tap, weight in table.items():
        value = numeric(w.at(dict(zip(w.taps, tap, strict=True))))
        if weight != int(weight):
            value = as_float(value)
        terms.append(value if weight == 1 else times(value, weight))
    return narrowed_type(g.draw, rescaled_if_large(unrolled(terms, "sum")), w.source.dtype)


def _learned(g: Graph, name: str, w: StencilWindow, kept: Sequence[str]) -> Tensor:
    """Add the filter of a window by an array of weights, which vary along the kept dimensions too."""
    r = RDom("k", **w.taps)
    loops = {d: getattr(r, d) for d in w.taps}
    dims = [*kept, *(f"k{d}" for d in w.taps)]
    shape = [w.source[d] for d in kept] + list(w.taps.values())
    weights = weights_for(g, w.source, dims, shape, prod(w.taps.values()))
    value = weighted(w.at(loops), weights.at({f"k{d}": loops[d] for d in w.taps}))
    start = bias_for(g, weights, kept, [w.source[d] for d in kept]) if kept and g.draw.chance(0.3) else None
    return accumulate(g, name, w.shape, value, r, start=start)


def coefficients(draw: PortableRandom, taps: int) -> tuple[float, ...]:
    """Return weights of a one-dimensional filter: binomial, box, or any; often normalised."""
    binomial = [b for b in BINOMIALS if len(b) == taps]
    weights: tuple[float, ...]
    if binomial and draw.chance(0.5):
        weights = tuple(map(float, binomial[0]))
    elif draw.chance(0.4):
        weights = (1.0,) * taps
    else:
        return tuple(draw.coefficient() for _ in range(taps))
    if draw.chance(0.3):  # integers are kept
        return weights
    total = sum(weights)
    return tuple(c / total for c in weights)
