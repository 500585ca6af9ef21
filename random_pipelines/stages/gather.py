"""Reads at data-dependent indices: lookup tables, gathers, embeddings."""

from __future__ import annotations

import autosched.lang.functions as fn
from autosched.lang.dtypes import as_dtype
from autosched.lang.expr import Expr, Var
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.alignment import resampled_to_shape
from autosched.random_pipelines.graph import Graph, value_range
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value

NEW_INDEX = 0.35
"""Probability that the indices are a new input instead of computed values."""


def index_from(value: Value, extent: int) -> Expr:
    """Return an index into ``[0, extent)`` from a value: scaled, wrapped or clamped by the value's range."""
    if extent == 1:
        return fn.cast("int32", 0)
    value = ar.numeric(value)
    if value.dtype.is_int:
        if value.low >= 0 and value.high < extent:
            return fn.clamp(fn.cast("int32", value.expr), 0, extent - 1)
        return fn.cast("int32", value.expr) % extent
    width = value.high - value.low
    factor = 1.0
    while width * factor < extent and factor < 1 << 14:
        factor *= 2
    above = fn.cast("float32", value.expr) - value.low
    return fn.clamp(fn.cast("int32", above * factor), 0, extent - 1)


@kind("lookup")
def lookup(g: Graph) -> Tensor | None:
    """A table lookup with a tensor's values; the table is an input, or computed by a formula."""
    t = g.pick(lambda t: bool(t.dims) and g.fits(t.shape))
    if t is None:
        return None
    if t.dtype.is_int and t.dtype.bits == 8 and g.draw.chance(0.7):
        size, index = 256, t.at().expr
        index = index if t.dtype.kind == "u" else fn.cast("int32", index) + 128
    else:
        size = g.draw.pick((256, 1024, 64, 33, 4096))
        index = index_from(t.at(), size)
    if g.draw.chance(0.5):
        dtype = g.draw.pick(("float32", "uint8", *g.settings.reduced_floats, "int32"))
        low, high = value_range(g.draw, as_dtype(dtype))
        table = g.add_input(dtype, ("k",), (size,), low, high, "table")
    else:
        k = Var("k")
        curve = fn.sqrt(fn.cast("float32", k) / size) if g.draw.chance(0.5) else fn.tanh(k * (4.0 / size) - 2.0)
        table = g.add_stage("curve", {"k": size}, Value(curve, -1.0, 1.0), visible=False)
    return g.add_stage("looked_up", t.extents, table.at({"k": index}))


@kind("gather")
def gather(g: Graph) -> Tensor | None:
    """Rows, channels or points chosen by an array of indices, or by another tensor's values."""
    t = g.pick(lambda t: bool(t.dims) and max(t.shape) > 1)
    if t is None:
        return None
    d = g.draw.pick([d for d in t.dims if t[d] > 1])
    if g.draw.chance(NEW_INDEX):  # the same number of indices as the extent, more, or fewer
        count = max(t[d] * g.draw.pick((4, 8, 8, 16)) // 8, 1)
        shape = {e: count if e == d else n for e, n in t.extents.items()}
        chosen = g.add_input("int32", (d,), (count,), 0.0, t[d] - 1.0, "index")
        index = fn.clamp(chosen.at().expr, 0, t[d] - 1)
    else:
        other = g.pick(lambda o: o is not t and bool(o.dims) and all(e in t.dims for e in o.dims))
        if other is None:
            return None
        shape = t.extents
        index = index_from(resampled_to_shape(g, other, shape), t[d])
    if not g.fits(shape.values()):
        return None
    return g.add_stage("gathered", shape, t.at({d: index}))
