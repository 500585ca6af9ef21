"""Values of tables: Funcs without inputs and parameters, evaluated at single points.

Integers and floating-point operations that IEEE 754 rounds are exact. Elementary functions differ between compilers, so
their results are intervals, and so is all that depends on them; a value is known where its interval has one element.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.expressions.interval_arithmetic import ROUNDING
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.lang.dtypes import DType
from autosched.lang.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    RVar,
    Scalar,
    Select,
    Unary,
    Var,
    children,
    postorder,
)

MOST_ITERATIONS = 4096
"""Most iterations of a reduction at one point."""
ULPS = 8
"""Error of an elementary function, in units in the last place, beyond that of any backend."""
_LARGEST_EXACT = 1 << 53
"""Integers up to it are exact in float64, through which NumPy converts them."""

_ELEMENTARY: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh,
    "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot,
    "exp2": np.exp2, "expm1": np.expm1, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
_INTEGER: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
}  # fmt: skip
_FLOAT: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
}  # fmt: skip


class _Interval(NamedTuple):
    """Range of a value: integers, or floating-point numbers of NumPy's type of the expression."""

    lo: Any
    hi: Any

    @property
    def is_exact(self) -> bool:
        """Whether there is one value."""
        return bool(self.lo == self.hi)


def table_value(bound: BoundPipeline, func: str, component: int, point: tuple[int, ...]) -> Scalar | None:
    """Return a value of a Func; None where it depends on inputs, parameters or the rounding of elementary functions.

    Args:
        bound: The pipeline.
        func: Name of the Func.
        component: Number of the tuple component.
        point: Coordinates. Outside of the Func's region, nothing is known.
    """
    values = _point(bound, func, point)
    value = None if values is None else values[component]
    if value is None or not value.is_exact:
        return None
    return value.lo.item() if isinstance(value.lo, np.generic) else value.lo  # type: ignore[no-any-return]


_Values = tuple[_Interval | None, ...]


def _point(bound: BoundPipeline, func: str, point: tuple[int, ...]) -> _Values | None:
    memo: dict[tuple[str, tuple[int, ...]], _Values | None] = pipeline_memo(bound, "_table_values")
    key = func, point
    if key not in memo:
        memo[key] = None if func in bound.inputs else _computed(bound, func, point)
    return memo[key]


def _computed(bound: BoundPipeline, name: str, point: tuple[int, ...]) -> _Values | None:
    func = bound.funcs[name]
    inside = all(lo <= i <= hi for i, (lo, hi) in zip(point, func.region, strict=True))
    if func.undefined or not inside or any(s.combine or not s.values for s in func.stages):
        return None
    coordinates = dict(zip(func.dims, point, strict=True))
    values: _Values = ()
    with np.errstate(all="ignore"):
        for stage in func.stages:
            if [_at(i) for i in stage.indices] != list(func.dims) or not _reads_own_point(stage):
                return None
            ranges = [range(d.lo, d.hi + 1) for d in stage.reductions]
            if prod(map(len, ranges)) > MOST_ITERATIONS:
                return None
            for at in itertools.product(*ranges):
                names = coordinates | {d.name: k for d, k in zip(stage.reductions, at, strict=True)}
                values = _Evaluation(bound, stage, names, values).run()
                if None in values:
                    return None
    return values


def _at(e: Expr) -> str:
    return e.name if isinstance(e, Var) else ""


def _reads_own_point(stage: BoundStage) -> bool:
    """Whether a stage reads its Func at the written point only."""
    reads = [load for load, source in stage.loads if source == stage.func]
    return all([_at(i) for i in load.indices] == [_at(i) for i in stage.indices] for load in reads)


class _Evaluation:
    """Evaluates the values of one iteration of a stage.

    Args:
        bound: The pipeline.
        stage: The stage.
        names: Values of the loop variables.
        own: Values of the point before the iteration.
    """

    def __init__(self, bound: BoundPipeline, stage: BoundStage, names: Mapping[str, int], own: _Values) -> None:
        self._bound, self._stage, self._names, self._own = bound, stage, names, own

    def run(self) -> _Values:
        """Return the values; None for those that are not known."""
        done: dict[int, _Interval | None] = {}
        for node in postorder(self._stage.values, done):
            done[id(node)] = self._value(node, [done[id(c)] for c in children(node)])
        return tuple(done[id(v)] for v in self._stage.values)

    def _value(self, e: Expr, operands: Sequence[_Interval | None]) -> _Interval | None:
        match e:
            case Var() | RVar():
                value = self._names.get(e.name)
                return None if value is None else _Interval(value, value)
            case Const():
                return _constant(e)
            case Load():
                return self._load(e, operands)
            case Select():
                condition = operands[0]
                return (operands[1] if condition.lo else operands[2]) if condition and condition.is_exact else None
        known = [v for v in operands if v is not None]
        if not operands or len(known) < len(operands):
            return None
        return _checked(_operation(e, known), e)

    def _load(self, e: Load, operands: Sequence[_Interval | None]) -> _Interval | None:
        source = self._stage.names[id(e.source)]
        if source == self._stage.func:
            return self._own[e.component] if self._own else None
        if any(i is None or not i.is_exact for i in operands):
            return None
        values = _point(self._bound, source, tuple(int(i.lo) for i in operands if i is not None))
        return None if values is None else values[e.component]


def _constant(e: Const) -> _Interval:
    value = e.dtype.scalar(e.value) if e.dtype.is_float else int(e.value)
    return _Interval(value, value)


def _operation(e: Expr, operands: Sequence[_Interval]) -> _Interval | None:
    """Return the range of an operation; None if it is not known."""
    exact = all(v.is_exact for v in operands)
    match e:
        case Cast():
            return _map(lambda v: _converted(v, e.a.dtype, e.dtype), operands) if e.dtype.kind != "b" else None
        case Call(name=name) if name in ROUNDING:
            return _map(ROUNDING[name], operands)
        case Call(name=name) if name in _ELEMENTARY and exact and e.dtype.bits >= 32:
            # In float64, so that the error of NumPy's own function does not count.
            value = e.dtype.scalar(_ELEMENTARY[name](*(np.float64(v.lo) for v in operands)))
            slack = ULPS * np.spacing(np.abs(value))
            return _Interval(value - slack, value + slack)
        case Unary(op="neg"):
            return _Interval(-operands[0].hi, -operands[0].lo)
        case Unary(op="not") if exact and e.dtype.kind == "b":
            return _Interval(int(not operands[0].lo), int(not operands[0].lo))
        case Unary(op="abs") if exact:
            return _Interval(abs(operands[0].lo), abs(operands[0].lo))
        case Binary(op=op) if op in COMPARISONS and (exact or op not in ("eq", "ne")):
            return _hull([int(getattr(operator, op)(a, b)) for a in operands[0] for b in operands[1]])
        case Binary(op=op) if e.dtype.is_float and op in _FLOAT:
            return _hull([_FLOAT[op](a, b) for a in operands[0] for b in operands[1]])
        case Binary(op="truediv") if operands[1].is_exact and operands[1].lo and e.dtype.is_float:
            return _hull([a / operands[1].lo for a in operands[0]])
        case Binary(op="shl" | "shr" as op) if exact and 0 <= operands[1].lo < e.dtype.bits:
            shift = operator.lshift if op == "shl" else operator.rshift
            return _hull([shift(operands[0].lo, operands[1].lo)])
        case Binary(op=op) if exact and not e.dtype.is_float and op in _INTEGER:
            return _hull([_INTEGER[op](operands[0].lo, operands[1].lo)])
    return None


def _checked(value: _Interval | None, e: Expr) -> _Interval | None:
    """Return a range without NaN, infinities and zeros of unknown sign, whose integers fit their type."""
    if value is None or None in value:
        return None
    if e.dtype.is_float:
        zeros = value.lo == value.hi == 0 and np.signbit(value.lo) != np.signbit(value.hi)
        finite = np.isfinite(value.lo) and np.isfinite(value.hi)
        return value if e.dtype.bits >= 32 and finite and not zeros else None
    wide = e.weak or e.dtype.kind == "b"
    return value if wide or all(e.dtype.holds(v) for v in value) else None


def _map(f: Callable[[Any], Any], operands: Sequence[_Interval]) -> _Interval:
    """Return the range of a monotone function."""
    return _Interval(*map(f, operands[0]))


def _hull(values: Sequence[Any]) -> _Interval:
    def signed(value: Any) -> tuple[Any, bool]:
        return value, not np.signbit(value)  # -0 is less than +0

    return _Interval(min(values, key=signed), max(values, key=signed))


def _converted(value: Any, source: DType, target: DType) -> Any:
    """Return a number in another type; None where that is not simple."""
    if target.is_float:
        return target.scalar(value) if source.is_float or abs(value) <= _LARGEST_EXACT else None
    if source.is_float:
        return int(value) if np.isfinite(value) and target.holds(int(value)) else None
    return value if target.holds(value) else None
