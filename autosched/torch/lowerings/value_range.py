"""Ranges of integer tensors, from the expressions of their elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.expressions.interval_arithmetic import (
    ValueRange,
    operation_range,
    range_operands,
    type_range,
)
from autosched.lang.expr import Binary, Const, Expr, Load, RVar, Select, Var, postorder
from autosched.lang.func import Func
from autosched.torch.tensors import TensorValue, coordinates

MAX_DEPTH = 16
"""Most Funcs through which a range is followed."""


def value_range(value: TensorValue) -> tuple[int, int] | None:
    """Return a range that contains every element of an integer tensor; None where only its type bounds it.

    Args:
        value: The tensor.
    """
    if 0 in value.shape or not value.dtype.is_int:
        return None
    if value.constant is not None:
        return int(value.constant.min()), int(value.constant.max())
    point = coordinates(len(value.shape))
    e = value.at(point)
    found = expression_range(e, _box(point, value.shape))
    return None if found == type_range(e.dtype) else (int(found.lo), int(found.hi))


def is_bounded(value: TensorValue, extent: int) -> bool:
    """Whether interval arithmetic alone, without conditions and loads, bounds each element by ``[0, extent)``.

    The language derives such ranges itself, so that these indices need no clamp. It follows some stored integers, but
    no floating-point numbers, and none that depend on their coordinates.
    """
    point = coordinates(len(value.shape))
    found = expression_range(value.at(point), _box(point, value.shape), refines=False)
    return found.lo >= 0 and found.hi < extent


def _box(point: Sequence[Var], shape: Sequence[int]) -> dict[str, ValueRange]:
    return {v.name: ValueRange(0, n - 1) for v, n in zip(point, shape, strict=True)}


def expression_range(
    e: Expr, box: Mapping[str, ValueRange], *, refines: bool = True, depth: int = MAX_DEPTH
) -> ValueRange:
    """Return the range of an expression.

    Args:
        e: The expression.
        box: Ranges of Vars by name.
        refines: Whether conditions bound the arms of selections, and definitions bound loads of Funcs.
        depth: Most Funcs through which a range is followed.
    """
    e = Interner()(e)
    ranges: dict[int, ValueRange] = {}
    for node in postorder([e], ranges, _operands):
        ranges[id(node)] = _node_range(node, ranges, box, refines, depth)
    return ranges[id(e)]


def _operands(e: Expr) -> Sequence[Expr]:
    if isinstance(e, Load):
        return e.indices
    return range_operands(e)


def _node_range(
    e: Expr, ranges: Mapping[int, ValueRange], box: Mapping[str, ValueRange], refines: bool, depth: int
) -> ValueRange:
    match e:
        case Var():
            return box.get(e.name, type_range(e.dtype))
        case RVar(lower=Const() as low, upper=Const() as high):
            return ValueRange(int(low.value), int(high.value) - 1)
        case Load() if not refines:
            return type_range(e.dtype)
        case Load(source=Func() as func) if depth and len(func.definitions) == 1 and func.definitions[0].values:
            own = {v.name: ranges[id(i)] for v, i in zip(func.vars, e.indices, strict=True)}
            return expression_range(func.definitions[0].values[e.component], own, refines=refines, depth=depth - 1)
        case Load():
            return type_range(e.dtype)
        case Select() if refines:
            return _select_range(e, ranges)
    return operation_range(e, [ranges[id(a)] for a in range_operands(e)])


def _select_range(e: Select, ranges: Mapping[int, ValueRange]) -> ValueRange:
    """Return the range of a selection; in ``select(i < c, i + n, i)`` the condition bounds both arms."""
    found = operation_range(e, [ranges[id(e.t)], ranges[id(e.f)]])
    bounded = _bounded(e)
    if bounded is None:
        return found
    limit, offset = bounded
    own = ranges[id(e.f)]
    arms = []
    if own.lo < limit:
        arms.append(ValueRange(own.lo + offset, min(own.hi, limit - 1) + offset))
    if own.hi >= limit:
        arms.append(ValueRange(max(own.lo, limit), own.hi))
    if not arms or not all(arm.fits(e.dtype) for arm in arms):
        return found
    return arms[0] if len(arms) == 1 else arms[0].hull(arms[1])


def _bounded(e: Select) -> tuple[int, int] | None:
    """Return limit and offset of ``select(i < limit, i + offset, i)``."""
    match e:
        case Select(cond=Binary(op="lt", a=a, b=Const(value=limit)), t=Binary(op="add", a=b, b=Const(value=n)), f=f):
            return (int(limit), int(n)) if a is f and b is f and f.dtype.is_int else None
    return None
