"""Formulas at one point of several tensors: arithmetic, activations, blends, thresholds, casts, coordinates."""

from __future__ import annotations

import autosched.lang.functions as fn
from autosched.lang.dtypes import as_dtype
from autosched.lang.expr import Var
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.alignment import random_partner, resampled_to_shape
from autosched.random_pipelines.expressions import condition, expression
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value

NEW_INPUT = 0.12
"""Probability that an operand is a new input of the same shape."""
WITH_PARAM = 0.15


@kind("elementwise")
def elementwise(g: Graph) -> Tensor | None:
    """A formula of one to four tensors, of run-time parameters and constants."""
    t = g.pick(lambda t: g.fits(t.shape))
    return None if t is None else random_formula(g, t, g.draw.pick((0, 1, 1, 1, 2, 2, 3)))


def random_formula(g: Graph, t: Tensor, others: int) -> Tensor:
    """Return a random formula of a tensor and of ``others`` further ones."""
    operands = [t]
    for _ in range(others):
        other = random_partner(g, t)
        if other is None or (t.dims and g.draw.chance(NEW_INPUT) and g.fits(t.shape)):
            other = g.add_image(t.dims, t.shape)
        operands.append(other)
    values = [resampled_to_shape(g, o, t.extents) for o in operands]
    if g.draw.chance(WITH_PARAM):
        values.append(g.add_param(g.draw.coefficient()))
    value = expression(g.draw, values, operations=g.draw.pick((0, 1, 1, 2, 3, 5, 8)))
    return g.add_stage("formula", t.extents, value)


@kind("activation", pad=0.2, pool=0.2, conv_channels=0.2)
def activation(g: Graph) -> Tensor | None:
    """An activation: ReLU, leaky or clipped ReLU, sigmoid, tanh, swish."""
    t = g.pick(lambda t: bool(t.dims) and t.dtype.kind != "b" and g.fits(t.shape))
    if t is None:
        return None
    x = t.at()
    zero = ar.constant(0, x.dtype)
    which = g.draw.pick(("relu", "relu", "relu", "leaky", "clipped", "clipped", "sigmoid", "tanh", "swish"))
    if which == "relu" or x.dtype.is_int:
        value = ar.maximum(x, zero)
    elif which == "leaky":
        value = ar.chosen(Value(x.expr > zero.expr, 0.0, 1.0), x, ar.times(x, 1 / 16))
    elif which == "clipped":
        value = ar.clamped(x, 0.0, 6.0)
    elif which == "tanh":
        value = Value(fn.tanh(x.expr), -1.0, 1.0)
    else:
        inside = ar.clamped(ar.scaled_down(x), -8.0, 8.0)
        gate = Value(1.0 / (1.0 + fn.exp(-inside.expr)), 0.0, 1.0)
        value = gate if which == "sigmoid" else ar.multiply(inside, gate)
    return g.add_stage(which, t.extents, value)


@kind("blend")
def blend(g: Graph) -> Tensor | None:
    """Two tensors mixed by a third: linearly, or chosen by a comparison."""
    t = g.pick(lambda t: bool(t.dims) and g.fits(t.shape))
    other = None if t is None else random_partner(g, t)
    if t is None or other is None:
        return None
    mask = random_partner(g, t) or other
    a, b, m = (
        ar.numeric(t.at()),
        ar.numeric(resampled_to_shape(g, other, t.extents)),
        resampled_to_shape(g, mask, t.extents),
    )
    if g.draw.chance(0.5):
        value = ar.chosen(m if m.dtype.kind == "b" else condition(g.draw, m), a, b)
    else:
        weight = ar.clamped(ar.as_float(m), 0.0, 1.0)
        a, b = ar.as_float(a), ar.as_float(b)
        value = Value(fn.lerp(a.expr, b.expr, weight.expr), min(a.low, b.low), max(a.high, b.high))
    return g.add_stage("blend", t.extents, value)


@kind("threshold", blend=0.4)
def threshold(g: Graph) -> Tensor | None:
    """A comparison with a number or another tensor, as a bool, or as 0 and 255."""
    t = g.pick(lambda t: bool(t.dims) and t.dtype.kind != "b" and t.low < t.high and g.fits(t.shape))
    if t is None:
        return None
    other = random_partner(g, t) if g.draw.chance(0.3) else None
    mask = condition(g.draw, t.at(), None if other is None else resampled_to_shape(g, other, t.extents))
    if g.draw.chance(0.5):
        mask = Value(fn.select(mask.expr, fn.cast("uint8", 255), fn.cast("uint8", 0)), 0.0, 255.0)
    return g.add_stage("mask", t.extents, mask)


@kind("cast")
def cast(g: Graph) -> Tensor | None:
    """Another element type: to bytes and back, to 16-bit floats, to wider integers; floats are scaled to fit."""
    t = g.pick(lambda t: bool(t.dims) and g.fits(t.shape))
    if t is None:
        return None
    types = [d for d in g.settings.dtypes if d != t.dtype.name and g.settings.dtypes[d] > 0]
    if not types:
        return None
    target = as_dtype(g.draw.weighted({d: g.settings.dtypes[d] for d in types}))
    value = ar.numeric(t.at())
    if target.is_int and value.dtype.is_float:
        offset = ar.subtract(value, ar.constant(value.low, value.dtype)) if target.kind == "u" else value
        factor = 1.0
        while offset.bound * factor < min(target.max_value, 1 << 14) / 2:
            factor *= 2
        value = ar.times(ar.converted(offset, "float32" if offset.dtype.bits == 16 else offset.dtype), factor)
        if g.draw.chance(0.5):
            value = ar.add(value, ar.constant(0.5, value.dtype))
    return g.add_stage(f"as_{target.name}", t.extents, ar.converted(value, target))


@kind("coordinates")
def coordinates(g: Graph) -> Tensor | None:
    """A formula of a tensor and of its coordinates: gradients over the image, vignettes, checkerboards, noise."""
    t = g.pick(lambda t: len(t.spatial) > 1 and t.dtype.kind != "b" and g.fits(t.shape))
    if t is None:
        return None
    y, x = (Var(d) for d in t.spatial[-2:])
    height, width = (t[d] for d in t.spatial[-2:])
    value = t.at()
    match g.draw.integer(0, 3):
        case 0:
            ramp = Value(fn.cast("float32", x) * (1.0 / width), 0.0, 1.0)
            value = ar.multiply(ar.as_float(value), ramp)
        case 1:
            dy, dx = fn.cast("float32", y - height // 2), fn.cast("float32", x - width // 2)
            distance = (dy * dy + dx * dx) * (4.0 / (height * height + width * width))
            value = ar.multiply(ar.as_float(value), Value(1.0 - 0.5 * distance, 0.5, 1.0))
        case 2:
            even = Value((x + y) % 2 == 0, 0.0, 1.0)
            value = ar.chosen(even, value, ar.times(value, 0.5 if value.dtype.is_float else 1.0))
        case _:
            noise = Value(fn.random_float(y, x), 0.0, 1.0)
            value = ar.add(ar.as_float(value), noise)
    return g.add_stage("by_place", t.extents, value)
