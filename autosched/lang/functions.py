"""Scalar functions of the language: select, cast, clamp, elementary functions.

``min``, ``max``, ``abs``, ``pow`` and ``round`` carry their usual names; import the module or take them from
``autosched`` (``autosched.min``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.errors import DSLError
from autosched.lang.dtypes import DType, as_dtype, bool_, float32, float64, int32, int64, uint32, uint64
from autosched.lang.expr import Binary, Call, Cast, Const, Expr, ExprLike, Select
from autosched.lang.operators import (
    as_expr,
    binary,
    common_dtype,
    float_call,
    power,
    to_strong_type,
    unary,
    with_default_type,
)
from autosched.lang.source_location import caller_location

UNARY_FLOAT = frozenset({
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "ceil", "trunc", "round",
})  # fmt: skip
BINARY_FLOAT = frozenset({"pow", "atan2", "fmod", "hypot", "copysign"})
EXACT_FLOAT = frozenset({"sqrt", "floor", "ceil", "trunc", "round", "fmod", "copysign"})
"""Functions with exact IEEE results: all backends agree bit for bit."""


def cast(dtype: DType | str | type, e: ExprLike) -> Expr:
    """Convert ``e``: integers wrap, float to int truncates and saturates (NaN gives 0), to bool is ``e != 0``."""
    target, x = as_dtype(dtype), as_expr(e)
    if isinstance(x, Const) and x.weak and target.is_float:
        return Const(target.rounded(x.value), target)
    if isinstance(x, Const) and x.weak and isinstance(x.value, int) and target.is_int:
        return Const(target.wrapped(x.value), target)
    x = x if x.weak and x.dtype.kind == "i" else with_default_type(x)
    if x.weak and target in (int32, uint64):  # wraps: a direct conversion to these types would be exact
        x = Cast(x, int64)
    return x if not x.weak and x.dtype == target else Cast(x, target)


def select(condition: ExprLike, t: ExprLike, f: ExprLike) -> Expr:
    """Return ``t`` where ``condition`` holds, else ``f``.

    The condition guards the reads in the arms: they must be in range where their arm is selected.

    Raises:
        DSLError: If the condition is no bool or the arms have no common type.
    """
    c, a, b = as_expr(condition), as_expr(t), as_expr(f)
    if c.dtype != bool_:
        raise DSLError(f"the condition of select has type {c.dtype}, not bool", location=caller_location())
    dtype, weak = common_dtype(a, b)
    if weak and dtype.kind == "i":
        return Select(c, a, b, dtype, weak=True)
    return Select(c, to_strong_type(a, dtype), to_strong_type(b, dtype), dtype)


def min(a: ExprLike, b: ExprLike, *more: ExprLike) -> Expr:
    """Return the smallest argument; a NaN propagates."""
    result = binary("min", a, b)
    for e in more:
        result = binary("min", result, e)
    return result


def max(a: ExprLike, b: ExprLike, *more: ExprLike) -> Expr:
    """Return the largest argument; a NaN propagates."""
    result = binary("max", a, b)
    for e in more:
        result = binary("max", result, e)
    return result


def clamp(e: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    """Return ``min(max(e, low), high)``."""
    return min(max(e, low), high)


def abs(e: ExprLike) -> Expr:
    """Return the absolute value; that of the smallest signed integer wraps to itself."""
    return unary("abs", e)


def absd(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``|a - b|`` without wrapping for unsigned operands."""
    x, y = as_expr(a), as_expr(b)
    dtype, weak = common_dtype(x, y)
    if dtype.kind == "u" and not weak:
        x, y = to_strong_type(x, dtype), to_strong_type(y, dtype)
        return binary("sub", max(x, y), min(x, y))
    return abs(binary("sub", x, y))


def lerp(a: ExprLike, b: ExprLike, w: ExprLike) -> Expr:
    """Return ``a * (1 - w) + b * w``."""
    weight = as_expr(w)
    return binary("add", binary("mul", a, binary("sub", 1, weight)), binary("mul", b, weight))


def _elementary(name: str, e: ExprLike) -> Expr:
    x = with_default_type(as_expr(e))
    if not x.dtype.is_float:
        x = to_strong_type(x, float64 if x.dtype.bits == 64 else float32)
    return Call(name, (x,), x.dtype)


def sqrt(e: ExprLike) -> Expr:
    """Return the square root (correctly rounded)."""
    return _elementary("sqrt", e)


def exp(e: ExprLike) -> Expr:
    """Return e to the power of the argument."""
    return _elementary("exp", e)


def exp2(e: ExprLike) -> Expr:
    """Return 2 to the power of the argument."""
    return _elementary("exp2", e)


def expm1(e: ExprLike) -> Expr:
    """Return ``exp(e) - 1`` without cancellation near zero."""
    return _elementary("expm1", e)


def log(e: ExprLike) -> Expr:
    """Return the natural logarithm."""
    return _elementary("log", e)


def log2(e: ExprLike) -> Expr:
    """Return the logarithm to base 2."""
    return _elementary("log2", e)


def log10(e: ExprLike) -> Expr:
    """Return the logarithm to base 10."""
    return _elementary("log10", e)


def log1p(e: ExprLike) -> Expr:
    """Return ``log(1 + e)`` without cancellation near zero."""
    return _elementary("log1p", e)


def sin(e: ExprLike) -> Expr:
    """Return the sine of an angle in radians."""
    return _elementary("sin", e)


def cos(e: ExprLike) -> Expr:
    """Return the cosine of an angle in radians."""
    return _elementary("cos", e)


def tan(e: ExprLike) -> Expr:
    """Return the tangent of an angle in radians."""
    return _elementary("tan", e)


def sinh(e: ExprLike) -> Expr:
    """Return the hyperbolic sine."""
    return _elementary("sinh", e)


def cosh(e: ExprLike) -> Expr:
    """Return the hyperbolic cosine."""
    return _elementary("cosh", e)


def tanh(e: ExprLike) -> Expr:
    """Return the hyperbolic tangent."""
    return _elementary("tanh", e)


def asinh(e: ExprLike) -> Expr:
    """Return the inverse hyperbolic sine."""
    return _elementary("asinh", e)


def acosh(e: ExprLike) -> Expr:
    """Return the inverse hyperbolic cosine; NaN below 1."""
    return _elementary("acosh", e)


def atanh(e: ExprLike) -> Expr:
    """Return the inverse hyperbolic tangent; NaN outside of [-1, 1]."""
    return _elementary("atanh", e)


def erf(e: ExprLike) -> Expr:
    """Return the error function."""
    return _elementary("erf", e)


def erfc(e: ExprLike) -> Expr:
    """Return ``1 - erf(e)`` without cancellation for large arguments."""
    return _elementary("erfc", e)


def atan(e: ExprLike) -> Expr:
    """Return the arc tangent in radians."""
    return _elementary("atan", e)


def asin(e: ExprLike) -> Expr:
    """Return the arc sine in radians."""
    return _elementary("asin", e)


def acos(e: ExprLike) -> Expr:
    """Return the arc cosine in radians."""
    return _elementary("acos", e)


def floor(e: ExprLike) -> Expr:
    """Round down; the type stays floating point."""
    return _elementary("floor", e)


def ceil(e: ExprLike) -> Expr:
    """Round up; the type stays floating point."""
    return _elementary("ceil", e)


def trunc(e: ExprLike) -> Expr:
    """Round toward zero; the type stays floating point."""
    return _elementary("trunc", e)


def round(e: ExprLike) -> Expr:
    """Round half to even; the type stays floating point."""
    return _elementary("round", e)


def pow(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a ** b``; small constant integer powers are products, which are exact everywhere."""
    return power(a, b)


def atan2(y: ExprLike, x: ExprLike) -> Expr:
    """Return the angle of the point (x, y) in radians."""
    return float_call("atan2", y, x)


def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """Return the remainder of the truncated quotient, as C's fmod."""
    return float_call("fmod", a, b)


def hypot(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``sqrt(a*a + b*b)`` without overflow."""
    return float_call("hypot", a, b)


def copysign(a: ExprLike, b: ExprLike) -> Expr:
    """Return the magnitude of ``a`` with the sign of ``b``, that of a zero or NaN included."""
    return float_call("copysign", a, b)


def hash_u32(*keys: ExprLike) -> Expr:
    """Return a well-mixed uint32 from integer keys: the language's random numbers.

    Deterministic and the same on every target: ``h = mix(key_0)``, then ``h = mix(h ^ key_i)``, where ``mix`` is the
    finaliser documented in `autosched.lang.random_bits`.

    Raises:
        DSLError: Without a key, or for a floating-point key.
    """
    if not keys:
        raise DSLError("hash_u32 needs at least one key", location=caller_location())
    state: Expr | None = None
    for key in keys:
        k = as_expr(key)
        if k.dtype.is_float:
            raise DSLError("hash_u32 needs integer keys", location=caller_location(), hint="cast(int32, e)")
        k = cast(uint32, k)
        state = Call("hash_u32", (k if state is None else Binary("xor", state, k, uint32),), uint32)
    assert state is not None
    return state


def random_float(*keys: ExprLike) -> Expr:
    """Return a float32 in [0, 1) from integer keys (24 random bits)."""
    return binary("mul", cast(float32, binary("shr", hash_u32(*keys), 8)), math.ldexp(1.0, -24))


def any_of(*conditions: ExprLike) -> Expr:
    """Return the logical or of bool expressions; false without any."""
    return _combined("or", conditions)


def all_of(*conditions: ExprLike) -> Expr:
    """Return the logical and of bool expressions; true without any."""
    return _combined("and", conditions)


def _combined(op: str, conditions: Sequence[ExprLike]) -> Expr:
    if not conditions:
        return Const(op == "and", bool_)
    result = as_expr(conditions[0])
    for condition in conditions:
        if as_expr(condition).dtype != bool_:
            raise DSLError(
                f"{condition!r} is no condition: its type is {as_expr(condition).dtype}", location=caller_location()
            )
    for condition in conditions[1:]:
        result = binary(op, result, condition)
    return result


__all__ = [n for n in dir() if n in UNARY_FLOAT | BINARY_FLOAT] + [
    "abs", "absd", "all_of", "any_of", "cast", "clamp", "hash_u32", "lerp", "max", "min", "random_float", "select",
]  # fmt: skip
