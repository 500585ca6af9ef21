"""Costs of operations in device instructions by unit, and their latencies.

Instructions of compound operations are those of the SASS of NVRTC 13.5 for sm_90, in a kernel of one operation
(``scripts/sass/costs.py``), on the path of ordinary operands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.analysis.expressions.bfloat16_rounding import rounds_to_bfloat16
from autosched.codegen.constant_division import DivisionMethod, constant_division
from autosched.lang.dtypes import DType, bfloat16, float16, float32, float64
from autosched.lang.expr import COMPARISONS
from autosched.lower.ir import ConstValue, Op, Value

ARITHMETIC_LATENCY = 4.0
"""Latency of an addition or product in cycles (Jia et al. 2018, Volta; the same since)."""
DOUBLE_LATENCY = 8.0
"""The same in double precision (Jia et al. 2018)."""
SPECIAL_LATENCY = 18.0
"""Cycles of the unit for elementary functions beyond that of an addition (Abdelkhalik et al. 2022, Ampere)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions of one operation by unit, and its latency in cycles."""

    fp32: float = 0.0
    fp64: float = 0.0
    integer: float = 0.0
    special: float = 0.0
    latency: float = ARITHMETIC_LATENCY

    @property
    def instructions(self) -> float:
        """All of them."""
        return self.fp32 + self.fp64 + self.integer + self.special


FREE = Cost(latency=0.0)
_INTEGER = Cost(integer=1)
_SINGLE = Cost(fp32=1)
_DOUBLE = Cost(fp64=1, latency=DOUBLE_LATENCY)


def _compound(fp32: float, integer: float, special: float) -> Cost:
    """Return the cost of a single-precision function of mostly dependent instructions."""
    latency = ARITHMETIC_LATENCY * 0.75 * (fp32 + integer) + (SPECIAL_LATENCY + ARITHMETIC_LATENCY) * special
    return Cost(fp32=fp32, integer=integer, special=special, latency=latency)


_F32 = {
    "truediv": _compound(8, 4, 1), "floordiv": _compound(10, 8, 1), "mod": _compound(9, 6, 1),
    "fmod": _compound(8, 6, 1), "sqrt": _compound(6, 3, 1), "exp": _compound(7, 2, 1), "log": _compound(18, 8, 1),
    "sin": _compound(14, 13, 0), "cos": _compound(14, 14, 0), "tan": _compound(22, 14, 1),
    "tanh": _compound(9, 6, 2), "pow": _compound(44, 21, 2), "atan": _compound(14, 5, 1),
    "asin": _compound(14, 6, 1), "acos": _compound(14, 6, 1), "atan2": _compound(26, 16, 1),
    "hypot": _compound(12, 6, 1), "floor": _compound(0, 1, 0), "ceil": _compound(0, 1, 0),
    "round": _compound(0, 1, 0), "trunc": _compound(0, 1, 0), "exp2": _compound(2, 1, 1),
    "expm1": _compound(13, 11, 0), "log2": _compound(17, 12, 0), "log10": _compound(16, 12, 0),
    "log1p": _compound(15, 12, 0), "sinh": _compound(14, 9, 2), "cosh": _compound(8, 6, 2),
    "asinh": _compound(20, 18, 2), "acosh": _compound(23, 16, 1), "atanh": _compound(19, 16, 1),
    "erf": _compound(9, 18, 1), "erfc": _compound(34, 11, 3), "copysign": _compound(0, 2, 0),
}  # fmt: skip
_RECIPROCAL = _compound(6, 3, 0)
"""Division by a constant without a division: `autosched.codegen.constant_division`."""
_F64_OPERATIONS = {
    "truediv": 18, "floordiv": 24, "mod": 20, "fmod": 20, "sqrt": 18, "exp": 48, "log": 22, "sin": 30, "cos": 31,
    "tan": 45, "tanh": 44, "pow": 120, "atan": 73, "asin": 60, "acos": 60, "atan2": 110, "hypot": 30, "floor": 1,
    "ceil": 1, "round": 1, "trunc": 1,
}  # fmt: skip
_INTEGER_DIVISION = 22.0
"""Instructions of a 32-bit division by a variable (CUDA C++ Programming Guide: up to 20, plus rounding down)."""
_INTEGER_DIVISION_BY_CONSTANT = 5.0
_COUNT_DIVISION_BY_CONSTANT = 2.0
"""Instructions of dividing a non-negative number of fewer or unsigned bits: a product and a shift."""
_HASH = 8.0
_PLAIN = frozenset({"add", "sub", "mul"})
_EXTREMES = frozenset({"min", "max", "abs"})
_LOW_BITS = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "not"})
"""Operations whose low result bits depend only on low operand bits."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand; with ``low`` only the bits of a narrow integer are needed."""

    value: Value
    low: bool


def priced(v: Op, *, low: bool = False) -> tuple[Cost, tuple[Operand, ...]]:
    """Return the cost of an operation, and the operands to be computed.

    A product and its sum contract to one instruction. Truncation to 8 or 16 bits is free if a later operation repeats
    it.

    Args:
        v: The operation.
        low: Whether only low bits of the result are needed.
    """
    if v.name == "cast" and _is_small_int(v.args[0].dtype) and _is_small_int(v.dtype):
        narrows = v.dtype.bits < v.args[0].dtype.bits
        return _INTEGER if narrows and not low else FREE, (Operand(v.args[0], low or narrows),)
    passes_on = low and v.name in _LOW_BITS and v.dtype.is_int
    operands: list[Operand] = []
    product: Op | None = None
    for a in v.args:
        inner = _product(a, low=passes_on) if v.name in ("add", "sub") and product is None else None
        if inner is not None and inner.dtype.bits == max(v.dtype.bits, inner.dtype.bits):
            product = inner
            operands += [Operand(f, passes_on) for f in inner.args]
        else:
            operands.append(Operand(a, passes_on))
    cost = _cost(v)
    is_conversion = v.name == "cast" and v.args[0].dtype in (float16, float32)  # which is the rounding itself
    if rounds_to_bfloat16(v.name, v.dtype) and not is_conversion:
        cost = replace(cost, integer=cost.integer + 1, latency=cost.latency + ARITHMETIC_LATENCY)
    return cost, tuple(operands)


def _product(v: Value, *, low: bool) -> Op | None:
    """Return a product behind free conversions."""
    while isinstance(v, Op) and v.name == "cast":
        (inner,) = v.args
        narrows = v.dtype.bits < inner.dtype.bits
        if not _is_small_int(inner.dtype) or not _is_small_int(v.dtype) or (narrows and not low):
            return None
        v, low = inner, low or narrows
    return v if isinstance(v, Op) and v.name == "mul" and v.dtype.kind != "b" and v.dtype != bfloat16 else None


def _is_small_int(d: DType) -> bool:
    return d.kind in "iu" and d.bits <= 32


def _cost(v: Op) -> Cost:
    operand = v.args[0].dtype
    if v.name in ("cast", "fptosi"):
        return _cast(operand, v.dtype)
    if v.name == "neg":
        return FREE if v.dtype.is_float else _INTEGER  # a negation is an operand modifier
    if v.name == "select":
        return Cost(integer=_words(v.dtype))
    if v.name in COMPARISONS and operand.name == "float64":
        return _DOUBLE
    if v.dtype.kind == "b" or not v.dtype.is_float:
        return _integer(v, operand)
    if v.dtype == float64:
        return _double(v)
    if v.name in _PLAIN:
        return _SINGLE
    if v.name in _EXTREMES:
        return Cost(integer=1 if v.name == "abs" else 2)  # a NaN passes through
    if v.name == "truediv" and isinstance(v.args[1], ConstValue):
        method = constant_division(float(v.args[1].value), v.dtype).method
        return {DivisionMethod.MULTIPLY: _SINGLE, DivisionMethod.RECIPROCAL: _RECIPROCAL}.get(method, _F32["truediv"])
    if v.name == "div_by":
        return _RECIPROCAL
    return _F32.get(v.name, _compound(20, 5, 1))


def _words(d: DType) -> float:
    return 2.0 if d.bits == 64 else 1.0


def _double(v: Op) -> Cost:
    if v.name in _PLAIN:
        return _DOUBLE
    if v.name in _EXTREMES:
        return Cost(fp64=1, integer=2, latency=DOUBLE_LATENCY)
    n = _F64_OPERATIONS.get(v.name, 30)
    return Cost(fp64=0.7 * n, integer=0.3 * n, latency=DOUBLE_LATENCY * 0.75 * n)


def _integer(v: Op, operand: DType) -> Cost:
    words = _words(operand)
    if v.name in ("floordiv", "mod"):
        divisor = v.args[1]
        if not isinstance(divisor, ConstValue):
            count = _INTEGER_DIVISION
        elif int(divisor.value) > 0 and int(divisor.value) & (int(divisor.value) - 1) == 0:
            count = 1.0
        else:
            short = _is_count(v.args[0])
            count = (_COUNT_DIVISION_BY_CONSTANT if short else _INTEGER_DIVISION_BY_CONSTANT) + (v.name == "mod")
        return Cost(integer=count * words * words, latency=ARITHMETIC_LATENCY * 0.75 * max(count * words, 1))
    if v.name == "hash_u32":
        return Cost(integer=_HASH, latency=ARITHMETIC_LATENCY * _HASH)
    return Cost(integer=words * (words if v.name == "mul" else 1))


def _is_count(v: Value) -> bool:
    """Whether a 32-bit integer is non-negative: converted from a narrower unsigned type, or unsigned."""
    while isinstance(v, Op) and v.name == "cast" and v.dtype.kind == "i" and v.dtype.bits > v.args[0].dtype.bits:
        (v,) = v.args
    return v.dtype.kind == "u"


def _cast(source: DType, target: DType) -> Cost:
    if not source.is_float and not target.is_float and max(source.bits, target.bits) <= 32:
        return _INTEGER if target.kind == "b" else FREE
    if source == target or (source, target) == (bfloat16, float32):  # a bfloat16 is held as a float32
        return FREE
    if float64 in (source, target):
        return Cost(fp64=1, integer=2.0 if target.is_int else 0.0, latency=DOUBLE_LATENCY)
    if source.is_float and target.is_int:
        return Cost(integer=1.0 if target.bits == 32 else 2.0, latency=2 * ARITHMETIC_LATENCY)
    return Cost(integer=1.0, latency=ARITHMETIC_LATENCY)
