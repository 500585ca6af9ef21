"""Operations of bfloat16 that round: the float32 results of all others are bfloat16 where their operands are."""

from __future__ import annotations

from autosched.lang.dtypes import DType, bfloat16
from autosched.lang.expr import Binary, Call, Cast, Expr, Unary

EXACT = frozenset({"neg", "abs", "min", "max", "floor", "ceil", "trunc", "round", "select"})
"""Names of the operations without rounding."""


def rounds_to_bfloat16(name: str, dtype: DType) -> bool:
    """Whether the generated code of an operation has a rounding.

    Args:
        name: Name of the operation, as of `Unary`, `Binary`, `Call` and of operations of kernel IR.
        dtype: Type of its result.
    """
    return dtype == bfloat16 and name not in EXACT


def is_rounded_to_bfloat16(e: Expr) -> bool:
    """Whether the generated code of a node has a rounding to bfloat16; loads, constants and parameters have none."""
    match e:
        case Unary(op=name) | Binary(op=name) | Call(name=name):
            return rounds_to_bfloat16(name, e.dtype)
        case Cast():
            return e.dtype == bfloat16 != e.a.dtype
    return False
