"""Integer instructions of an operation of the language in compiled GPU code."""

from __future__ import annotations

from autosched.analysis.expressions.bfloat16_rounding import is_rounded_to_bfloat16
from autosched.lang.dtypes import DType, bfloat16, float16, float32
from autosched.lang.expr import COMPARISONS, Binary, Call, Cast, Const, Expr, Load, Select, Unary

DIVISION, DIVISION_BY_CONSTANT, HASH = 22, 5, 8
"""Integer division by a variable, by a constant that is no power of two, and the mixing of bits of ``hash_u32``."""
NAN_PASSES = 2
"""Minimum or maximum of floating-point numbers that may be NaN: comparison and select."""
OF_FLOATS = {
    "truediv": 4, "floordiv": 8, "mod": 6, "fmod": 6, "sqrt": 3, "exp": 2, "log": 8, "sin": 13, "cos": 14, "tan": 14,
    "tanh": 6, "pow": 21, "atan": 5, "asin": 6, "acos": 6, "atan2": 16, "hypot": 6, "floor": 1, "ceil": 1, "round": 1,
    "trunc": 1, "exp2": 1, "expm1": 11, "log2": 12, "log10": 12, "log1p": 12, "sinh": 9, "cosh": 6, "asinh": 18,
    "acosh": 16, "atanh": 16, "erf": 18, "erfc": 11, "copysign": 2,
}  # fmt: skip
"""Integer instructions of single-precision functions, counted in the SASS of kernels of one function
(``scripts/sass/costs.py``)."""
OTHER_FUNCTION = 5


def integer_instructions(e: Expr) -> int:
    """Return the integer instructions of a node, its operands not included.

    A bfloat16 is shifted after its load, and rounded by one conversion after an operation.
    """
    if e.dtype == bfloat16 and isinstance(e, Load):
        return 1
    return _of_operation(e) + is_rounded_to_bfloat16(e)


def _of_operation(e: Expr) -> int:
    match e:
        case Cast() if e.dtype == bfloat16 and e.a.dtype in (float16, float32):
            return 0  # the rounding is the conversion
        case Cast() if (e.a.dtype, e.dtype) == (bfloat16, float32):
            return 0  # a bfloat16 is held as a float32
        case Select():
            return _words(e.dtype)
        case Cast():
            return _cast(e.a.dtype, e.dtype)
        case Binary():
            return _binary(e)
        case Unary():
            return 0 if e.dtype.is_float and e.op == "neg" else _words(e.a.dtype)
        case Call():
            return HASH if e.name == "hash_u32" else OF_FLOATS.get(e.name, OTHER_FUNCTION)
    return 0


def _binary(e: Binary) -> int:
    operand = e.a.dtype
    if e.op in COMPARISONS or e.op in ("and", "or"):
        return 0 if operand.name == "float64" else _words(operand)
    if e.op in ("min", "max"):
        return NAN_PASSES if e.dtype.is_float else _words(operand)
    if e.dtype.is_float:
        constant = isinstance(e.b, Const)
        return 0 if e.op not in OF_FLOATS else 2 if constant and e.op == "truediv" else OF_FLOATS[e.op]
    if e.op in ("floordiv", "mod"):
        return _division(e)
    if e.op in ("add", "sub") and any(isinstance(x, Binary) and x.op == "mul" for x in (e.a, e.b)):
        return 0  # multiply-add is one instruction, counted for the product
    return _words(operand) ** (2 if e.op == "mul" else 1)


def _division(e: Binary) -> int:
    words = _words(e.a.dtype) ** 2
    if not isinstance(e.b, Const):
        return DIVISION * words
    divisor = int(e.b.value)
    return 1 if divisor > 0 and divisor & (divisor - 1) == 0 else DIVISION_BY_CONSTANT * words


def _cast(source: DType, target: DType) -> int:
    if source == target or (not source.is_float and not target.is_float and max(source.bits, target.bits) <= 32):
        return 0
    return 2 if source.is_float and target.is_int and target.bits != 32 else 1


def _words(d: DType) -> int:
    return 2 if d.bits == 64 else 1
