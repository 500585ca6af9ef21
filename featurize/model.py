"""Features of all stages of one kernel structure, for arrays of tile sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundPipeline
from autosched.featurize import schema
from autosched.featurize.accesses import AccessGroup, AccessTable, StageAccesses
from autosched.featurize.geometry import Geometry, GeometryBuilder, NestShape, first_fit, shared_strides
from autosched.featurize.lanes import WARP, warps_of_block
from autosched.featurize.memory import GLOBAL, REGISTER, SHARED, Storage, Traffic, Warps, footprint, traffic
from autosched.featurize.occupancy import resident_blocks, shared_limit
from autosched.featurize.structure import Structure, columns, storage_order, thread_order, tiled_dims
from autosched.featurize.tables import OffsetTable
from autosched.featurize.work import UNITS, WorkTable
from autosched.schedule.derived import array_strides, is_promoted, is_unrolled
from autosched.schedule.placement import SHARED_ALIGN
from autosched.schedule.plan import owns_tile
from autosched.schedule.types import Level, StageId
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SECTOR, WAVEFRONT = 32, 128


@dataclass
class Featurizer:
    """Featurizes the kernels of one bound pipeline for one target.

    Args:
        bound: The pipeline.
        target: Device limits.
        amortised: Whether what the unrolled points of a thread share is accessed once, as compiled code does, or
            counted as written, as the emulator executes it.
        every_warp: Whether the transactions of each warp are counted, instead of the first one's for all but a tail
            warp; dear, and for tests.
    """

    bound: BoundPipeline
    target: Target
    amortised: bool = True
    every_warp: bool = False
    accesses: AccessTable = field(init=False)
    work: WorkTable = field(init=False)
    _models: dict[Structure, KernelModel] = field(init=False, default_factory=dict)
    _tables: dict[tuple[object, ...], OffsetTable] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.accesses = AccessTable(self.bound)
        self.work = WorkTable(self.bound)

    def model(self, structure: Structure) -> KernelModel:
        """Return the model of a structure, built once."""
        if structure not in self._models:
            self._models[structure] = KernelModel(self, structure)
        return self._models[structure]

    def table(
        self, group: AccessGroup, dims: Sequence[str], reductions: Sequence[tuple[str, int, int]], steps: Sequence[int]
    ) -> OffsetTable:
        """Return the constants of a group of accesses; kernels with the same stage share them."""
        key = id(group), tuple(dims), tuple(steps)  # groups live as long as the table of accesses does
        if key not in self._tables:
            self._tables[key] = OffsetTable(group, tuple(dims), tuple(reductions), tuple(steps))
        return self._tables[key]


@dataclass(frozen=True)
class Evaluation:
    """What is known of a structure's candidates.

    Attributes:
        features: ``float64[N, rows, features]``, a row for each stage, then for each inlined Func.
        geometry: Regions and threads.
        shared_bytes: ``int64[N]``, shared memory of a block.
        thread_bytes: ``int64[N]``, registers of a thread that hold Members and accumulators, in bytes.
        traffic: By stage, every group of accesses with whether it stores, where it goes, and its cost.
    """

    features: Floats
    geometry: Geometry
    shared_bytes: Ints
    thread_bytes: Ints
    traffic: Mapping[StageId, tuple[tuple[AccessGroup, bool, int, Traffic], ...]]


class KernelModel:
    """Everything about a structure that does not depend on tile sizes, and how features follow from these."""

    def __init__(self, featurizer: Featurizer, structure: Structure) -> None:
        self.f = featurizer
        self.bound = featurizer.bound
        self.structure = structure
        self.layout = columns(self.bound, structure)
        self.geometry = GeometryBuilder(self.bound, structure, self.layout)
        self.rows: tuple[StageId, ...] = self._stage_rows()
        self.inlined = tuple(f for f in self.bound.funcs if f in structure.inlined)
        self._accesses = {s: featurizer.accesses.of(s.func, s.number, structure.inlined) for s in self.rows}
        self._operations = {
            s: featurizer.work.operations(self.bound.stage(s.func, s.number), a.calls)
            for s, a in self._accesses.items()
        }
        self.lifetimes = self._lifetimes()
        self.across = self._walked_across()
        group = [self.bound.stage(s.func, s.number) for s in structure.stages]
        func = self.bound.funcs[structure.func]
        self.repeated = len(group) > 1 or group[0].is_update
        self.owned = all(owns_tile(func, s) for s in group)

    @property
    def overflow(self) -> bool:
        """Whether a stage evaluates inlined Funcs at too many points to be looked at."""
        return any(a.overflow for a in self._accesses.values())

    def accesses_of(self, stage: StageId) -> StageAccesses:
        """Return what one evaluation of a stage touches."""
        return self._accesses[stage]

    def _stage_rows(self) -> tuple[StageId, ...]:
        def of(func: str) -> list[StageId]:
            stages = self.bound.funcs[func].stages
            return [StageId(func, s.number) for s in stages if s.values and not s.is_empty]

        spots = self.structure.spots
        blocks = [s for spot in spots if spot.level is Level.BLOCK for s in of(spot.func)]
        threads = [s for spot in reversed(spots) if spot.level is Level.THREAD for s in of(spot.func)]
        return (*self.structure.stages, *blocks, *threads)

    def _memory(self, reader: StageId, source: str) -> tuple[int, bool]:
        """Return the memory a source is read from, and whether it has a place yet."""
        spot = self.structure.spot(source)
        if spot is not None:
            return (SHARED if spot.level is Level.BLOCK else REGISTER), True
        if source in self.structure.near:
            return SHARED, False
        return GLOBAL, source not in self.structure.far

    def _lifetimes(self) -> dict[str, tuple[int, int]]:
        """Return the first and last step that touch each BLOCK Member's buffer."""
        spots = [s.func for s in self.structure.spots if s.level is Level.BLOCK]
        steps = [*spots, self.structure.func]
        found: dict[str, tuple[int, int]] = {name: (k, k) for k, name in enumerate(spots)}
        for k, name in enumerate(steps):
            for source in self._reads(name):
                if source in found:
                    found[source] = found[source][0], max(found[source][1], k)
        return found

    def _reads(self, func: str) -> set[str]:
        """Return what the stages of a step read, THREAD Members inside them looked through."""
        threads = {s.func for s in self.structure.spots if s.level is Level.THREAD}
        found: set[str] = set()
        queue = [s for s in self.rows if s.func == func]
        while queue:
            for g in self._accesses[queue.pop()].loads:
                if g.source not in found:
                    found.add(g.source)
                    queue += [s for s in self.rows if s.func == g.source and g.source in threads]
        return found

    def _walked_across(self) -> frozenset[str]:
        """Return BLOCK Members that neighbouring threads walk across rows (see `autosched.schedule.banks`)."""
        found: set[str] = set()
        for s in self.rows:
            spot = self.structure.spot(s.func)
            if spot is not None and spot.level is Level.THREAD:
                continue
            stage = self.bound.stage(s.func, s.number)
            dims = tiled_dims(self.bound, [s]) if spot is None else self.bound.funcs[s.func].dims
            lane = next(iter(thread_order(self.bound, s.func, [d for d in dims if any(p.name == d for p in stage.loops)])), None)
            access = self._accesses[s]
            for g in (*access.loads, *access.stores):
                target = self.structure.spot(g.source)
                if target is None or target.level is not Level.BLOCK or lane is None:
                    continue
                func = self.bound.funcs[g.source]
                moving = {d for d, r in zip(func.dims, g.rows, strict=True) if r is not None and lane in dict(r.coefficients)}
                order = storage_order(func)
                if moving and order and order[-1] not in moving:
                    found.add(g.source)
        return frozenset(found)

    def evaluate(self, params: Ints) -> Evaluation:
        """Return the features of candidates ``int64[N, columns]`` (see `columns`)."""
        geometry = self.geometry.build(params)
        n = len(params)
        storage = _StorageOf(self, geometry)
        sizes = [storage.bytes_of(name) for name in self.lifetimes]
        shared = first_fit(sizes, list(self.lifetimes.values()), SHARED_ALIGN) if sizes else np.zeros(n, np.int64)
        features = np.zeros((n, len(self.rows) + len(self.inlined), schema.COUNT))
        out = _Rows(features)
        costs: dict[StageId, tuple[tuple[AccessGroup, bool, int, Traffic], ...]] = {}
        thread_bytes = self._thread_bytes(geometry, n)
        by_id = {nest.id: k for k, nest in enumerate(geometry.nests)}
        for row, stage in enumerate(self.rows):
            k = by_id[stage]
            nest = geometry.nests[k]
            warps = _warps(geometry.block, geometry.active[k])
            costs[stage] = self._stage_traffic(nest, geometry, storage, warps, geometry.active[k])
            self._fill(out, row, nest, geometry, geometry.active[k], warps, costs[stage])
        self._fill_kernel(out, geometry, shared, thread_bytes)
        self._fill_inlined(out, geometry)
        return Evaluation(features, geometry, shared, thread_bytes, costs)

    def _thread_bytes(self, geometry: Geometry, n: int) -> Ints:
        total = np.zeros(n, np.int64)
        for spot in self.structure.spots:
            if spot.level is Level.THREAD:
                size = sum(d.bytes_ for d in self.bound.funcs[spot.func].dtypes)
                total += geometry.extents[spot.func].prod(axis=1) * size
        root = geometry.nests[0]
        if self.repeated and self.owned:
            size = sum(d.bytes_ for d in self.bound.funcs[self.structure.func].dtypes)
            points = root.serial.prod(axis=1)
            total += np.where(is_promoted(points), points * size, 0)
        return total

    def _promoted(self, nest: NestShape) -> NDArray[np.bool_]:
        """Return whether a nest keeps its own Func's points in registers while it runs."""
        func = self.bound.funcs[nest.stage.func]
        if nest.level is Level.THREAD:
            return np.ones(len(nest.times), bool)
        stages = [s for s in func.stages if s.values and not s.is_empty]
        if nest.level is Level.ROOT:
            stages = [self.bound.stage(s.func, s.number) for s in self.structure.stages]
        if not all(owns_tile(func, s) for s in stages) or not (len(stages) > 1 or stages[0].is_update):
            return np.zeros(len(nest.times), bool)
        return np.asarray(is_promoted(nest.serial.prod(axis=1), len(func.dtypes)), bool)

    def _stage_traffic(
        self, nest: NestShape, geometry: Geometry, storage: _StorageOf, warps: Warps, active: Ints
    ) -> tuple[tuple[AccessGroup, bool, int, Traffic], ...]:
        found = []
        stage = nest.id
        access = self._accesses[stage]
        promoted = self._promoted(nest)
        for group, store in [(g, False) for g in access.loads] + [(g, True) for g in access.stores]:
            own = group.source == stage.func
            memory, placed = self._own_memory(nest) if own else self._memory(stage, group.source)
            table = self._table(group, nest, storage, memory)
            cost = traffic(
                group, table, storage.of(group.source, group.component, memory, placed), nest, geometry.block, active,
                warps, nest.times, amortised=self.f.amortised, every_warp=self.f.every_warp,
            )  # fmt: skip
            if own and promoted.any():
                cost = self._in_registers(nest, cost, promoted, store)
            found.append((group, store, memory, cost))
        return tuple(found)

    def _own_memory(self, nest: NestShape) -> tuple[int, bool]:
        return {Level.ROOT: GLOBAL, Level.BLOCK: SHARED, Level.THREAD: REGISTER}[nest.level], True

    def _in_registers(self, nest: NestShape, cost: Traffic, promoted: NDArray[np.bool_], store: bool) -> Traffic:
        """Accumulators go to memory once, after the last stage, and are read only if the first one does not set them."""
        stages = self.structure.stages if nest.level is Level.ROOT else tuple(
            s for s in self.rows if s.func == nest.stage.func
        )
        touched = nest.id == (stages[-1] if store else stages[0])
        share = np.where(promoted, 1.0 / nest.reduction_points if touched else 0.0, 1.0)
        return Traffic(cost.requests * share, cost.transactions * share, cost.used * share, cost.per_thread)

    def _table(self, group: AccessGroup, nest: NestShape, storage: _StorageOf, memory: int) -> OffsetTable:
        loops = {d.name: d for d in nest.stage.loops}
        reductions = [(d, loops[d].lo, loops[d].hi) for d in nest.reductions if loops[d].reduction]
        return self.f.table(group, nest.dims, reductions, storage.steps(group, memory))

    def _fill(
        self, out: _Rows, row: int, nest: NestShape, geometry: Geometry, active: Ints, warps: Warps,
        costs: tuple[tuple[AccessGroup, bool, int, Traffic], ...],
    ) -> None:  # fmt: skip
        func = self.bound.funcs[nest.stage.func]
        bpp = sum(d.bytes_ for d in func.dtypes)
        put = out.at(row)
        level, red = nest.level, nest.reduction_points
        blocks = geometry.blocks
        serial = nest.serial.prod(axis=1)
        points = nest.points.prod(axis=1)
        whole = math.prod(func.extents)
        vector = storage_order(func)[-1:] if func.dims else ()
        fastest = func.dims.index(vector[0]) if vector else None
        per_block = {Level.ROOT: np.ones_like(blocks), Level.BLOCK: blocks, Level.THREAD: blocks * warps.threads * nest.times}
        realizations = per_block[level]
        if level is Level.ROOT:
            region = np.full(len(blocks), whole)
            along = np.full(len(blocks), func.extents[fastest] if fastest is not None else 1)
            produced = blocks * active.prod(axis=1) * serial
        else:
            region = geometry.extents[func.name].prod(axis=1)
            along = geometry.extents[func.name][:, fastest] if fastest is not None else np.ones_like(blocks)
            produced = active.prod(axis=1) * serial if level is Level.BLOCK else serial
        total = region * red
        put("num_realizations", realizations)
        put("num_productions", realizations)
        put("points_computed_per_realization", total)
        put("points_computed_per_production", produced * red)
        put("points_computed_per_thread", serial * red * nest.times)
        put("points_computed_total", total * realizations)
        put("points_computed_minimum", whole * red)
        put("innermost_loop_extent", serial * red)
        put("innermost_pure_loop_extent", serial)
        put("unrolled_loop_extent", np.where(np.asarray(is_unrolled(serial)) & (red == 1), serial, 1))
        put("inner_parallelism", blocks if level is Level.ROOT else 1)
        put("outer_parallelism", 1 if level is Level.ROOT else blocks)
        put("bytes_at_realization", region * bpp)
        put("bytes_at_production", region * bpp)
        put("bytes_at_root", whole * bpp)
        put("innermost_bytes_at_realization", along * bpp)
        put("innermost_bytes_at_production", along * bpp)
        put("innermost_bytes_at_root", (func.extents[fastest] if fastest is not None else 1) * bpp)
        put("num_scalars", blocks * warps.threads * serial * red * nest.times)
        self._fill_reads(put, nest, geometry, points, costs)
        memory = {Level.ROOT: "global", Level.BLOCK: "shared", Level.THREAD: "register"}[level]
        written = np.where(level is Level.THREAD, region * warps.threads, points) * bpp
        put(f"{memory}_bytes_at_task", written)
        inner = nest.points[:, fastest] if fastest is not None and fastest < nest.points.shape[1] else np.ones_like(blocks)
        put(f"{memory}_innermost_bytes_at_task", inner * bpp)
        put("expr_branching", self.f.work.branching(nest.stage, self.structure.inlined))
        put("num_blocks", blocks)
        put("num_warps_per_block", -(-geometry.block.prod(axis=1) // WARP))
        put("num_active_warps_per_block", warps.regular + warps.tail)
        put("num_threads_per_block", warps.threads)
        lanes = WARP * np.maximum(warps.regular + warps.tail, 1)
        most = self.f.target.max_threads_per_block
        put("block_occupancy", warps.threads / most)
        put("warp_lane_utilization", warps.threads / lanes)
        put("idle_lane_wastage", (lanes - warps.threads) / most)
        self._fill_traffic(put, costs)
        evaluations = points * red * (nest.times if level is not Level.THREAD else nest.times * warps.threads)
        for unit, name in zip(range(UNITS), ("float", "double", "integer", "special"), strict=True):
            put(f"{name}_operations_per_block", evaluations * self._operations[nest.id][unit])

    def _fill_reads(
        self, put: _Put, nest: NestShape, geometry: Geometry, points: Ints,
        costs: tuple[tuple[AccessGroup, bool, int, Traffic], ...],
    ) -> None:  # fmt: skip
        dims = {d: k for k, d in enumerate(nest.dims)}
        loops = {d.name: d for d in nest.stage.loops}
        reductions = {d: loops[d].extent for d in nest.reductions if loops[d].reduction}
        one = np.ones_like(nest.serial)
        n = len(points)
        grid = nest.points if nest.level is not Level.ROOT else np.tile(self.geometry.sizes, (n, 1))
        names = ("global", "shared", "register")
        sums = {name: np.zeros(n) for name in _READ_SUMS}
        for group, store, memory, _ in costs:
            if store or group.source == nest.stage.func:
                continue
            size = self._itemsize(group)
            bytes_, lines = (v * size for v in footprint(group, nest.points, dims, reductions))
            thread_bytes, thread_lines = footprint(group, nest.serial, dims, reductions)
            point_bytes, point_lines = footprint(group, one, dims, {})
            whole, whole_lines = footprint(group, grid, dims, reductions)
            kind = names[memory]
            sums[f"unique_{kind}_bytes_read_per_realization"] += whole * size
            sums[f"unique_{kind}_lines_read_per_realization"] += whole_lines
            sums[f"unique_{kind}_bytes_read_per_thread"] += thread_bytes * size
            sums[f"unique_{kind}_lines_read_per_thread"] += thread_lines
            sums["unique_bytes_read_per_point"] += point_bytes * size
            sums["unique_lines_read_per_point"] += point_lines
            available = self._array_bytes(group, geometry, n)
            sums[f"{kind}_allocation_bytes_read_per_realization"] += available
            if memory == GLOBAL:
                sums["unique_bytes_read_per_task"] += bytes_
                sums["unique_lines_read_per_task"] += lines / size
                factor = 1 if nest.level is Level.ROOT else geometry.blocks
                sums["unique_global_bytes_read_by_kernel"] += np.minimum(whole * size * factor, available)
        for name, values in sums.items():
            put(name, values)

    def _itemsize(self, group: AccessGroup) -> int:
        if group.source in self.bound.inputs:
            return self.bound.inputs[group.source].dtype.bytes_
        return self.bound.funcs[group.source].dtypes[group.component].bytes_

    def _array_bytes(self, group: AccessGroup, geometry: Geometry, n: int) -> Floats:
        size = self._itemsize(group)
        if group.source in self.bound.inputs:
            return np.full(n, float(math.prod(self.bound.inputs[group.source].shape) * size))
        if group.source in geometry.extents:
            return np.asarray(geometry.extents[group.source].prod(axis=1) * size, np.float64)
        return np.full(n, float(math.prod(self.bound.funcs[group.source].extents) * size))

    def _fill_traffic(self, put: _Put, costs: tuple[tuple[AccessGroup, bool, int, Traffic], ...]) -> None:
        for memory, kind, unit in ((GLOBAL, "global", SECTOR), (SHARED, "shared", WAVEFRONT)):
            requests = np.zeros_like(costs[0][3].requests) if costs else np.zeros(1)
            for store, word, short in ((False, "loads", "load"), (True, "stores", "store")):
                chosen = [t for _, s, m, t in costs if m == memory and s == store]
                transactions = sum((t.transactions for t in chosen), np.zeros_like(requests))
                used = sum((t.used for t in chosen), np.zeros_like(requests))
                requests = requests + sum((t.requests for t in chosen), np.zeros_like(requests))
                put(f"num_{kind}_mem_{word}_per_block", transactions)
                moved = np.maximum(transactions * unit, 1)
                put(f"{kind}_mem_{short}_efficiency", np.where(transactions > 0, np.minimum(used / moved, 1.0), 1.0))
            put(f"{kind}_requests_per_block", requests)

    def _fill_kernel(self, out: _Rows, geometry: Geometry, shared: Ints, thread_bytes: Ints) -> None:
        target = self.f.target
        warps = -(-geometry.block.prod(axis=1) // WARP)
        resident = resident_blocks(target, warps, shared)
        per_sm = -(-geometry.blocks // target.multiprocessors)
        running = np.minimum(resident, per_sm)
        task = shared + thread_bytes * geometry.block.prod(axis=1)
        for row in range(len(self.rows)):
            put = out.at(row)
            put("working_set_at_task", task)
            put("working_set_at_production", task if row else 0)
            put("working_set_at_realization", task if row else 0)
            put("working_set", task if not row else 0)
            put("working_set_at_thread", thread_bytes)
            put("shared_mem_occupancy", shared / target.shared_per_block_optin)
            put("shared_mem_block_limit_factor", shared_limit(target, shared) / target.max_blocks_per_sm)
            put("max_warp_occupancy", running * warps / target.max_warps_per_sm)
            put("max_block_occupancy", running / target.max_blocks_per_sm)
            put("resident_blocks", resident)
        put = out.at(0)
        func = self.bound.funcs[self.structure.func]
        size = sum(d.bytes_ for d in func.dtypes)
        put("global_bytes_written_by_kernel", math.prod(func.extents) * size)
        put("steps_per_block", 1 + len(self.lifetimes))

    def _fill_inlined(self, out: _Rows, geometry: Geometry) -> None:
        for k, name in enumerate(self.inlined):
            put = out.at(len(self.rows) + k)
            func = self.bound.funcs[name]
            calls = np.zeros(len(geometry.blocks))
            threads = np.zeros(len(geometry.blocks))
            per_thread = np.zeros(len(geometry.blocks))
            for position, nest in enumerate(geometry.nests):
                times = self._accesses[nest.id].calls.get(name, 0)
                if times:
                    inside = nest.serial.prod(axis=1) * nest.reduction_points * nest.times
                    active = geometry.active[position].prod(axis=1)
                    calls += times * geometry.blocks * active * inside
                    threads = np.maximum(threads, active)
                    per_thread += times * inside
            put("inlined_calls", calls)
            put("points_computed_minimum", math.prod(func.extents))
            put("points_computed_per_thread", per_thread)
            put("inner_parallelism", 1)
            put("num_blocks", geometry.blocks)
            put("num_threads_per_block", threads)
            put("bytes_at_root", math.prod(func.extents) * sum(d.bytes_ for d in func.dtypes))
            put("expr_branching", self.f.work.branching(func.stages[0], self.structure.inlined))
            for kind in ("global", "shared"):
                put(f"{kind}_mem_load_efficiency", 1)
                put(f"{kind}_mem_store_efficiency", 1)


_READ_SUMS = tuple(
    name for name in schema.NAMES
    if name.startswith("unique_") or name.endswith("allocation_bytes_read_per_realization")
)  # fmt: skip


class _Put:
    """Writes one row of features by name."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def __call__(self, name: str, values: Ints | Floats | float) -> None:
        self.rows[:, schema.INDEX[name]] = values


class _Rows:
    def __init__(self, features: Floats) -> None:
        self.features = features

    def at(self, row: int) -> _Put:
        return _Put(self.features[:, row])


def _warps(block: Ints, active: Ints) -> Warps:
    counted = warps_of_block(np.concatenate([block, active], axis=1))
    tail = counted[:, 3]
    return Warps(counted[:, 0] - tail, tail, counted[:, 2], counted[:, 1])


class _StorageOf:
    """Strides and origins of everything a kernel touches."""

    def __init__(self, model: KernelModel, geometry: Geometry) -> None:
        self.model = model
        self.bound = model.bound
        self.geometry = geometry
        self._shared: dict[str, tuple[Ints, Ints]] = {}

    def _strides(self, func: str) -> tuple[Ints, Ints]:
        if func not in self._shared:
            across = func in self.model.across
            self._shared[func] = shared_strides(self.bound, func, self.geometry.extents[func], across)
        return self._shared[func]

    def bytes_of(self, func: str) -> Ints:
        """Return the bytes of a BLOCK Member's buffers, all tuple components together."""
        size = sum(d.bytes_ for d in self.bound.funcs[func].dtypes)
        return np.maximum(self._strides(func)[1], 1) * size

    def _array(self, source: str, component: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return item size, strides in elements and origin of an array in global memory."""
        if source in self.bound.inputs:
            i = self.bound.inputs[source]
            strides, _ = array_strides(i.shape, i.dtype.bytes_, pitched=False)
            return i.dtype.bytes_, strides, (0,) * len(i.shape)
        func = self.bound.funcs[source]
        size = func.dtypes[component].bytes_
        strides, _ = array_strides(func.extents, size, pitched=not func.is_output)
        return size, strides, tuple(lo for lo, _ in func.region)

    def steps(self, group: AccessGroup, memory: int) -> tuple[int, ...]:
        """Return bytes between neighbours in each dimension, 0 where that varies with the candidate."""
        size, strides, _ = self._array(group.source, group.component)
        if memory == GLOBAL:
            return tuple(s * size for s in strides)
        func = self.bound.funcs[group.source]
        fastest = storage_order(func)[-1:]
        return tuple(size if (d,) == fastest else 0 for d in func.dims)

    def of(self, source: str, component: int, memory: int, placed: bool) -> Storage:
        """Return where a source lives."""
        size, strides, origin = self._array(source, component)
        if memory == SHARED and placed:
            return Storage(memory, size, self._strides(source)[0], self.geometry.origin[source])
        return Storage(memory, size, np.array(strides, np.int64), np.array(origin, np.int64), placed)


