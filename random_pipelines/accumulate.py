"""Sums, maxima and minima over reduction domains, in several forms of the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Literal

import autosched.lang.rdom as rd
from autosched.lang.dtypes import DType, float32
from autosched.lang.expr import Const, Expr, RVar, Var
from autosched.lang.func import Func
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.tensor import Tensor, Value

Reduction = Literal["sum", "max", "min"]
Finish = Callable[[Value], Value]
OWN_FUNC = 0.5
"""Probability that a sum is a separate Func, read by the stage that finishes it."""
_REDUCE = {"sum": rd.sum, "max": rd.maximum, "min": rd.minimum}


def terms_of(r: rd.RDom) -> int:
    """Return the number of points of a domain of constant bounds."""
    return prod(_extent(v) for v in r.vars)


def accumulate(
    g: Graph, name: str, shape: Mapping[str, int], value: Value, r: rd.RDom, *,
    kind: Reduction = "sum", start: Value | None = None, finish: Finish | None = None, visible: bool = True,
) -> Tensor:  # fmt: skip
    """Add a stage that reduces a value over a domain at every point.

    Args:
        g: The graph.
        name: Name of the Func.
        shape: Extents by dimension, outermost first.
        value: The terms, in the Vars of the shape and the domain's loops.
        r: The domain.
        kind: Sum, maximum or minimum.
        start: The first value of a sum instead of 0, such as a bias, in the Vars.
        finish: Applied to the result, such as a division by the number of terms.
        visible: Whether other stages may read the result.
    """
    terms, dtype = terms_of(r), value.dtype
    value = prepared(g, value, terms, kind)
    low, high = ar.summed_range(value, terms) if kind == "sum" else (value.low, value.high)
    start = None if start is None else ar.converted(start, value.dtype)
    if kind == "sum" and finish is None and not g.draw.chance(OWN_FUNC):
        func, at = Func(name), tuple(Var(d) for d in shape)
        func[at] = zero(value.dtype) if start is None else start.expr
        func.update(at, func[at] + value.expr, over=r.vars)
        if start is not None:
            low, high = low + start.low, high + start.high
        ranged = ar.with_range(Value(value.expr, low, high))
        return g.add(g.tensor(func, list(shape), list(shape.values()), ranged.low, ranged.high), visible, terms=terms)
    g.stages += 2
    g.operations += 2 * prod(shape.values()) * terms
    g.bytes_ += prod(shape.values()) * value.dtype.bytes_
    result = Value(_REDUCE[kind](value.expr, over=r, name=f"{name}_{kind}"), low, high)
    result = result if start is None else ar.add(result, start)
    result = result if finish is None else finish(result)
    if dtype.is_float:  # sums of 16-bit floats are made in float32
        result = ar.narrowed_type(g.draw, ar.rescaled_if_large(result), dtype)
    return g.add_stage(name, shape, result, visible=visible)


def prepared(g: Graph, value: Value, terms: int, kind: Reduction) -> Value:
    """Return a value of a type that can be reduced without overflow."""
    if kind != "sum":
        return ar.converted(value, float32) if value.dtype.kind == "b" else value
    value = ar.accumulable(g.draw, value, terms)
    if not value.dtype.is_float:
        return value
    factor = ar.scaled_to_range(value.bound * terms, ar.COMFORTABLE[32])
    return ar.times(value, factor) if factor < 1.0 else value


def unrolled(values: list[Value], kind: Reduction) -> Value:
    """Return the sum, maximum or minimum of values, written out."""
    combine = {"sum": ar.add, "max": ar.maximum, "min": ar.minimum}[kind]
    result = values[0]
    for v in values[1:]:
        result = combine(result, v)
    return result


def mean(terms: int) -> Finish:
    """Return a function that divides by a number of terms."""
    return lambda total: ar.rescaled_if_large(
        ar.times(total, 1.0 / terms)
        if total.dtype.is_float
        else replace(total, expr=total.expr // terms, low=total.low / terms - 1, high=total.high / terms)
    )


def zero(dtype: DType) -> Expr:
    """Return a typed 0."""
    return Const(0.0 if dtype.is_float else 0, dtype)


def _extent(v: RVar) -> int:
    assert isinstance(v.lower, Const) and isinstance(v.upper, Const)
    return int(v.upper.value) - int(v.lower.value)
