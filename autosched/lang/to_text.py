"""Expressions as readable text, for error messages, ``repr`` and loop nests."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.lang.dtypes import int32, int64, uint64
from autosched.lang.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    Select,
    ShapeDim,
    Unary,
    Var,
)

MAX_LENGTH = 10_000
"""Longer texts are truncated: with shared nodes they can grow exponentially."""

SYMBOL = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_STRENGTH = {
    "or": 1, "xor": 2, "and": 3, "lt": 0, "le": 0, "gt": 0, "ge": 0, "eq": 0, "ne": 0, "shl": 4, "shr": 4,
    "add": 5, "sub": 5, "mul": 6, "truediv": 6, "floordiv": 6, "mod": 6,
}  # fmt: skip
_Operand = tuple[Expr, int]
"""An expression and the strength of the operator around it."""


def expression_text(e: Expr, strength: int = -1) -> str:
    """Return ``e`` in Python syntax; parentheses only where an outer operator of ``strength`` needs them."""
    text: list[str] = []
    length = 0
    stack: list[str | _Operand] = [(e, strength)]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack.extend(reversed(_parts(*item)))
            continue
        text.append(item)
        length += len(item)
        if length > MAX_LENGTH:
            return "".join(text) + "..."
    return "".join(text)


def _parts(e: Expr, strength: int) -> list[str | _Operand]:
    match e:
        case Const():
            return [repr(e.value)]
        case Var() | RVar() | Param():
            return [e.name]
        case ShapeDim():
            return [f"{e.input.name}.shape[{e.axis}]"]
        case Load():
            suffix = f"[{e.component}]" if e.source.is_tuple else ""
            return [f"{e.source.name}[", *_listed(e.indices), f"]{suffix}"]
        case Unary(op="neg" | "not"):
            return ["-" if e.op == "neg" else "~", (e.a, 7)]
        case Unary():
            return [f"{e.op}(", (e.a, -1), ")"]
        case Binary(op="min" | "max"):
            return [f"{e.op}(", *_listed((e.a, e.b)), ")"]
        case Binary(op="add", b=Const(value=v)) if not isinstance(v, bool) and v < 0:
            return _parenthesised([(e.a, 5), f" - {-v!r}"], 5, strength)
        case Binary():
            inner = _STRENGTH[e.op]
            left = inner + (e.op in COMPARISONS)  # Python chains comparisons
            return _parenthesised([(e.a, left), f" {SYMBOL[e.op]} ", (e.b, inner + 1)], inner, strength)
        case Select():
            return ["select(", *_listed((e.cond, e.t, e.f)), ")"]
        case Cast(a=Cast(a=a, dtype=through)) if a.weak and through == int64 and e.dtype in (int32, uint64):
            return [f"{e.dtype}(", (a, -1), ")"]  # the user wrote one cast; it wraps through int64
        case Cast():
            return [f"{e.dtype}(", (e.a, -1), ")"]
        case Call():
            return [f"{e.name}(", *_listed(e.args), ")"]
    raise TypeError(f"no text form for {type(e).__name__}")


def _listed(operands: Sequence[Expr]) -> list[str | _Operand]:
    parts: list[str | _Operand] = []
    for e in operands:
        parts += [", ", (e, -1)] if parts else [(e, -1)]
    return parts


def _parenthesised(parts: list[str | _Operand], inner: int, outer: int) -> list[str | _Operand]:
    return ["(", *parts, ")"] if inner < outer else parts
