"""Costs of a stage's expressions on a CPU: in vectors, one lane at a time, and uniform over the lanes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.expressions.bfloat16_rounding import is_rounded_to_bfloat16
from autosched.featurize.accesses.accesses import Points
from autosched.lang.dtypes import bfloat16, float16
from autosched.lang.expr import (
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
    children,
    postorder,
)

LIBRARY = {
    "exp": 1.0, "log": 1.2, "sin": 1.2, "cos": 1.0, "hypot": 1.4, "asin": 2.0, "acos": 2.0, "atan": 2.2,
    "pow": 2.6, "tan": 3.0, "tanh": 5.0, "atan2": 5.5, "exp2": 1.1, "expm1": 6.4, "log2": 1.2, "log10": 2.7,
    "log1p": 6.0, "sinh": 9.8, "cosh": 3.5, "asinh": 6.3, "acosh": 4.3, "atanh": 12.0, "erf": 8.6, "erfc": 8.9,
    "fmod": 2.0, "mod": 2.0, "floordiv": 2.0,
}  # fmt: skip
"""Times of scalar elementary functions and remainders, relative to a float32 exponential."""
VECTOR_LIBRARY = {
    "exp": 63.0, "log": 55.0, "sin": 53.0, "cos": 55.0, "hypot": 46.0, "asin": 55.0, "acos": 57.0, "atan": 57.0,
    "pow": 200.0, "tan": 61.0, "tanh": 55.0, "atan2": 71.0, "exp2": 54.0, "expm1": 58.0, "log2": 53.0, "log10": 54.0,
    "log1p": 60.0, "sinh": 58.0, "cosh": 58.0, "asinh": 74.0, "acosh": 102.0, "atanh": 62.0, "erf": 72.0, "erfc": 107.0,
    "fmod": 52.0, "mod": 80.0, "floordiv": 93.0,
}  # fmt: skip
"""Times of vector elementary functions and remainders, relative to an addition.

Fitted to a loop of calls alone (glibc 2.36, vectors of 16, EPYC of the fifth generation), plus 25 for the registers
that the loop around a call spills.
"""
DOUBLE_CALL = 1.7, 1.2
"""Times of float64 functions relative to float32: scalar, and vectors of the same number of bytes."""
HALF_LOAD = 30.0, 22.0
"""Operations that convert the bits of a float16 to a number: in vectors, and scalar."""
HALF_ROUND = 36.0, 30.0
"""Operations that round a number to float16: in vectors, and scalar."""
BFLOAT16_LOAD = 2.0, 1.0
"""Operations that make a number of the bits of a bfloat16: widening and a shift in vectors, a shift of a scalar."""
BFLOAT16_ROUND = 9.0, 8.0
"""Operations that round a number to bfloat16: the instructions of gcc 12 with AVX-512, and scalar."""
BOOLEAN = 1 / 4
"""Width of a boolean in memory, relative to 4 bytes."""
IN_VECTORS = 2
"""Number of leading fields of `Work` that count vector operations."""
EXPONENTIAL = 40.0
"""Time of an exponential, in additions."""

NodeDependence = dict[int, tuple[bool, bool]]
"""By ``id`` of a node: whether it varies from lane to lane, and whether it depends on data."""


@dataclass(frozen=True, slots=True)
class Work:
    """Operations of one evaluation; a float32 addition is 1.

    Attributes:
        arithmetic: Vector operations on 4-byte elements, without divisions.
        divisions: Vector divisions and square roots; one float32 division is 1.
        scalar: All operations, one lane at a time, in scalar additions.
        calls: Scalar elementary functions, in float32 exponentials; vector functions count as arithmetic.
        serial: Operations without a vector instruction: divisions of integers by non-constants.
        once: Operations that are uniform over the lanes, in scalar additions.
        operations: Number of all operations.
        moving: Number of operations that vary from lane to lane.
    """

    arithmetic: float = 0.0
    divisions: float = 0.0
    scalar: float = 0.0
    calls: float = 0.0
    serial: float = 0.0
    once: float = 0.0
    operations: float = 0.0
    moving: float = 0.0


@dataclass(frozen=True, slots=True)
class CpuStageCosts:
    """Costs of one evaluation of a stage without its inlined Funcs, or of all calls of an inlined Func.

    Attributes:
        work: The operations.
        moving: Indices that vary from lane to lane: name of the source, or of the stage itself, and position.
    """

    work: Work
    moving: frozenset[tuple[str, int]]


ONE_POINT: Points = ((),)
StageCostCache = dict[tuple[int, frozenset[str], Points, frozenset[str]], tuple[BoundStage, CpuStageCosts]]
"""Costs by the arguments of `stage_work`, with the ``id`` of the stage. The stage is stored too, so that its id stays
valid."""


@cache
def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names)


def field_values(record: Any) -> tuple[Any, ...]:
    """Return the values of the fields of a dataclass, at least two; `dataclasses.astuple` copies each deeply."""
    return _getter(record.__match_args__)(record)


def stage_work(
    stage: BoundStage, moving: frozenset[str], points: Points = ONE_POINT, private: frozenset[str] = frozenset()
) -> CpuStageCosts:  # fmt: skip
    """Return the costs of a stage.

    Args:
        stage: The stage.
        moving: Its dimensions that vary from lane to lane.
        points: Points of evaluation; one unless the stage is inlined. Compilers evaluate a subexpression once for all
            points that agree in the dimensions that it depends on.
        private: Funcs of which each lane has elements of its own. Loads of them vary, whatever their index: compilers
            cannot prove the elements equal.
    """
    varies = _lane_dependence(stage, moving, private)
    total = [0.0] * 8
    shares = _shares(stage, varies)
    times = _times(stage, points) if len(points) > 1 else dict.fromkeys(varies, 1)
    masks = _mask_widths(stage)
    for e, indexing in _nodes(stage):
        moves, data = varies[id(e)]
        if _is_free(e, indexing, moves, data):
            continue
        cost, n = _cost(e, masks), times[id(e)]
        total[6] += n * (not isinstance(e, Load))
        if moves:
            total[7] += n * (not isinstance(e, Load))
            for k, part in enumerate(cost):
                total[k] += n * part * (shares[id(e)] if k < IN_VECTORS else 1)
        else:
            total[5] += n * (cost[2] + cost[3] * EXPONENTIAL) * shares[id(e)]
    varying = {(stage.func, k) for k, i in enumerate(stage.indices) if varies[id(i)][0]}
    varying |= {(name, k) for load, name in stage.loads for k, i in enumerate(load.indices) if varies[id(i)][0]}
    return CpuStageCosts(Work(*total), frozenset(varying))


def uses_position(stage: BoundStage, dims: Collection[str] | None = None) -> bool:
    """Return whether values of a stage depend on dimensions other than through loads.

    Args:
        stage: The stage.
        dims: The dimensions; None for all.
    """
    seen: set[int] = set()
    stack = list(stage.values)
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Var) and (dims is None or e.name in dims):
            return True
        stack += () if isinstance(e, Load) else children(e)
    return False


def _lane_dependence(stage: BoundStage, moving: frozenset[str], private: frozenset[str]) -> NodeDependence:
    own = {id(load) for load, name in stage.loads if name in private}
    result: NodeDependence = {}
    for e in postorder([*stage.values, *stage.indices], result):
        operands = [result[id(c)] for c in children(e)]
        moves = (isinstance(e, Var) and e.name in moving) or id(e) in own or any(m for m, _ in operands)
        result[id(e)] = moves, isinstance(e, Load) or any(d for _, d in operands)
    return result


def _mask_widths(stage: BoundStage) -> dict[int, float]:
    """Return the width of each boolean in vectors, relative to 4 bytes, by ``id``: that of the widest values compared.

    A comparison of bytes is a mask over a vector of bytes, and so are logical operations on such masks.
    """
    widths: dict[int, float] = {}
    for e in postorder([*stage.values, *stage.indices], widths):
        if e.dtype.kind != "b":
            widths[id(e)] = 1.0 if e.dtype.is_reduced_float else e.dtype.bits / 32  # these are compared as float32
        elif isinstance(e, Load | Const | Param):
            widths[id(e)] = BOOLEAN
        else:
            compared = [widths[id(c)] for c in children(e) if not isinstance(c, Const)]
            widths[id(e)] = min(max(compared, default=BOOLEAN), 1.0)
    return widths


def _times(stage: BoundStage, points: Points) -> dict[int, int]:
    """Return the number of distinct points at which each node is evaluated, by ``id``."""
    roots = [*stage.values, *stage.indices]
    positions = {loop.name: k for k, loop in enumerate(stage.loops)}
    used: dict[int, frozenset[int]] = {}
    for e in postorder(roots, used):
        dims = [positions[e.name]] if isinstance(e, Var) and e.name in positions else []
        used[id(e)] = frozenset(dims).union(*(used[id(c)] for c in children(e)))
    distinct = {by: len({tuple([p[k] for k in by]) for p in points}) for by in set(used.values())}
    return {node: distinct[by] for node, by in used.items()}


def _shares(stage: BoundStage, varies: NodeDependence) -> dict[int, float]:
    """Return the share of vector iterations that evaluate each node, by ``id``.

    Loop unswitching moves a uniform condition out of the lane loop. A node that a single branch evaluates counts half.
    """
    roots = [*stage.values, *stage.indices]
    seen: set[int] = set()
    order = []
    for e in postorder(roots, seen):
        seen.add(id(e))
        order.append(e)
    shares = dict.fromkeys(map(id, order), 0.0) | dict.fromkeys(map(id, roots), 1.0)
    for e in reversed(order):
        halved = (e.t, e.f) if isinstance(e, Select) and not varies[id(e.cond)][0] else ()
        for c in children(e):
            part = 0.5 if any(c is h for h in halved) else 1.0
            shares[id(c)] = min(shares[id(c)] + part * shares[id(e)], 1.0)
    return shares


def _nodes(stage: BoundStage) -> Iterator[tuple[Expr, bool]]:
    """Yield every node once, with whether it is part of an index."""
    seen: set[int] = set()
    stack = [(e, False) for e in stage.values] + [(e, True) for e in stage.indices]
    while stack:
        e, indexing = stack.pop()
        if id(e) not in seen:
            seen.add(id(e))
            yield e, indexing
            stack += [(c, indexing or isinstance(e, Load)) for c in children(e)]


def _is_free(e: Expr, indexing: bool, moves: bool, data: bool) -> bool:
    """Whether a node is free: affine indices become addresses, conditions on them are hoisted out of rows."""
    if isinstance(e, Const | Param | ShapeDim | Var | RVar):
        return True
    if indexing:
        return not data and not (moves and isinstance(e, Binary) and e.op in ("floordiv", "mod"))
    return not moves and not data and isinstance(e, Binary) and e.dtype.kind == "b"


def _cost(e: Expr, masks: Mapping[int, float]) -> tuple[float, float, float, float, float]:
    """Return the cost of a node without its operands: arithmetic, divisions, scalar, calls, serial (see `Work`).

    Args:
        e: The node.
        masks: See `_mask_widths`.
    """
    arithmetic, divisions, scalar, calls, serial = _plain_cost(e)
    if _is_of_masks(e, masks):
        arithmetic = masks[id(e)]
    if e.dtype == float16:  # arrays contain bits; every operation is rounded
        more = HALF_LOAD if isinstance(e, Load) else HALF_ROUND
        arithmetic, scalar = arithmetic + more[0], scalar + more[1]
    elif is_rounded_to_bfloat16(e):
        arithmetic, scalar = arithmetic + BFLOAT16_ROUND[0], scalar + BFLOAT16_ROUND[1]
    elif e.dtype == bfloat16 and isinstance(e, Load):
        arithmetic, scalar = arithmetic + BFLOAT16_LOAD[0], scalar + BFLOAT16_LOAD[1]
    return arithmetic, divisions, scalar, calls, serial


def _is_of_masks(e: Expr, masks: Mapping[int, float]) -> bool:
    """Whether a node computes a mask, or integers of the width of a mask from it."""
    if e.dtype.kind == "b":
        return isinstance(e, Binary | Unary)
    return isinstance(e, Cast) and e.dtype.is_int and e.a.dtype.kind == "b" and masks[id(e)] == masks[id(e.a)]


def _plain_cost(e: Expr) -> tuple[float, float, float, float, float]:
    wide = e.dtype.bits / 32 if e.dtype.is_int else 2.0 if e.dtype.bits == 64 else 1.0
    match e:
        case Load():
            return 0, 0, 0, 0, 0
        case Call():
            return _call_cost(e, wide)
        case Binary() if e.op == "truediv":
            return 0, wide**1.4, 8, 0, 0
        case Binary() if e.op in ("floordiv", "mod"):
            if e.dtype.is_float:
                return _library_cost(e.op, e, wide)
            if not isinstance(e.b, Const):
                return 0, 0, 16, 0, 1
            value = int(e.b.value)
            return (wide, 0, 1, 0, 0) if value > 0 and not value & (value - 1) else (6 * wide, 0, 8, 0, 0)
        case Binary() if e.op in ("min", "max") and e.dtype.is_float:  # propagates NaN, like NumPy
            return 2 * wide, 0, 5, 0, 0
        case Select():
            return wide, 0, 5, 0, 0
        case Cast() if e.a.dtype.is_float and e.dtype.is_int:  # saturates
            return (6, 0, 12, 0, 0) if e.dtype.bits < 32 else (8, 0, 18, 0, 0)
        case Cast():  # between vectors of different lengths
            return max(wide, 1.0), 0, 2, 0, 0
        case Binary() | Unary():
            return wide, 0, 2, 0, 0
    return 0, 0, 0, 0, 0


def _call_cost(e: Call, wide: float) -> tuple[float, float, float, float, float]:
    match e.name:
        case "floor" | "ceil" | "trunc" | "round":
            return wide, 0, 6, 0, 0
        case "sqrt":
            return 0, 1.4 * wide**1.4, 12, 0, 0
        case "hash_u32":
            return 8, 0, 10, 0, 0
        case "copysign":  # two masks and their union
            return 3 * wide, 0, 3, 0, 0
    return _library_cost(e.name, e, wide)


def _library_cost(name: str, e: Expr, wide: float) -> tuple[float, float, float, float, float]:
    one, vectors = DOUBLE_CALL if e.dtype.bits == 64 else (1.0, 1.0)
    return VECTOR_LIBRARY[name] * wide * vectors, 0, 0, LIBRARY[name] * one, 0
