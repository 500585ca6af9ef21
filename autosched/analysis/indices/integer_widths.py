"""Widths of integer expressions of coordinates, shapes and literals, from their ranges.

An expression of coordinates, shapes and literals alone is exact to 64 bits. Combined with an integer of up to 32 bits,
it has type int32 in the language. This pass proves that 32 bits suffice, computes in int64 where they do not, and
raises where no width suffices or a store would truncate the value.

An int32 value is *exact* if it consists of coordinates, constants and integers of 8 and 16 bits, with at least one
coordinate: its range follows from the loops. Other int32 operands have any value, and arithmetic with them wraps,
unless the exact operand itself needs more than 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.exact_integers import NARROW_BITS, is_count, is_narrow
from autosched.analysis.indices.to_index import rvar_range, to_index
from autosched.errors import BoundsError
from autosched.lang.dtypes import DType, int32, int64, uint64
from autosched.lang.expr import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    RVar,
    Select,
    Unary,
    Var,
    children,
    postorder,
    rebuild,
)  # fmt: skip
from autosched.lang.func import Definition, Func

Interval = tuple[int, int]
Ranges = Mapping[str, Interval]


def resolve_integer_widths(func: Func, definition: Definition, ranges: Ranges) -> Definition | None:
    """Return a definition in which every exact integer has a sufficient width; None if nothing changes.

    Args:
        func: The Func.
        definition: One of its definitions, with concrete shapes and parameters.
        ranges: Inclusive range of each Var and reduction variable by name.

    Raises:
        BoundsError: If an expression of coordinates exceeds 64 bits, overflows when it is stored or summed in 32 bits,
            or is negative and combined with uint64.
    """
    if all(lo <= hi for lo, hi in ranges.values()) and _may_exceed(func, definition, ranges):
        return _Resolver(func, definition, ranges).resolved()
    return None


def _iterations(definition: Definition) -> int:
    return prod(max(hi - lo + 1, 0) for lo, hi in map(rvar_range, definition.rvars))


def _summands(func: Func, definition: Definition) -> Iterator[Expr]:
    """Yield the values that updates add to the Func, or subtract from it."""
    for root in definition.values:
        if isinstance(root, Binary) and root.op in ("add", "sub"):
            pair = (root.a, root.b)
            for old, new in (pair, pair[::-1]):
                if isinstance(old, Load) and old.source is func:
                    yield new


def _may_exceed(func: Func, definition: Definition, ranges: Ranges) -> bool:
    """Return whether magnitudes alone cannot prove that all exact integers fit; most definitions end here."""
    magnitudes: dict[int, int] = {}
    exact: set[int] = set()
    done: dict[int, None] = {}
    for node in postorder((*definition.values, *definition.indices), done):
        done[id(node)] = None
        if not node.dtype.is_int:
            if isinstance(node, Cast) and node.dtype.is_float and magnitudes.get(id(node.a), 0) > int32.max_value:
                return True
            continue
        magnitude = _magnitude(node, magnitudes, ranges)
        if magnitude is None:
            continue
        is_exact = node.weak or any(id(c) in exact for c in children(node))
        if magnitude > (int64 if node.weak else int32).max_value:
            if is_exact:
                return True
            continue
        if is_exact and (node.dtype == uint64 or (isinstance(node, Binary) and node.op in ("shl", "shr"))):
            return True
        magnitudes[id(node)] = magnitude
        if is_exact:
            exact.add(id(node))
    most = _iterations(definition) if definition.rvars else 1
    return any(id(e) in exact and magnitudes[id(e)] * most > int32.max_value for e in _summands(func, definition))


def _magnitude(e: Expr, operands: Mapping[int, int], ranges: Ranges) -> int | None:
    """Return a bound of the absolute values of an integer and its intermediate results; None for data."""
    match e:
        case Const():
            return abs(int(e.value))
        case Var() | RVar():
            return max(map(abs, ranges[e.name]))
        case Cast(a=a) if a.weak and a.dtype.is_int:
            return operands.get(id(a)) if e.dtype in (int32, uint64) else None
        case Cast(a=a) if e.dtype == int32 and is_narrow(a.dtype):
            return 1 << NARROW_BITS
        case Binary() | Unary() | Select() if e.weak or e.dtype in (int32, uint64):
            arms = (e.t, e.f) if isinstance(e, Select) else children(e)
            sizes = [operands.get(id(c)) for c in arms]
            if e.dtype == uint64:
                return max((s for s in sizes if s is not None), default=None)
            if any(s is None for s in sizes):
                return None
            return _combined_magnitude(e, [s for s in sizes if s is not None])
    return None


def _combined_magnitude(e: Expr, sizes: Sequence[int]) -> int:
    match e:
        case Binary(op="add" | "sub"):
            return sum(sizes)
        case Binary(op="mul"):
            return max(prod(sizes), *sizes)
        case Binary(op="and" | "or" | "xor") | Unary(op="not"):
            return 2 * max(sizes) + 1
    return max(sizes)


@dataclass(frozen=True, slots=True)
class _Integer:
    """An integer expression, its range, and whether it depends on coordinates."""

    e: Expr
    lo: int
    hi: int
    exact: bool

    def fits(self, dtype: DType) -> bool:
        """Return whether a type represents the whole range."""
        return dtype.min_value <= self.lo and self.hi <= dtype.max_value

    def as_type(self, dtype: DType) -> Expr:
        """Return the expression in another width."""
        if self.e.dtype == dtype and not self.e.weak:
            return self.e
        if isinstance(self.e, Const):
            return Const(int(self.e.value), dtype)
        if isinstance(self.e, Cast) and self.e.a.weak:
            return Cast(self.e.a, dtype)
        return Cast(self.e, dtype)


class _Resolver:
    """Resolves the widths of one definition, operands first."""

    def __init__(self, func: Func, definition: Definition, ranges: Ranges) -> None:
        self.func = func
        self.definition = definition
        self.ranges = ranges
        self.new: dict[int, Expr] = {}
        self.integers: dict[int, _Integer] = {}
        self._memo: dict[int, ix.Index] = {}
        self._bounds: dict[str, Interval] = {}
        self._keep: list[Expr] = []

    def resolved(self) -> Definition | None:
        """Return the definition with all widths; None if nothing changes."""
        d = self.definition
        for node in postorder((*d.values, *d.indices), self.new):
            self.new[id(node)] = self._node(node)
        for summand in _summands(self.func, d):
            self._check_sum(summand)
        values = tuple(self._stored(e) for e in d.values)
        indices = tuple(self._operand(e) for e in d.indices)
        same = all(a is b for a, b in zip((*values, *indices), (*d.values, *d.indices), strict=True))
        return None if same else replace(d, values=values, indices=indices)

    def _node(self, e: Expr) -> Expr:
        if e.weak:
            rebuilt = rebuild(e, [self.new[id(c)] for c in children(e)])
            if e.dtype.is_int:
                self._check_weak(e, rebuilt)
            return rebuilt
        match e:
            case Const() if e.dtype == int32:
                self.integers[id(e)] = _Integer(e, int(e.value), int(e.value), False)
            case Cast(a=a) if a.weak and a.dtype.is_int and e.dtype in (int32, uint64):
                return self._conversion(e)
            case Cast(a=a) if a.weak and a.dtype.is_int and e.dtype.is_float and not self.integers[id(a)].fits(int32):
                return Cast(Cast(self.new[id(a)], int64), e.dtype)
            case Cast(a=a) if e.dtype == int32 and is_narrow(a.dtype):
                rebuilt = rebuild(e, [self.new[id(a)]])
                self.integers[id(e)] = _Integer(rebuilt, a.dtype.min_value, a.dtype.max_value, False)
                return rebuilt
            case Binary() if e.op in COMPARISONS and e.a.dtype == int32:
                return self._comparison(e)
            case Binary() | Unary() | Select() if e.dtype == int32:
                return self._operation(e)
        return rebuild(e, [self._operand(c) for c in children(e)])

    def _operand(self, e: Expr) -> Expr:
        """Return the operand of an operation that accepts any width, such as a conversion or an index."""
        integer = self.integers.get(id(e))
        return self.new[id(e)] if integer is None else integer.e

    def _check_weak(self, e: Expr, rebuilt: Expr) -> None:
        """Raise unless 64 bits suffice for an expression of coordinates alone."""
        if isinstance(e, Var | RVar | Const):
            lo, hi = self.ranges[e.name] if not isinstance(e, Const) else (int(e.value), int(e.value))
        else:
            lo, hi = ix.bounds(to_index(e, self._memo), self.ranges, self._bounds)
        self.integers[id(e)] = self._within_64_bits(_Integer(rebuilt, int(lo), int(hi), True), e)

    def _within_64_bits(self, n: _Integer, e: Expr) -> _Integer:
        if not n.fits(int64):
            raise BoundsError(
                f"stage {self.func.name!r}: {e!r} reaches [{n.lo}, {n.hi}], more than 64 bits hold",
                location=self.definition.location,
                hint="compute it in a floating-point type: cast a coordinate first, e.g. cast(float64, x)",
            )
        return n

    def _conversion(self, e: Cast) -> Expr:
        """Return a coordinate in the type of the other operand, or in int64 where int32 does not suffice."""
        weak = self.integers[id(e.a)]
        if e.dtype == uint64:
            if weak.lo < 0:
                raise BoundsError(
                    f"stage {self.func.name!r}: {e.a!r} is combined with uint64 and reaches [{weak.lo}, {weak.hi}]: "
                    "no integer type holds both",
                    location=self.definition.location,
                    hint="cast one operand, e.g. cast(int64, e) or cast(uint64, e)",
                )
            return Cast(self.new[id(e.a)], uint64)
        converted = rebuild(e, [self.new[id(e.a)]]) if weak.fits(int32) else Cast(self.new[id(e.a)], int64)
        self.integers[id(e)] = _Integer(converted, weak.lo, weak.hi, True)
        return converted

    def _int32_operand(self, e: Expr) -> _Integer:
        """Return an operand of type int32; data have the range of the type."""
        integer = self.integers.get(id(e))
        return integer or _Integer(self.new[id(e)], int32.min_value, int32.max_value, False)

    def _comparison(self, e: Binary) -> Expr:
        if e.a.weak:
            return rebuild(e, [self.new[id(e.a)], self.new[id(e.b)]])
        operands = [self._int32_operand(c) for c in (e.a, e.b)]
        width = int64 if any(n.e.dtype == int64 for n in operands) else int32
        return rebuild(e, [n.as_type(width) for n in operands])

    def _operation(self, e: Binary | Unary | Select) -> Expr:
        arms = (e.t, e.f) if isinstance(e, Select) else children(e)
        operands = [self._int32_operand(c) for c in arms]
        exact = any(n.exact for n in operands)
        data = any(id(c) not in self.integers for c in arms)
        narrow = all(n.fits(int32) for n in operands)
        if narrow and (data or not exact):
            typed = self._typed(e, operands, int32)
            if not data and (span := _range_of(e, operands)) is not None:
                plain = _Integer(typed, *span, False)
                if plain.fits(int32):
                    self.integers[id(e)] = plain
            return typed
        span, count = _range_of(e, operands), operands[-1]
        if isinstance(e, Binary) and e.op in ("shl", "shr") and not is_count(count.lo, count.hi, exact=count.exact):
            span = None
        masked = isinstance(e, Binary) and (e.op == "shr" or not count.exact or count.lo < 0)
        if span is None and narrow and masked:
            return self._typed(e, operands, int32)  # a typed shift: the count is modulo the width
        if span is None:
            raise BoundsError(
                f"stage {self.func.name!r}: the shift count of {e!r} is not within 0 to 62",
                location=self.definition.location,
                hint="clamp the count, or cast an operand to a type in which it is to wrap, e.g. cast(int64, e)",
            )
        result = self._within_64_bits(_Integer(e, *span, True), e)
        shifts_out = isinstance(e, Binary) and e.op in ("shl", "shr") and count.hi >= int32.bits
        fits = narrow and result.fits(int32) and not shifts_out
        typed = self._typed(e, operands, int32 if fits else int64)
        self.integers[id(e)] = _Integer(typed, result.lo, result.hi, True)
        return typed

    def _typed(self, e: Binary | Unary | Select, operands: Sequence[_Integer], width: DType) -> Expr:
        typed = [n.as_type(width) for n in operands]
        result = rebuild(e, [self.new[id(e.cond)], *typed]) if isinstance(e, Select) else rebuild(e, typed)
        return result if width == e.dtype else replace(result, dtype=width)  # type: ignore[type-var]

    def _stored(self, e: Expr) -> Expr:
        """Return a value in the type of its Func; raise if int32 would truncate it."""
        n = self.integers.get(id(e))
        if n is None or e.dtype != int32 or not n.exact:
            return self.new[id(e)]
        if not n.fits(int32):
            self._refuse(e, (n.lo, n.hi), "is stored in int32")
        return n.as_type(int32)

    def _check_sum(self, e: Expr) -> None:
        n, most = self.integers.get(id(e)), _iterations(self.definition)
        if n is None or not n.exact:
            return
        lo, hi = min(n.lo * most, n.lo), max(n.hi * most, n.hi)
        if not _Integer(e, lo, hi, True).fits(int32):
            self._refuse(e, (lo, hi), f"is summed in int32 over {most} iterations")

    def _refuse(self, e: Expr, reached: Interval, what: str) -> None:
        raise BoundsError(
            f"stage {self.func.name!r}: {e!r} {what} and reaches [{reached[0]}, {reached[1]}], more than 32 bits hold",
            location=self.definition.location,
            hint="compute in 64 bits: cast an operand first, e.g. cast(int64, x), and the initial value of a sum too",
        )


def _range_of(e: Binary | Unary | Select, operands: Sequence[_Integer]) -> Interval | None:
    """Return the exact range of an operation; None for a shift by an invalid count."""
    spans = [(n.lo, n.hi) for n in operands]
    if isinstance(e, Select):
        return min(lo for lo, _ in spans), max(hi for _, hi in spans)
    if isinstance(e, Unary):
        lo, hi = spans[0]
        if e.op == "neg":
            return -hi, -lo
        return (~hi, ~lo) if e.op == "not" else (0 if lo <= 0 <= hi else min(abs(lo), abs(hi)), max(abs(lo), abs(hi)))
    return _RULES[e.op](*spans)


def _corners(op: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    ends = [op(p, q) for p in a for q in b]
    return min(ends), max(ends)


def _quotient(a: Interval, b: Interval) -> Interval:
    divisors = [q for q in {b[0], b[1], -1, 1} if q and b[0] <= q <= b[1]]
    ends = [p // q for p in a for q in divisors] + [0] * (b[0] <= 0 <= b[1])
    return min(ends), max(ends)


def _remainder(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and a[1] < b[0]:
        return a
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _bitwise(a: Interval, b: Interval) -> Interval:
    bits = max(n.bit_length() for n in (*a, *b))
    low = 0 if a[0] >= 0 and b[0] >= 0 else -(1 << bits)
    return low, (1 << bits) - 1


def _shift(op: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval | None]:
    return lambda a, b: _corners(op, a, b) if 0 <= b[0] <= b[1] < int64.bits - 1 else None


_RULES: Mapping[str, Callable[[Interval, Interval], Interval | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _corners(lambda p, q: p * q, a, b),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "floordiv": _quotient, "mod": _remainder,
    "and": _bitwise, "or": _bitwise, "xor": _bitwise,
    "shl": _shift(lambda p, q: p << q), "shr": _shift(lambda p, q: p >> q),
}  # fmt: skip
