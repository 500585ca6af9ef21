"""Scalar operations of the language in NumPy.

Operands have one type, which NumPy preserves; functions of float16 and bfloat16 are computed in float32 and rounded.
Integers wrap, ``//`` and ``%`` floor and return 0 for a zero divisor,
shift counts are masked, minima and maxima propagate NaN and return the first of equal operands. Weak integers are
exact: their type is int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autosched.lang.dtypes import DType, bfloat16
from autosched.lang.expr import COMPARISONS, Binary, Call, Cast, Expr, Select, Unary
from autosched.lang.random_bits import hash_u32_numpy
from autosched.reference.buffers import Value

Operation = Callable[..., Value]

UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def _of_python(function: Callable[[float], float]) -> Operation:
    """Return a function that NumPy lacks, computed in float64 and rounded to the operand's type."""
    of_objects = np.frompyfunc(function, 1, 1)
    return lambda v: np.asarray(of_objects(v)).astype(v.dtype)


_CALLS: dict[str, Operation] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": _of_python(math.erf), "erfc": _of_python(math.erfc),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "pow": np.power, "atan2": np.arctan2,
    "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign,
}  # fmt: skip


def operation(node: Expr) -> Operation:
    """Return the function from operand values to the node's value; loads and leaves have none."""
    match node:
        case Unary(op="not"):
            return np.logical_not if node.dtype.kind == "b" else np.invert
        case Unary(op="neg"):
            return np.negative
        case Unary(op="abs"):
            return np.absolute
        case Binary(op=op) if op in COMPARISONS:
            return UFUNCS[op]
        case Binary():
            return _binary(node)
        case Select():
            return np.where
        case Cast():
            return conversion(node.a.dtype, node.dtype)
        case Call(name="hash_u32"):
            return _hash
        case Call(name=name):
            return _CALLS[name] if node.dtype != bfloat16 else partial(_in_float32, _CALLS[name])
    raise TypeError(f"{type(node).__name__} is not an operation")


def _in_float32(function: Callable[..., Value], *operands: Value) -> Value:
    """Return a function of bfloat16 operands: the functions of `ml_dtypes` differ from NumPy's in the last bit."""
    result: Value = function(*(v.astype(np.float32) for v in operands)).astype(bfloat16.numpy)
    return result


def _binary(node: Binary) -> Operation:
    if node.op in ("shl", "shr"):
        shift = np.left_shift if node.op == "shl" else np.right_shift
        return partial(_shift, shift, node.dtype.numpy.type(node.dtype.bits - 1))
    if node.op in ("min", "max") and node.dtype.is_float:
        return float_min if node.op == "min" else float_max
    ufunc = UFUNCS[node.op]
    return partial(ufunc, dtype=np.int64) if node.weak else ufunc


def _hash(v: Value) -> Value:
    return hash_u32_numpy(v)


def _shift(shift: np.ufunc, mask: Any, a: Value, count: Value) -> Value:
    return shift(a, np.bitwise_and(count, mask))


def float_min(a: Value, b: Value) -> Value:
    """Return the smaller operand, the first of equals: the sign of a zero is then the same in all backends."""
    return np.where((a <= b) | np.isnan(a), a, b)


def float_max(a: Value, b: Value) -> Value:
    """Return the larger operand; the first of equals."""
    return np.where((a >= b) | np.isnan(a), a, b)


def conversion(source: DType, target: DType) -> Operation:
    """Return the cast from one type to another; a weak integer is an int64.

    A conversion to bfloat16 goes by way of float32, as in `ml_dtypes` and PyTorch.
    """
    to = target.numpy
    if source.is_float and target.is_int:
        return partial(_float_to_int, target)
    return lambda v: v.astype(to)


def _float_to_int(target: DType, v: Value) -> Value:
    """Truncate; values outside of the type saturate, NaN becomes 0."""
    if v.dtype.itemsize == 2:
        v = v.astype(np.float32)  # float16 has no 2**16 to compare with, bfloat16 no 2**15 - 1
    to = target.numpy
    # The upper bound is a power of two, so it is exact. The lower bound may round up to the smallest value, which
    # saturates to itself.
    above = v.dtype.type(target.max_value + 1)
    below = v.dtype.type(target.min_value - 1)
    inside = (v > below) & (v < above)
    if inside.all():
        return v.astype(to)
    low, high, zero = (to.type(n) for n in (target.min_value, target.max_value, 0))
    outside = np.where(v >= above, high, np.where(v <= below, low, zero))
    return np.where(inside, np.where(inside, v, v.dtype.type(0)).astype(to), outside)
