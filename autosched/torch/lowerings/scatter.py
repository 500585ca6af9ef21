"""Lowerings of updates at indices from tensors.

All updates are reductions that run in order: of several values for one element the last one is kept, and sums have
the same order in every run. Schedules of the backend have no atomic updates of floating-point numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.dtypes import bool_, int64
from autosched.lang.expr import Const, Expr, ExprLike
from autosched.lang.func import Func
from autosched.lang.operators import as_expr, binary
from autosched.lang.rdom import OPERATOR_OF, RDom, reduction_identity
from autosched.torch.lowerings.indexing import IndexedPlaces, index_at, indexed_places, masks
from autosched.torch.lowerings.inverse_index import inverse_indices
from autosched.torch.lowerings.pointwise import Operand, broadcast, constant, converted
from autosched.torch.lowerings.reductions import accumulator, fold
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.views import axis_of
from autosched.torch.tensors import Point, TensorValue, UnsupportedError, coordinates

aten = torch.ops.aten


def scattered(
    name: str,
    base: TensorValue,
    domain: Sequence[int],
    parallel: Mapping[int, int],
    place: Callable[[Point], Sequence[ExprLike]],
    value: Callable[[Point], Expr],
    kind: str,
) -> Func:
    """Return a Func with the elements of a tensor after updates at computed places.

    Args:
        name: Its name.
        base: The tensor before the updates.
        domain: Extents of the updates.
        parallel: Dimensions of the domain that are dimensions of the tensor, with the same extent: their coordinate
            stands alone in the place. The others run in order.
        place: Point of the tensor for a point of the domain.
        value: Value at a point of the domain.
        kind: ``set`` writes; ``sum``, ``prod``, ``min`` and ``max`` combine with the element.
    """
    func = Func(name)
    point = coordinates(len(base.shape))
    func[point] = base.at(point)
    if 0 in domain:
        return func
    serial = [k for k in range(len(domain)) if k not in parallel]
    inner = RDom("r", **{f"k{k}": domain[k] for k in serial}).vars if serial else ()
    loops = dict(zip(serial, inner, strict=True))
    p: Point = tuple(loops[k] if k in loops else point[parallel[k]] for k in range(len(domain)))
    at = tuple(as_expr(i) for i in place(p))
    func.update(at, combined(kind, func[at], value(p)), over=inner)
    return func


def combined(kind: str, old: Expr, new: Expr) -> Expr:
    """Return an element after an update; bools are added as ``or`` and multiplied as ``and``."""
    if kind == "set":
        return new
    if old.dtype == bool_:
        return old | new if kind in ("sum", "max") else old & new
    return binary(OPERATOR_OF[kind], old, new)


def of_func(context: LoweringContext, func: Func) -> TensorValue:
    """Return the tensor that a Func over its dimensions holds."""
    return TensorValue(context.fake, lambda p: func[tuple(p)], func, is_view=True)


def _vector(value: TensorValue) -> TensorValue:
    """Return a number as a tensor of one dimension; other tensors as they are."""
    if value.shape:
        return value
    number = value.constant.reshape(1) if value.constant is not None else None
    return TensorValue(value.fake.new_empty(1), lambda p: value.at(()), constant=number)


def _along(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, value: Operand, kind: str, what: str
) -> TensorValue:
    """Return a tensor after updates along one dimension, at an index for every point of the index tensor."""
    if 0 in index.shape:  # perhaps of more dimensions than the tensor
        return TensorValue(context.fake, a.at)
    base, index = _vector(a), _vector(index)
    source = _vector(value) if isinstance(value, TensorValue) else value
    axis = axis_of(dim, len(base.shape))
    inside = index_at(context, index, base.shape[axis], what, wraps=False)
    parallel = {k: k for k, n in enumerate(index.shape) if k != axis and n == base.shape[k]}

    def element(p: Point) -> Expr:
        if isinstance(source, TensorValue):
            return converted(source.at(p), a.dtype)
        return constant(source, a.dtype)

    def place(p: Point) -> Sequence[ExprLike]:
        return (*p[:axis], inside.at(p), *p[axis + 1 :])

    func = scattered(context.name, base, index.shape, parallel, place, element, kind)
    return of_func(context, func) if a.shape else TensorValue(context.fake, lambda _: func[0])


@register(aten.scatter.src)
def lower_scatter(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, source: TensorValue
) -> TensorValue:
    """Write elements along a dimension; of several for one element the last one is kept."""
    return _along(context, a, dim, index, source, "set", "scatter")


@register(aten.scatter.value)
def lower_scatter_value(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, value: float
) -> TensorValue:
    """Write a number along a dimension."""
    return _along(context, a, dim, index, value, "set", "scatter")


@register(aten.scatter_add.default)
def lower_scatter_add(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, source: TensorValue
) -> TensorValue:
    """Add elements along a dimension, in order."""
    return _along(context, a, dim, index, source, "sum", "scatter_add")


_COMBINATIONS = {"add": "sum", "multiply": "prod", "sum": "sum", "prod": "prod", "mean": "sum", "amax": "max",
                 "amin": "min"}  # fmt: skip


@register(aten.scatter.reduce, aten.scatter.value_reduce)
def lower_scatter_by(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, source: Operand, *, reduce: str
) -> TensorValue:
    """Add or multiply elements along a dimension."""
    return _along(context, a, dim, index, source, _COMBINATIONS[reduce], "scatter")


@register(aten.scatter_reduce.two)
def lower_scatter_reduce(
    context: LoweringContext,
    a: TensorValue,
    dim: int,
    index: TensorValue,
    source: TensorValue,
    reduce: str,
    *,
    include_self: bool = True,
) -> TensorValue:
    """Combine elements along a dimension; without the own ones where others are combined, by ``include_self=False``."""
    if a.dtype == bool_:
        raise UnsupportedError("scatter_reduce of bools")
    kind = _COMBINATIONS[reduce]
    base = a
    if not include_self:
        touched = _counted(context, a, dim, index, "touched", 0)
        identity = reduction_identity(kind, a.dtype)
        base = TensorValue(a.fake, lambda p: fn.select(touched(p) > 0, identity, a.at(p)))
    total = _along(context, base, dim, index, source, kind, "scatter_reduce")
    if reduce != "mean":
        return total
    count = _counted(context, a, dim, index, "count", int(include_self))

    def mean(p: Point) -> Expr:
        n = converted(fn.max(count(p), 1), a.dtype)
        return total.at(p) / n if a.dtype.is_float else total.at(p) // n

    return TensorValue(context.fake, mean)


def _counted(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, suffix: str, first: int
) -> Callable[[Point], Expr]:
    """Return the number of updates of each element, from a first number."""
    start = TensorValue(a.fake.new_empty(a.shape, dtype=torch.int64), lambda _: Const(first, int64))
    of = replace(context, name=f"{context.name}_{suffix}", fake=start.fake)
    return _along(of, start, dim, index, 1, "sum", "scatter_reduce").at


def _sized_by_data(
    a: torch.Tensor, indices: Sequence[Any], values: torch.Tensor, accumulate: bool = False, *_: Any
) -> str | None:
    """Return why masks are not translated: only one alone, which writes values that are the same at its points."""
    if masks(a, indices) is None:
        return None
    given = [k for k, i in enumerate(indices) if i is not None]
    if len(given) == 1 and indices[given[0]].dtype == torch.bool:
        after = a.ndim - given[0] - indices[given[0]].ndim
        if values.ndim <= after or (isinstance(values.shape[-after - 1], int) and values.shape[-after - 1] == 1):
            return None
    return "an index by a mask: its size depends on data"


def lower_index_put(
    context: LoweringContext,
    a: TensorValue,
    indices: Sequence[TensorValue | None],
    values: TensorValue,
    accumulate: bool = False,
    *,
    checks: bool,
) -> TensorValue:
    """Write or add values at points given by tensors; by a mask, values that are the same at its points.

    Args:
        context: The context of the lowering.
        a: The tensor before the update.
        indices: Indices of the leading dimensions; None for all of one.
        values: The values, which are broadcast.
        accumulate: Whether values are added.
        checks: Whether indices are checked; those of the unsafe operator are in range by construction.
    """
    mask = next((k for k, i in enumerate(indices) if i is not None and i.dtype == bool_), None)
    if mask is not None:
        return _masked_put(context, a, mask, indices[mask], values, accumulate)  # type: ignore[arg-type]
    return _put(context, a, indices, values, accumulate, checks=checks)


for _operator, _checks in ((aten.index_put.default, True), (aten._unsafe_index_put.default, False)):
    register(_operator, unsupported=_sized_by_data)(partial(lower_index_put, checks=_checks))


@register(aten.index_add.default)
def lower_index_add(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, source: TensorValue, *, alpha: float = 1
) -> TensorValue:
    """Add slices of a dimension, times ``alpha``; negative indices are errors."""
    return _put_slices(context, a, dim, index, source, alpha, True, "index_add")


@register(aten.index_copy.default)
def lower_index_copy(
    context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, source: TensorValue
) -> TensorValue:
    """Replace slices of a dimension; negative indices are errors."""
    return _put_slices(context, a, dim, index, source, 1, False, "index_copy")


def _put_slices(
    context: LoweringContext,
    a: TensorValue,
    dim: int,
    index: TensorValue,
    source: TensorValue,
    alpha: float,
    accumulate: bool,
    what: str,
) -> TensorValue:
    base, given, values = _vector(a), _vector(index), _vector(source)
    axis = axis_of(dim, len(base.shape))
    if given.shape[0]:
        given = replace(index_at(context, given, base.shape[axis], what, wraps=False), constant=given.constant)
    scaled = values
    if alpha != 1:
        scale = constant(alpha, a.dtype)
        scaled = TensorValue(values.fake, lambda p: values.at(p) & scale if a.dtype == bool_ else values.at(p) * scale)
    fake = context.fake if a.shape else base.fake
    indices = [*([None] * axis), given]
    result = _put(replace(context, fake=fake), base, indices, scaled, accumulate, checks=False)
    return result if a.shape else TensorValue(context.fake, lambda _: result.at((0,)))


@register(
    aten._unsafe_masked_index_put_accumulate.default, unsupported=lambda a, mask, indices, values: masks(a, indices)
)
def lower_unsafe_masked_index_put(
    context: LoweringContext,
    a: TensorValue,
    mask: TensorValue,
    indices: Sequence[TensorValue | None],
    values: TensorValue,
) -> TensorValue:
    """Add values where a mask holds, at points that are in range there."""
    zero = constant(0, a.dtype)
    kept = TensorValue(values.fake, lambda p: fn.select(broadcast(mask, p), values.at(p), zero))
    return _put(context, a, indices, kept, True, checks=False)


def _put(
    context: LoweringContext,
    a: TensorValue,
    indices: Sequence[TensorValue | None],
    values: TensorValue,
    accumulate: bool,
    *,
    checks: bool,
) -> TensorValue:
    places = indexed_places(context, a, indices, "index_put", checks=checks)
    gathered = _gathered(context, a, places, values, accumulate)
    if gathered is not None:
        return gathered
    free = places.free_dimensions
    domain = [a.shape[k] for k in free]
    domain[places.first : places.first] = places.common
    axes = [k if k < places.first else k + len(places.common) for k in range(len(free))]
    parallel = dict(zip(axes, free, strict=True))
    return of_func(
        context,
        scattered(
            context.name,
            a,
            domain,
            parallel,
            places.at,
            lambda p: converted(broadcast(values, p), a.dtype),
            "sum" if accumulate else "set",
        ),
    )


def _gathered(
    context: LoweringContext, a: TensorValue, places: IndexedPlaces, values: TensorValue, accumulate: bool
) -> TensorValue | None:
    """Return an update at constant indices as a gather; None where it has no such form."""
    extents = {k: a.shape[k] for k in places.indices}
    inverse = inverse_indices(places.given, places.indices, extents, places.common)
    if inverse is None or a.dtype == bool_:
        return None
    dims = sorted(inverse)
    loops = [n for k in dims for n in inverse[k].loops]
    if not accumulate and math.prod(loops) > 1:
        return None
    inner = accumulator(a.dtype)
    source = values.stored(f"{context.name}_values")
    rank = len(a.shape)

    def term(p: Point) -> tuple[Expr, list[Expr]]:
        of_loops = iter(p[rank:])
        common: list[ExprLike] = [0] * len(places.common)
        conditions: list[Expr] = []
        for k in dims:
            at, holds = inverse[k].places(as_expr(p[k]), [next(of_loops) for _ in inverse[k].loops])
            conditions += holds
            for axis, i in at.items():
                common[axis] = i
        of_free: list[ExprLike] = [p[k] for k in places.free_dimensions]
        of_free[places.first : places.first] = common
        return converted(broadcast(source, tuple(of_free)), inner), conditions

    if not accumulate:

        def replaced(p: Point) -> Expr:
            value, conditions = term((*p, *(0 for _ in loops)))
            new = converted(value, a.dtype)
            return fn.select(fn.all_of(*conditions), new, a.at(p)) if conditions else new

        return TensorValue(context.fake, replaced)

    def added(p: Point) -> Expr:
        value, conditions = term(p)
        return fn.select(fn.all_of(*conditions), value, constant(0, inner)) if conditions else value

    total = fold("sum", added, (*a.shape, *loops), range(rank, rank + len(loops)), context.name)
    return TensorValue(context.fake, lambda p: converted(converted(a.at(p), inner) + total(p), a.dtype))


def _masked_put(
    context: LoweringContext, a: TensorValue, first: int, mask: TensorValue, values: TensorValue, accumulate: bool
) -> TensorValue:
    end = first + len(mask.shape)

    def at(p: Point) -> Expr:
        value = converted(broadcast(values, (*p[:first], 0, *p[end:])), a.dtype)
        return fn.select(mask.at(p[first:end]), combined("sum", a.at(p), value) if accumulate else value, a.at(p))

    return TensorValue(context.fake, at)
