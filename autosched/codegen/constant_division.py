"""Division by a constant: the cheapest C expression with the exact quotient.

Integers
--------
Compilers replace the division by a multiplication themselves. Floor division by a power of two is printed as a shift,
and its remainder as a mask, because compilers do not derive these from the rounded division.

Float32
-------
An IEEE division is expensive on a GPU. There are three forms:

* `x * r`, r = 1 / c, for a power of two: product and quotient are the same real number, rounded once.
* `as_div_const_f32(x, c, r)`, r the float32 nearest to 1 / c, for every other c with 2**-100 <= abs(c) <= 2**100.
* `x / c` for the rest: zero, infinity, NaN, subnormal and extreme numbers.

`x / 3.0f` compiles to many more SASS instructions than `as_div_const_f32`, among them a call of a subroutine. The call
also prevents the compiler from moving loads across it. On a CPU the prelude divides: vector divisions are faster there
than the correction.

Proof that as_div_const_f32 is exact
------------------------------------
Let c > 0 be no power of two; for c < 0 the function negates c, r and x, which changes no rounding. It computes

    q = RN(x r),   e = RN(c q - x),   q' = RN(q - e r)

with RN rounding to nearest even, unless x is out of range:

(1) Range: abs(x) in [max(2**-100, 2**-125 c), min(2**101, 2**126 c)], so abs(x / c) in [2**-125, 2**126]: q and q' are
    normal. c q - x is a multiple of ulp(c) ulp(q) > 2**-48 c q, hence of 2**-149: e loses nothing by underflow.

(2) Error of q. Scaled by powers of two, x and c are integers X and C in [2**23, 2**24), and the quotient is
    Q = 2**s X / C in [2**23, 2**24) with s = 23 for X >= C, else s = 24. r is R = 2**47 / C + p with abs(p) < 1/2.
    q is Q + d rounded, d = X p 2**(s-47). For s = 23 abs(d) < 1/2, for s = 24 abs(d) < X / 2**24 < 1. q is an integer,
    for Q + d >= 2**23 unless Q = 2**23 exactly, where q' = Q is plain: all others have Q > 2**23 + 1/2, since
    C < 2**24. So abs(Q - q) < 3/2, and <= 1 for s = 23.

(3) Correction. c q - x is an integer, at most 3/2 C: it may have 25 bits and be rounded, e = C (q - Q) + g with
    abs(g) <= 1, but g = 0 if abs(Q - q) <= 1. Hence q' = RN(Q + h) with

        h = -g / C - (C (q - Q) + g) p / 2**47.

(4) q' = RN(Q) unless a midpoint M of two floats lies between Q and Q + h, or is Q + h. No quotient is a midpoint (C
    times an odd number above 2**24 would be 2**(s+1) X), so Q = M + k / (2 C) with an integer k != 0, and
    abs(h) >= 1 / (2 C).
    (a) If abs(Q - q) <= 1, then g = 0 and q is next to M: abs(Q - q) <= 1/2 + abs(h) <= 1/2 + 2**-24, and
        abs(h) < (1/2 + 2**-24) C / 2**48 < 1 / (2 C), since C**2 (1 + 2**-23) < 2**48 for C <= 2**24 - 1.
    (b) If abs(Q - q) > 1, then s = 24, and q lies at 3/2 from M: abs(d) >= 1 - abs(h), so
        X abs(p) >= 2**23 (1 - abs(h)). With abs(h) < 1 / C + (3/2 C + 1) / 2**48, that is 3.6 / 2**24 at most,
        X >= 2**24 - 3; then C > X makes h smaller, 2.6 / 2**24, and X = 2**24 - 2, C = 2**24 - 1. But for this C,
        p < 1/2 - 2**-25, and X p / 2**23 < (1 - 2**-23) (1 - 2**-24) < 1 - 2.9 / 2**24.
    Neither is possible. Markstein's theorem has the same end, but starts from a q within one unit, which (2) does not
    give; a c whose mantissa is all ones is the hard case in both.

(5) Zeros are in range: e = +0 for either sign, -e r = -0, and q' = q, which has the sign of the quotient.

(6) Out of range, as_div_const_wide_f32 works in float64: w = RN(x RN(1/c)) and w' = RN(w - RN(c w - x) RN(1/c)), whose
    relative error is below 2**-52, and which is the quotient itself where that is a float64 (w is then at most two
    units away, and the residual exact). A float32 or a midpoint of two, subnormal ones included, has 25 bits at most;
    the quotient either is that number, and so is w', or differs from it by a part in 2**49 or more, so that w' lies on
    the same side. The conversion of w' therefore rounds as the quotient would. Infinity and NaN give x r.

`scripts/prove_division.py` checks all 2**32 dividends for chosen c, and the hardest dividends for every mantissa of c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from autosched.codegen.prelude.literals import float_literal, int_literal
from autosched.lang.dtypes import DType, float32, float64

_LARGEST_EXPONENT = 100  # of a divisor for as_div_const_f32


class DivisionMethod(Enum):
    """Form of a division by a constant."""

    MULTIPLY = "multiply"
    RECIPROCAL = "reciprocal"
    DIVIDE = "divide"


@dataclass(frozen=True, slots=True)
class ConstantDivision:
    """A division by a floating-point constant.

    Attributes:
        method: Form of the expression.
        divisor: The constant, rounded to the type.
        reciprocal: Its reciprocal, rounded to the type; 0 if unused.
        dtype: Type of the operation: float32 or float64.
    """

    method: DivisionMethod
    divisor: float
    reciprocal: float
    dtype: DType

    def text(self, x: str) -> str:
        """Return the C expression of `x` divided by the constant, in parentheses or a call.

        Args:
            x: A C expression of this type; it appears once.
        """
        divisor, reciprocal = (float_literal(value, self.dtype) for value in (self.divisor, self.reciprocal))
        match self.method:
            case DivisionMethod.MULTIPLY:
                return f"({x} * {reciprocal})"
            case DivisionMethod.RECIPROCAL:
                return f"as_div_const_f32({x}, {divisor}, {reciprocal})"
            case DivisionMethod.DIVIDE:
                return f"({x} / {divisor})"


def constant_division(divisor: float, dtype: DType) -> ConstantDivision:
    """Return the form of a division by a constant; the result is always the IEEE quotient.

    Args:
        divisor: The constant; it is rounded to the type.
        dtype: A floating-point type. For float16 and bfloat16 the caller rounds the float32 quotient once more. This is
            exact, because float32 has more than twice the digits.

    >>> constant_division(4.0, float32).text("x")
    '(x * 0.25f)'
    >>> constant_division(3.0, float32).text("a[i]")
    'as_div_const_f32(a[i], 3.0f, 0.33333334f)'
    >>> constant_division(3.0, float64).text("x")
    '(x / 3.0)'
    """
    computed = float64 if dtype == float64 else float32
    with np.errstate(over="ignore"):
        c = float(dtype.scalar(divisor))
    smallest_normal = float(np.finfo(computed.numpy).smallest_normal)
    if math.isfinite(c) and c != 0:
        mantissa, exponent = math.frexp(abs(c))  # abs(c) = mantissa * 2**exponent, mantissa in [1/2, 1)
        if mantissa == 0.5 and smallest_normal <= abs(c) <= 1 / smallest_normal:
            return ConstantDivision(DivisionMethod.MULTIPLY, c, 1 / c, computed)
        if computed == float32 and -_LARGEST_EXPONENT < exponent <= _LARGEST_EXPONENT:
            return ConstantDivision(DivisionMethod.RECIPROCAL, c, float(_reciprocal_f32(c)), computed)
    return ConstantDivision(DivisionMethod.DIVIDE, c, 0.0, computed)


def floordiv_text(a: str, divisor: int, dtype: DType) -> str:
    """Return the C expression of an integer divided by a constant, rounding down; by zero it is 0.

    Args:
        a: A C expression of the type that binds tighter than a shift.
        divisor: The constant, within the type's range.
        dtype: An integer type.

    >>> from autosched.lang.dtypes import int32
    >>> floordiv_text("x", 4, int32), floordiv_text("x", 3, int32)
    ('(x >> 2)', 'as_floordiv_i32(x, 3)')
    """
    if _is_power_of_two(divisor):
        return f"({a} >> {divisor.bit_length() - 1})"
    return f"as_floordiv_{dtype.short}({a}, {int_literal(divisor, dtype)})"


def mod_text(a: str, divisor: int, dtype: DType) -> str:
    """Return the C expression of the remainder of `floordiv_text`, which has the divisor's sign; by zero it is 0.

    Args:
        a: A C expression of the type that binds tighter than a bitwise and.
        divisor: The constant, within the type's range.
        dtype: An integer type.

    >>> from autosched.lang.dtypes import int32
    >>> mod_text("x", 4, int32), mod_text("x", -3, int32)
    ('(x & 3)', 'as_mod_i32(x, -3)')
    """
    if _is_power_of_two(divisor):
        return f"({a} & {int_literal(divisor - 1, dtype)})"
    return f"as_mod_{dtype.short}({a}, {int_literal(divisor, dtype)})"


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _reciprocal_f32(c: float) -> np.float32:
    """Return 1 / c correctly rounded, by an IEEE division of numpy."""
    return np.float32(1) / np.float32(c)
