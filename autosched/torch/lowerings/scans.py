"""Lowerings of cumulative sums, products, minima and maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.dtypes import bool_, int64, uint8
from autosched.lang.expr import Expr
from autosched.lang.func import Func
from autosched.lang.operators import as_expr, binary
from autosched.lang.rdom import RDom
from autosched.torch.lowerings.pointwise import converted
from autosched.torch.lowerings.reductions import scan_accumulator
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import TensorValue, coordinates, element_type

aten = torch.ops.aten


def _lower_scan(operator: Any, kind: str) -> None:
    @register(operator)
    def lower(context: LoweringContext, a: TensorValue, dim: int, **_: Any) -> TensorValue:
        result = element_type(context.fake.dtype)
        inner = scan_accumulator(result)
        if not a.shape:
            return TensorValue(context.fake, lambda p: converted(a.at(p), result))
        axis = dim % len(a.shape)
        func = Func(f"{context.name}_scan")
        point = coordinates(len(a.shape))
        func[point] = converted(a.at(point), inner)
        if a.shape[axis] > 1:
            step = RDom("r", k=(1, a.shape[axis]))[0]
            here, before = ((*point[:axis], i, *point[axis + 1 :]) for i in (step, step - 1))
            func.update(here, binary(kind, func[before], func[here]), over=(step,))
        return TensorValue(context.fake, lambda p: converted(func[tuple(p)], result))


_lower_scan(aten.cumsum.default, "add")
_lower_scan(aten.cumprod.default, "mul")


def _lower_extreme_scan(operator: Any, follows: Callable[[Expr, Expr], Expr]) -> None:
    @register(operator)
    def lower(context: LoweringContext, a: TensorValue, dim: int) -> tuple[TensorValue, TensorValue]:
        values, places = context.fake
        if not a.shape:
            return TensorValue(values, a.at), TensorValue(places, lambda p: fn.cast(int64, 0))
        axis = dim % len(a.shape)
        func = Func(f"{context.name}_scan")
        point = coordinates(len(a.shape))
        element = a.at(point)
        func[point] = (converted(element, uint8) if a.dtype == bool_ else element, fn.cast(int64, point[axis]))
        if a.shape[axis] > 1:
            step = RDom("r", k=(1, a.shape[axis]))[0]
            here, before = ((*point[:axis], i, *point[axis + 1 :]) for i in (step, step - 1))
            (own, place), (best, best_place) = func[here], func[before]
            replaced = follows(own, best)
            if a.dtype.is_float:  # a NaN is followed by nothing but NaN
                replaced = binary("ne", own, own) | (binary("eq", best, best) & replaced)
            func.update(here, (fn.select(replaced, own, best), fn.select(replaced, place, best_place)), over=(step,))
        return (
            TensorValue(values, lambda p: converted(as_expr(func[tuple(p)][0]), a.dtype)),
            TensorValue(places, lambda p: as_expr(func[tuple(p)][1])),
        )


_lower_extreme_scan(aten.cummax.default, lambda own, best: own >= best)
_lower_extreme_scan(aten.cummin.default, lambda own, best: own <= best)
