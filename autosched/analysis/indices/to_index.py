"""Conversion of index expressions of the language to symbolic indices over the stage's loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.bit_ranges import bitwise_range, shift_range
from autosched.analysis.indices.condition_facts import compared_integers, implied_facts, range_given_facts
from autosched.analysis.indices.exact_integers import is_exact_integer
from autosched.analysis.indices.float_range import converted_integers, converted_range
from autosched.lang.dtypes import uint64
from autosched.lang.expr import Binary, Cast, Const, Expr, RVar, Select, Unary, Var, postorder

_EXACT: Mapping[str, Callable[[ix.Index, ix.Index], ix.Index]] = {
    "add": ix.add, "sub": ix.sub, "mul": ix.multiply, "min": ix.minimum, "max": ix.maximum,
}  # fmt: skip
_INTEGER = frozenset({*_EXACT, "floordiv", "mod", "and", "or", "xor", "shl", "shr"})
_INT64_END = 1 << 63
Memo = dict[int, ix.Index]
Near = Mapping[str, ix.Interval]
NEAR = 1 << 16


def to_index(e: Expr, memo: Memo | None = None, near: Near | None = None) -> ix.Index:
    """Convert an integer expression; `Var` and `RVar` become loop variables of their names.

    Shapes and integer parameters must be constants. A data-dependent value becomes a ``data`` atom with the range that
    clamps, remainders, masks, comparisons with constants and the element type guarantee.

    Args:
        e: The expression; it must live as long as the memo.
        memo: Converted indices by ``id``. It numbers data atoms, so that data-dependent indices are comparable only
            within one memo.
        near: Ranges of pure loops by name. The index is valid within these only. Left shifts by data have a range only
            with them.
    """
    memo = {} if memo is None else memo
    for node in postorder([e], memo, index_operands):
        memo[id(node)] = _converted(node, memo, near)
    return memo[id(e)]


def rvar_range(r: RVar) -> tuple[int, int]:
    """Return the inclusive range of a bound reduction variable (``hi < lo`` when it is empty)."""
    assert isinstance(r.lower, Const) and isinstance(r.upper, Const), f"{r.name} is not bound"
    return int(r.lower.value), int(r.upper.value) - 1


def index_operands(e: Expr) -> Sequence[Expr]:
    """Return the operands on whose indices that of ``e`` depends."""
    match e:
        case Binary(op=op) if op in _INTEGER and e.dtype.is_int:
            return e.a, e.b
        case Unary() | Cast() if e.dtype.is_int and e.a.dtype.is_int:
            return (e.a,)
        case Cast() if e.dtype.is_int and e.a.dtype.is_float:
            return converted_integers(e.a)
        case Select() if e.dtype.is_int:
            return e.t, e.f, *compared_integers(e.cond)
    return ()


def _converted(e: Expr, memo: Memo, near: Near | None) -> ix.Index:
    match e:
        case Const():
            return int(e.value)
        case Var():
            return ix.var(e.name, -ix.UNBOUNDED, ix.UNBOUNDED)
        case RVar():
            lo, hi = rvar_range(e)
            return ix.Affine(((ix.LoopVar(e.name, lo, hi), 1),), 0)
        case Binary(op=op) if op in _INTEGER and e.dtype.is_int:
            exact = _binary(op, memo[id(e.a)], memo[id(e.b)], e.dtype.bits)
            if exact is None:
                return _data(e, memo, *_masked(e, memo, near))
            return _unless_wrapping(e, exact, memo, near)
        case Unary() | Cast() if e.dtype.is_int and e.a.dtype.is_int:
            return _unless_wrapping(e, _unary(e, memo[id(e.a)]), memo, near)
        case Cast() if e.dtype.is_int:
            ranges = {id(i): _stored_range(i, _range(memo[id(i)], near)) for i in index_operands(e)}
            return _data(e, memo, *converted_range(e.a, e.dtype, ranges))
        case Select() if e.dtype.is_int:
            arms = memo[id(e.t)], memo[id(e.f)]
            (tl, th), (fl, fh) = (
                range_given_facts(arm, implied_facts(e.cond, truth, memo))
                for arm, truth in zip(arms, (True, False), strict=True)
            )
            return ix.select(e.cond, *arms, text=str(len(memo)), bounds=(min(tl, fl), max(th, fh)))
    return _data(e, memo, e.dtype.min_value, e.dtype.max_value)


def _binary(op: str, a: ix.Index, b: ix.Index, bits: int) -> ix.Index | None:
    """Return ``a op b`` as an exact index, or None where indices cannot express it; ``bits`` is the type's width."""
    if op in _EXACT:
        return _EXACT[op](a, b)
    if not isinstance(b, int):
        a, b = (b, a) if op == "and" else (a, b)
    if not isinstance(b, int):
        return None
    sign = 1 if b > 0 else -1
    result: ix.Index | None = None
    match op:
        case "shl":
            result = ix.scale(a, 1 << b % bits)
        case "shr":
            result = ix.floordiv(a, 1 << b % bits)
        case "and" if b >= 0 and b & (b + 1) == 0:  # a mask of low bits
            result = ix.mod(a, b + 1)
        case "floordiv":
            result = ix.floordiv(ix.scale(a, sign), abs(b)) if b else 0
        case "mod":
            result = ix.scale(ix.mod(ix.scale(a, sign), abs(b)), sign) if b else 0
    return result


def _unary(e: Unary | Cast, a: ix.Index) -> ix.Index:
    if isinstance(e, Cast):
        return a
    negated: ix.Index = ix.scale(a, -1)
    result: ix.Index = negated
    if e.op == "not":
        result = ix.add(negated, -1 if e.dtype.kind == "i" else e.dtype.max_value)
    elif e.op == "abs":
        result = ix.maximum(a, negated)
    return result


def _masked(e: Binary, memo: Memo, near: Near | None) -> ix.Interval:
    """Return the range of a data-dependent remainder, quotient, shift or mask."""
    a, b = _range(memo[id(e.a)], near), _range(memo[id(e.b)], near)
    lo, hi = e.dtype.min_value, e.dtype.max_value
    match e.op:
        case "mod":  # has the sign of the divisor, or is 0
            least, most = min(max(lo, b[0] + 1), 0), max(min(hi, b[1] - 1), 0)
            return (0, min(most, a[1])) if a[0] >= 0 and b[0] >= 0 else (least, most)
        case "floordiv":
            span = _quotients(a, b)
        case "and" | "or" | "xor":
            span = bitwise_range(e.op, a, b)
        case "shl" if near is None:  # without ranges, kernels keep the clamps of tables of powers
            span = lo, hi
        case _:
            span = shift_range(e.op, a, b, e.dtype.bits)
    return span if lo <= span[0] and span[1] <= hi else (lo, hi)


def _range(i: ix.Index, near: Near | None) -> ix.Interval:
    return ix.bounds(i, near or {})


def _stored_range(e: Expr, exact: ix.Interval) -> ix.Interval:
    """Return the range of an exact integer, widened to its type where it may not fit."""
    lo, hi = e.dtype.min_value, e.dtype.max_value
    return exact if lo <= exact[0] and exact[1] <= hi else (min(lo, exact[0]), max(hi, exact[1]))


def _quotients(a: ix.Interval, b: ix.Interval) -> ix.Interval:
    """Return the range of a floor division, which is 0 where the divisor is 0."""
    parts = [(lo, hi) for lo, hi in ((b[0], min(b[1], -1)), (max(b[0], 1), b[1])) if lo <= hi]
    ends = [p // q for p in a for part in parts for q in part] + [0] * (b[0] <= 0 <= b[1])
    return min(ends), max(ends)


def _unless_wrapping(e: Expr, exact: ix.Index, memo: Memo, near: Near | None) -> ix.Index:
    """Return exact arithmetic for a typed node if its type cannot wrap, else a data atom.

    Dimensions without a range in ``near`` are unbounded; for these, coordinates up to `NEAR` must not wrap. The
    coordinates of regions are checked after bounds inference (`autosched.analysis.indices.index_overflow`).
    """
    lo, hi = ix.interval(exact)
    full = e.dtype.min_value, e.dtype.max_value
    fits = full[0] <= lo and hi <= full[1]
    if any(c.dtype == uint64 and ix.interval(memo[id(c)])[1] >= _INT64_END for c in index_operands(e)):
        return _data(e, memo, *((lo, hi) if fits else full))  # generated code computes indices in signed integers
    if e.weak or fits or is_exact_integer(e):
        return exact
    unbounded = [v.name for v in ix.loop_vars(exact).values() if v.lo <= -ix.UNBOUNDED]
    lo, hi = ix.bounds(exact, {name: (near or {}).get(name, (-NEAR, NEAR)) for name in unbounded})
    return exact if full[0] <= lo and hi <= full[1] else _data(e, memo, *full)


def _data(e: Expr, memo: Memo, lo: int, hi: int) -> ix.Index:
    return ix.data(e, lo, hi, text=str(len(memo)))
