"""A timing model for the C backend, where a block is an iteration of an OpenMP loop and its lanes an inner loop.

The times of a kernel's parts add up, each a count times the time of one (`CPU_RATES`).

* A *row* is one run of a lane loop. Its whole vectors, of as many lanes as the narrowest array it touches allows, run as
  vector instructions: arithmetic, and loads and stores that are contiguous or the same in all lanes. What is left of
  the row runs lane by lane.
* Lanes that load two to four elements apart need shuffles; those further apart, at quotients of the lane (``f[x // 2]``)
  or where data says, load one by one.
* Blocks at the border of the domain run code with clamps, which is scalar. How many these are is taken from the number
  of blocks along the lanes and across them.
* Bytes that blocks read and write come from the last-level cache; those a kernel touches beyond the size of that cache
  come from memory. A tile of several short rows breaks up the streams that the processor fetches ahead.
* Every row, block and kernel that is begun costs a little. Blocks are dealt out evenly, so the core with most counts.

What a kernel leaves in the cache for the next one is not known, as kernels are costed alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundStage
from autosched.featurize.accesses import AccessGroup
from autosched.featurize.model import BatchEvaluation, KernelModel
from autosched.featurize.schema import INDEX
from autosched.featurize.structure import storage_order, thread_order, tiled_dims, vector_dim
from autosched.lang.expr import Binary, Call, Select, Var, walk
from autosched.schedule.types import Level, StageId
from autosched.target import Target

Floats = NDArray[np.float64]

CPU_RATES = {
    "vector_arithmetic": 0.2e-9,
    "vector_accesses": 0.2e-9,
    "divisions": 0.2e-9,
    "strided_loads": 0.2e-9,
    "gathered_loads": 0.4e-9,
    "scalar": 0.1e-9,
    "branches": 3e-9,
    "stalls": 0.2e-9,
    "clamped_loads": 0.3e-9,
    "calls": 8e-9,
    "rows": 5e-9,
    "blocks": 10e-9,
    "cache_bytes": 0.02e-9,
    "memory_bytes": 0.05e-9,
    "streams": 5e-9,
    "kernels": 3e-6,
}
"""Seconds of one core for one of each thing that is counted, measured."""

CPU_COMPONENTS = tuple(CPU_RATES)
LANE_BYTES = 4
VECTORISED = ("floor", "ceil", "trunc", "round", "sqrt", "hash_u32")
"""Functions that need no call of the C library."""
ACCUMULATORS = 24
"""Vectors of running sums that gcc keeps in registers while a reduction runs."""
CHAINS = 8
"""Additions that a core has under way at once: with fewer running sums it waits for the last one."""
NARROW_STRIDE = 4
"""Largest distance in elements between neighbouring lanes that gcc turns into shuffles."""


@dataclass(frozen=True, slots=True)
class LaneWork:
    """What one evaluation of a stage does, by how lanes go about it.

    Attributes:
        narrowest: Bytes of the smallest element it touches.
        wide: Contiguous accesses of all lanes, in vectors of 4-byte lanes.
        strided: Loads of a lane at a small stride.
        gathered: Loads of a lane anywhere.
        clamped: Loads that have clamps in their index at the border.
        accesses: All loads and stores.
        calls: Elementary functions, which the C library computes one at a time.
        branches: Conditions joined by ``&&`` or ``||``, which keep gcc 12 from forming vectors.
        own: The part of ``wide`` that is the stage's own result, read and written by every term of a reduction.
    """

    narrowest: int
    wide: float
    strided: int
    gathered: int
    clamped: int
    accesses: int
    calls: int
    branches: int
    own: float


@dataclass(frozen=True)
class CpuModel:
    """Predicts times of the C backend.

    Args:
        target: The processor.
    """

    target: Target
    _known: WeakKeyDictionary[KernelModel, tuple[LaneWork, ...]] = field(
        default_factory=WeakKeyDictionary, compare=False, repr=False
    )

    @property
    def name(self) -> str:
        """Name, as reports show it."""
        return f"analytical model for {self.target.name}"

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        total = np.zeros(found.batch.count)
        for model, first, end in zip(found.models, found.batch.bounds, found.batch.bounds[1:], strict=False):
            rows = len(model.rows) + len(model.inlined)
            total[first:end] = self.components(model, found.features[first:end, :rows]).sum(axis=1)
        return total

    def components(self, model: KernelModel, features: Floats) -> Floats:
        """Return the seconds each kind of work takes, ``float64[N, parts]``, in the order of `CPU_COMPONENTS`."""
        seconds: Floats = self.counts(model, features) * np.array(list(CPU_RATES.values()))
        return seconds

    def counts(self, model: KernelModel, features: Floats) -> Floats:
        """Return how much of each kind of work the busiest core does, ``float64[N, parts]``."""
        f = features
        counts = {name: np.zeros(len(f)) for name in CPU_COMPONENTS}
        blocks = f[:, 0, INDEX["num_blocks"]]
        inner = np.ceil(_per(f[:, 0, INDEX["innermost_bytes_at_root"]], f[:, 0, INDEX["global_innermost_bytes_at_task"]]))
        outer = np.maximum(blocks / inner, 1)
        interior = np.maximum(1 - 2 / inner, 0) * np.maximum(1 - 2 / outer, 0)
        written = f[:, 0, INDEX["global_bytes_at_task"]]
        whole = np.minimum(_per(f[:, 0, INDEX["global_bytes_written_by_kernel"]], written), blocks)
        # Border blocks do less than the middle one, by which work is counted: as many whole ones as the points fill.
        filled = np.where(written > 0, whole / blocks, 1.0)
        lanes_of: dict[StageId, Floats] = {}
        for row, (stage, work) in enumerate(zip(model.rows, self._works(model), strict=True)):
            level = _level(model, stage)
            memory = {Level.ROOT: "global", Level.BLOCK: "shared"}.get(level)
            size = sum(d.bytes_ for d in model.bound.funcs[stage.func].dtypes)
            if memory is None:
                spot = model.structure.spot(stage.func)
                assert spot is not None
                lanes = lanes_of[spot.host] if spot.host in lanes_of else lanes_of[model.rows[0]]
            else:
                lanes = np.maximum(f[:, row, INDEX[f"{memory}_innermost_bytes_at_task"]] / size, 1)
            lanes_of[stage] = lanes
            self._count_stage(counts, f[:, row], work, lanes, filled, interior if work.clamped else np.ones(len(f)))
        tile_rows = _per(written, f[:, 0, INDEX["global_innermost_bytes_at_task"]])
        read = f[:, :, INDEX["unique_bytes_read_per_task"]].sum(axis=1) * blocks * filled
        lines = f[:, :, INDEX["unique_lines_read_per_task"]].sum(axis=1)
        put = f[:, 0, INDEX["global_bytes_written_by_kernel"]]
        moved = f[:, :, INDEX["unique_global_bytes_read_by_kernel"]].sum(axis=1) + put
        counts["cache_bytes"] += np.maximum(read, moved - put) + put
        counts["memory_bytes"] += np.maximum(moved - self.target.l2_bytes / 2, 0)
        counts["streams"] += np.where(tile_rows > 1, (lines + tile_rows) * blocks, 0)
        counts["blocks"] += blocks
        cores = self.target.multiprocessors
        share = np.ceil(blocks / cores) / blocks
        result: Floats = np.stack([counts[name] * share for name in CPU_COMPONENTS], axis=1)
        result[:, CPU_COMPONENTS.index("kernels")] = 1
        return result

    def _count_stage(
        self, counts: dict[str, Floats], f: Floats, work: LaneWork, lanes: Floats, filled: Floats, interior: Floats
    ) -> None:
        vector = LANE_BYTES * self.target.warp_size / work.narrowest
        evaluations = f[:, INDEX["num_scalars"]] * filled
        blocks = f[:, INDEX["num_blocks"]] * filled
        plain, double, whole, special = (
            f[:, INDEX[f"{unit}_operations_per_block"]] * blocks for unit in ("float", "double", "integer", "special")
        )
        in_vectors = np.zeros(len(f)) if work.branches or work.calls else np.floor(lanes / vector) * vector / lanes * interior
        alone = 1 - in_vectors
        width = self.target.warp_size
        counts["vector_arithmetic"] += (plain + 2 * double + whole) / width * in_vectors
        points = np.maximum(f[:, INDEX["innermost_pure_loop_extent"]], 1)
        reduces = f[:, INDEX["innermost_loop_extent"]] > points
        accumulators = points * lanes / vector
        held = reduces & (accumulators <= ACCUMULATORS)
        counts["vector_accesses"] += evaluations * (work.wide - np.where(held, work.own, 0)) / width * in_vectors
        idle = np.maximum(CHAINS - accumulators, 0)
        counts["stalls"] += np.where(reduces, evaluations / (points * lanes) * idle, 0) * in_vectors
        counts["divisions"] += special / width * in_vectors
        counts["strided_loads"] += evaluations * work.strided * in_vectors
        counts["gathered_loads"] += evaluations * work.gathered * in_vectors
        counts["scalar"] += (plain + double + whole + special + evaluations * work.accesses) * alone
        counts["clamped_loads"] += evaluations * work.clamped * (1 - interior)
        counts["branches"] += evaluations * work.branches
        counts["calls"] += evaluations * work.calls
        counts["rows"] += evaluations / lanes

    def _works(self, model: KernelModel) -> tuple[LaneWork, ...]:
        if model not in self._known:
            moves: dict[StageId, dict[str, int]] = {}
            works: dict[StageId, LaneWork] = {}
            for stage in _hosts_first(model):
                moves[stage] = _moves(model, stage, moves)
                works[stage] = _lane_work(model, stage, moves[stage], works)
            self._known[model] = tuple(works[s] for s in model.rows)
        return self._known[model]


def _per(a: Floats, b: Floats) -> Floats:
    return a / np.maximum(b, 1)


def _level(model: KernelModel, stage: StageId) -> Level:
    spot = model.structure.spot(stage.func)
    return Level.ROOT if spot is None else spot.level


def _hosts_first(model: KernelModel) -> list[StageId]:
    """Return the stages of a kernel, those inside threads after their hosts."""
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


def _moves(model: KernelModel, stage: StageId, known: dict[StageId, dict[str, int]]) -> dict[str, int]:
    """Return how far each dimension of a stage moves from a lane to the next."""
    func = model.bound.funcs[stage.func]
    spot = model.structure.spot(stage.func)
    if spot is None:
        order = thread_order(model.bound, stage.func, tiled_dims(model.bound, model.structure.stages))
        return {order[0]: 1} if order else {}
    if spot.level is Level.BLOCK:
        vector = vector_dim(func)
        return {} if vector is None else {vector: 1}
    found: dict[str, int] = {}
    for group in model.accesses_of(spot.host).loads:
        if group.source == stage.func:
            for dim, row in zip(func.dims, group.rows, strict=True):
                if row is not None:
                    step = sum(c * known[spot.host].get(loop, 0) for loop, c in row.coefficients)
                    found[dim] = max(found.get(dim, 0), step)
    return found


def _lane_work(
    model: KernelModel, stage: StageId, moves: dict[str, int], known: dict[StageId, LaneWork]
) -> LaneWork:
    access = model.accesses_of(stage)
    spot = model.structure.spot(stage.func)
    at_clamp = False
    if spot is not None and spot.level is Level.THREAD:
        groups = model.accesses_of(spot.host).loads
        at_clamp = known[spot.host].clamped > 0 and any(g.source == stage.func and not g.everywhere for g in groups)
    sizes = [model.facts.itemsize(g) for g in (*access.loads, *access.stores)]
    stages = [(model.bound.stage(stage.func, stage.number), 1)]
    stages += [(model.bound.funcs[name].stages[0], times) for name, times in access.calls.items()]
    calls = sum(times * _library_calls(s) for s, times in stages)
    branches = sum(times * _branches(s) for s, times in stages if model.bound.funcs[s.func].boundary is None)
    clamps = any(_clamps_lanes(s) for s, _ in stages)
    wide, own, strided, gathered, clamped, count = 0.0, 0.0, 0, 0, 0, 0
    for group, size in zip((*access.loads, *access.stores), sizes, strict=True):
        times = len(group.offsets)
        count += times
        clamped += times if at_clamp or (clamps and not group.everywhere) else 0
        kind = _kind(model, stage, group, moves)
        if kind == "strided":
            strided += times
        elif kind == "gathered":
            gathered += times
        else:
            wide += times * size / LANE_BYTES
            own += times * size / LANE_BYTES if group.source == stage.func else 0
    return LaneWork(min(sizes, default=LANE_BYTES), wide, strided, gathered, clamped, count, calls, branches, own)


def _kind(model: KernelModel, stage: StageId, group: AccessGroup, moves: dict[str, int]) -> str:
    """Return how lanes access an array: ``wide``, ``strided`` or ``gathered``."""
    func = model.bound.funcs.get(group.source)
    spot = model.structure.spot(group.source)
    if spot is not None and spot.level is Level.THREAD:
        return "wide"  # such an array has a place for each lane
    if not group.rows:
        return "wide"
    if not group.is_affine:
        return "gathered"
    fastest = len(group.rows) - 1
    if func is not None and spot is not None:
        fastest = func.dims.index(storage_order(func)[-1])
    floors = not all(r is not None and not r.exact for r in group.rows)  # all of them: a load that may be left out
    step = 0
    for k, row in enumerate(group.rows):
        assert row is not None
        move = abs(sum(c * moves.get(loop, 0) for loop, c in row.coefficients))
        if move and (k != fastest or row.quotient > 1 or (floors and not row.exact)):
            return "gathered"
        step = move if k == fastest else step
    return "wide" if step <= 1 else "strided" if step <= NARROW_STRIDE else "gathered"


def _library_calls(stage: BoundStage) -> int:
    nodes = {id(e): e for v in stage.values for e in walk(v)}
    return sum(isinstance(e, Call) and e.name not in VECTORISED for e in nodes.values())


def _branches(stage: BoundStage) -> int:
    nodes = {id(e): e for v in stage.values for e in walk(v)}
    return sum(isinstance(e, Binary) and e.op in ("and", "or") and e.dtype.kind == "b" for e in nodes.values())


def _clamps_lanes(stage: BoundStage) -> bool:
    """Whether a stage clamps or tests the index of the dimension that is fastest in memory."""
    last = [stage.index_of(load.indices[-1]) for load, _ in stage.loads if load.indices]
    if any(isinstance(t, ix.Atom) and t.kind in ("min", "max") for i in last for t in ix.atoms(i)):
        return True
    func_dims = {d.name for d in stage.loops[-1:]}
    tests = [e.cond for v in stage.values for e in walk(v) if isinstance(e, Select)]
    return any(isinstance(e, Var) and e.name in func_dims for c in tests for e in walk(c))
