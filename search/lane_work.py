"""What one evaluation of a stage does on a CPU, by how the lanes of an inner loop go about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from autosched.analysis.bound import BoundStage
from autosched.featurize.accesses import AccessGroup
from autosched.featurize.model import KernelModel
from autosched.featurize.structure import storage_order, thread_order, tiled_dims, vector_dim
from autosched.lang.expr import Binary, Call, Expr, Load, Var, walk
from autosched.schedule.types import Level, StageId

LANE_BYTES = 4
VECTORISED = ("floor", "ceil", "trunc", "round", "sqrt", "hash_u32")
"""Functions that need no call of the C library."""
NARROW_STRIDE = 4
"""Largest distance in elements between neighbouring lanes that gcc turns into shuffles."""

UNEVEN = 1 << 20
"""How far lanes that stand at quotients move: too far for vectors."""

Moves = dict[str, int]
"""How far each dimension of a stage moves from a lane to the next."""


@dataclass(frozen=True, slots=True)
class LaneWork:
    """What one evaluation of a stage does.

    Attributes:
        narrowest: Bytes of the smallest element it touches.
        wide: Accesses that are contiguous or the same in all lanes, in vectors of 4-byte lanes.
        own: The part of ``wide`` that is the stage's own result, read and written by every term of a reduction.
        strided: Accesses of lanes that lie a few elements apart.
        gathered: Accesses of lanes that lie anywhere.
        accesses: All of them.
        calls: Elementary functions, which the C library computes one at a time.
        branches: Conditions joined by ``&&`` or ``||``, which keep gcc 12 from forming vectors.
    """

    narrowest: int
    wide: float
    own: float
    strided: int
    gathered: int
    accesses: int
    calls: int
    branches: int


def lane_works(model: KernelModel) -> tuple[LaneWork, ...]:
    """Return the work of each stage of a kernel, in the order of its rows."""
    moves: dict[StageId, Moves] = {}
    works: dict[StageId, LaneWork] = {}
    for stage in _hosts_first(model):
        moves[stage] = _moves(model, stage, moves)
        works[stage] = _lane_work(model, stage, moves[stage])
    return tuple(works[s] for s in model.rows)


def level_of(model: KernelModel, stage: StageId) -> Level:
    """Return where a stage of a kernel is computed."""
    spot = model.structure.spot(stage.func)
    return Level.ROOT if spot is None else spot.level


def _hosts_first(model: KernelModel) -> list[StageId]:
    done: list[StageId] = []
    left = list(model.rows)
    while left:
        for stage in left:
            spot = model.structure.spot(stage.func)
            if spot is None or spot.level is Level.BLOCK or spot.host in done:
                done.append(stage)
                left.remove(stage)
                break
    return done


def _moves(model: KernelModel, stage: StageId, known: dict[StageId, Moves]) -> Moves:
    func = model.bound.funcs[stage.func]
    spot = model.structure.spot(stage.func)
    if spot is None:
        order = thread_order(model.bound, stage.func, tiled_dims(model.bound, model.structure.stages))
        return {order[0]: 1} if order else {}
    if spot.level is Level.BLOCK:
        vector = vector_dim(func)
        return {} if vector is None else {vector: 1}
    found: Moves = {}
    for group in model.accesses_of(spot.host).loads:
        if group.source == stage.func:
            for dim, row in zip(func.dims, group.rows, strict=True):
                if row is not None:
                    step = sum(c * known[spot.host].get(loop, 0) for loop, c in row.coefficients)
                    found[dim] = max(found.get(dim, 0), UNEVEN if step and row.quotient > 1 else step)
    return found


def _lane_work(model: KernelModel, stage: StageId, moves: Moves) -> LaneWork:
    access = model.accesses_of(stage)
    stages = [(model.bound.stage(stage.func, stage.number), 1)]
    stages += [(model.bound.funcs[name].stages[0], times) for name, times in access.calls.items()]
    wide, own, strided, gathered, count, narrowest = 0.0, 0.0, 0, 0, 0, LANE_BYTES
    for group in (*access.loads, *access.stores):
        size, times = model.facts.itemsize(group), len(group.offsets)
        narrowest = min(narrowest, size)
        count += times
        step = _lane_step(model, group, moves)
        if step is None or step > NARROW_STRIDE:
            gathered += times
        elif step > 1:
            strided += times
        else:
            wide += times * size / LANE_BYTES
            own += times * size / LANE_BYTES if group.source == stage.func else 0
    return LaneWork(
        narrowest, wide, own, strided, gathered, count,
        sum(times * _library_calls(s, moves) for s, times in stages),
        sum(times * _branches(s) for s, times in stages if model.bound.funcs[s.func].boundary is None),
    )  # fmt: skip


def _lane_step(model: KernelModel, group: AccessGroup, moves: Moves) -> int | None:
    """Return how many elements lie between what neighbouring lanes access; None where it is no constant or a row."""
    func = model.bound.funcs.get(group.source)
    spot = model.structure.spot(group.source)
    if (spot is not None and spot.level is Level.THREAD) or not group.rows:
        return 1  # an array inside a thread has a place for each lane
    if func is not None and spot is not None:
        fastest = func.dims.index(storage_order(func)[-1])
    else:
        extents = model.bound.inputs[group.source].shape if func is None else func.extents
        fastest = max((k for k, n in enumerate(extents) if n > 1), default=0)
    # Where none of the rows is exact it is the load that may be left out, no floor.
    floors = any(r is not None and r.exact for r in group.rows)
    step = 0
    for k, row in enumerate(group.rows):
        if row is None:
            return None
        move = abs(sum(c * moves.get(loop, 0) for loop, c in row.coefficients))
        if move and (k != fastest or row.quotient > 1 or (floors and not row.exact)):
            return None
        step = move if k == fastest else step
    return step


def _library_calls(stage: BoundStage, moving: Collection[str]) -> int:
    """Return the elementary functions whose arguments differ from lane to lane; the others are computed once."""
    return sum(isinstance(e, Call) and e.name not in VECTORISED and _varies(e, moving) for e in _nodes(stage))


def _branches(stage: BoundStage) -> int:
    """Return the conditions on data that are joined; those on indices are decided in the interior."""
    return sum(
        isinstance(e, Binary) and e.op in ("and", "or") and e.dtype.kind == "b" and _varies(e, ())
        for e in _nodes(stage)
    )


def _nodes(stage: BoundStage) -> Collection[Expr]:
    return {id(e): e for v in stage.values for e in walk(v)}.values()


def _varies(e: Expr, moving: Collection[str]) -> bool:
    return any(isinstance(n, Load) or (isinstance(n, Var) and n.name in moving) for n in walk(e))
