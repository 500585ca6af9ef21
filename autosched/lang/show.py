"""Expressions as readable text, for error messages, ``repr`` and loop nests."""

from __future__ import annotations

from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Load, Param, RVar, Select, ShapeDim, Unary, Var

_SYMBOL = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_STRENGTH = {
    "or": 1, "xor": 2, "and": 3, "lt": 0, "le": 0, "gt": 0, "ge": 0, "eq": 0, "ne": 0, "shl": 4, "shr": 4,
    "add": 5, "sub": 5, "mul": 6, "truediv": 6, "floordiv": 6, "mod": 6,
}  # fmt: skip


def show(e: Expr, strength: int = -1) -> str:
    """Return ``e`` in Python syntax; parentheses only where an outer operator of ``strength`` needs them."""
    match e:
        case Const():
            return repr(e.value)
        case Var() | RVar() | Param():
            return e.name
        case ShapeDim():
            return f"{e.input.name}.shape[{e.axis}]"
        case Load():
            suffix = f"[{e.component}]" if e.source.is_tuple else ""
            return f"{e.source.name}[{', '.join(show(i) for i in e.indices)}]{suffix}"
        case Unary(op="neg"):
            return f"-{show(e.a, 7)}"
        case Unary(op="not"):
            return f"~{show(e.a, 7)}"
        case Unary():
            return f"{e.op}({show(e.a)})"
        case Binary(op="min" | "max"):
            return f"{e.op}({show(e.a)}, {show(e.b)})"
        case Binary(op="add", b=Const(value=v)) if not isinstance(v, bool) and v < 0:
            return _parenthesise(f"{show(e.a, 5)} - {-v!r}", 5, strength)
        case Binary():
            own = _STRENGTH[e.op]
            return _parenthesise(f"{show(e.a, own)} {_SYMBOL[e.op]} {show(e.b, own + 1)}", own, strength)
        case Select():
            return f"select({show(e.cond)}, {show(e.t)}, {show(e.f)})"
        case Cast():
            return f"{e.dtype}({show(e.a)})"
        case Call():
            return f"{e.name}({', '.join(show(a) for a in e.args)})"
    raise TypeError(f"no text form for {type(e).__name__}")


def _parenthesise(text: str, own: int, outer: int) -> str:
    return f"({text})" if own < outer else text
