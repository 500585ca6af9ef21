"""Random typed expressions over the values of other Funcs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import autosched as a
from autosched.errors import DSLError
from autosched.lang.dtypes import DType, bool_, float16, float32, float64, int32, int64, promote, uint8, uint32
from autosched.lang.expr import Expr, Param
from autosched.lang.func import Func, Input
from tests.fuzz.choices import Choices

ALL_TYPES: tuple[DType, ...] = (
    float32, int32, uint8, float64, a.int16, a.uint16, float16, a.int8, int64, uint32, a.uint64, bool_, a.bfloat16,
)  # fmt: skip
FLOAT_CONSTANTS = (1.0, 0.0, 0.5, -2.0, 3.0, 0.1, -0.0, 1e-3, 7.0, 65504.0, float("inf"), float("nan"), 6e-8, -1e30)
SMALL = (1, 0, 2, 3, 5, 7, 17)


@dataclass(frozen=True)
class Scope:
    """Operands that an expression may use.

    Args:
        choices: Decisions.
        coords: The point at which it stands, outermost dimension first: Vars, RVars or anything made of them.
        sources: Funcs that may be read anywhere.
        params: Parameters that stay run-time scalars.
        values: Further values, such as an update's loads of its own Func.
    """

    choices: Choices
    coords: tuple[Expr, ...]
    sources: Sequence[Func | Input]
    params: Sequence[Param] = ()
    values: Sequence[Expr] = ()

    def at(self, *coords: Expr) -> Scope:
        """Return the scope at another point."""
        return replace(self, coords=coords)


def any_type(c: Choices) -> DType:
    """Return an element type, float32 in every third case."""
    return float32 if c.chance(30) else c.pick(ALL_TYPES)


def constant(c: Choices, dtype: DType) -> Expr:
    """Return a typed constant; extremes of the type are among them."""
    if dtype.kind == "b":
        return a.cast(bool_, c.integer(0, 1))
    if dtype.is_float:
        return a.cast(dtype, c.pick(FLOAT_CONSTANTS))
    return a.cast(dtype, c.pick((*SMALL, -1, -3, dtype.max_value, dtype.min_value)))


def read(s: Scope, source: Func | Input, indices: Sequence[Expr] | None = None) -> Expr:
    """Return a value of a source at the indices; without them, at the current point."""
    value = source[tuple(aligned(s, source.ndim) if indices is None else indices)]
    return value[s.choices.integer(0, len(value) - 1)] if isinstance(value, tuple) else value


def aligned(s: Scope, ndim: int) -> list[Expr]:
    """Return indices for a source of any rank: trailing dimensions match, in some cases transposed or moved."""
    c, coords = s.choices, list(s.coords)
    if len(coords) > 1 and c.chance(8):
        coords.reverse()
    missing = ndim - len(coords)
    found = [a.cast(int32, c.integer(0, 2)) for _ in range(missing)] if missing > 0 else []
    return [*found, *(moved(s, v) for v in coords[max(0, -missing) :])]


def moved(s: Scope, v: Expr) -> Expr:
    """Return an index near a coordinate, or made of it in some other way."""
    c = s.choices
    if c.chance(60):
        return v
    return c.pick(_INDICES)(s, v)


def _by_data(s: Scope, v: Expr) -> Expr:
    """Return a data-dependent index with a range that the analyses can bound."""
    c = s.choices
    source = c.pick(s.sources)
    value = read(s, source, s.coords[: source.ndim] if source.ndim <= len(s.coords) else None)
    low, high = c.pick(((0, 3), (0, 0), (-2, 2), (0, 12)))
    if c.chance(30) and value.dtype.is_int and value.dtype.bits == 8:
        return value
    value = value if value.dtype == int32 else a.cast(int32, value)
    return c.pick(
        (
            a.clamp(value, low, high),
            value % (high + 1),
            a.clamp(v + value % 3, low - 5, high + 20),
            a.clamp(a.cast(a.uint64, value), 0, high),
            a.max(a.select(value > 5, 5, value), 0),
            (value >> 8) & 3,
        )
    )


_INDICES: tuple[Callable[[Scope, Expr], Expr], ...] = (
    lambda s, v: v + s.choices.pick((1, -1, 2, -3)),
    lambda s, v: v + s.choices.pick((1, -1, 2, -3)),
    lambda s, v: v // 2,
    lambda s, v: (v + s.choices.pick((1, -1))) // s.choices.pick((2, 3)) + s.choices.integer(0, 1),
    lambda s, v: 2 * v + s.choices.integer(0, 1),
    lambda s, v: s.choices.pick((6, 11, 30)) - v,
    lambda s, v: v % s.choices.pick((2, 5, 8)),
    lambda s, v: a.clamp(v, 0, s.choices.pick((0, 4, 12))),
    lambda s, v: a.select(v < 3, v, v - 3),
    lambda s, v: a.abs(v),
    lambda s, v: a.min(v, s.choices.pick(s.coords) + 1),
    lambda s, v: v >> 1,
    lambda s, v: v & 7,
    _by_data,
    _by_data,
)


_WEAK: tuple[Callable[[Expr, Expr], Expr], ...] = (
    lambda v, w: v + 0, lambda v, w: 3 * v - 2, lambda v, w: v * w, lambda v, w: v // 3 + w, lambda v, w: (v - w) % 4,
    lambda v, w: a.max(v, w), lambda v, w: -v, lambda v, w: a.abs(v - 2), lambda v, w: a.select(v < w, v, 7 - w),
    lambda v, w: v * 1_000_000_007, lambda v, w: (v * 1_000_000_007) // 8 % 11, lambda v, w: v // -2,
    lambda v, w: v % -3, lambda v, w: v * 0.25, lambda v, w: v / 3, lambda v, w: a.random_float(v, w),
    lambda v, w: v | 1, lambda v, w: ~w, lambda v, w: v >> w, lambda v, w: v // w,
)  # fmt: skip


def load(s: Scope) -> Expr:
    """Return a value the scope offers."""
    c = s.choices
    if s.values and c.chance(50):
        return c.pick(s.values)
    # the latest Funcs more often than the others, so that most stages are connected
    source = s.sources[-1] if c.chance(50) else c.pick(s.sources)
    return read(s, source)


def leaf(s: Scope, dtype: DType) -> Expr:
    """Return a value without operands, converted to the type."""
    c = s.choices
    kind = c.integer(0, 9)
    if kind == 9 and s.coords:
        return a.cast(dtype, weak_integer(s))
    if kind == 8 and s.params:
        return as_type(c.pick(s.params), dtype)
    if kind == 7:
        return constant(c, dtype)
    return as_type(load(s), dtype)


def weak_integer(s: Scope) -> Expr:
    """Return arithmetic on coordinates, most of it exact integers."""
    c = s.choices
    v, w = c.pick(s.coords), c.pick(s.coords)
    return c.pick(_WEAK)(v, w)


def as_type(e: Expr, dtype: DType) -> Expr:
    """Return a value in another type."""
    return e if e.dtype == dtype and not e.weak else a.cast(dtype, e)


def expression(s: Scope, dtype: DType, depth: int) -> Expr:
    """Return a random expression of a type with operations nested so deep."""
    c = s.choices
    if depth == 0 or c.chance(15):
        return leaf(s, dtype)
    if c.chance(12):  # a conversion
        return as_type(expression(s, c.pick(ALL_TYPES), depth - 1), dtype)
    if c.chance(10):
        arms = expression(s, dtype, depth - 1), expression(s, dtype, depth - 1)
        return a.select(condition(s, depth - 1), *arms)
    if dtype.kind == "b":
        return condition(s, depth)
    if c.chance(10):  # operands of two types
        return _promoted(s, dtype, depth)
    x = expression(s, dtype, depth - 1)
    table = _FLOAT_UNARY if dtype.is_float else _INT_UNARY
    if c.chance(25):
        return as_type(c.pick(table)(x), dtype)
    if c.chance(25):  # a Python number
        return c.pick(_BINARY)(x, c.pick((0.5, 2, -3.0, 7) if dtype.is_float else SMALL))
    y = x if c.chance(10) else expression(s, dtype, depth - 1)
    return as_type(c.pick((*_BINARY, *(_FLOAT_BINARY if dtype.is_float else _INT_BINARY)))(x, y), dtype)


def condition(s: Scope, depth: int) -> Expr:
    """Return a random bool."""
    c = s.choices
    if depth == 0:
        if s.coords and c.chance(40):
            v = c.pick(s.coords)
            return c.pick((v < 3, v % 2 == 0, v >= c.pick(s.coords), v * 2 != 4, v <= 5))
        return as_type(load(s), bool_)
    if c.chance(25):
        x, y = condition(s, depth - 1), condition(s, depth - 1)
        return c.pick((x & y, x | y, x ^ y, ~x, x == y, x != y))
    dtype = any_type(c)
    if dtype.kind == "b":
        dtype = int32
    x, y = expression(s, dtype, depth - 1), expression(s, dtype, depth - 1)
    return c.pick((x < y, x <= y, x > y, x >= y, x == y, x != y))


def _promoted(s: Scope, dtype: DType, depth: int) -> Expr:
    c = s.choices
    left, right = c.pick(ALL_TYPES), c.pick(ALL_TYPES)
    try:
        if promote(left, right).kind == "b":
            left = int32
    except DSLError:
        left = right = int64
    x, y = expression(s, left, depth - 1), expression(s, right, depth - 1)
    return as_type(c.pick((x + y, x * y, a.min(x, y), x / y, x - y)), dtype)


_BINARY: tuple[Callable[[Expr, Expr], Expr], ...] = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y,
    lambda x, y: a.max(x, y),
    lambda x, y: a.min(x, y),
    lambda x, y: x // y,
    lambda x, y: x % y,
    lambda x, y: y - x,
)
_INT_BINARY: tuple[Callable[[Expr, Expr], Expr], ...] = (
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ y,
    lambda x, y: x << y,
    lambda x, y: x >> y,
    lambda x, y: x / y,
    a.absd,
)
_FLOAT_BINARY: tuple[Callable[[Expr, Expr], Expr], ...] = (
    lambda x, y: x / y,
    a.fmod,
    a.absd,
    lambda x, y: a.lerp(x, y, 0.25),
    lambda x, y: x / 3,
)
_INT_UNARY: tuple[Callable[[Expr], Expr], ...] = (
    lambda x: -x, lambda x: ~x, a.abs, lambda x: x >> 2, lambda x: x << 1, a.hash_u32, lambda x: x**3, a.sqrt,
)  # fmt: skip
_FLOAT_UNARY: tuple[Callable[[Expr], Expr], ...] = (
    lambda x: -x, a.abs, a.sqrt, a.floor, a.ceil, a.trunc, a.round, lambda x: x**2, lambda x: x / 7, lambda x: x / 4,
)  # fmt: skip
