"""Rows related to their own statistics: softmax, layer norm, RMS norm, standardisation and the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import autosched.lang.functions as fn
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate, mean
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.operands import add_array, limited, points_for, real, real_types
from autosched.random_pipelines.stages.reduction import reduced
from autosched.random_pipelines.tensor import Tensor, Value

Axes = Sequence[str]
Normalizer = Callable[[Graph, Tensor, Axes], Tensor]

FEATURES = (32, 64, 77, 100, 128, 256, 300, 384, 512, 768, 771, 1000, 1024)
PER_POINT = 24
"""Operations of a normalisation at each point."""
LOWEST_LOG = -64.0
EPSILONS = (1e-3, 1e-5, 1.0 / 1024)
LARGEST_INVERSE = 512.0
"""Above the inverse square root of the least of `EPSILONS`."""


@family("row_statistics")
def row_statistics(g: Graph) -> Tensor | None:
    """One to three normalisations in turn, along the last axis, the first, another one, or the last two."""
    t = _rows(g)
    axes = _axes(g, t)
    if not g.fits(t.shape, terms=4):
        return None
    if g.draw.chance(0.3):  # the residual connection of a transformer
        skipped = add_array(g, g.draw.weighted(real_types(g)), t.dims, t.shape, "skip")
        t = g.add_stage("residual", t.extents, ar.add(real(g, t.at()), real(g, skipped.at())), visible=False)
    for _ in range(g.draw.pick((1, 1, 2, 2, 3))):
        t = NORMALIZERS[g.draw.weighted(NORMALIZER_WEIGHTS)](g, t, axes)
        if not all(d in t.dims for d in axes):
            break
    return t


def _rows(g: Graph) -> Tensor:
    """Return a new input: samples or tokens by features, with a batch or without, or feature maps."""
    dims = g.draw.pick((("y", "c"), ("y", "c"), ("n", "y", "c"), ("y", "x"), ("n", "c", "y", "x")))
    features = limited(g.draw, g.draw.pick(FEATURES), g.settings)
    if dims[-1] == "x" and len(dims) == 4:
        features = max(features // 16, 2)
    batch = g.draw.pick((1, 2, 4, 8)) if "n" in dims else 1
    rows = max(points_for(g, PER_POINT * features * batch), 2)
    rows = min(rows, max(g.settings.max_points // 4 // (features * batch), 2), g.settings.extents[1] ** 2)
    if len(dims) == 4:
        edge = max(int(rows**0.5), 2)
        extents = {"n": batch, "c": features, "y": edge, "x": max(rows // edge, 2)}
    else:
        extents = {"n": batch, "y": rows, "c": features, "x": features}
    t = add_array(g, g.draw.weighted(real_types(g)), dims, [extents[d] for d in dims])
    g.tensors.append(t)
    return t


def _axes(g: Graph, t: Tensor) -> list[str]:
    """Return the dimensions of one row."""
    if len(t.dims) == 4:
        return g.draw.pick((["c"], ["y", "x"], ["c", "y", "x"], ["n", "y", "x"]))  # layer, instance, group, batch norm
    u = g.draw.fraction()
    return [t.dims[-1]] if u < 0.65 else [t.dims[0]] if u < 0.85 else [t.dims[-2]] if u < 0.95 else list(t.dims[-2:])


def _over(t: Tensor, axes: Axes) -> tuple[RDom, Value, dict[str, int], int]:
    """Return a domain over a row, the value there, the extents of the statistics, and the length of a row."""
    r = RDom("r", **{d: t[d] for d in axes})
    return r, t.at({d: getattr(r, d) for d in axes}), t.without(*axes), prod(t[d] for d in axes)


def _softmax(g: Graph, t: Tensor, axes: Axes) -> Tensor:
    """Softmax or its logarithm, with a temperature or without, the maximum subtracted nearly always."""
    x = real(g, t.at())
    stored = g.add_stage("scores", t.extents, x, visible=False) if g.draw.chance(0.3) else t
    shift: Value | None = None
    if g.draw.chance(0.9):
        shift = real(g, reduced(g, stored, list(axes), "max", visible=False).at())
    temperature = g.draw.pick((1.0, 1.0, 0.5, 0.125))
    away = real(g, stored.at()).expr - (shift.expr if shift else 0.0)
    away = away * temperature if temperature != 1.0 else away
    power = g.add_stage("power", t.extents, Value(fn.exp(away), 0.0, 1.0 if shift else 2.0**20), visible=False)
    r, term, shape, _ = _over(power, axes)
    total = accumulate(g, "total", shape, term, r, visible=False).at().expr
    if g.draw.chance(0.3):
        return g.add_stage("log_softmax", t.extents, Value(away - fn.log(total), LOWEST_LOG, 0.0))
    share = power.at().expr / total if g.draw.chance(0.7) else power.at().expr * (1.0 / total)
    return g.add_stage("softmax", t.extents, Value(share, 0.0, 1.0))


def _log_sum(g: Graph, t: Tensor, axes: Axes) -> Tensor:
    """The logarithm of a row's sum of exponentials, mostly less the value at its label: the cross entropy."""
    largest = real(g, reduced(g, t, list(axes), "max", visible=False).at())
    r, term, shape, _ = _over(t, axes)
    power = Value(fn.exp(real(g, term).expr - largest.expr), 0.0, 1.0)
    total = accumulate(g, "total", shape, power, r, visible=False)
    value = fn.log(total.at().expr) + largest.expr
    low, high = -64.0, 64.0
    if len(axes) == 1 and shape and g.draw.chance(0.6):
        (d,) = axes
        labels = g.add_input("int32", list(shape), list(shape.values()), 0.0, t[d] - 1.0, "labels")
        value = value - real(g, t.at({d: fn.clamp(labels.at().expr, 0, t[d] - 1)})).expr
    return g.add_stage("log_sum", shape, Value(value, low, high))


def _standardised(g: Graph, t: Tensor, axes: Axes) -> Tensor:
    """Mean 0 and variance 1: two passes or one, biased or not, often with scale and bias (layer norm)."""
    r, term, shape, terms = _over(t, axes)
    x, here = real(g, term), real(g, t.at())
    average = accumulate(g, "mean", shape, x, r, finish=mean(terms), visible=False).at()
    divisor = terms - 1 if terms > 1 and g.draw.chance(0.3) else terms
    if g.draw.chance(0.7):
        away = x.expr - average.expr
        square = Value(away * away, 0.0, 1024.0)
        variance = accumulate(g, "variance", shape, square, r, finish=mean(divisor), visible=False).at().expr
    else:
        s, other, _, _ = _over(t, axes)
        y = real(g, other)
        second = accumulate(
            g, "second", shape, Value(y.expr * y.expr, 0.0, 256.0), s, finish=mean(terms), visible=False
        )
        variance = fn.max(second.at().expr - average.expr * average.expr, 0.0)
    value = (here.expr - average.expr) / fn.sqrt(variance + g.draw.pick(EPSILONS))
    bound = 32.0 * LARGEST_INVERSE
    return _affine(g, "standardised", t, axes, Value(value, -bound, bound))


def _rms(g: Graph, t: Tensor, axes: Axes) -> Tensor:
    """A row divided by its root mean square, or by its length."""
    r, term, shape, terms = _over(t, axes)
    x, here = real(g, term), real(g, t.at())
    square = Value(x.expr * x.expr, 0.0, x.bound * x.bound)
    finish = mean(terms) if g.draw.chance(0.7) else None
    total = accumulate(g, "squares", shape, square, r, finish=finish, visible=False).at()
    scale = 1.0 / fn.sqrt(total.expr + g.draw.pick(EPSILONS))
    bound = here.bound * LARGEST_INVERSE
    return _affine(g, "rms_norm", t, axes, Value(here.expr * scale, -bound, bound))


def _min_max(g: Graph, t: Tensor, axes: Axes) -> Tensor:
    """A row scaled to the range 0 to 1 by its least and largest value, or divided by its largest magnitude."""
    here = real(g, t.at())
    high = real(g, reduced(g, t, list(axes), "max", visible=False).at()).expr
    low = real(g, reduced(g, t, list(axes), "min", visible=False).at()).expr
    if g.draw.chance(0.6):
        value = Value((here.expr - low) / fn.max(high - low, 1.0 / 1024), 0.0, 1.0)
    else:
        value = Value(here.expr / fn.max(fn.max(high, -low), 1.0 / 1024), -1.0, 1.0)
    return g.add_stage("rescaled", t.extents, value)


def _affine(g: Graph, name: str, t: Tensor, axes: Axes, value: Value) -> Tensor:
    """Add a stage for a value, with a learned scale and bias of each feature in most cases."""
    features = list(axes) if g.draw.chance(0.8) or len(t.dims) == len(axes) else [d for d in t.dims if d not in axes]
    features = features[-1:]
    shape = [t[d] for d in features]
    if g.draw.chance(0.7):
        value = ar.multiply(value, g.add_input(g.real, features, shape, 0.5, 1.5, "scale").at())
        if g.draw.chance(0.7):
            value = ar.add(value, g.add_input(g.real, features, shape, -0.5, 0.5, "bias").at())
    return g.add_stage(name, t.extents, value)


NORMALIZERS: Mapping[str, Normalizer] = {
    "softmax": _softmax,
    "log_sum": _log_sum,
    "standardised": _standardised,
    "rms": _rms,
    "min_max": _min_max,
}
NORMALIZER_WEIGHTS: Mapping[str, float] = {
    "softmax": 3.0, "log_sum": 1.0, "standardised": 3.0, "rms": 2.0, "min_max": 1.0
}  # fmt: skip
