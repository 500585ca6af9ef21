"""From language expressions in index position to symbolic indices over the stage's loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.analysis import index as ix
from autosched.analysis.conditions import compared, facts_of, refined
from autosched.analysis.exact_integers import is_exact_integer
from autosched.analysis.float_range import converted_range
from autosched.lang.dtypes import uint64
from autosched.lang.expr import Binary, Cast, Const, Expr, RVar, Select, Unary, Var, operands_first

_EXACT: Mapping[str, Callable[[ix.Index, ix.Index], ix.Index]] = {
    "add": ix.add, "sub": ix.sub, "mul": ix.multiply, "min": ix.minimum, "max": ix.maximum,
}  # fmt: skip
_INTEGER = frozenset({*_EXACT, "floordiv", "mod", "and", "shl", "shr"})
_INT64_END = 1 << 63
Memo = dict[int, ix.Index]
NEAR = 1 << 16


def to_index(e: Expr, memo: Memo | None = None) -> ix.Index:
    """Convert an integer expression; `Var` and `RVar` become loop variables of their names.

    Shapes and integer parameters must have been replaced by constants. What depends on data becomes a ``data`` atom
    with the range that clamps, remainders, masks, comparisons with constants and the element type guarantee.

    Args:
        e: The expression; it must live as long as the memo.
        memo: Indices converted before, by ``id``. Data atoms are numbered within it, so that indices which read data
            can be compared only if they share one.
    """
    memo = {} if memo is None else memo
    for node in operands_first([e], memo, _operands):
        memo[id(node)] = _converted(node, memo)
    return memo[id(e)]


def rvar_range(r: RVar) -> tuple[int, int]:
    """Return the inclusive range of a bound reduction variable (``hi < lo`` when it is empty)."""
    assert isinstance(r.lower, Const) and isinstance(r.upper, Const), f"{r.name} is not bound"
    return int(r.lower.value), int(r.upper.value) - 1


def _operands(e: Expr) -> Sequence[Expr]:
    """Return the operands whose indices are needed for that of ``e``."""
    match e:
        case Binary(op=op) if op in _INTEGER and e.dtype.is_int:
            return e.a, e.b
        case Unary() | Cast() if e.dtype.is_int and e.a.dtype.is_int:
            return (e.a,)
        case Select() if e.dtype.is_int:
            return e.t, e.f, *compared(e.cond)
    return ()


def _converted(e: Expr, memo: Memo) -> ix.Index:
    match e:
        case Const():
            return int(e.value)
        case Var():
            return ix.var(e.name, -ix.UNBOUNDED, ix.UNBOUNDED)
        case RVar():
            lo, hi = rvar_range(e)
            return ix.Affine(((ix.LoopVar(e.name, lo, hi), 1),), 0)
        case Binary(op=op) if op in _INTEGER and e.dtype.is_int:
            exact = _binary(op, memo[id(e.a)], memo[id(e.b)])
            return _data(e, memo, *_masked(e, memo)) if exact is None else _unless_wrapping(e, exact, memo)
        case Unary() | Cast() if e.dtype.is_int and e.a.dtype.is_int:
            return _unless_wrapping(e, _unary(e, memo[id(e.a)]), memo)
        case Cast() if e.dtype.is_int:
            return _data(e, memo, *converted_range(e.a, e.dtype))
        case Select() if e.dtype.is_int:
            arms = memo[id(e.t)], memo[id(e.f)]
            (tl, th), (fl, fh) = (
                refined(arm, facts_of(e.cond, truth, memo)) for arm, truth in zip(arms, (True, False), strict=True)
            )
            return ix.select(e.cond, *arms, text=str(len(memo)), bounds=(min(tl, fl), max(th, fh)))
    return _data(e, memo, e.dtype.min_value, e.dtype.max_value)


def _binary(op: str, a: ix.Index, b: ix.Index) -> ix.Index | None:
    """Return ``a op b`` as an exact index, or None where indices cannot express it."""
    if op in _EXACT:
        return _EXACT[op](a, b)
    if not isinstance(b, int):
        a, b = (b, a) if op == "and" else (a, b)
    if not isinstance(b, int):
        return None
    sign = 1 if b > 0 else -1
    found: ix.Index | None = None
    match op:
        case "shl":
            found = ix.scale(a, 1 << b)
        case "shr":
            found = ix.floordiv(a, 1 << b)
        case "and" if b >= 0 and b & (b + 1) == 0:  # a mask of low bits
            found = ix.mod(a, b + 1)
        case "floordiv":
            found = ix.floordiv(ix.scale(a, sign), abs(b)) if b else 0
        case "mod":
            found = ix.scale(ix.mod(ix.scale(a, sign), abs(b)), sign) if b else 0
    return found


def _unary(e: Unary | Cast, a: ix.Index) -> ix.Index:
    if isinstance(e, Cast):
        return a
    negated: ix.Index = ix.scale(a, -1)
    found: ix.Index = negated
    if e.op == "not":
        found = ix.add(negated, -1 if e.dtype.kind == "i" else e.dtype.max_value)
    elif e.op == "abs":
        found = ix.maximum(a, negated)
    return found


def _masked(e: Binary, memo: Memo) -> ix.Interval:
    """Return the range of a remainder, quotient, shift or mask that depends on data."""
    (al, ah), (bl, bh) = ix.interval(memo[id(e.a)]), ix.interval(memo[id(e.b)])
    lo, hi = e.dtype.min_value, e.dtype.max_value
    if e.op == "mod":  # has the sign of the divisor, or is 0
        return min(max(lo, bl + 1), 0), max(min(hi, bh - 1), 0)
    if e.op == "and" and (al >= 0 or bl >= 0):
        return 0, min(h for h, low in ((ah, al), (bh, bl)) if low >= 0)
    return lo, hi


def _unless_wrapping(e: Expr, exact: ix.Index, memo: Memo) -> ix.Index:
    """Accept exact arithmetic for a strongly typed node only where the machine's would not wrap.

    The dimensions of a Func have no range yet: coordinates up to `NEAR` must not wrap. Whether those of the regions do
    is checked when they are known; see `wrapping`.
    """
    lo, hi = ix.interval(exact)
    full = e.dtype.min_value, e.dtype.max_value
    fits = full[0] <= lo and hi <= full[1]
    if any(c.dtype == uint64 and ix.interval(memo[id(c)])[1] >= _INT64_END for c in _operands(e)):
        return _data(e, memo, *((lo, hi) if fits else full))  # generated code computes indices in signed integers
    if e.weak or fits or is_exact_integer(e):
        return exact
    unbounded = [v.name for v in ix.loop_vars(exact).values() if v.lo <= -ix.UNBOUNDED]
    lo, hi = ix.bounds(exact, dict.fromkeys(unbounded, (-NEAR, NEAR)))
    return exact if full[0] <= lo and hi <= full[1] else _data(e, memo, *full)


def _data(e: Expr, memo: Memo, lo: int, hi: int) -> ix.Index:
    return ix.data(e, lo, hi, text=str(len(memo)))
