"""Lowerings of reductions, softmax and cumulative sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.dtypes import DType, bool_, float32, float64, int32, uint8
from autosched.lang.expr import Expr, ExprLike, postorder
from autosched.lang.func import Func
from autosched.lang.operators import as_expr, binary
from autosched.lang.rdom import OPERATOR_OF, RDom, argmax, argmin, reduction_identity
from autosched.torch.lowerings.pointwise import constant, converted
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.views import reshaped_index
from autosched.torch.tensors import InvalidOperandError, Point, TensorValue, coordinates, element_type, view_of

aten = torch.ops.aten

UNROLLED_TERMS = 8
"""Most terms of a reduction that becomes an expression, such as one over the channels of an image."""
UNROLLED_NODES = 256
"""Most nodes of such an expression."""
RUN = 1024
"""Most floating-point terms that are added in order; longer sums are sums of runs."""
LANES = (128, 64, 32, 16)
"""Runs beside each other, where the number of terms is a multiple."""
LONGEST_RUN = 128
"""Terms from which on runs are divided into chunks, which are computed side by side."""

Dims = Sequence[int] | int | None


def reduced_axes(dims: Dims, rank: int) -> tuple[int, ...]:
    """Return the dimensions of a reduction from 0; all where there are none."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return tuple(range(rank))
    given = [dims] if isinstance(dims, int) else dims
    return tuple(sorted({d % rank for d in given})) if rank else ()


def accumulator(dtype: DType) -> DType:
    """Return the type in which terms are added: half precision in float32."""
    return float32 if dtype.is_float and dtype.bits == 16 else dtype


def scan_accumulator(dtype: DType) -> DType:
    """Return the type of the running value of a scan, whose error grows with its length: one size more, as eager's."""
    return {16: float32, 32: float64}.get(dtype.bits, dtype) if dtype.is_float else dtype


def fold(
    kind: str,
    term: Callable[[Point], Expr],
    shape: Sequence[int],
    axes: Sequence[int],
    name: str,
    *,
    in_rows: bool | None = None,
) -> Callable[[Point], Expr]:
    """Return a reduction of terms as a function of the coordinates that are left.

    Long sums of floating-point numbers are sums of runs of at most `RUN` terms, as the error grows with the number of
    terms that are added in order.

    Args:
        kind: ``sum``, ``prod``, ``min`` or ``max``.
        term: Term at a point of `shape`.
        shape: Extents of all dimensions.
        axes: The dimensions that are reduced, from 0, in order.
        name: Name of the Funcs.
        in_rows: Whether runs are neighbouring terms, for kernels whose lanes share each row; None to decide by the
            shape: where one of several dimensions is reduced, as in softmax.
    """
    if not axes:
        return term
    others = [k for k in range(len(shape)) if k not in axes]
    if in_rows is None:
        in_rows = len(axes) == 1 and math.prod(shape[k] for k in others) > 1
    outer = coordinates(len(others))
    probe = term(tuple(coordinates(len(shape))))
    count = math.prod(shape[k] for k in axes)
    if _is_short(probe, count):
        return lambda p: reduce(partial(binary, OPERATOR_OF[kind]), map(term, _reduced_points(p, shape, axes)))
    if kind == "sum" and probe.dtype.is_float and count > RUN:
        last = axes[-1]
        if len(axes) > 1 and shape[last] > 1:
            inner = fold(kind, term, shape, [last], f"{name}_{last}", in_rows=in_rows)
            left = [n for k, n in enumerate(shape) if k != last]
            return fold(kind, inner, left, [k for k in axes if k != last], name, in_rows=in_rows)
        if shape[last] > RUN:
            return _fold_runs(kind, term, shape, last, [k for k in axes if k != last], name, in_rows)
    domain = RDom("r", **{f"k{axis}": shape[axis] for axis in axes})
    place: dict[int, ExprLike] = {**dict(zip(others, outer, strict=True)), **dict(zip(axes, domain.vars, strict=True))}
    value = term(tuple(place[k] for k in range(len(shape))))
    func = Func(name)
    func[outer] = reduction_identity(kind, value.dtype)
    func.update(outer, binary(OPERATOR_OF[kind], func[outer], value), over=domain.vars)
    return lambda p: func[tuple(p)]


def _is_short(value: Expr, count: int) -> bool:
    """Return whether a reduction of ``count`` terms is an expression: operators that read it can inline it."""
    if not 0 < count <= UNROLLED_TERMS:
        return False
    seen: set[int] = set()
    for node in postorder([value], seen):
        seen.add(id(node))
        if len(seen) * count > UNROLLED_NODES:
            return False
    return True


def _reduced_points(p: Point, shape: Sequence[int], axes: Sequence[int]) -> Iterator[Point]:
    """Yield the points that are reduced to a point of the dimensions that are left, in order."""
    others = [k for k in range(len(shape)) if k not in axes]
    for reduced_point in itertools.product(*(range(shape[k]) for k in axes)):
        place = {**dict(zip(others, p, strict=True)), **dict(zip(axes, reduced_point, strict=True))}
        yield tuple(place[k] for k in range(len(shape)))


def _fold_runs(
    kind: str,
    term: Callable[[Point], Expr],
    shape: Sequence[int],
    axis: int,
    rest: Sequence[int],
    name: str,
    in_rows: bool,
) -> Callable[[Point], Expr]:
    """Return a reduction along one dimension by runs; the last terms of some runs may be missing.

    Unless the lanes of a kernel share each row, terms of a run lie apart: neighbouring runs, lanes of vectors, read
    neighbouring elements.
    """
    n = shape[axis]
    chunks, run, lanes = (*_row_runs(n), None) if in_rows else _run_shape(n)
    outer = [chunks] if chunks > 1 else []
    inner_dims = [] if lanes is None else [lanes]
    split = [*shape[:axis], *outer, run, *inner_dims, *shape[axis + 1 :]]
    at = axis + len(outer)
    end = at + 1 + len(inner_dims)

    def term_of_run(p: Point) -> Expr:
        i = as_expr(p[axis]) * run + p[at] if outer else as_expr(p[at])
        if lanes is not None:
            i = i * lanes + p[at + 1]
        if n == chunks * run * (lanes or 1):
            return term((*p[:axis], i, *p[end:]))
        value = term((*p[:axis], fn.min(i, n - 1), *p[end:]))
        return fn.select(i < n, value, reduction_identity(kind, value.dtype))

    inner = fold(kind, term_of_run, split, [at], f"{name}_runs", in_rows=in_rows)
    left = [*shape[:axis], *outer, *inner_dims, *shape[axis + 1 :]]
    added = len(outer) + len(inner_dims) - 1
    moved = [k if k < axis else k + added for k in rest]
    return fold(kind, inner, left, sorted([*range(axis, axis + added + 1), *moved]), name, in_rows=in_rows)


def _run_shape(n: int) -> tuple[int, int, int]:
    """Return the chunks of terms, the terms of a run, and the runs of a chunk; together they have ``n`` or more."""
    fitting = [k for k in LANES if k * k <= n]
    lanes = next((k for k in fitting if n % k == 0), fitting[0])
    rows = -(-n // lanes)
    return (1, rows, lanes) if rows <= LONGEST_RUN else (*_row_runs(rows), lanes)


def _row_runs(n: int) -> tuple[int, int]:
    """Return the number of runs of ``n`` terms, and their length.

    The length is about the square root, and a divisor where one is within a factor of 4.
    """
    length = 1 << (math.isqrt(n) - 1).bit_length()
    divisors = [d for d in range(max(length // 4, 2), 4 * length) if n % d == 0]
    run = min(divisors, key=lambda d: abs(math.log2(d / length)), default=length)
    return -(-n // run), run


def reduced(
    context: LoweringContext,
    a: TensorValue,
    dims: Dims,
    keepdim: bool,
    kind: str,
    term: Callable[[Expr], Expr],
    finish: Callable[[Expr], Expr] = lambda e: e,
) -> TensorValue:
    """Return a reduction as a tensor.

    Args:
        context: The context of the lowering.
        a: The tensor.
        dims: Its reduced dimensions; all where there are none.
        keepdim: Whether they stay, with one element.
        kind: ``sum``, ``prod``, ``min`` or ``max``.
        term: Makes a term of an element.
        finish: Makes the result of a reduced value.
    """
    axes = reduced_axes(dims, len(a.shape))
    source, of_source = _unmerged(a, axes)
    total = fold(kind, lambda p: term(source.at(p)), source.shape, of_source, context.name)
    return _finished(context, a, axes, keepdim, lambda p: finish(total(p)))


def _unmerged(a: TensorValue, axes: Sequence[int]) -> tuple[TensorValue, Sequence[int]]:
    """Return a tensor and axes with the same reductions, before a reshape that merges reduced dimensions only.

    Coordinates of merged dimensions are quotients and remainders, which do not vectorise.
    """
    while a.merged is not None:
        base, groups = a.merged
        if any(len(group) > 1 for k, group in enumerate(groups) if k not in axes):
            break
        a, axes = base, [of for k in axes for of in groups[k]]
    return a, axes


def _finished(
    context: LoweringContext, a: TensorValue, axes: Sequence[int], keepdim: bool, total: Callable[[Point], Expr]
) -> TensorValue:
    others = [k for k in range(len(a.shape)) if k not in axes]
    dtype = element_type(context.fake.dtype)

    def at(p: Point) -> Expr:
        return converted(total(tuple(p[k] for k in others) if keepdim else p), dtype)

    return TensorValue(context.fake, at)


def _count(a: TensorValue, dims: Dims) -> int:
    return math.prod(a.shape[k] for k in reduced_axes(dims, len(a.shape)))


def lower_accumulation(
    context: LoweringContext, a: TensorValue, dims: Dims = None, keepdim: bool = False, *, kind: str, **_: Any
) -> TensorValue:
    """Add or multiply elements; bools by logical or and and."""
    if context.fake.dtype == torch.bool:
        return (lower_any if kind == "sum" else lower_all)(context, a, dims, keepdim)
    inner = accumulator(element_type(context.fake.dtype))
    return reduced(context, a, dims, keepdim, kind, lambda e: converted(e, inner))


register(aten.sum.default, aten.sum.dim_IntList)(partial(lower_accumulation, kind="sum"))
register(aten.prod.default, aten.prod.dim_int)(partial(lower_accumulation, kind="prod"))


@register(aten.mean.default, aten.mean.dim)
def lower_mean(
    context: LoweringContext, a: TensorValue, dims: Dims = None, keepdim: bool = False, **_: Any
) -> TensorValue:
    """Average elements."""
    inner = accumulator(element_type(context.fake.dtype))
    count = _count(a, dims)
    return reduced(
        context, a, dims, keepdim, "sum", lambda e: converted(e, inner), lambda e: e / constant(count, inner)
    )


@register(aten.amax.default)
def lower_amax(context: LoweringContext, a: TensorValue, dims: Dims = (), keepdim: bool = False) -> TensorValue:
    """Return the largest element."""
    return _extreme(context, a, dims, keepdim, "max")


@register(aten.amin.default)
def lower_amin(context: LoweringContext, a: TensorValue, dims: Dims = (), keepdim: bool = False) -> TensorValue:
    """Return the smallest element."""
    return _extreme(context, a, dims, keepdim, "min")


@register(aten.max.default)
def lower_max(context: LoweringContext, a: TensorValue) -> TensorValue:
    """Return the largest element of all."""
    return _extreme(context, a, None, False, "max")


@register(aten.min.default)
def lower_min(context: LoweringContext, a: TensorValue) -> TensorValue:
    """Return the smallest element of all."""
    return _extreme(context, a, None, False, "min")


def _extreme(context: LoweringContext, a: TensorValue, dims: Dims, keepdim: bool, kind: str) -> TensorValue:
    if _count(a, dims) == 0:
        raise InvalidOperandError(f"{kind} of no element")
    return reduced(context, a, dims, keepdim, kind, lambda e: converted(e, uint8) if a.dtype == bool_ else e)


@register(aten.any.default, aten.any.dim, aten.any.dims)
def lower_any(context: LoweringContext, a: TensorValue, dims: Dims = None, keepdim: bool = False) -> TensorValue:
    """Return whether an element is not zero."""
    return reduced(context, a, dims, keepdim, "max", lambda e: converted(converted(e, bool_), uint8))


@register(aten.all.default, aten.all.dim, aten.all.dims)
def lower_all(context: LoweringContext, a: TensorValue, dims: Dims = None, keepdim: bool = False) -> TensorValue:
    """Return whether no element is zero."""
    return reduced(context, a, dims, keepdim, "min", lambda e: converted(converted(e, bool_), uint8))


@register(aten.var.correction)
def lower_var(
    context: LoweringContext,
    a: TensorValue,
    dims: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> TensorValue:
    """Return the variance, in two passes."""
    return _variance(context, a, dims, correction, keepdim)[0]


@register(aten.var_mean.correction)
def lower_var_mean(
    context: LoweringContext,
    a: TensorValue,
    dims: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[TensorValue, TensorValue]:
    """Return variance and mean, in two passes."""
    return _variance(context, a, dims, correction, keepdim)


def _variance(
    context: LoweringContext, a: TensorValue, dims: Dims, correction: float | None, keepdim: bool
) -> tuple[TensorValue, TensorValue]:
    if isinstance(context.fake, tuple | list):
        fake, mean_fake = context.fake
    else:
        fake = mean_fake = context.fake
    axes = reduced_axes(dims, len(a.shape))
    others = [k for k in range(len(a.shape)) if k not in axes]
    count = _count(a, dims)
    inner = accumulator(a.dtype)
    source = a.stored(f"{context.name}_of")
    total = fold("sum", lambda p: converted(source.at(p), inner), a.shape, axes, f"{context.name}_sum")
    mean = Func(f"{context.name}_mean")
    outer = coordinates(len(others))
    mean[outer] = total(outer) / constant(count, inner)

    def squared(p: Point) -> Expr:
        difference: Expr = converted(source.at(p), inner) - mean[tuple(p[k] for k in others)]
        return difference * difference

    squares = fold("sum", squared, a.shape, axes, f"{context.name}_squares")
    divisor = constant(max(count - (1 if correction is None else correction), 0), inner)
    of = LoweringContext(context.name, fake, context.add_check)
    mean_of = LoweringContext(context.name, mean_fake, context.add_check)
    return (
        _finished(of, a, axes, keepdim, lambda p: squares(p) / divisor),
        _finished(mean_of, a, axes, keepdim, lambda p: mean[tuple(p)]),
    )


def _arg_extreme(context: LoweringContext, a: TensorValue, dim: int, kind: str) -> Func:
    """Return a Func of the places and values of the first extreme elements along a dimension."""
    if not a.shape:  # a number is a row of one element
        a = view_of(a, a.fake.reshape(1), lambda p: [])
    rank = len(a.shape)
    axis = dim % rank
    if not a.shape[axis]:
        raise InvalidOperandError(f"arg{kind} of no element")
    source = a.stored(f"{context.name}_of")
    outer = coordinates(rank - 1)

    def term(p: Point) -> Expr:
        element = source.at(p)
        return converted(element, uint8) if a.dtype == bool_ else element

    func = Func(f"{context.name}_at")
    if _is_short(term(tuple(coordinates(rank))), a.shape[axis]):
        func[outer] = _first_extreme([term(p) for p in _reduced_points(outer, a.shape, [axis])], kind)
        return func
    domain = RDom("r", k=a.shape[axis])
    place, value = (argmax if kind == "max" else argmin)(
        term((*outer[:axis], domain[0], *outer[axis:])), over=domain, name=f"{context.name}_arg"
    )
    func[outer] = (place, value)
    return func


def _first_extreme(terms: Sequence[Expr], kind: str) -> tuple[Expr, Expr]:
    """Return place and value of the first extreme term; the first NaN is the largest and the smallest."""
    value = reduce(partial(binary, kind), terms)
    place: Expr = constant(len(terms) - 1, int32)
    for k, e in reversed(list(enumerate(terms[:-1]))):
        here = (e == value) | (e != e) if e.dtype.is_float else e == value
        place = fn.select(here, k, place)
    return place, value


def _component(func: Func, point: Point, component: int) -> Expr:
    value: Expr = func[tuple(point)][component]
    return value


def _lower_arg(operator: Any, kind: str) -> None:
    @register(operator)
    def lower(context: LoweringContext, a: TensorValue, dim: int | None = None, keepdim: bool = False) -> TensorValue:
        if dim is None:
            row = view_of(a, a.fake.reshape(-1), lambda p: reshaped_index(p, a.shape, (math.prod(a.shape),)))
            func = _arg_extreme(context, row, 0, kind)
            dtype = element_type(context.fake.dtype)
            return TensorValue(context.fake, lambda p: converted(_component(func, (), 0), dtype))
        func = _arg_extreme(context, a, dim, kind)
        axes = reduced_axes(dim, len(a.shape))
        return _finished(context, a, axes, keepdim, lambda p: _component(func, p, 0))


def _lower_extreme_with_place(operator: Any, kind: str) -> None:
    @register(operator)
    def lower(
        context: LoweringContext, a: TensorValue, dim: int, keepdim: bool = False
    ) -> tuple[TensorValue, TensorValue]:
        func = _arg_extreme(context, a, dim, kind)
        axes = reduced_axes(dim, len(a.shape))
        values, places = (LoweringContext(context.name, fake, context.add_check) for fake in context.fake)
        return (
            _finished(values, a, axes, keepdim, lambda p: _component(func, p, 1)),
            _finished(places, a, axes, keepdim, lambda p: _component(func, p, 0)),
        )


for _name, _kind in (("max", "max"), ("min", "min")):
    _lower_arg(getattr(aten, f"arg{_name}").default, _kind)
    _lower_extreme_with_place(getattr(aten, _name).dim, _kind)


@register(aten._softmax.default)
def lower_softmax(context: LoweringContext, a: TensorValue, dim: int, half_to_float: bool) -> TensorValue:
    """Return the softmax along a dimension."""
    exponentials, total, _ = _softmax_parts(context, a, dim)
    result = element_type(context.fake.dtype)
    return TensorValue(context.fake, lambda p: converted(exponentials(p) / total(p), result))


@register(aten._log_softmax.default)
def lower_log_softmax(context: LoweringContext, a: TensorValue, dim: int, half_to_float: bool) -> TensorValue:
    """Return the logarithm of the softmax along a dimension."""
    _, total, shifted = _softmax_parts(context, a, dim)
    result = element_type(context.fake.dtype)
    return TensorValue(context.fake, lambda p: converted(shifted(p) - fn.log(total(p)), result))


def _softmax_parts(
    context: LoweringContext, a: TensorValue, dim: int
) -> tuple[Callable[[Point], Expr], Callable[[Point], Expr], Callable[[Point], Expr]]:
    """Return exponentials, their sum, and the elements less the largest."""
    rank = len(a.shape)
    axes = [dim % rank] if rank else []
    inner = accumulator(a.dtype)
    source = a.stored(f"{context.name}_of")
    largest = fold("max", lambda p: converted(source.at(p), inner), a.shape, axes, f"{context.name}_max")

    def others(p: Point) -> Point:
        return tuple(i for k, i in enumerate(p) if k not in axes)

    def shifted(p: Point) -> Expr:
        return converted(source.at(p), inner) - largest(others(p))

    exponentials = Func(f"{context.name}_exp")
    point = coordinates(rank)
    exponentials[point] = fn.exp(shifted(point))
    total = fold("sum", lambda p: exponentials[tuple(p)], a.shape, axes, f"{context.name}_sum")
    return lambda p: exponentials[tuple(p)], lambda p: total(others(p)), shifted
