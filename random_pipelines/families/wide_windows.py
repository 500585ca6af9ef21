"""Windows of up to 31 elements: boxes, minima and maxima, weighted sums, dilated or not, separable or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import autosched.lang.functions as fn
from autosched.lang.expr import ExprLike, Var
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import Reduction, accumulate, mean, unrolled
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import BOUNDARIES, Graph, shifted_coordinate
from autosched.random_pipelines.operands import add_array, image, narrow_types, real, real_types
from autosched.random_pipelines.stages.convolution import coefficients
from autosched.random_pipelines.tensor import Tensor, Value

Taps = Mapping[str, int]
Windowed = Callable[[Graph, Tensor, Taps, str], Tensor]

SIZES = (3, 4, 5, 6, 7, 7, 8, 9, 9, 11, 13, 15, 15, 16, 17, 19, 21, 25, 27, 31, 31)
"""Elements of a window in one dimension."""
MOST_PLANE = 121
"""Most elements of a window that is not computed by one dimension after the other."""
MOST_UNROLLED = 11
EXTREMES: tuple[Reduction, ...] = ("min", "max")
OPENINGS: tuple[tuple[Reduction, Reduction], ...] = (("min", "max"), ("max", "min"))


@family("wide_windows")
def wide_windows(g: Graph) -> Tensor | None:
    """An operation made of one to six windows of one size, with one boundary condition."""
    how = g.draw.weighted(OPERATION_WEIGHTS)
    size = g.draw.pick(SIZES)
    narrow = how in NARROW_OPERATIONS and g.draw.chance(0.7)
    t = image(
        g, OPERATION_COSTS.get(how, 2) * 2 * min(size, 12), narrow_types(g) if narrow else None, prelude=not narrow
    )
    dims = ["y", "x"] if g.draw.chance(0.8) else [g.draw.pick(("y", "x"))]
    taps = {d: min(size, t[d]) for d in dims}
    if len(dims) == 2 and g.draw.chance(0.15):  # wider than high
        taps["y"] = max(taps["y"] // g.draw.pick((2, 3)), 1)
    return OPERATIONS[how](g, t, taps, g.draw.pick(BOUNDARIES)) if g.fits(t.shape, terms=2 * size) else None


def windowed(g: Graph, t: Tensor, taps: Taps, kind: Reduction, boundary: str, *, average: bool = False) -> Tensor:
    """Return the sum, mean, minimum or maximum of windows, in one pass or a pass for each dimension.

    Args:
        g: The graph.
        t: The tensor.
        taps: Elements of the window by dimension.
        kind: The operation.
        boundary: Boundary condition.
        average: Whether a sum is divided by the number of elements.
    """
    at_once = prod(taps.values()) <= MOST_PLANE and g.draw.chance(0.3)
    passes: list[Taps] = [taps] if at_once else [{d: n} for d, n in taps.items()]
    for part in g.draw.shuffled(passes):
        t = _one_pass(g, t, part, kind, boundary, average)
    return t


def _one_pass(g: Graph, t: Tensor, taps: Taps, kind: Reduction, boundary: str, average: bool) -> Tensor:
    source = g.bounded(t, boundary, list(taps))
    terms = prod(taps.values())
    finish = mean(terms) if average else None
    name = f"window_{kind}"
    if terms <= MOST_UNROLLED and len(taps) == 1 and g.draw.chance(0.4):
        ((d, n),) = taps.items()
        values = [ar.numeric(source.at(shifted_coordinate(d, k - n // 2))) for k in range(n)]
        if kind == "sum":
            wide = ar.accumulable(g.draw, values[0], n).dtype
            values = [ar.converted(v, wide) for v in values]
        total = unrolled(values, kind)
        return g.add_stage(name, t.extents, finish(total) if finish else total, visible=False)
    r = RDom("w", **{d: (-(n // 2), n - n // 2) for d, n in taps.items()})
    value = source.at({d: Var(d) + getattr(r, d) for d in taps})
    return accumulate(g, name, t.extents, ar.numeric(value), r, kind=kind, finish=finish, visible=False)


def _box(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Sum or mean, sometimes in the type of the image."""
    if t.dtype.is_float and t.dtype.name != g.real:
        t = g.add_stage("converted", t.extents, real(g, t.at()), visible=False)
    result = windowed(g, t, taps, "sum", boundary, average=g.draw.chance(0.7))
    return g.add_stage("box", t.extents, ar.narrowed_type(g.draw, result.at(), t.dtype))


def _extreme(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Minimum or maximum."""
    return _visible(g, windowed(g, t, taps, g.draw.pick(EXTREMES), boundary))


def _opening(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Opening or closing, often with the difference from the image (top hat), or the gradient of both extremes."""
    first, second = g.draw.pick(OPENINGS)
    low = windowed(g, t, taps, first, boundary)
    if g.draw.chance(0.25):
        high = windowed(g, t, taps, second, boundary)
        return _visible(g, g.add_stage("gradient", t.extents, _distance(high.at(), low.at()), visible=False))
    opened = windowed(g, low, taps, second, boundary)
    if g.draw.chance(0.6):
        g.tensors.append(opened)
        return g.add_stage("top_hat", t.extents, _distance(t.at(), opened.at()))
    return _visible(g, opened)


def _weighted(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Weighted sums: separable coefficients, an array of them, or a bell curve by formula; sometimes dilated."""
    dilation = g.draw.pick((1, 1, 1, 2, 3))
    if prod(taps.values()) <= MOST_PLANE and g.draw.chance(0.35):
        weights = g.add_input(g.real, [f"k{d}" for d in taps], list(taps.values()), -0.25, 0.25, "kernel")
        source = g.bounded(t, boundary, list(taps))
        r = RDom("w", **taps)
        at = {d: Var(d) + (getattr(r, d) - n // 2) * dilation for d, n in taps.items()}
        weight = weights.at({f"k{d}": getattr(r, d) for d in taps})
        return accumulate(g, "filtered", t.extents, ar.multiply(real(g, source.at(at)), weight), r)
    for d, n in taps.items():
        source = g.bounded(t, boundary, [d])
        if n <= MOST_UNROLLED and g.draw.chance(0.5):
            terms = [
                ar.times(real(g, source.at(shifted_coordinate(d, (k - n // 2) * dilation))), c)
                for k, c in enumerate(coefficients(g.draw, n))
            ]
            t = g.add_stage(f"blur_{d}", t.extents, unrolled(terms, "sum"), visible=False)
            continue
        r = RDom("w", **{d: n})
        weight = _tap_weight(g, n, r[0])
        term = ar.multiply(real(g, source.at({d: Var(d) + (r[0] - n // 2) * dilation})), weight)
        t = accumulate(g, f"blur_{d}", t.extents, term, r, visible=False)
    return _visible(g, t)


def _tap_weight(g: Graph, n: int, k: ExprLike) -> Value:
    """Return the weight of an element: of an array, or of a bell curve with its own sum as a divisor left out."""
    if g.draw.chance(0.5):
        return g.add_input(g.real, ("k",), (n,), 0.0, 2.0 / n, "taps").at({"k": k})
    away = fn.cast(g.real, k) - (n // 2)
    sigma = n / 4
    return Value(fn.exp(away * away * (-0.5 / (sigma * sigma))) * (1.0 / n), 0.0, 1.0)


def _local_statistics(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Mean and variance of windows; the image less its mean, over its deviation, or a threshold by both."""
    x = g.add_stage("value", t.extents, real(g, t.at()), visible=False)
    square = g.add_stage("square", t.extents, ar.multiply(x.at(), x.at()), visible=False)
    average = windowed(g, x, taps, "sum", boundary, average=True).at()
    second = windowed(g, square, taps, "sum", boundary, average=True).at()
    variance = fn.max(second.expr - average.expr * average.expr, 0.0)
    if g.draw.chance(0.3):
        above = x.at().expr > average.expr + fn.sqrt(variance) * 0.25
        return g.add_stage("mask", t.extents, Value(above, 0.0, 1.0))
    value = (x.at().expr - average.expr) / fn.sqrt(variance + 1.0 / 256)
    return g.add_stage("normalised", t.extents, Value(value, -16.0 * 32, 16.0 * 32))


def _guided(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Guided filter: means of two images and of their products, a linear model of each window, and means of models."""
    guide = g.add_stage("guide", t.extents, real(g, t.at()), visible=False)
    other = add_array(g, g.draw.weighted(real_types(g)), t.dims, t.shape)
    image_ = g.add_stage("image", t.extents, real(g, other.at()), visible=False) if g.draw.chance(0.6) else guide

    def averaged(name: str, value: Value) -> Value:
        stage = g.add_stage(name, t.extents, value, visible=False)
        return windowed(g, stage, taps, "sum", boundary, average=True).at()

    i, p = guide.at(), image_.at()
    mean_i, mean_p = averaged("i", i), averaged("p", p)
    ii, ip = averaged("ii", ar.multiply(i, i)), averaged("ip", ar.multiply(i, p))
    slope = (ip.expr - mean_i.expr * mean_p.expr) / (fn.max(ii.expr - mean_i.expr * mean_i.expr, 0.0) + 1.0 / 64)
    a = Value(slope, -64.0, 64.0)
    b = Value(mean_p.expr - slope * mean_i.expr, -1024.0, 1024.0)
    a, b = averaged("a", a), averaged("b", b)
    return g.add_stage("guided", t.extents, ar.add(ar.multiply(a, i), b))


def _bilateral(g: Graph, t: Tensor, taps: Taps, boundary: str) -> Tensor:
    """Bilateral filter of a small window: weights by distance of values."""
    taps = {d: min(n, 7) for d, n in taps.items()}
    x = g.add_stage("value", t.extents, real(g, t.at()), visible=False)
    source = g.bounded(x, boundary, list(taps))
    sums: list[Tensor] = []
    for name in ("weights", "weighted"):
        r = RDom("w", **{d: (-(n // 2), n - n // 2) for d, n in taps.items()})
        near = source.at({d: Var(d) + getattr(r, d) for d in taps})
        away = near.expr - x.at().expr
        weight = Value(fn.exp(away * away * -2.0), 0.0, 1.0)
        term = weight if name == "weights" else ar.multiply(weight, near)
        sums.append(accumulate(g, name, t.extents, term, r, visible=False))
    value = Value(sums[1].at().expr / fn.max(sums[0].at().expr, 1.0 / 64), -1024.0, 1024.0)
    return g.add_stage("bilateral", t.extents, value)


def _distance(a: Value, b: Value) -> Value:
    a, b = ar.numeric(a), ar.numeric(b)
    return ar.with_range(Value(fn.absd(a.expr, b.expr), 0.0, max(a.high - b.low, b.high - a.low)))


def _visible(g: Graph, t: Tensor) -> Tensor:
    """Return a tensor after it was made available to other stages."""
    g.tensors.append(t)
    return t


OPERATIONS: Mapping[str, Windowed] = {
    "box": _box,
    "extreme": _extreme,
    "opening": _opening,
    "weighted": _weighted,
    "local_statistics": _local_statistics,
    "guided": _guided,
    "bilateral": _bilateral,
}
OPERATION_WEIGHTS: Mapping[str, float] = {
    "box": 2.0, "extreme": 2.0, "opening": 2.0, "weighted": 2.5, "local_statistics": 1.5, "guided": 0.8,
    "bilateral": 0.7,
}  # fmt: skip
OPERATION_COSTS: Mapping[str, int] = {"opening": 4, "local_statistics": 5, "guided": 12, "bilateral": 24}
"""Windows in one dimension of an operation, or their like; 2 for the others."""
NARROW_OPERATIONS = frozenset({"box", "extreme", "opening"})
