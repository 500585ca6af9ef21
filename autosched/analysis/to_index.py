"""From language expressions in index position to symbolic indices over the stage's loops."""

from __future__ import annotations

from autosched.analysis import index as ix
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Load, RVar, Select, Unary, Var


def to_index(e: Expr, memo: dict[int, ix.Index] | None = None) -> ix.Index:
    """Convert an integer expression; `Var` and `RVar` become loop variables of their names.

    Shapes and integer parameters must have been replaced by constants. What depends on data becomes a ``data`` atom
    with the range that clamps, remainders, masks, comparisons with constants and the element type guarantee.
    """
    if memo is None:
        memo = {}
    known = memo.get(id(e))
    if known is None:
        known = memo[id(e)] = _convert(e, memo)
    return known


def _convert(e: Expr, memo: dict[int, ix.Index]) -> ix.Index:
    match e:
        case Const():
            return int(e.value)
        case Var():
            return ix.var(e.name, -ix.UNBOUNDED, ix.UNBOUNDED)
        case RVar():
            lo, hi = rvar_range(e)
            return ix.Affine(((ix.LoopVar(e.name, lo, hi), 1),), 0)
        case Binary(op="add" | "sub" | "mul" | "min" | "max") if e.dtype.is_int:
            operation = {"add": ix.add, "sub": ix.sub, "mul": ix.multiply, "min": ix.minimum, "max": ix.maximum}[e.op]
            return _unless_wrapping(e, operation(to_index(e.a, memo), to_index(e.b, memo)))
        case Binary(op="floordiv" | "mod", b=Const(value=c)) if e.dtype.is_int and c > 0:
            a = to_index(e.a, memo)
            quotient: ix.Index = ix.floordiv(a, int(c)) if e.op == "floordiv" else ix.mod(a, int(c))
            return quotient
        case Unary(op="neg"):
            return _unless_wrapping(e, ix.scale(to_index(e.a, memo), -1))
        case Unary(op="abs"):
            a = to_index(e.a, memo)
            return _unless_wrapping(e, ix.maximum(a, ix.scale(a, -1)))
        case Select() if e.dtype.is_int:
            t, f = _refined(e, memo)
            lo, hi = min(t[0], f[0]), max(t[1], f[1])
            arms = to_index(e.t, memo), to_index(e.f, memo)
            return ix.select(e.cond, *arms, text=str(id(e.cond)), bounds=(lo, hi))
        case Cast() if e.dtype.is_int and e.a.dtype.is_int:
            return _unless_wrapping(e, to_index(e.a, memo))
    return ix.data(e, *value_range(e), text=str(id(e)))


def _unless_wrapping(e: Expr, converted: ix.Index) -> ix.Index:
    """Accept exact arithmetic for a strongly typed node only where the machine's would not wrap."""
    lo, hi = ix.interval(converted)
    fits = e.dtype.min_value <= lo and hi <= e.dtype.max_value
    if e.weak or fits or (e.dtype.bits >= 32 and ix.loop_vars(converted)):
        return converted
    return ix.data(e, *value_range(e), text=str(id(e)))


def rvar_range(r: RVar) -> tuple[int, int]:
    """Return the inclusive range of a bound reduction variable (``hi < lo`` when it is empty)."""
    assert isinstance(r.lower, Const) and isinstance(r.upper, Const), f"{r.name} is not bound"
    return int(r.lower.value), int(r.upper.value) - 1


def _type_range(dtype: DType) -> tuple[int, int]:
    return dtype.min_value, dtype.max_value


def value_range(e: Expr) -> tuple[int, int]:
    """Return bounds of an integer or bool expression whatever the data are."""
    full = _type_range(e.dtype)
    match e:
        case Const():
            return int(e.value), int(e.value)
        case Binary(op="and", a=a, b=Const(value=c)) if c >= 0:
            return (0, int(c)) if a.dtype.kind != "b" else full
        case Binary(op="shr", a=a, b=Const(value=c)):
            lo, hi = value_range(a)
            return lo >> int(c), hi >> int(c)
        case Binary(op="floordiv", a=a, b=Const(value=c)) if c > 0:
            lo, hi = value_range(a)
            return lo // int(c), hi // int(c)
        case Binary(op="mod", b=Const(value=c)) if c > 0:
            return 0, int(c) - 1
        case Binary(op="min" | "max"):
            (al, ah), (bl, bh) = value_range(e.a), value_range(e.b)
            return (min(al, bl), min(ah, bh)) if e.op == "min" else (max(al, bl), max(ah, bh))
        case Binary(op="add" | "sub" | "mul"):
            (al, ah), (bl, bh) = value_range(e.a), value_range(e.b)
            corners = {
                "add": [al + bl, ah + bh], "sub": [al - bh, ah - bl],
                "mul": [p * q for p in (al, ah) for q in (bl, bh)],
            }[e.op]  # fmt: skip
            lo, hi = min(corners), max(corners)
            return (lo, hi) if e.weak or (full[0] <= lo and hi <= full[1]) else full
        case Select():
            (tl, th), (fl, fh) = _refined(e, None)
            return min(tl, fl), max(th, fh)
        case Cast(a=a) if a.dtype.is_int or a.dtype.kind == "b":
            lo, hi = value_range(a)
            return (lo, hi) if full[0] <= lo and hi <= full[1] else full
        case Load() | Call() | Cast():
            return full
    return full


def _refined(e: Select, memo: dict[int, ix.Index] | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the ranges of both arms, an arm that is the compared expression itself cut at the constant."""

    def arm_range(arm: Expr) -> tuple[int, int]:
        return value_range(arm) if memo is None or not arm.weak else ix.interval(to_index(arm, memo))

    t, f = arm_range(e.t), arm_range(e.f)
    match e.cond:
        case Binary(op="lt" | "le" | "gt" | "ge", a=a, b=Const(value=c)):
            limit, op = int(c), e.cond.op
            if a is e.t or (isinstance(e.t, Cast) and e.t.a is a):
                t = _cut(t, op, limit)
            if a is e.f or (isinstance(e.f, Cast) and e.f.a is a):
                f = _cut(f, {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[op], limit)
    return t, f


def _cut(r: tuple[int, int], op: str, limit: int) -> tuple[int, int]:
    lo, hi = r
    match op:
        case "lt":
            return lo, min(hi, limit - 1)
        case "le":
            return lo, min(hi, limit)
        case "gt":
            return max(lo, limit + 1), hi
        case _:
            return max(lo, limit), hi
