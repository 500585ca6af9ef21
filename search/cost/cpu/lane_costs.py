"""What one evaluation of a stage does on a CPU, by how the lanes of an inner loop go about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import ceil, prod

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.accesses.accesses import AccessGroup, Points, StageAccesses
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.lang.dtypes import float16
from autosched.schedule.cpu_policy import MAX_VECTOR_STEP, SCATTERED_BYTES
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.types import Level, StageId
from autosched.search.cost.boundary_conditions import Boundary, boundaries
from autosched.search.cost.cpu.lane_access_patterns import (
    UNEVEN,
    LaneAccesses,
    Moves,
    index_step,
    iteration_distance,
    period,
)
from autosched.search.cost.cpu.point_conditions import point_ranges
from autosched.search.cost.cpu.stage_costs import ONE_POINT, CpuStageCosts, KnownWork, Work, stage_work

Varied = tuple[Mapping[str, Collection[str]], Mapping[str, CpuStageCosts]]
"""Dimensions that move by Func, and the work of each."""
LANE_BYTES = 4
NEAR_BYTES = 1 << 19
"""What a core reads again within this many bytes comes from its own caches."""
FEW_LANES = 16
"""Lanes at an end of a row that are told apart by a condition: more of them form vectors of their own."""
MOST_PERMUTED = 16
"""Lanes of 4 bytes that a vector holds: gcc permutes what it loads as a whole where lanes lie so far apart."""
HALF_STORE = 36.0
"""Operations that make the bits of a float16."""
SCATTERING_LANES = 16
"""Lanes of the vectors of processors that can store these where each lane says (AVX-512)."""


@dataclass(slots=True)
class LaneCosts:
    """What one evaluation of a stage does; the operations are those of `autosched.search.cost.cpu.stage_costs.Work`.

    Attributes:
        narrowest: Bytes of the smallest element that differs from lane to lane.
        arithmetic: Operations in vectors.
        divisions: Divisions in vectors.
        scalar: All operations, one lane at a time.
        calls: Elementary functions, one lane at a time.
        serial: What keeps gcc from forming vectors: a division without an instruction, gathers of elements of less than
            4 bytes, stores where data say in loops that it is not told to take in vectors, lanes at quotients.
        put: Stores where data say that come lane by lane, after what is worked out in vectors
            (`autosched.lower.passes.cpu.split_scatter_loop`).
        once: Operations that are the same in all lanes.
        operations: How many operations there are.
        wide: Contiguous accesses, in vectors of 4-byte lanes.
        held: The same of arrays inside a thread, which are contiguous in any case.
        own: Those of contiguous accesses that are of the stage's own result, which every term of a reduction reads and
            writes.
        kept: The same of those of arrays inside a thread.
        unit: Contiguous accesses.
        fixed: Accesses that are the same in all lanes.
        inside: Accesses of arrays inside a thread.
        near: Accesses of lanes that lie a few elements apart.
        stride: Elements from a lane to the next in these, where they are most.
        gaps: Loads of them that leave out the last elements between a lane and the next.
        far: Accesses of lanes that lie anywhere.
        even: Those of them that lie evenly apart.
        powers: Loads of these that lie a power of two apart, for which gcc forms no vectors.
        beside: Loads of these with others between a lane and the next, likewise.
        halves: Loads of these of float16, for which it does so only where points of a thread share them.
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
        chained: The same of a floating-point sum whose terms all go to one place, so that an addition waits for the one
            before; 0 of others.
        scans: One over the terms from a store to the one that reads it at another point, as running sums do; 0 where
            none does.
    """

    narrowest: float = LANE_BYTES
    arithmetic: float = 0.0
    divisions: float = 0.0
    scalar: float = 0.0
    calls: float = 0.0
    serial: float = 0.0
    put: float = 0.0
    once: float = 0.0
    operations: float = 0.0
    wide: float = 0.0
    held: float = 0.0
    own: float = 0.0
    kept: float = 0.0
    unit: float = 0.0
    fixed: float = 0.0
    inside: float = 0.0
    near: float = 0.0
    stride: float = 0.0
    gaps: float = 0.0
    far: float = 0.0
    even: float = 0.0
    powers: float = 0.0
    beside: float = 0.0
    halves: float = 0.0
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
    chained: float = 0.0
    scans: float = 0.0


class LaneWorks:
    """The work of a kernel's stages, worked out when it is asked for.

    Args:
        model: The kernel's structure.
        known: Work of expressions that was worked out before, by the ``id`` of their stage; more is added.
    """

    def __init__(self, model: SketchFeaturizer, known: KnownWork):
        self._model = model
        self._accesses = LaneAccesses(model)
        self._known = known
        self._moves: dict[tuple[StageId, str | None], Moves] = {}
        self._varied: dict[tuple[StageId, frozenset[str]], Varied] = {}

    def of(self, stage: StageId, lane: str | None) -> LaneCosts:
        """Return the work of one evaluation of a stage.

        Args:
            stage: The stage.
            lane: The dimension that neighbouring lanes walk, of the stage or of the one in whose threads it is.
        """
        bound, access = self._model.bound, self._model.accesses_of(stage)
        moves = self._moves_of(stage, lane)
        func = bound.funcs[stage.func]
        found = LaneCosts(serial=float(any(m >= UNEVEN for m in moves.values())))
        found.terms = float(prod(d.extent for d in bound.stage(stage.func, stage.number).reductions))
        found.chained = found.terms * self._stays(stage)
        found.scans = self._scans(stage)
        found.whole = float(max((func.extents[k] for k, d in enumerate(func.dims) if d in moves), default=1))
        moving, works = self._varying(stage, set(self._moves_of(stage, lane)))
        wild = {index for work in works.values() for index in work.moving}
        for name, work in works.items():
            if bound.funcs[name].boundary is None:
                _add(found, work.work)
                self._conditions(found, self._bound_stage(stage, name), moving.get(name, ()))
        acts = self._acting(moving)
        periodic = any(b.remainder for b in acts)
        if not periodic:
            folded = [ceil(b.above * (found.whole - 1) / max(b.last, 1)) for b in acts if b.folds]
            found.high = max([found.high, *(float(lanes) for lanes in folded if lanes <= FEW_LANES)])
        hot = cold = 0.0
        phases = self._phases(stage, access, moves, wild)
        for store, groups in enumerate((access.loads, access.stores)):
            for group in groups:
                self._count(found, stage, group, moves, wild, bool(store), phases)
                size, times = self._model.facts.itemsize(group), len(group.offsets)
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
        self._puts(found, stage, access, moves, wild)
        return found

    def _puts(
        self, found: LaneCosts, stage: StageId, access: StageAccesses, moves: Moves, wild: set[tuple[str, int]]
    ) -> None:
        """Note stores where data say: one by one where processors have no instruction for them.

        Of loops over lanes that touch elements of less than 4 bytes far from each other gcc forms no vectors at all, as
        it is not told to (`is_unit_stride`, `is_scatter`).
        """
        places = sum(None in g.rows and self._step(stage, g, moves, wild) is None for g in access.stores)
        steps = [(self._model.facts.itemsize(g), self._step(stage, g, moves, wild)) for g in access.loads]
        narrow = any(size < SCATTERED_BYTES for size, _ in steps)
        far = any(step is not None and step > MAX_VECTOR_STEP for _, step in steps)
        found.serial += places > 0 and narrow and far
        found.put += places * (self._model.tables.target.warp_size < SCATTERING_LANES)

    def boundaries_along(self, stage: StageId, lane: str) -> list[Boundary]:
        """Return where boundary conditions act in a stage along a dimension; the arguments are those of `of`."""
        return self._acting(self._varying(stage, set(self._moves_of(stage, lane)))[0])

    def _acting(self, moving: Mapping[str, Collection[str]]) -> list[Boundary]:
        """Return where boundary conditions act along dimensions of Funcs, by name."""
        funcs = self._model.bound.funcs
        return [b for name, dims in moving.items() for b in boundaries(funcs[name]) if b.dim in dims]

    def evenly_far(self, stage: StageId, lane: str, dims: Sequence[str]) -> list[tuple[int, list[bool]]]:
        """Return the loads of lanes that lie evenly, but far apart.

        Args:
            stage: The stage.
            lane: The dimension that neighbouring lanes walk, see `of`.
            dims: Dimensions of the stage.

        Returns:
            For each array how many there are, and along which of the dimensions they are the same.
        """
        moves, wild = self._moves_of(stage, lane), self._wild(stage, lane)
        found = []
        for group in self._model.accesses_of(stage).loads:
            if self._is_held(group.source) and None not in group.rows:
                continue
            if (self._step(stage, group, moves, wild) or 0) > MAX_VECTOR_STEP:
                same = [self._accesses.step(group, {d: 1}, self._differing(stage, {d})) == 0 for d in dims]
                found.append((len(group.offsets), same))
        return found

    def step(self, stage: StageId, group: AccessGroup, lane: str) -> int | None:
        """Return how far apart in elements neighbouring lanes access; None where that is no constant.

        Args:
            stage: The stage.
            group: Accesses of it.
            lane: The dimension that neighbouring lanes walk, see `of`.
        """
        return self._step(stage, group, self._moves_of(stage, lane), self._wild(stage, lane))

    def evaluated(self, stage: StageId, lane: str) -> Mapping[str, Work]:
        """Return the work of one evaluation of a stage, and the mean of those of each Func inlined into it, by Func."""
        works, calls = self._varying(stage, set(self._moves_of(stage, lane)))[1], self._model.accesses_of(stage).calls
        found = {}
        for name, inlined in works.items():
            parts = () if self._model.bound.funcs[name].boundary else astuple(inlined.work)
            found[name] = Work(*[part / calls.get(name, 1) for part in parts])
        return found

    def fastest(self, source: str) -> int:
        """Return the dimension of an array along which neighbours are next to each other in memory."""
        return self._accesses.fastest(source)

    def _wild(self, stage: StageId, lane: str | None) -> set[tuple[str, int]]:
        """Return which indices differ from lane to lane, by source and position."""
        return self._differing(stage, set(self._moves_of(stage, lane)))

    def _differing(self, stage: StageId, dims: set[str]) -> set[tuple[str, int]]:
        """Return which indices move with dimensions of a stage, by source and position."""
        return {index for work in self._varying(stage, dims)[1].values() for index in work.moving}

    def _varying(self, stage: StageId, dims: set[str]) -> Varied:
        """Return what moves with dimensions of a stage, in it and in each Func inlined into it, consumers first.

        Returns:
            Dimensions by Func, and the work of each, of all its calls.
        """
        key = stage, frozenset(dims)
        if key not in self._varied:
            self._varied[key] = self._found_varying(stage, dims)
        return self._varied[key]

    def _found_varying(self, stage: StageId, dims: set[str]) -> Varied:
        bound, access = self._model.bound, self._model.accesses_of(stage)
        points = self._model.tables.accesses.distinct_calls(stage.func, stage.number, self._model.structure.inlined)
        moving: dict[str, set[str]] = {stage.func: set(dims)}
        works: dict[str, CpuStageCosts] = {}
        inlined = {n: k for k, n in enumerate(bound.funcs) if n in access.calls}
        for name in (stage.func, *sorted(inlined, key=inlined.__getitem__, reverse=True)):
            own = frozenset(moving.get(name, ()))
            works[name] = self._stage_work(self._bound_stage(stage, name), own, points.get(name, ONE_POINT))
            for source, k in works[name].moving:
                if source in inlined:
                    moving.setdefault(source, set()).add(bound.funcs[source].dims[k])
        return moving, works

    def _bound_stage(self, stage: StageId, name: str) -> BoundStage:
        return self._model.bound.stage(name, stage.number if name == stage.func else 0)

    def _stage_work(self, stage: BoundStage, moving: frozenset[str], points: Points) -> CpuStageCosts:
        key = id(stage), moving, points
        if key not in self._known:
            self._known[key] = stage, stage_work(stage, moving, points)
        return self._known[key][1]

    def _is_half(self, group: AccessGroup) -> bool:
        bound = self._model.bound
        func = bound.funcs.get(group.source)
        return (bound.inputs[group.source].dtype if func is None else func.dtypes[group.component]) == float16

    def _is_held(self, func: str) -> bool:
        spot = self._model.structure.spot(func)
        return spot is not None and spot.level is Level.THREAD

    def _owns_tile(self, stage: StageId) -> bool:
        """Whether an update adds to an array inside each thread, which is written to memory in the end."""
        bound = self._model.bound
        return is_private_tile(bound.funcs[stage.func], bound.stage(stage.func, stage.number))

    def _stays(self, stage: StageId) -> bool:
        """Whether all terms of a floating-point reduction are added up in one place."""
        bound = self._model.bound
        loops = {d.name for d in bound.stage(stage.func, stage.number).reductions if d.extent > 1}
        rows = [row for g in self._model.accesses_of(stage).loads if g.source == stage.func for row in g.rows]
        moves = any(row is None or any(loop in loops for loop, _ in row.coefficients) for row in rows)
        return bool(loops) and not moves and bound.funcs[stage.func].dtypes[0].is_float

    def _scans(self, stage: StageId) -> float:
        """Return one over the terms from a store to the one that reads it at another point; 0 where none does."""
        loops = [d for d in self._model.bound.stage(stage.func, stage.number).reductions if d.extent > 1]
        access = self._model.accesses_of(stage)
        later = [
            iteration_distance(store, load, loops[-1].name)
            for store in access.stores for load in access.loads if loops and load.source == stage.func
        ]  # fmt: skip
        return max((1 / n for n in later if 0 < n < loops[-1].extent), default=0.0)

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

    def _readers(self, func: str) -> list[StageId]:
        """Return the stages of the kernel that read a Func, its own left out."""
        others = (s for s in self._model.rows if s.func != func)
        return [s for s in others if any(g.source == func for g in self._model.accesses_of(s).loads)]

    def _found_moves(self, stage: StageId, lane: str | None) -> Moves:
        spot = self._model.structure.spot(stage.func)
        if spot is None or spot.level is Level.BLOCK:
            return {} if lane is None else {lane: 1}
        dims = self._model.bound.funcs[stage.func].dims
        found: Moves = {}
        for reader in self._readers(stage.func):  # its host, or others there that read it for the host
            moves, wild = self._moves_of(reader, lane), self._wild(reader, lane)
            for group in self._model.accesses_of(reader).loads:
                if group.source != stage.func:
                    continue
                for k, (dim, row) in enumerate(zip(dims, group.rows, strict=True)):
                    step = UNEVEN * ((stage.func, k) in wild) if row is None else abs(index_step(row, moves))
                    if step:
                        found[dim] = max(found.get(dim, 0), UNEVEN if row is None or row.quotient > 1 else step)
        return found

    def _count(
        self, found: LaneCosts, stage: StageId, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]],
        store: bool, phases: int,
    ) -> None:  # fmt: skip
        """Add the accesses of a group, of lanes of which so many are taken together."""
        size, times = self._model.facts.itemsize(group), float(len(group.offsets))
        vectors = times * size / LANE_BYTES
        own = vectors if group.source == stage.func else 0.0
        if store and self._is_half(group):
            found.arithmetic += HALF_STORE * times
            found.scalar += HALF_STORE * times
        if self._is_held(group.source) and None not in group.rows:
            found.held += vectors
            found.kept += own
            found.inside += times
            found.narrowest = min(found.narrowest, size)
            return
        step = self._step(stage, group, moves, wild)
        if phases > 1 and (at := self._accesses.quotient(group, moves, wild)):
            times, step = self._accesses.distinct(group, at, phases) / phases, at[0] * phases // at[1]
            vectors = times * size / LANE_BYTES
        elif step:
            step *= phases
        if not store and None in group.rows and step is not None and self._bytes_in_memory(group.source) > NEAR_BYTES:
            found.chosen += times
        if step is None or step > MAX_VECTOR_STEP:
            found.far += times
            if step is not None:
                found.even += times
                if not store:
                    is_power = step & -step == step > MOST_PERMUTED * LANE_BYTES // size
                    found.powers += times * is_power
                    found.halves += times * self._is_half(group)
                    found.beside += times * (not is_power and self._accesses.has_others_between(group, step))
            if not self._accesses.in_row(group, moves, wild):
                found.among = max(found.among, self._bytes_in_memory(group.source))
            found.aligned = max(found.aligned, self._accesses.alignment(group, moves))
            if step is None:
                found.serial += size < LANE_BYTES
        elif step > 1:
            found.near += times
            found.stride = max(found.stride, step)
            found.gaps += times * (not store and self._accesses.has_gaps(group, step))
        elif step == 1:
            found.wide += vectors
            found.unit += times
            found.own += own
        else:
            found.fixed += times
            return
        found.narrowest = min(found.narrowest, size)

    def _phases(self, stage: StageId, access: StageAccesses, moves: Moves, wild: set[tuple[str, int]]) -> int:
        """Return how many lanes of a stage are taken together; 1 where each goes by itself."""
        groups = [g for g in (*access.loads, *access.stores) if None in g.rows or not self._is_held(g.source)]
        at = [self._accesses.quotient(g, moves, wild) for g in groups]
        quotients = [q for q in at if q]
        if not quotients:  # as in most stages
            return 1
        others = [g for g, q in zip(groups, at, strict=True) if not q]
        return period([self._step(stage, g, moves, wild) for g in others], quotients)

    def _step(self, stage: StageId, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> int | None:
        """Return how far apart lanes access, see `LaneAccesses.step`; those of sums inside threads are contiguous."""
        sums = group.source == stage.func and stage.number > 0 and self._owns_tile(stage)
        return 1 if sums and moves else self._accesses.step(group, moves, wild)

    def _clamp(self, found: LaneCosts, stage: StageId, group: AccessGroup, moves: Moves) -> None:
        """Note how many lanes at either end of a row of the whole result load from beyond the array."""
        bound = self._model.bound
        func, source = bound.funcs[stage.func], bound.funcs.get(group.source)
        ranges = dict(zip(func.dims, func.region, strict=True))
        first = last = 0
        for k, row in enumerate(group.rows):
            step = 0 if row is None else index_step(row, moves)
            if not group.clamped[k] or row is None or row.quotient > 1 or step <= 0:
                continue
            walked = [(c, *ranges[loop]) for loop, c in row.coefficients if loop in moves and loop in ranges]
            least, most = (sum(c * at[end] for c, *at in walked) for end in (0, 1))
            low, high = source.region[k] if source else (0, bound.inputs[group.source].shape[k] - 1)
            for offset in group.offsets:
                first = max(first, -((least + offset[k] - low) // step))
                last = max(last, -((high - most - offset[k]) // step))
        found.low, found.high = max(found.low, first), max(found.high, last)

    def _conditions(self, found: LaneCosts, stage: BoundStage, moving: Collection[str]) -> None:
        """Note how many lanes at either end of a row of the whole result conditions on their place tell apart."""
        func = self._model.bound.funcs[stage.func]
        ranges = dict(zip(func.dims, func.region, strict=True))
        for dim, least, most in point_ranges(stage):
            if dim in moving and dim in ranges:
                first, last = ranges[dim]
                low, high = least - first, last - most
                found.low = max(found.low, low if low <= FEW_LANES else 0)
                found.high = max(found.high, high if high <= FEW_LANES else 0)


def level_of(model: SketchFeaturizer, stage: StageId) -> Level:
    """Return where a stage of a kernel is computed."""
    spot = model.structure.spot(stage.func)
    return Level.ROOT if spot is None else spot.level


def _add(found: LaneCosts, work: Work) -> None:
    for name in ("arithmetic", "divisions", "scalar", "calls", "serial", "once", "operations"):
        setattr(found, name, getattr(found, name) + getattr(work, name))
