"""Lowering of cumulative logarithms of sums of exponentials."""

from __future__ import annotations

import math

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr
from autosched.lang.func import Func
from autosched.lang.operators import binary
from autosched.lang.rdom import RDom
from autosched.torch.lowerings.pointwise import converted
from autosched.torch.lowerings.reductions import scan_accumulator
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.views import axis_of
from autosched.torch.tensors import TensorValue, coordinates, element_type

aten = torch.ops.aten


@register(aten.logcumsumexp.default)
def lower_logcumsumexp(context: LoweringContext, a: TensorValue, dim: int) -> TensorValue:
    """Return the logarithm of the sum of exponentials up to each element."""
    inner, result = scan_accumulator(a.dtype), element_type(context.fake.dtype)
    if not a.shape:
        return TensorValue(context.fake, a.at)
    axis = axis_of(dim, len(a.shape))
    func = Func(f"{context.name}_scan")
    point = coordinates(len(a.shape))
    func[point] = converted(a.at(point), inner)
    if a.shape[axis] > 1:
        r = RDom("r", k=(1, a.shape[axis]))[0]
        here, before = ((*point[:axis], i, *point[axis + 1 :]) for i in (r, r - 1))
        func.update(here, _logaddexp(func[before], func[here]), over=(r,))
    return TensorValue(context.fake, lambda p: converted(func[tuple(p)], result))


def _logaddexp(a: Expr, b: Expr) -> Expr:
    """Return the logarithm of a sum of exponentials; equal infinities stay."""
    low, high = fn.min(a, b), fn.max(a, b)
    same = binary("eq", a, b) & (fn.abs(a) >= math.inf)
    return fn.select(same, high, fn.log1p(fn.exp(low - high)) + high)
