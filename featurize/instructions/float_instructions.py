"""Single-precision instructions of an operation in compiled GPU code."""

from __future__ import annotations

import math

from autosched.lang.dtypes import bfloat16
from autosched.lang.expr import Binary, Call, Const, Expr

OF_FUNCTIONS = {
    "truediv": 9, "floordiv": 11, "mod": 10, "fmod": 9, "sqrt": 7, "exp": 8, "log": 19, "sin": 14, "cos": 14, "tan": 23,
    "tanh": 11, "pow": 46, "atan": 15, "asin": 15, "acos": 15, "atan2": 27, "hypot": 13,
    "exp2": 3, "expm1": 13, "log2": 17, "log10": 16, "log1p": 15, "sinh": 16, "cosh": 10, "asinh": 22, "acosh": 24,
    "atanh": 20, "erf": 10, "erfc": 37, "copysign": 0,
}  # fmt: skip
"""Instructions of functions, that of the special function unit included; counted in the SASS of kernels of one function
(``scripts/sass/costs.py``)."""
ROUNDINGS = frozenset({"floor", "ceil", "round", "trunc", "hash_u32"})
"""Functions that integer units execute."""
OTHER_FUNCTION = 20
DIVISION_BY_CONSTANT = 6
"""Division by a constant that is no power of two: product, error and correction."""


def float_instructions(e: Expr) -> int:
    """Return the single-precision instructions of a node, its operands not included."""
    if not e.dtype.is_float or e.dtype.bits > 32:
        return 0
    match e:
        case Call():
            return 0 if e.name in ROUNDINGS else OF_FUNCTIONS.get(e.name, OTHER_FUNCTION)
        case Binary() if e.op in ("add", "sub"):
            # a product of bfloat16 is rounded before it is added
            return int(e.dtype == bfloat16 or not any(isinstance(x, Binary) and x.op == "mul" for x in (e.a, e.b)))
        case Binary() if e.op == "mul":
            return 1
        case Binary() if e.op == "truediv" and isinstance(e.b, Const):
            return 1 if math.frexp(float(e.b.value))[0] == 0.5 else DIVISION_BY_CONSTANT
        case Binary():
            return OF_FUNCTIONS.get(e.op, 0)
    return 0
