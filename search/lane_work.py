"""What one evaluation of a stage does on a CPU, by how the lanes of an inner loop go about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound import BoundStage
from autosched.featurize.accesses import AccessGroup, Row
from autosched.featurize.model import KernelModel
from autosched.featurize.structure import spot_storage
from autosched.lang.dtypes import float16
from autosched.schedule.thread_groups import owns_tile
from autosched.schedule.types import Level, StageId
from autosched.search.align import array_in_memory
from autosched.search.place_bounds import bounds_of
from autosched.search.stage_work import StageWork, stage_work

LANE_BYTES = 4
NEAR_BYTES = 1 << 19
"""What a core reads again within this many bytes comes from its own caches."""
NARROW_STRIDE = 4
"""Largest distance in elements between neighbouring lanes that gcc turns into shuffles."""
UNEVEN = 1 << 20
"""How far lanes that stand at quotients move: too far for vectors."""
FEW_LANES = 16
"""Lanes at an end of a row that are told apart by a condition: more of them form vectors of their own."""
PERIODIC = ("mirrored", "mirrored_without_edge", "wrapped")
"""Boundary conditions that take remainders, lane by lane in blocks at the border."""
HALF_STORE = 10.0
"""Operations that make the bits of a float16."""

Moves = dict[str, int]
"""How far each dimension of a stage moves from a lane to the next; those that do not move are left out."""


@dataclass(slots=True)
class LaneWork:
    """What one evaluation of a stage does; the operations are those of `autosched.search.stage_work.Work`.

    Attributes:
        narrowest: Bytes of the smallest element it touches.
        arithmetic: Operations in vectors.
        divisions: Divisions in vectors.
        scalar: All operations, one lane at a time.
        calls: Elementary functions.
        branches: Conditions on data that are joined.
        serial: What keeps gcc from forming vectors: a division without an instruction, gathers of elements of less than
            4 bytes, scattered stores, lanes at quotients.
        once: Operations that are the same in all lanes.
        wide: Contiguous accesses, in vectors of 4-byte lanes.
        held: The same of arrays inside a thread, which are contiguous in any case.
        own: Those of contiguous accesses that are of the stage's own result, which every term of a reduction reads and
            writes.
        kept: The same of those of arrays inside a thread.
        unit: Contiguous accesses.
        fixed: Accesses that are the same in all lanes.
        inside: Accesses of arrays inside a thread.
        near: Accesses of lanes that lie a few elements apart.
        far: Accesses of lanes that lie anywhere.
        aligned: Largest power of two that divides the bytes from a lane to the next in these, of any of them; 0 where
            data chooses.
        among: Bytes of the largest array in memory that they lie in, those along a row of it left out.
        chosen: Loads from rows of large arrays that data chooses, the same for all lanes.
        periodic: Accesses under boundary conditions that take remainders.
        bordered: Whether there are any of them, of elements that cannot be gathered.
        low: Lanes at the beginning of a row of the whole result whose indices are clamped; they have a loop of
            their own.
        high: The same at its end.
        whole: Lanes of a row of the whole result.
        inputs: Share of the bytes read from arrays in memory that are the pipeline's inputs.
        input_row: Bytes of the shortest row of these.
        stored: Bytes of its result.
        terms: Evaluations of each of its points, more than one in a reduction.
    """

    narrowest: float = LANE_BYTES
    arithmetic: float = 0.0
    divisions: float = 0.0
    scalar: float = 0.0
    calls: float = 0.0
    branches: float = 0.0
    serial: float = 0.0
    once: float = 0.0
    wide: float = 0.0
    held: float = 0.0
    own: float = 0.0
    kept: float = 0.0
    unit: float = 0.0
    fixed: float = 0.0
    inside: float = 0.0
    near: float = 0.0
    far: float = 0.0
    aligned: float = 0.0
    among: float = 0.0
    chosen: float = 0.0
    periodic: float = 0.0
    bordered: float = 0.0
    low: float = 0.0
    high: float = 0.0
    whole: float = 1.0
    inputs: float = 0.0
    input_row: float = 0.0
    stored: float = 0.0
    terms: float = 1.0


class LaneWorks:
    """The work of a kernel's stages, worked out when it is asked for.

    Args:
        model: The kernel's structure.
        known: Work of expressions that was worked out before, by the ``id`` of their stage; more is added.
    """

    def __init__(self, model: KernelModel, known: dict[tuple[int, frozenset[str]], tuple[BoundStage, StageWork]]):
        self._model = model
        self._known = known
        self._moves: dict[tuple[StageId, str | None], Moves] = {}

    def of(self, stage: StageId, lane: str | None) -> LaneWork:
        """Return the work of one evaluation of a stage.

        Args:
            stage: The stage.
            lane: The dimension that neighbouring lanes walk, of the stage or of the one in whose threads it is.
        """
        bound, access = self._model.bound, self._model.accesses_of(stage)
        moves = self._moves_of(stage, lane)
        func = bound.funcs[stage.func]
        found = LaneWork(serial=float(UNEVEN in moves.values()))
        found.terms = float(prod(d.extent for d in bound.stage(stage.func, stage.number).reductions))
        found.whole = float(max((func.extents[k] for k, d in enumerate(func.dims) if d in moves), default=1))
        moving: dict[str, set[str]] = {stage.func: set(moves)}
        wild: set[tuple[str, int]] = set()
        inlined = {n: k for k, n in enumerate(bound.funcs) if n in access.calls}
        for name in (stage.func, *sorted(inlined, key=inlined.__getitem__, reverse=True)):  # consumers come first
            one = bound.stage(name, stage.number if name == stage.func else 0)
            work = self._stage_work(one, frozenset(moving.get(name, ())))
            wild |= work.moving
            for source, k in work.moving:
                if source in inlined:
                    moving.setdefault(source, set()).add(bound.funcs[source].dims[k])
            if bound.funcs[name].boundary is None:
                _add(found, work, access.calls.get(name, 1))
                self._conditions(found, one, moving.get(name, ()))
        periodic = any(bound.funcs[name].boundary in PERIODIC for name in (stage.func, *inlined))
        hot = cold = 0.0
        for store, groups in enumerate((access.loads, access.stores)):
            for group in groups:
                self._count(found, stage, group, moves, wild, bool(store))
                size, times = self._model.facts.itemsize(group), len(group.offsets)
                found.narrowest = min(found.narrowest, size)
                if periodic and not group.everywhere:
                    found.periodic += times
                    found.bordered = max(found.bordered, float(size < LANE_BYTES))
                if store:
                    found.stored += size * times
                    continue
                if not periodic and not group.everywhere:
                    self._clamp(found, stage, group, moves)
                if group.source in bound.inputs:
                    row = size * (bound.inputs[group.source].shape or (1,))[-1]
                    found.input_row = min(found.input_row or row, row)
                    cold += size * times
                elif self._model.structure.spot(group.source) is None:
                    hot += size * times
        found.inputs = cold / max(cold + hot, 1)
        return found

    def _stage_work(self, stage: BoundStage, moving: frozenset[str]) -> StageWork:
        key = id(stage), moving
        if key not in self._known:
            self._known[key] = stage, stage_work(stage, moving)
        return self._known[key][1]

    def _is_held(self, func: str) -> bool:
        spot = self._model.structure.spot(func)
        return spot is not None and spot.level is Level.THREAD

    def _owns_tile(self, stage: StageId) -> bool:
        """Whether an update adds to an array inside each thread, which is written to memory in the end."""
        bound = self._model.bound
        return owns_tile(bound.funcs[stage.func], bound.stage(stage.func, stage.number))

    def _bytes_in_memory(self, source: str) -> float:
        """Return the size of an array in memory; 0 for one in a buffer."""
        bound = self._model.bound
        if source in bound.inputs:
            return float(prod(bound.inputs[source].shape) * bound.inputs[source].dtype.bytes_)
        func = bound.funcs[source]
        in_memory = self._model.structure.spot(source) is None
        return float(prod(func.extents) * max(d.bytes_ for d in func.dtypes)) if in_memory else 0.0

    def _moves_of(self, stage: StageId, lane: str | None) -> Moves:
        key = stage, lane
        if key not in self._moves:
            self._moves[key] = self._found_moves(stage, lane)
        return self._moves[key]

    def _found_moves(self, stage: StageId, lane: str | None) -> Moves:
        spot = self._model.structure.spot(stage.func)
        if spot is None or spot.level is Level.BLOCK:
            return {} if lane is None else {lane: 1}
        host = self._moves_of(spot.host, lane)
        found: Moves = {}
        for group in self._model.accesses_of(spot.host).loads:
            if group.source == stage.func:
                for dim, row in zip(self._model.bound.funcs[stage.func].dims, group.rows, strict=True):
                    step = 0 if row is None else _moved(row, host)
                    if row is not None and step:
                        found[dim] = max(found.get(dim, 0), UNEVEN if row.quotient > 1 else step)
        return found

    def _count(
        self, found: LaneWork, stage: StageId, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]],
        store: bool,
    ) -> None:  # fmt: skip
        """Add the accesses of a group."""
        size, times = self._model.facts.itemsize(group), len(group.offsets)
        vectors = times * size / LANE_BYTES
        own = vectors if group.source == stage.func else 0.0
        if store and self._model.bound.funcs[group.source].dtypes[group.component] == float16:
            found.arithmetic += HALF_STORE * times
            found.scalar += HALF_STORE * times
        if self._is_held(group.source) and None not in group.rows:
            found.held += vectors
            found.kept += own
            found.inside += times
            return
        sums = group.source == stage.func and stage.number > 0 and self._owns_tile(stage)
        step = 1 if sums and moves else self._lane_step(group, moves, wild)
        if not store and None in group.rows and step is not None and self._bytes_in_memory(group.source) > NEAR_BYTES:
            found.chosen += times
        if step is None or step > NARROW_STRIDE:
            found.far += times
            if not self._in_row(group, moves, wild):
                found.among = max(found.among, self._bytes_in_memory(group.source))
            found.aligned = max(found.aligned, self._alignment(group, moves))
            if step is None:
                found.serial += size < LANE_BYTES or (store and None in group.rows)
        elif step > 1:
            found.near += times
        elif step == 1:
            found.wide += vectors
            found.unit += times
            found.own += own
        else:
            found.fixed += times

    def _clamp(self, found: LaneWork, stage: StageId, group: AccessGroup, moves: Moves) -> None:
        """Note how many lanes at either end of a row of the whole result load from beyond the array."""
        bound = self._model.bound
        func, source = bound.funcs[stage.func], bound.funcs.get(group.source)
        ranges = dict(zip(func.dims, func.region, strict=True))
        first = last = 0
        for k, row in enumerate(group.rows):
            step = 0 if row is None else _moved(row, moves)
            if not group.clamped[k] or row is None or row.quotient > 1 or step <= 0:
                continue
            walked = [(c, *ranges[loop]) for loop, c in row.coefficients if loop in moves and loop in ranges]
            least, most = (sum(c * at[end] for c, *at in walked) for end in (0, 1))
            low, high = source.region[k] if source else (0, bound.inputs[group.source].shape[k] - 1)
            for offset in group.offsets:
                first = max(first, -((least + offset[k] - low) // step))
                last = max(last, -((high - most - offset[k]) // step))
        found.low, found.high = max(found.low, first), max(found.high, last)

    def _conditions(self, found: LaneWork, stage: BoundStage, moving: Collection[str]) -> None:
        """Note how many lanes at either end of a row of the whole result conditions on their place tell apart."""
        func = self._model.bound.funcs[stage.func]
        ranges = dict(zip(func.dims, func.region, strict=True))
        for dim, least, most in bounds_of(stage):
            if dim in moving and dim in ranges:
                first, last = ranges[dim]
                low, high = least - first, last - most
                found.low = max(found.low, low if low <= FEW_LANES else 0)
                found.high = max(found.high, high if high <= FEW_LANES else 0)

    def _alignment(self, group: AccessGroup, moves: Moves) -> float:
        """Return the power of two in the bytes from a lane to the next; 0 where these are not the same for all."""
        size, strides, _ = array_in_memory(self._model.bound, group)
        apart = 0
        for stride, row in zip(strides, group.rows, strict=True):
            if row is None or row.quotient > 1:
                return 0.0
            apart += size * stride * _moved(row, moves)
        return float(apart & -apart)

    def _lane_step(self, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> int | None:
        """Return how far apart in elements neighbouring lanes access; None where that is no constant or a row."""
        fastest = self._fastest(group.source)
        # Where none of the rows is exact it is the load that may be left out, no floor.
        floors = any(r is not None and r.exact for r in group.rows)
        in_memory = group.source in self._model.bound.inputs or self._model.structure.spot(group.source) is None
        strides: Sequence[int] = (UNEVEN,) * len(group.rows)  # buffers have an order of their own
        if in_memory:
            _, strides, _ = array_in_memory(self._model.bound, group)
        step = 0
        for k, row in enumerate(group.rows):
            if row is None:
                if (group.source, k) in wild:
                    return None
                continue
            move = abs(_moved(row, moves))
            if move and (row.quotient > 1 or (floors and not row.exact)):
                return None
            step += move if k == fastest else move * strides[k]
        return step

    def _in_row(self, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> bool:
        """Whether neighbouring lanes access elements near each other in one row, at quotients too."""
        fastest = self._fastest(group.source)
        for k, row in enumerate(group.rows):
            if row is None:
                if (group.source, k) in wild:
                    return False
            else:
                move = abs(_moved(row, moves))
                if move and (k != fastest or move > NARROW_STRIDE * row.quotient):
                    return False
        return True

    def _fastest(self, source: str) -> int:
        """Return the dimension of an array along which neighbours are next to each other in memory."""
        model = self._model
        func = model.bound.funcs.get(source)
        spot = None if func is None else model.structure.spot(source)
        if func is not None and spot is not None:
            return func.dims.index(spot_storage(func, spot)[-1]) if func.dims else 0
        extents = model.bound.inputs[source].shape if func is None else func.extents
        return max((k for k, n in enumerate(extents) if n > 1), default=0)


def level_of(model: KernelModel, stage: StageId) -> Level:
    """Return where a stage of a kernel is computed."""
    spot = model.structure.spot(stage.func)
    return Level.ROOT if spot is None else spot.level


def _moved(row: Row, moves: Moves) -> int:
    """Return how far an index, times its quotient, moves from a lane to the next."""
    return sum(c * moves.get(loop, 0) for loop, c in row.coefficients)


def _add(found: LaneWork, stage: StageWork, times: int) -> None:
    work = stage.work
    for name in ("arithmetic", "divisions", "scalar", "calls", "branches", "serial", "once"):
        setattr(found, name, getattr(found, name) + times * getattr(work, name))
