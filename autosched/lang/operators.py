"""Operations on expressions: promotion of their operands, exact arithmetic on weak integers, typed constants.

Importing this module gives `autosched.lang.expr.Expr` its operators.
"""

from __future__ import annotations

from typing import Any

from autosched.errors import DSLError
from autosched.lang.dtypes import (
    DType,
    as_dtype,
    bool_,
    float32,
    float64,
    int32,
    int64,
    promote,
    true_division_dtype,
    uint64,
)  # fmt: skip
from autosched.lang.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    ExpressionBuilders,
    ExprLike,
    Scalar,
    Select,
    Unary,
)
from autosched.lang.source_location import caller_location
from autosched.lang.to_text import SYMBOL, expression_text

_BITWISE = frozenset({"and", "or", "xor", "shl", "shr"})


def as_expr(value: Any) -> Expr:
    """Return an expression: expressions as they are, Python and NumPy scalars as weak or typed constants.

    Raises:
        DSLError: If the value is no scalar.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Const(value, bool_)
    if isinstance(value, int):
        return Const(value, int32, weak=True)
    if isinstance(value, float):
        return Const(value, float32, weak=True)
    # an Input without dimensions has both attributes, too, and needs an index
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return Const(value.item(), as_dtype(value.dtype))
    raise DSLError(
        f"{type(value).__name__} cannot be an operand of an expression",
        location=caller_location(),
        hint="use a Func or Input with an index (f[y, x]), a Var, a Param or a number",
    )


def to_strong_type(e: Expr, dtype: DType) -> Expr:
    """Return an expression of a strong type: weak constants are checked and converted, other nodes are cast."""
    if isinstance(e, Const) and e.weak:
        return typed_const(e.value, dtype)
    if not e.weak and e.dtype == dtype:
        return e
    return Cast(e, dtype)


def is_literal(e: Expr) -> bool:
    """Return whether an expression is a Python number, or a choice between Python numbers."""
    return bool(_literals(e))


def is_coordinate(e: Expr) -> bool:
    """Return whether an expression is an integer of Vars, reduction variables and shapes, without a type of its own."""
    return e.weak and e.dtype.kind == "i" and not is_literal(e)


def _literals(e: Expr) -> list[Scalar]:
    """Return the possible values of a literal; none for other expressions."""
    values: list[Scalar] = []
    stack = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Const) and node.weak:
            values.append(node.value)
        elif isinstance(node, Select) and node.weak:
            stack += [node.t, node.f]
        else:
            return []
    return values


def typed_const(value: Scalar, dtype: DType) -> Const:
    """Return ``value`` as a strong constant.

    Raises:
        DSLError: If the type cannot hold it.
    """
    if dtype.kind == "b":
        return Const(bool(value), dtype)
    if not dtype.holds(value):
        wider = f"float{dtype.bits * 2}" if dtype.is_float else "int64" if dtype.bits == 32 else "int32"
        raise DSLError(
            f"{value!r} does not fit {dtype}",
            location=caller_location(),
            hint=None if dtype.bits == 64 else f"cast the other operand to a wider type first, e.g. cast({wider}, e)",
        )
    return Const(dtype.rounded(value) if dtype.is_float else int(value), dtype)


def with_default_type(e: Expr) -> Expr:
    """Give a weak expression its default type (int32 or float32)."""
    return to_strong_type(e, e.dtype) if e.weak else e


def common_dtype(a: Expr, b: Expr) -> tuple[DType, bool]:
    """Return the common type of two operands, and whether it is still weak.

    A literal takes the type of the other operand. A coordinate is an exact integer. With integers of up to 32 bits its
    common type is int32, or int64 where its range requires it once shapes are bound. With uint32 and int64 it is int64,
    and with uint64 it is uint64, for coordinates that are not negative.
    """
    if a.weak and b.weak:
        return (float32 if a.dtype.is_float or b.dtype.is_float else int32), True
    if a.weak or b.weak:
        weak, typed = (a, b) if a.weak else (b, a)
        if weak.dtype.is_float and not typed.dtype.is_float:
            return float32, False
        if typed.dtype.kind == "b":
            return weak.dtype, False
        if typed.dtype.is_float or _takes_type(weak, typed.dtype):
            return typed.dtype, False
        if typed.dtype == uint64:
            return uint64, False
        return (int64 if typed.dtype.bits + (typed.dtype.kind == "u") > 32 else int32), False
    try:
        return promote(a.dtype, b.dtype), False
    except DSLError as e:
        raise DSLError(e.message, location=caller_location(), hint=e.hint) from None


def _takes_type(weak: Expr, dtype: DType) -> bool:
    """Return whether a weak operand takes the other operand's type: a single number always, a choice where all fit."""
    values = _literals(weak)
    return len(values) == 1 or bool(values and all(dtype.holds(v) for v in values))


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build ``a op b`` with promotion.

    Raises:
        DSLError: If the operand types do not allow it.
    """
    x, y = as_expr(a), as_expr(b)
    if op in _BITWISE:
        return _bitwise(op, x, y)
    dtype, weak = common_dtype(x, y)
    in_float32 = dtype.is_reduced_float and (is_coordinate(x) or is_coordinate(y))
    if op in COMPARISONS:
        if weak and dtype.is_float:
            weak = False
        dtype = float32 if in_float32 else dtype
        return (
            Binary(op, x, y, bool_) if weak else Binary(op, to_strong_type(x, dtype), to_strong_type(y, dtype), bool_)
        )
    if in_float32:  # float16 holds integers up to 2,048, bfloat16 up to 256: one rounding, of the result
        return Cast(binary(op, to_strong_type(x, float32), to_strong_type(y, float32)), dtype)
    if dtype.kind == "b":
        raise DSLError(
            f"{SYMBOL.get(op, op)} between bools",
            location=caller_location(),
            hint="use & | ^ for logic, or cast(int32, condition) to count",
        )
    if op == "truediv":
        target = true_division_dtype(*(dtype if is_literal(e) else e.dtype for e in (x, y)))
        if isinstance(x, Const) and isinstance(y, Const) and x.weak and y.weak and y.value != 0:
            return Const(x.value / y.value, float32, weak=True)
        return Binary(op, to_strong_type(x, target), to_strong_type(y, target), target)
    if weak and dtype.kind == "i":
        return _weak_integer(op, x, y)
    if dtype == uint64 and op == "sub" and (is_coordinate(x) or is_coordinate(y)):
        raise DSLError(
            f"{uint64} and a coordinate are subtracted: no integer type holds every difference",
            location=caller_location(),
            hint="cast one operand, e.g. cast(int64, e) or cast(uint64, e)",
        )
    folded = _fold(op, x, y, dtype) if weak else None
    return folded if folded is not None else Binary(op, to_strong_type(x, dtype), to_strong_type(y, dtype), dtype)


def _fold(op: str, x: Expr, y: Expr, dtype: DType) -> Expr | None:
    """Fold two constants, so that arithmetic on Python scalars stays weak; None where they do not fold."""
    if not isinstance(x, Const) or not isinstance(y, Const):
        return None
    p, q = x.value, y.value
    if p != p or q != q:  # Python's minimum may lose a NaN
        return None
    match op:
        case "add":
            return Const(p + q, dtype, weak=True)
        case "sub":
            return Const(p - q, dtype, weak=True)
        case "mul":
            return Const(p * q, dtype, weak=True)
        case "min" | "max":
            return Const(min(p, q) if op == "min" else max(p, q), dtype, weak=True)
    return None


def _weak_integer(op: str, x: Expr, y: Expr) -> Expr:
    """Build exact integer arithmetic on Vars and Python ints; division by a non-constant is typed int32."""
    if op in ("floordiv", "mod"):
        if not isinstance(y, Const):
            return Binary(op, to_strong_type(x, int32), to_strong_type(y, int32), int32)
        if y.value == 0:
            raise DSLError(f"division by zero: {x!r} {SYMBOL[op]} 0", location=caller_location())
        if isinstance(x, Const):
            quotient = int(x.value) // int(y.value)
            return Const(quotient if op == "floordiv" else int(x.value) % int(y.value), int32, weak=True)
    neutral = {"add": 0, "sub": 0, "mul": 1}.get(op)
    if isinstance(y, Const) and y.value == neutral and x.weak:
        return x
    if isinstance(x, Const) and x.value == neutral and op != "sub" and y.weak:
        return y
    folded = _fold(op, x, y, int32)
    return folded if folded is not None else Binary(op, x, y, int32, weak=True)


def _bitwise(op: str, x: Expr, y: Expr) -> Expr:
    if x.dtype.is_float or y.dtype.is_float:
        raise DSLError(f"{SYMBOL[op]} needs integers or bools, not {x.dtype} and {y.dtype}", location=caller_location())
    if x.weak and isinstance(y, Const) and op in ("shl", "shr") and 0 <= y.value < 63:
        return binary("mul" if op == "shl" else "floordiv", x, 1 << int(y.value))
    if x.weak and isinstance(y, Const) and op == "and" and y.value >= 0 and (int(y.value) + 1) & int(y.value) == 0:
        return binary("mod", x, int(y.value) + 1)
    if op in ("shl", "shr"):  # the count never widens the value
        dtype = x.dtype
        if x.weak and not y.weak:
            dtype = y.dtype if y.dtype.bits == 64 else promote(int32, y.dtype)
        if dtype.kind == "b":
            raise DSLError(f"{SYMBOL[op]} of a bool", location=caller_location(), hint="cast it to an integer first")
        count = typed_const(int(y.value) % dtype.bits, dtype) if isinstance(y, Const) else to_strong_type(y, dtype)
        return Binary(op, to_strong_type(x, dtype), count, dtype)
    dtype, _ = common_dtype(x, y)
    return Binary(op, to_strong_type(x, dtype), to_strong_type(y, dtype), dtype)


def unary(op: str, a: ExprLike) -> Expr:
    """Build ``-a``, ``~a`` or ``abs(a)``."""
    e = as_expr(a)
    if op == "not":
        if e.dtype.is_float:
            raise DSLError(f"~ needs an integer or bool, not {e.dtype}", location=caller_location())
        return binary("sub", -1, e) if e.weak else Unary(op, e, e.dtype)
    if e.dtype.kind == "b":
        what = "the negative" if op == "neg" else "the absolute value"
        raise DSLError(f"{what} of a bool", location=caller_location(), hint="use ~ for logical not")
    if isinstance(e, Const) and e.weak:
        return Const(-e.value if op == "neg" else abs(e.value), e.dtype, weak=True)
    if e.weak and op == "neg":
        return binary("mul", e, -1)
    if e.weak:
        return binary("max", e, binary("mul", e, -1))
    if op == "abs" and e.dtype.kind == "u":
        return e
    return Unary(op, e, e.dtype)


def float_call(name: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build a call of a floating-point function of two operands; integers become float32, or float64 from 64 bits."""
    x, y = as_expr(a), as_expr(b)
    dtype, _ = common_dtype(x, y)
    if not dtype.is_float:
        declared = [e.dtype for e in (x, y) if not e.weak]
        dtype = float64 if any(d.bits == 64 for d in declared) else float32
    if dtype.is_reduced_float and (is_coordinate(x) or is_coordinate(y)):
        return Cast(Call(name, (to_strong_type(x, float32), to_strong_type(y, float32)), float32), dtype)
    return Call(name, (to_strong_type(x, dtype), to_strong_type(y, dtype)), dtype)


def power(a: ExprLike, b: ExprLike) -> Expr:
    """Build ``a ** b``; small constant integer powers are products, which are exact everywhere."""
    exponent = as_expr(b)
    if isinstance(exponent, Const) and isinstance(exponent.value, int) and 1 <= exponent.value <= 8:
        base = as_expr(a)
        result = base
        for _ in range(int(exponent.value) - 1):
            result = binary("mul", result, base)
        return result
    return float_call("pow", a, b)


Expr.builders = ExpressionBuilders(binary, unary, power, expression_text)
