"""What the expressions of a stage cost a processor: in vectors, one lane at a time, and once for all lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.accesses.accesses import Points
from autosched.lang.dtypes import float16
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
    "pow": 2.6, "tan": 3.0, "tanh": 5.0, "atan2": 5.5,
}  # fmt: skip
"""Times of elementary functions over that of a float32 exponential, one at a time."""
VECTOR_LIBRARY = {
    "exp": 63.0, "log": 55.0, "sin": 53.0, "cos": 55.0, "hypot": 46.0, "asin": 55.0, "acos": 57.0, "atan": 57.0,
    "pow": 200.0, "tan": 61.0, "tanh": 55.0, "atan2": 71.0,
}  # fmt: skip
"""Times of a vector of them over that of an addition: those of a loop that does nothing else (glibc 2.36, vectors of
16, EPYC of the fifth generation), and 25 for registers that the loop around a call keeps elsewhere meanwhile."""
DOUBLE_CALL = 1.7, 1.2
"""Times of functions of a float64 over those of a float32: one at a time, and of vectors of as many bytes."""
FLOAT_REMAINDER = 80.0
"""Additions that take as long as the remainder of two floats, for which there is no function of vectors."""
HALF_LOAD = 30.0, 22.0
"""Operations that make a number of the bits of a float16: in vectors, and one lane at a time."""
HALF_ROUND = 36.0, 30.0
"""Operations that round a number to float16."""
IN_VECTORS = 2
"""The first so many operations of `Work` are those in vectors."""
EXPONENTIAL = 40.0
"""Additions that take as long as an exponential."""

Varying = dict[int, tuple[bool, bool]]
"""By ``id`` of a node, whether it differs from lane to lane, and whether it depends on data."""


@dataclass(frozen=True, slots=True)
class Work:
    """Operations of one evaluation; a float32 addition is 1.

    Attributes:
        arithmetic: In vectors of 4-byte elements, divisions left out.
        divisions: Divisions and square roots in vectors; one float32 division is 1.
        scalar: All of them, one lane at a time, in additions of one number.
        calls: Elementary functions one lane at a time, in float32 exponentials; those of vectors are arithmetic.
        serial: Divisions of integers by integers that are no constants and remainders of floats, for which there is no
            vector instruction.
        once: What is the same in all lanes, in additions of one number.
        operations: How many there are, in lanes or not.
    """

    arithmetic: float = 0.0
    divisions: float = 0.0
    scalar: float = 0.0
    calls: float = 0.0
    serial: float = 0.0
    once: float = 0.0
    operations: float = 0.0


@dataclass(frozen=True, slots=True)
class CpuStageCosts:
    """One evaluation of a stage without what is inlined into it, or all that one evaluation of another has of it.

    Attributes:
        work: Its operations.
        moving: Which indices differ from lane to lane: names of sources, or of the stage itself, and positions.
    """

    work: Work
    moving: frozenset[tuple[str, int]]


ONE_POINT: Points = ((),)
KnownWork = dict[tuple[int, frozenset[str], Points], tuple[BoundStage, CpuStageCosts]]
"""Work by ``id`` of the stage, what moves, and points, with the stage, so that it lives as long."""


def stage_work(stage: BoundStage, moving: frozenset[str], points: Points = ONE_POINT) -> CpuStageCosts:
    """Return the work of a stage.

    Args:
        stage: The stage.
        moving: Its dimensions that differ from lane to lane.
        points: Where it is evaluated, one point unless it is inlined. What depends on some of its dimensions alone is
            worked out once for all points that are the same in these, as compilers see.
    """
    varies = _varying(stage, moving)
    total = [0.0] * 7
    shares = _shares(stage, varies)
    times = _times(stage, points) if len(points) > 1 else dict.fromkeys(varies, 1)
    for e, indexing in _nodes(stage):
        moves, data = varies[id(e)]
        if _is_free(e, indexing, moves, data):
            continue
        cost, n = _cost(e), times[id(e)]
        total[6] += n * (not isinstance(e, Load))
        if moves:
            for k, part in enumerate(cost):
                total[k] += n * part * (shares[id(e)] if k < IN_VECTORS else 1)
        else:
            total[5] += n * (cost[2] + cost[3] * EXPONENTIAL) * shares[id(e)]
    places = {(stage.func, k) for k, i in enumerate(stage.indices) if varies[id(i)][0]}
    places |= {(name, k) for load, name in stage.loads for k, i in enumerate(load.indices) if varies[id(i)][0]}
    return CpuStageCosts(Work(*total), frozenset(places))


def _varying(stage: BoundStage, moving: frozenset[str]) -> Varying:
    known: Varying = {}
    for e in postorder([*stage.values, *stage.indices], known):
        below = [known[id(c)] for c in children(e)]
        moves = (isinstance(e, Var) and e.name in moving) or any(m for m, _ in below)
        known[id(e)] = moves, isinstance(e, Load) or any(d for _, d in below)
    return known


def _times(stage: BoundStage, points: Points) -> dict[int, int]:
    """Return for how many of the points each node has to be worked out, by ``id``."""
    roots = [*stage.values, *stage.indices]
    positions = {loop.name: k for k, loop in enumerate(stage.loops)}
    used: dict[int, frozenset[int]] = {}
    for e in postorder(roots, used):
        own = [positions[e.name]] if isinstance(e, Var) and e.name in positions else []
        used[id(e)] = frozenset(own).union(*(used[id(c)] for c in children(e)))
    distinct = {dims: len({tuple([p[k] for k in dims]) for p in points}) for dims in set(used.values())}
    return {node: distinct[dims] for node, dims in used.items()}


def _shares(stage: BoundStage, varies: Varying) -> dict[int, float]:
    """Return how often each node is worked out in vectors, by ``id``.

    A condition that is the same in all lanes is taken out of the loop over them, which is there twice then: what one
    of both alone needs is worked out half of the time.
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
    """Yield every node once, and whether it is part of an index."""
    seen: set[int] = set()
    stack = [(e, False) for e in stage.values] + [(e, True) for e in stage.indices]
    while stack:
        e, indexing = stack.pop()
        if id(e) not in seen:
            seen.add(id(e))
            yield e, indexing
            stack += [(c, indexing or isinstance(e, Load)) for c in children(e)]


def _is_free(e: Expr, indexing: bool, moves: bool, data: bool) -> bool:
    """Whether a node costs nothing: affine indices go into addresses, conditions on them are hoisted out of rows."""
    if isinstance(e, Const | Param | ShapeDim | Var | RVar):
        return True
    if indexing:
        return not data and not (moves and isinstance(e, Binary) and e.op in ("floordiv", "mod"))
    return not moves and not data and isinstance(e, Binary) and e.dtype.kind == "b"


def _cost(e: Expr) -> tuple[float, float, float, float, float]:
    """Return what a node costs without its operands: arithmetic, divisions, scalar, calls, serial (see `Work`)."""
    arithmetic, divisions, scalar, calls, serial = _plain_cost(e)
    if e.dtype == float16:  # arrays hold bits; every operation is rounded
        more = HALF_LOAD if isinstance(e, Load) else HALF_ROUND
        arithmetic, scalar = arithmetic + more[0], scalar + more[1]
    return arithmetic, divisions, scalar, calls, serial


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
                return 0, 0, FLOAT_REMAINDER, 0, 1
            if not isinstance(e.b, Const):
                return 0, 0, 16, 0, 1
            value = int(e.b.value)
            return (wide, 0, 1, 0, 0) if value > 0 and not value & (value - 1) else (6 * wide, 0, 8, 0, 0)
        case Binary() if e.op in ("min", "max") and e.dtype.is_float:  # of a NaN and a number, as NumPy has it
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
        case "fmod":
            return 0, 0, FLOAT_REMAINDER, 0, 1
    one, vectors = DOUBLE_CALL if e.dtype.bits == 64 else (1.0, 1.0)
    return VECTOR_LIBRARY[e.name] * wide * vectors, 0, 0, LIBRARY[e.name] * one, 0
