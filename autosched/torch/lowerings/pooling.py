"""Lowerings of pooling and its gradients.

Gradients are gathers: each element adds those of the windows that have it, in order, so that no update collides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.dtypes import DType, int32, int64
from autosched.lang.expr import Const, Expr
from autosched.lang.func import Func
from autosched.lang.operators import binary
from autosched.lang.rdom import RDom, reduction_identity
from autosched.torch.lowerings.pointwise import constant, converted
from autosched.torch.lowerings.reductions import accumulator, fold
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.views import guarded_index
from autosched.torch.lowerings.windows import AdaptiveWindow, PoolingWindow, Window
from autosched.torch.tensors import InvalidOperandError, Point, TensorValue, coordinates, element_type

aten = torch.ops.aten

Sizes = Sequence[int]
Divisor = Callable[[Point, DType], Expr]
"""Number of elements of the window at a point, in a type."""


def _windows(a: TensorValue, results: torch.Tensor, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
             rank: int) -> list[Window]:  # fmt: skip
    size, padding, dilation = (_each(v, rank) for v in (size, padding, dilation))
    stride = _each(stride, rank) if stride else size
    extents = zip(a.shape[-rank:], results.shape[-rank:], size, stride, padding, dilation, strict=True)
    return [PoolingWindow(*(int(v) for v in values)) for values in extents]


def _adaptive_windows(a: TensorValue, results: torch.Tensor, rank: int) -> list[Window]:
    found: list[Window] = []
    for n, m in zip(a.shape[-rank:], results.shape[-rank:], strict=True):
        if n == 0:
            raise InvalidOperandError("adaptive pooling of no element")
        found.append(AdaptiveWindow(n, int(m)))
    return found


def _each(value: Sizes | int, rank: int) -> list[int]:
    given = [value] if isinstance(value, int) else [int(v) for v in value]
    return given * rank if len(given) == 1 else given


def _taps(windows: Sequence[Window], p: Point) -> tuple[Point, list[Expr]]:
    """Return the element of a point of results and taps, with the conditions under which it exists."""
    rank = len(windows)
    places, taps = p[-2 * rank : -rank], p[-rank:]
    index = tuple(w.element(o, k) for w, o, k in zip(windows, places, taps, strict=True))
    conditions = [c for w, o, k in zip(windows, places, taps, strict=True) for c in w.has(o, k)]
    return (*p[: -2 * rank], *index), conditions


def _covers(windows: Sequence[Window], p: Point) -> tuple[Point, list[Expr]]:
    """Return the result of a point of elements and windows, with the conditions under which it has the element."""
    rank = len(windows)
    places, numbers = p[-2 * rank : -rank], p[-rank:]
    index = tuple(w.window(i, k) for w, i, k in zip(windows, places, numbers, strict=True))
    conditions = [c for w, i, k in zip(windows, places, numbers, strict=True) for c in w.covered(i, k)]
    return (*p[: -2 * rank], *index), conditions


def _guarded(conditions: Sequence[Expr], value: Expr, otherwise: Expr) -> Expr:
    return fn.select(fn.all_of(*conditions), value, otherwise) if conditions else value


def _read(source: TensorValue, index: Point, rank: int) -> Expr:
    """Return an element whose conditions guard its last coordinates."""
    first = len(index) - rank
    return source.at((*index[:first], *(guarded_index(source, first + k, i) for k, i in enumerate(index[first:]))))


def _average(context: LoweringContext, a: TensorValue, windows: Sequence[Window], divisor: Divisor) -> TensorValue:
    inner, result = accumulator(a.dtype), element_type(context.fake.dtype)
    source = a.stored(f"{context.name}_of")
    shape = (*(int(n) for n in context.fake.shape), *(w.taps for w in windows))
    zero = constant(0, inner)

    def term(p: Point) -> Expr:
        index, conditions = _taps(windows, p)
        return _guarded(conditions, converted(_read(source, index, len(windows)), inner), zero)

    total = fold("sum", term, shape, range(len(shape) - len(windows), len(shape)), context.name)
    return TensorValue(context.fake, lambda p: converted(total(p) / divisor(p, inner), result))


def _average_backward(
    context: LoweringContext, gradient: TensorValue, windows: Sequence[Window], divisor: Divisor
) -> TensorValue:
    inner, result = accumulator(gradient.dtype), element_type(context.fake.dtype)
    shared = Func(f"{context.name}_share")
    point = coordinates(len(gradient.shape))
    shared[point] = converted(gradient.at(point), inner) / divisor(point, inner)
    shape = (*(int(n) for n in context.fake.shape), *(w.covers for w in windows))
    zero = constant(0, inner)

    def term(p: Point) -> Expr:
        index, conditions = _covers(windows, p)
        return _guarded(conditions, shared[tuple(index)], zero)

    total = fold("sum", term, shape, range(len(shape) - len(windows), len(shape)), context.name)
    return TensorValue(context.fake, lambda p: converted(total(p), result))


def _divisor(windows: Sequence[Window], padded: bool, given: int | None) -> Divisor:
    def at(p: Point, dtype: DType) -> Expr:
        if given is not None:
            return constant(given, dtype)
        counts = [w.count(o, padded=padded) for w, o in zip(windows, p[-len(windows) :], strict=True)]
        if all(isinstance(count, Const) for count in counts):
            return constant(math.prod(int(count.value) for count in counts if isinstance(count, Const)), dtype)
        product = converted(counts[0], dtype)
        for count in counts[1:]:
            product = product * converted(count, dtype)
        return product

    return at


def _register_averages(forward: Any, backward: Any, rank: int) -> None:
    @register(forward)
    def lower(
        context: LoweringContext,
        a: TensorValue,
        size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> TensorValue:
        windows = _windows(a, context.fake, size, stride, padding, (1,), rank)
        return _average(context, a, windows, _divisor(windows, count_include_pad, divisor_override))

    @register(backward)
    def lower_backward(
        context: LoweringContext,
        gradient: TensorValue,
        a: TensorValue,
        size: Sizes,
        stride: Sizes,
        padding: Sizes,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> TensorValue:
        windows = _windows(a, gradient.fake, size, stride, padding, (1,), rank)
        return _average_backward(context, gradient, windows, _divisor(windows, count_include_pad, divisor_override))


def _register_adaptive_averages(forward: Any, backward: Any, rank: int) -> None:
    @register(forward)
    def lower(context: LoweringContext, a: TensorValue, size: Sizes) -> TensorValue:
        windows = _adaptive_windows(a, context.fake, rank)
        return _average(context, a, windows, _divisor(windows, False, None))

    @register(backward)
    def lower_backward(context: LoweringContext, gradient: TensorValue, a: TensorValue) -> TensorValue:
        windows = _adaptive_windows(a, gradient.fake, rank)
        return _average_backward(context, gradient, windows, _divisor(windows, False, None))


def _maximum(context: LoweringContext, a: TensorValue, windows: Sequence[Window]) -> tuple[TensorValue, TensorValue]:
    """Return the largest elements, and their places in the flat spatial dimensions."""
    values, places = context.fake
    source = a.stored(f"{context.name}_of")
    shape = (*(int(n) for n in values.shape), *(w.taps for w in windows))
    least = reduction_identity("max", a.dtype)

    def term(p: Point) -> Expr:
        index, conditions = _taps(windows, p)
        return _guarded(conditions, _read(source, index, len(windows)), least)

    total = fold("max", term, shape, range(len(shape) - len(windows), len(shape)), context.name)
    return (
        TensorValue(values, total),
        TensorValue(places, lambda p: _largest_place(context, a, source, windows, len(values.shape))[tuple(p)][0]),
    )


def _largest_place(
    context: LoweringContext, a: TensorValue, source: TensorValue, windows: Sequence[Window], rank: int
) -> Func:
    """Return a Func of the flat place and the value of each window's largest element.

    Of equal elements the first one counts, of several NaN the last one, and the first element of the dimension where
    none is larger than the least value of the type.
    """
    func = Func(f"{context.name}_place")
    outer = coordinates(rank)
    domain = RDom("r", **{f"k{k}": w.taps for k, w in enumerate(windows)})
    extents = [w.extent for w in windows]
    least = reduction_identity("max", a.dtype)
    starts = [w.first_tap(o) for w, o in zip(windows, outer[-len(windows) :], strict=True)]
    func[outer] = (_flat(_taps(windows, (*outer, *starts))[0][-len(windows) :], extents), least)
    index, conditions = _taps(windows, (*outer, *domain.vars))
    value = _read(source, index, len(windows))
    place, kept = func[outer]
    larger = value > kept
    if a.dtype.is_float:
        larger = larger | binary("ne", value, value)
    better = fn.all_of(*conditions, larger)
    new = _flat(index[-len(windows) :], extents)
    func.update(outer, (fn.select(better, new, place), fn.select(better, value, kept)), over=domain.vars)
    return func


def _flat(index: Point, extents: Sequence[int]) -> Expr:
    dtype = int32 if math.prod(extents) <= int32.max_value else int64
    flat = fn.cast(dtype, index[0])
    for i, n in zip(index[1:], extents[1:], strict=True):
        flat = flat * n + fn.cast(dtype, i)
    return fn.cast(int64, flat)


def _maximum_backward(
    context: LoweringContext, gradient: TensorValue, places: TensorValue, windows: Sequence[Window]
) -> TensorValue:
    inner, result = accumulator(gradient.dtype), element_type(context.fake.dtype)
    shape = (*(int(n) for n in context.fake.shape), *(w.covers for w in windows))
    source, held = gradient.stored(f"{context.name}_gradient"), places.stored(f"{context.name}_places")
    rank = len(windows)
    zero = constant(0, inner)
    extents = [w.extent for w in windows]

    def term(p: Point) -> Expr:
        index, conditions = _covers(windows, p)
        own = binary("eq", _read(held, index, rank), _flat(p[-2 * rank : -rank], extents))
        return fn.select(fn.all_of(*conditions, own), converted(_read(source, index, len(windows)), inner), zero)

    total = fold("sum", term, shape, range(len(shape) - rank, len(shape)), context.name)
    return TensorValue(context.fake, lambda p: converted(total(p), result))


def _register_maxima(forward: Any, backward: Any, rank: int) -> None:
    @register(forward)
    def lower(
        context: LoweringContext,
        a: TensorValue,
        size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        dilation: Sizes = (1,),
        ceil_mode: bool = False,
    ) -> tuple[TensorValue, TensorValue]:
        return _maximum(context, a, _windows(a, context.fake[0], size, stride, padding, dilation, rank))

    @register(backward)
    def lower_backward(
        context: LoweringContext,
        gradient: TensorValue,
        a: TensorValue,
        size: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
        places: TensorValue,
    ) -> TensorValue:
        windows = _windows(a, gradient.fake, size, stride, padding, dilation, rank)
        return _maximum_backward(context, gradient, places, windows)


def _register_adaptive_maxima(forward: Any, backward: Any, rank: int) -> None:
    @register(forward)
    def lower(context: LoweringContext, a: TensorValue, size: Sizes) -> tuple[TensorValue, TensorValue]:
        return _maximum(context, a, _adaptive_windows(a, context.fake[0], rank))

    @register(backward)
    def lower_backward(
        context: LoweringContext, gradient: TensorValue, a: TensorValue, places: TensorValue
    ) -> TensorValue:
        return _maximum_backward(context, gradient, places, _adaptive_windows(a, gradient.fake, rank))


_register_averages(aten.avg_pool2d.default, aten.avg_pool2d_backward.default, 2)
_register_averages(aten.avg_pool3d.default, aten.avg_pool3d_backward.default, 3)
_register_adaptive_averages(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d_backward.default, 2)
_register_adaptive_averages(aten._adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d_backward.default, 3)
_register_maxima(aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default, 2)
_register_maxima(aten.max_pool3d_with_indices.default, aten.max_pool3d_with_indices_backward.default, 3)
_register_adaptive_maxima(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default, 2)
_register_adaptive_maxima(aten.adaptive_max_pool3d.default, aten.adaptive_max_pool3d_backward.default, 3)
