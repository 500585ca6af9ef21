"""Several outputs of different kinds from one image: images, statistics of rows and columns, numbers, masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import autosched.lang.functions as fn
import autosched.lang.rdom as rd
from autosched.lang.dtypes import as_dtype
from autosched.lang.expr import Var
from autosched.lang.func import Func
from autosched.lang.rdom import RDom
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.accumulate import accumulate
from autosched.random_pipelines.expressions import condition, expression
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import BOUNDARIES, Graph, shifted_coordinate
from autosched.random_pipelines.operands import add_array, image, narrow_types, real, real_types
from autosched.random_pipelines.stages.gather import index_from
from autosched.random_pipelines.stages.reduction import reduced
from autosched.random_pipelines.tensor import Tensor, Value

OutputBuild = Callable[[Graph, Tensor, Tensor], Tensor]
"""Adds an output that reads an image and its partner of the same shape."""


@family("several_outputs", all_outputs=True)
def several_outputs(g: Graph) -> Tensor | None:
    """Two to five outputs of kinds without repetition; some read one computed image, some the input."""
    types = {**real_types(g), **narrow_types(g)}
    t = image(g, 12, types)
    if not g.fits(t.shape, terms=8) or t.points // t.shape[-1] > g.settings.max_serial:
        return None
    if g.draw.chance(0.5):
        other = add_array(g, t.dtype.name, t.dims, t.shape)
    else:
        other = g.add_stage("mirror", t.extents, t.at({"x": t["x"] - 1 - Var("x")}), visible=False)
    base = t
    if g.draw.chance(0.6):
        source = g.bounded(t, g.draw.pick(BOUNDARIES), ["x"])
        left, right = (real(g, source.at(shifted_coordinate("x", k))) for k in (-1, 1))
        value = ar.times(ar.add(left, right), 0.5) if g.draw.chance(0.5) else ar.subtract(right, left)
        base = g.add_stage("base", t.extents, value)
    kinds = g.draw.shuffled(sorted(OUTPUTS))[: g.draw.pick((2, 2, 3, 3, 4, 5))]
    result = t
    for name in kinds:
        result = OUTPUTS[name](g, base if g.draw.chance(0.6) else t, other)
    return result


def _image(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    value = expression(g.draw, [t.at(), other.at()], operations=g.draw.integer(1, 4), functions=0.15)
    return g.add_stage("image", t.extents, value)


def _saturated(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """A sum or difference limited to the range of a narrow type."""
    dtype = g.draw.pick(("uint8", "uint8", "int16", "uint16"))
    a, b = (ar.numeric(v) for v in (t.at(), other.at()))
    if not (a.dtype.is_int and b.dtype.is_int):
        a, b = (ar.times(real(g, v), 16.0) for v in (a, b))
    else:
        a, b = (ar.converted(v, "int32") for v in (a, b))
    value = ar.add(a, b) if g.draw.chance(0.5) else ar.subtract(a, b)
    limits = as_dtype(dtype)
    value = ar.clamped(value, limits.min_value, limits.max_value)
    if value.dtype.is_float:
        value = Value(fn.round(value.expr), value.low, value.high)
    return g.add_stage("saturated", t.extents, ar.converted(value, dtype))


def _line(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """A statistic of each row, or of each column."""
    how = g.draw.pick(("sum", "mean", "max", "min"))
    return reduced(g, t, [g.draw.pick(("y", "x"))], how)


def _number(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """A number for the whole image or each channel: sum, mean, extreme, norm or masked mean."""
    first = t
    if g.draw.chance(0.4):
        x = real(g, t.at())
        first = g.add_stage("energy", t.extents, Value(x.expr * x.expr, 0.0, 256.0), visible=False)
    how = g.draw.pick(("sum", "mean", "max", "min"))
    rows = reduced(g, first, [t.dims[-1]], how, visible=False)
    rest = [d for d in rows.dims if d not in "cn" or g.draw.chance(0.5)]
    return reduced(g, rows, rest, how) if rest else rows


def _mask(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """A mask by a comparison, as bools or bytes; sometimes of local maxima."""
    value = condition(g.draw, t.at(), other.at() if g.draw.chance(0.3) else None)
    if g.draw.chance(0.3):
        source = g.bounded(t, g.draw.pick(BOUNDARIES), ["y", "x"])
        around = [source.at(shifted_coordinate(d, k)).expr for d in ("y", "x") for k in (-1, 1)]
        centre = ar.numeric(t.at()).expr
        value = Value(fn.all_of(value.expr, *(centre >= e for e in around)), 0.0, 1.0)
    if g.draw.chance(0.4):
        value = Value(fn.cast("uint8", value.expr), 0.0, 1.0)
    return g.add_stage("mask", t.extents, value)


def _histogram(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """Counts of values of each row."""
    d = t.dims[-1]
    bins = g.draw.pick((16, 32, 64, 256))
    shape = t.without(d)
    if not g.fits([*shape.values(), bins]):
        return _line(g, t, other)
    r = RDom("r", **{d: t[d]})
    func = Func("counts")
    dims = tuple(map(Var, shape))
    func[(*dims, Var("b"))] = fn.cast("int32", 0)
    func[(*dims, index_from(t.at({d: r[0]}), bins))] += 1
    counts = g.tensor(func, (*shape, "b"), (*shape.values(), bins), 0.0, float(t[d]))
    return g.add(counts)


def _place(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """The index of each row's largest or least value."""
    d = t.dims[-1]
    r = RDom("r", **{d: t[d]})
    place, _ = g.draw.pick((rd.argmax, rd.argmin))(ar.numeric(t.at({d: r[0]})).expr, over=r)
    g.stages += 2
    return g.add_stage("place", t.without(d), Value(place, 0.0, t[d] - 1.0))


def _difference(g: Graph, t: Tensor, other: Tensor) -> Tensor:
    """The mean absolute or squared difference of two images along the last dimension."""
    d = t.dims[-1]
    r = RDom("r", **{d: t[d]})
    a, b = (real(g, v) for v in (t.at({d: r[0]}), other.at({d: r[0]})))
    away = ar.subtract(a, b)
    term = ar.absolute(away) if g.draw.chance(0.5) else Value(away.expr * away.expr, 0.0, away.bound * away.bound)
    return accumulate(g, "difference", t.without(d), term, r)


OUTPUTS: Mapping[str, OutputBuild] = {
    "image": _image,
    "saturated": _saturated,
    "line": _line,
    "number": _number,
    "mask": _mask,
    "histogram": _histogram,
    "place": _place,
    "difference": _difference,
}
