"""Fills rows of features from geometry and traffic, topic by topic (see `autosched.featurize.schema`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched.featurize import schema
from autosched.featurize.accesses import AccessGroup
from autosched.featurize.facts import StructureFacts
from autosched.featurize.geometry import Geometry
from autosched.featurize.lanes import WARP
from autosched.featurize.memories import GLOBAL, SHARED
from autosched.featurize.memory import Access, Floats, Warps, footprint
from autosched.featurize.nests import Ints, NestShape
from autosched.featurize.occupancy import resident_blocks, shared_limit
from autosched.featurize.structure import storage_order
from autosched.featurize.work import UNITS, WorkTable
from autosched.schedule.derived import is_unrolled
from autosched.schedule.types import Level
from autosched.target import Target

SECTOR, WAVEFRONT = 32, 128
MEMORIES = ("global", "shared", "register")

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


@dataclass(frozen=True)
class Filler:
    """Fills the features of one structure's candidates.

    Attributes:
        facts: The structure.
        geometry: Regions and threads.
        sizes: Points of each dimension of the grid.
        target: Device limits.
        work: Arithmetic of the pipeline's stages.
        features: ``float64[N, rows, features]``, filled in place.
    """

    facts: StructureFacts
    geometry: Geometry
    sizes: Ints
    target: Target
    work: WorkTable
    features: Floats

    def stage(
        self, row: int, nest: NestShape, active: Ints, warps: Warps, costs: Sequence[Access],
        operations: Sequence[float],
    ) -> None:  # fmt: skip
        """Fill the row of a stage.

        Args:
            row: Its row.
            nest: Its nest.
            active: ``int64[N, 3]``, threads that take part.
            warps: Their warps.
            costs: What its accesses cost.
            operations: Operations by unit of one evaluation.
        """
        put = _Put(self.features[:, row])
        self._points(put, nest, active, warps)
        self._bytes(put, nest, warps)
        self._reads(put, nest, costs)
        self._threads(put, warps)
        self._traffic(put, costs)
        put("expr_branching", self.work.branching(nest.stage, self.facts.structure.inlined))
        inside = warps.threads if nest.level is Level.THREAD else 1
        evaluations = nest.points.prod(axis=1) * nest.reduction_points * nest.times * inside
        for unit, name in zip(range(UNITS), ("float", "double", "integer", "special"), strict=True):
            put(f"{name}_operations_per_block", evaluations * operations[unit])

    def _points(self, put: _Put, nest: NestShape, active: Ints, warps: Warps) -> None:
        func = self.facts.bound.funcs[nest.stage.func]
        level, red, blocks = nest.level, nest.reduction_points, self.geometry.blocks
        serial = nest.serial.prod(axis=1)
        region = self._region(nest)
        produced = active.prod(axis=1) * serial
        if level is Level.ROOT:
            produced = produced * blocks
        elif level is Level.THREAD:
            produced = serial
        realizations = self._realizations(nest, warps)
        put("num_realizations", realizations)
        put("num_productions", realizations)
        put("points_computed_per_realization", region * red)
        put("points_computed_per_production", produced * red)
        put("points_computed_per_thread", serial * red * nest.times)
        put("points_computed_total", region * red * realizations)
        put("points_computed_minimum", math.prod(func.extents) * red)
        put("innermost_loop_extent", serial * red)
        put("innermost_pure_loop_extent", serial)
        put("unrolled_loop_extent", np.where(np.asarray(is_unrolled(serial)) & (red == 1), serial, 1))
        put("inner_parallelism", blocks if level is Level.ROOT else 1)
        put("outer_parallelism", 1 if level is Level.ROOT else blocks)
        put("num_scalars", blocks * warps.threads * serial * red * nest.times)

    def _realizations(self, nest: NestShape, warps: Warps) -> Ints:
        if nest.level is Level.ROOT:
            return np.ones_like(self.geometry.blocks)
        return self.geometry.blocks * (warps.threads * nest.times if nest.level is Level.THREAD else 1)

    def _region(self, nest: NestShape) -> Ints:
        """Return the points of the Func that one realization holds."""
        func = self.facts.bound.funcs[nest.stage.func]
        if nest.level is Level.ROOT:
            return np.full(len(self.geometry.blocks), math.prod(func.extents))
        points: Ints = self.geometry.extents[func.name].prod(axis=1)
        return points

    def _bytes(self, put: _Put, nest: NestShape, warps: Warps) -> None:
        func = self.facts.bound.funcs[nest.stage.func]
        size = sum(d.bytes_ for d in func.dtypes)
        fastest = func.dims.index(storage_order(func)[-1]) if func.dims else None
        ones = np.ones_like(self.geometry.blocks)
        whole = func.extents[fastest] if fastest is not None else 1
        along = ones * whole
        if nest.level is not Level.ROOT and fastest is not None:
            along = self.geometry.extents[func.name][:, fastest]
        region = self._region(nest) * size
        put("bytes_at_realization", region)
        put("bytes_at_production", region)
        put("bytes_at_root", math.prod(func.extents) * size)
        put("innermost_bytes_at_realization", along * size)
        put("innermost_bytes_at_production", along * size)
        put("innermost_bytes_at_root", whole * size)
        memory = {Level.ROOT: "global", Level.BLOCK: "shared", Level.THREAD: "register"}[nest.level]
        in_block = region * warps.threads if nest.level is Level.THREAD else nest.points.prod(axis=1) * size
        put(f"{memory}_bytes_at_task", in_block)
        inner = nest.points[:, fastest] if fastest is not None and fastest < nest.points.shape[1] else ones
        put(f"{memory}_innermost_bytes_at_task", inner * size)

    def _threads(self, put: _Put, warps: Warps) -> None:
        active = warps.regular + warps.tail
        lanes = WARP * np.maximum(active, 1)
        most = self.target.max_threads_per_block
        put("num_blocks", self.geometry.blocks)
        put("num_warps_per_block", -(-self.geometry.block.prod(axis=1) // WARP))
        put("num_active_warps_per_block", active)
        put("num_threads_per_block", warps.threads)
        put("block_occupancy", warps.threads / most)
        put("warp_lane_utilization", warps.threads / lanes)
        put("idle_lane_wastage", (lanes - warps.threads) / most)

    def _reads(self, put: _Put, nest: NestShape, costs: Sequence[Access]) -> None:
        dims = {d: k for k, d in enumerate(nest.dims)}
        loops = {d.name: d for d in nest.stage.loops}
        reductions = {d: loops[d].extent for d in nest.reductions if loops[d].reduction}
        one = np.ones_like(nest.serial)
        n = len(nest.points)
        grid = nest.points if nest.level is not Level.ROOT else np.tile(self.sizes, (n, 1))
        sums = {name: np.zeros(n) for name in _READ_SUMS}
        for access in costs:
            group = access.group
            if access.store or group.source == nest.stage.func:
                continue
            size = self.facts.itemsize(group)
            elements, lines = footprint(group, nest.points, dims, reductions)
            of_thread, thread_lines = footprint(group, nest.serial, dims, reductions)
            of_point, point_lines = footprint(group, one, dims, {})
            whole, whole_lines = footprint(group, grid, dims, reductions)
            kind = MEMORIES[access.memory]
            sums[f"unique_{kind}_bytes_read_per_realization"] += whole * size
            sums[f"unique_{kind}_lines_read_per_realization"] += whole_lines
            sums[f"unique_{kind}_bytes_read_per_thread"] += of_thread * size
            sums[f"unique_{kind}_lines_read_per_thread"] += thread_lines
            sums["unique_bytes_read_per_point"] += of_point * size
            sums["unique_lines_read_per_point"] += point_lines
            available = self._array_bytes(group, n)
            sums[f"{kind}_allocation_bytes_read_per_realization"] += available
            if access.memory == GLOBAL:
                sums["unique_bytes_read_per_task"] += elements * size
                sums["unique_lines_read_per_task"] += lines
                factor = 1 if nest.level is Level.ROOT else self.geometry.blocks
                sums["unique_global_bytes_read_by_kernel"] += np.minimum(whole * size * factor, available)
        for name, values in sums.items():
            put(name, values)

    def _array_bytes(self, group: AccessGroup, n: int) -> Floats:
        size = self.facts.itemsize(group)
        bound = self.facts.bound
        if group.source in bound.inputs:
            return np.full(n, float(math.prod(bound.inputs[group.source].shape) * size))
        if group.source in self.geometry.extents:
            return np.asarray(self.geometry.extents[group.source].prod(axis=1) * size, np.float64)
        return np.full(n, float(math.prod(bound.funcs[group.source].extents) * size))

    def _traffic(self, put: _Put, costs: Sequence[Access]) -> None:
        zero = np.zeros(len(self.features))
        for memory, kind, unit in ((GLOBAL, "global", SECTOR), (SHARED, "shared", WAVEFRONT)):
            requests = zero
            for store, word, short in ((False, "loads", "load"), (True, "stores", "store")):
                chosen = [a.cost for a in costs if a.memory == memory and a.store == store]
                transactions = sum((t.transactions for t in chosen), zero)
                used = sum((t.used for t in chosen), zero)
                requests = requests + sum((t.requests for t in chosen), zero)
                put(f"num_{kind}_mem_{word}_per_block", transactions)
                moved = np.maximum(transactions * unit, 1)
                put(f"{kind}_mem_{short}_efficiency", np.where(transactions > 0, np.minimum(used / moved, 1.0), 1.0))
            put(f"{kind}_requests_per_block", requests)

    def kernel(self, shared: Ints, thread_bytes: Ints) -> None:
        """Fill what all stages of a kernel have in common.

        Args:
            shared: ``int64[N]``, shared memory of a block.
            thread_bytes: ``int64[N]``, bytes that a thread keeps in registers.
        """
        target = self.target
        warps = -(-self.geometry.block.prod(axis=1) // WARP)
        resident = resident_blocks(target, warps, shared)
        running = np.minimum(resident, -(-self.geometry.blocks // target.multiprocessors))
        task = shared + thread_bytes * self.geometry.block.prod(axis=1)
        for row in range(len(self.facts.rows)):
            put = _Put(self.features[:, row])
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
        put = _Put(self.features[:, 0])
        func = self.facts.bound.funcs[self.facts.structure.func]
        put("global_bytes_written_by_kernel", math.prod(func.extents) * sum(d.bytes_ for d in func.dtypes))
        put("steps_per_block", 1 + len(self.facts.lifetimes))

    def inlined(self) -> None:
        """Fill the rows of inlined Funcs."""
        geometry, facts = self.geometry, self.facts
        for k, name in enumerate(facts.inlined):
            put = _Put(self.features[:, len(facts.rows) + k])
            func = facts.bound.funcs[name]
            calls, threads, per_thread = (np.zeros(len(geometry.blocks)) for _ in range(3))
            for position, nest in enumerate(geometry.nests):
                times = facts.accesses[nest.id].calls.get(name, 0)
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
            put("expr_branching", self.work.branching(func.stages[0], facts.structure.inlined))
            for kind in ("global", "shared"):
                put(f"{kind}_mem_load_efficiency", 1)
                put(f"{kind}_mem_store_efficiency", 1)
