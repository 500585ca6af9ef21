"""Assembly of the features of a batch from geometry and traffic, topic by topic (`autosched.featurize.schema`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize import schema
from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.footprint import Boxes
from autosched.featurize.accesses.memory_traffic import Floats, MemoryTraffic, Warps
from autosched.featurize.accesses.warp_transactions import WARP
from autosched.featurize.instructions.instruction_features import (
    COMPILED,
    FLOATS,
    compiled_code,
    float_instructions,
    iterations_without_invariants,
)
from autosched.featurize.instructions.thread_loops import Loops
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.memory_kinds import GLOBAL, SHARED
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.regions.occupancy import resident_blocks, shared_limit
from autosched.featurize.tables.candidate_batch import Batch, RaggedRows
from autosched.featurize.tables.descriptor_tables import BLOCK, ROOT, THREAD
from autosched.schedule.policy import is_unrolled
from autosched.target import Target

SECTOR, WAVEFRONT = 32, 128
MEMORIES = ("global", "shared", "register")
READS = tuple(name for name in schema.NAMES if "_read_per_" in name)
"""Features of footprints, except those of the whole kernel."""


class _Columns:
    """Features of some rows, ``float64[features, rows]``, set by name."""

    def __init__(self, rows: int, required: frozenset[str] | None = None) -> None:
        self.values = np.zeros((schema.COUNT, rows))
        self.required = required

    def wants(self, *names: str) -> bool:
        """Whether one of some features is required."""
        return self.required is None or not self.required.isdisjoint(names)

    def __call__(self, name: str, values: Ints | Floats | float) -> None:
        self.values[schema.INDEX[name]] = values


@dataclass(frozen=True)
class FeatureAssembler:
    """Computes the features of a batch.

    Attributes:
        batch: The candidates.
        geometry: Regions and threads.
        accesses: Accesses of the nests.
        cost: Memory traffic of the accesses.
        warps: Warps of the nests.
        target: Device limits.
        loops: Loops inside a thread.
        amortised: Whether unrolled points of a thread compute shared values once.
    """

    batch: Batch
    geometry: Geometry
    accesses: BatchAccesses
    cost: MemoryTraffic
    warps: Warps
    target: Target
    loops: Loops
    amortised: bool = True

    def features(self, shared: Ints, thread_bytes: Ints, required: frozenset[str] | None = None) -> Floats:
        """Return ``float64[M, rows, features]``: a row for each nest, then for each inlined Func, then zeros.

        Args:
            shared: ``int64[M]``, shared memory of a block.
            thread_bytes: ``int64[M]``, bytes of a thread in registers.
            required: Names of required features; others may be zero. All if left out.
        """
        batch = self.batch
        inlined = RaggedRows.of([len(p.inlined) for p in batch.plans], batch.sketch)
        width = int((batch.nests.count + inlined.count).max())
        features = np.zeros((batch.count * width, schema.COUNT))
        put = _Columns(len(batch.hosts), required)
        self._points(put)
        self._bytes(put)
        self._reads(put)
        self._threads(put)
        self._traffic(put)
        self._kernel(put, shared, thread_bytes)
        if put.wants(FLOATS):
            put(FLOATS, float_instructions(self.geometry, self.warps, self._points_of_thread()))
        if put.wants(*COMPILED):
            compiled = compiled_code(
                self.geometry, self.accesses, self.cost, self.warps, self.loops, self._points_of_thread()
            )
            for name, values in compiled.items():
                put(name, values)
        local = np.arange(len(batch.hosts)) - batch.nests.start[batch.nests.candidate]
        features[batch.nests.candidate * width + local] = put.values.T
        if len(inlined.flat):
            local = np.arange(len(inlined.flat)) - inlined.start[inlined.candidate]
            rows = inlined.candidate * width + batch.nests.count[inlined.candidate] + local
            features[rows] = self._inlined(inlined, local).T
        return features.reshape(batch.count, width, schema.COUNT)

    def _points(self, put: _Columns) -> None:
        nests, kinds = self.geometry.nests, self.geometry.nests.kinds
        level, red = kinds["level"], kinds["reductions"]
        root, thread = level == ROOT, level == THREAD
        blocks = self.geometry.blocks[self.batch.nests.candidate]
        serial = nests.serial.prod(axis=1)
        times = nests.times
        scattered = kinds["over_terms"].any(axis=1)  # it has no loops over the dimensions that it scatters in
        inside = np.where(scattered, nests.covered.prod(axis=1), nests.extents.prod(axis=1))
        written = kinds["written_points"] * np.where(self._over_lanes(), kinds["sizes"], 1).prod(axis=1)
        region = np.where(root, written, inside)
        produced = np.where(thread, serial, nests.active.prod(axis=1) * serial * np.where(root, blocks, 1))
        realizations = self._realizations()
        put("num_realizations", realizations)
        put("num_productions", realizations)
        put("points_computed_per_realization", region * red)
        put("points_computed_per_production", produced * red)
        put("points_computed_per_thread", serial * red * times)
        put("points_computed_total", region * red * realizations)
        put("points_computed_minimum", written * red)
        put("innermost_loop_extent", serial * red)
        put("innermost_pure_loop_extent", np.where(kinds["inside_reductions"] > 0, nests.serial, 1).prod(axis=1))
        put("unrolled_loop_extent", np.where(np.asarray(is_unrolled(serial)) & (red == 1), serial, 1))
        put("inner_parallelism", np.where(root, blocks, 1))
        put("outer_parallelism", np.where(root, 1, blocks))
        put("num_scalars", blocks * self.warps.threads * serial * red * times)
        put("expr_branching", kinds["branching"])
        inside = np.where(thread, self.warps.threads, 1)
        evaluations = self._points_of_thread() * red * inside
        reduced = self._points_of_thread() * inside  # once for all terms
        hoisted = iterations_without_invariants(nests)
        for unit, name in enumerate(("float", "double", "integer", "special")):
            evaluated = evaluations * kinds["operations"][:, unit]
            evaluated = evaluated + evaluations // hoisted * kinds["invariant_operations"][:, unit]
            put(f"{name}_operations_per_block", evaluated + reduced * kinds["combine_operations"][:, unit])
        put("shuffles_per_block", self._shuffles())
        put("split_reduction_factor", np.where(self._over_lanes(), nests.threads, 0).max(axis=1))

    def _points_of_thread(self) -> Ints:
        """Return the points of a nest in a block, of a THREAD nest in one thread, ``int64[R]``.

        Points that unrolled enclosing loops share count once if `amortised`.
        """
        nests = self.geometry.nests
        points: Ints = nests.points.prod(axis=1) * nests.times
        if not self.amortised:
            return points
        dims = nests.points.shape[1]
        moved = (np.abs(nests.loops[:, :, 1 : 1 + dims]) * nests.loops[:, :, :1]).sum(axis=1)
        unrolled = np.asarray(is_unrolled(nests.serial.prod(axis=1)))[self.batch.hosts] & ~self.loops.has_rolled_loop
        shared: Ints = np.minimum((nests.points + moved).prod(axis=1), points)
        return np.where(unrolled, shared, points)

    def _over_lanes(self) -> Bools:
        """Return which loops of a nest are over the lanes of a warp reduction, ``bool[R, D]``."""
        kinds = self.geometry.nests.kinds
        lanes: Bools = (kinds["lanes"] > 0) & (kinds["looped"] > 0)
        return lanes

    def _shuffles(self) -> Ints:
        """Return the shuffles of all warps of a block, ``int64[R]``."""
        nests = self.geometry.nests
        points = -(-nests.points // nests.threads)
        shuffles: Ints = points.prod(axis=1) * (self.warps.regular + self.warps.tail) * nests.kinds["shuffles"]
        return shuffles

    def _realizations(self) -> Ints:
        """Return the realizations of each nest's result: one a kernel, block, or evaluation inside a thread."""
        nests = self.geometry.nests
        level, blocks = nests.kinds["level"], self.geometry.blocks[self.batch.nests.candidate]
        in_block = np.where(level == THREAD, self.warps.threads * nests.times, 1)
        return np.asarray(np.where(level == ROOT, 1, blocks * in_block))

    def _bytes(self, put: _Columns) -> None:
        nests, kinds = self.geometry.nests, self.geometry.nests.kinds
        level, size, fastest = kinds["level"], kinds["bytes"], kinds["fastest"]
        rows, has = np.arange(len(level)), kinds["fastest"] >= 0
        root = level == ROOT
        along = np.where(root, kinds["func_fastest"], np.where(has, nests.extents[rows, fastest], 1))
        lanes = self._over_lanes()  # one lane has the result of all
        region = np.where(root, kinds["func_points"], np.where(lanes, 1, nests.extents).prod(axis=1)) * size
        put("bytes_at_realization", region)
        put("bytes_at_production", region)
        put("bytes_at_root", kinds["func_points"] * size)
        put("innermost_bytes_at_realization", along * size)
        put("innermost_bytes_at_production", along * size)
        put("innermost_bytes_at_root", kinds["func_fastest"] * size)
        points = np.where(lanes, 1, nests.points).prod(axis=1)
        in_block = np.where(level == THREAD, region * self.warps.threads, points * size)
        inner = np.where(has, nests.points[rows, fastest], 1) * size
        for number, memory in ((ROOT, "global"), (BLOCK, "shared"), (THREAD, "register")):
            here = level == number
            put(f"{memory}_bytes_at_task", in_block * here)
            put(f"{memory}_innermost_bytes_at_task", inner * here)

    def _threads(self, put: _Columns) -> None:
        candidate, warps = self.batch.nests.candidate, self.warps
        active = warps.regular + warps.tail
        lanes = WARP * np.maximum(active, 1)
        most = self.target.max_threads_per_block
        put("num_blocks", self.geometry.blocks[candidate])
        put("num_warps_per_block", (-(-self.geometry.block.prod(axis=1) // WARP))[candidate])
        put("num_active_warps_per_block", active)
        put("num_threads_per_block", warps.threads)
        put("block_occupancy", warps.threads / most)
        put("warp_lane_utilization", warps.threads / lanes)
        put("idle_lane_wastage", (lanes - warps.threads) / most)

    def _reads(self, put: _Columns) -> None:
        nests, static, kinds = self.geometry.nests, self.geometry.nests.kinds, self.accesses.kinds
        reader = self.batch.readers
        boxes = Boxes.of(kinds, nests.low.shape[1])
        root = (static["level"] == ROOT)[reader]
        grid = np.where(root[:, None], static["sizes"][reader], nests.points[reader])
        reach, reductions = kinds["reach"], kinds["reductions"]
        whole, whole_lines = boxes.read(grid, reach, reductions)
        size = kinds["itemsize"]
        source = self.batch.sources
        inside = (source >= 0) & (static["level"][source] != ROOT)
        buffer = nests.extents[source].prod(axis=1) * size
        available = np.where(inside, buffer, kinds["array_bytes"])
        others = (kinds["store"] == 0) & (kinds["own"] == 0)
        outside = others & (kinds["memory"] == GLOBAL)

        def summed(values: Ints | Floats, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
            return np.asarray(np.bincount(reader, np.where(where, values, 0), len(self.batch.hosts)), np.float64)

        # Overlaps of small regions are unknown, so the array that they lie in bounds their sum.
        by_kernel = np.minimum(whole * size * self._realizations()[reader], available)
        put("unique_global_bytes_read_by_kernel", summed(by_kernel, outside))
        put("unique_input_bytes_read_by_kernel", summed(by_kernel, outside & (kinds["is_input"] > 0)))
        if not put.wants(*READS):
            return
        elements, lines = boxes.read(nests.points[reader], reach, reductions)
        of_thread, thread_lines = boxes.read(nests.serial[reader], reach, reductions)
        for memory, kind in enumerate(MEMORIES):
            here = others & (kinds["memory"] == memory)
            put(f"unique_{kind}_bytes_read_per_realization", summed(whole * size, here))
            put(f"unique_{kind}_lines_read_per_realization", summed(whole_lines, here))
            put(f"unique_{kind}_bytes_read_per_thread", summed(of_thread * size, here))
            put(f"unique_{kind}_lines_read_per_thread", summed(thread_lines, here))
            put(f"{kind}_allocation_bytes_read_per_realization", summed(available, here))
        put("unique_bytes_read_per_point", summed(kinds["point_elements"] * size, others))
        put("unique_lines_read_per_point", summed(kinds["point_lines"], others))
        put("unique_bytes_read_per_task", summed(elements * size, outside))
        put("unique_lines_read_per_task", summed(lines, outside))

    def _traffic(self, put: _Columns) -> None:
        kinds, reader, n = self.accesses.kinds, self.batch.readers, len(self.batch.hosts)
        for memory, kind, unit in ((GLOBAL, "global", SECTOR), (SHARED, "shared", WAVEFRONT)):
            requests = np.zeros(n)
            for store, word, short in ((0, "loads", "load"), (1, "stores", "store")):
                here = (kinds["memory"] == memory) & (kinds["store"] == store)
                transactions = np.bincount(reader, self.cost.transactions * here, n)
                used = np.bincount(reader, self.cost.used * here, n)
                requests = requests + np.bincount(reader, self.cost.requests * here, n)
                put(f"num_{kind}_mem_{word}_per_block", transactions)
                moved = np.maximum(transactions * unit, 1)
                put(f"{kind}_mem_{short}_efficiency", np.where(transactions > 0, np.minimum(used / moved, 1.0), 1.0))
                if (memory, store) == (SHARED, 0):  # shuffles use the shared-memory unit
                    put(f"num_{kind}_mem_{word}_per_block", transactions + self._shuffles())
                    requests = requests + self._shuffles()
            put(f"{kind}_requests_per_block", requests)

    def _kernel(self, put: _Columns, shared: Ints, thread_bytes: Ints) -> None:
        """Set the features that all stages of a kernel have in common."""
        target, candidate, first = self.target, self.batch.nests.candidate, self.batch.nests.start
        blocks, threads = self.geometry.blocks, self.geometry.block.prod(axis=1)
        tiles = self.batch.tiles
        warps, of_block = -(-threads // WARP) * tiles, shared * tiles
        resident = resident_blocks(target, warps, of_block)
        running = np.minimum(resident, -(-blocks // (target.multiprocessors * tiles)))
        task = (shared + thread_bytes * threads)[candidate]
        nested = np.ones(len(candidate), bool)
        nested[first] = False
        put("working_set_at_task", task)
        put("working_set_at_production", task * nested)
        put("working_set_at_realization", task * nested)
        put("working_set", task * ~nested)
        put("working_set_at_thread", thread_bytes[candidate])
        put("shared_mem_occupancy", (of_block / target.shared_per_block_optin)[candidate])
        put("shared_mem_block_limit_factor", (shared_limit(target, of_block) / target.max_blocks_per_sm)[candidate])
        put("max_warp_occupancy", (running * warps / target.max_warps_per_sm)[candidate])
        put("max_block_occupancy", (running / target.max_blocks_per_sm)[candidate])
        put("resident_blocks", (resident * tiles)[candidate])
        static = self.geometry.nests.kinds
        written = static["written_points"] * static["bytes"]
        stored = self.batch.nests.take([p.stored for p in self.batch.plans]) > 0
        put("global_bytes_written_by_kernel", written * (~nested | stored))
        put("live_out_bytes", written * stored)
        steps = np.array([1 + len({int(b) for b in p.buffers[:, 0]}) for p in self.batch.plans], np.int64)
        put("steps_per_block", steps[self.batch.sketch][candidate] * ~nested)

    def _inlined(self, items: RaggedRows, local: Ints) -> Floats:
        """Return the rows of inlined Funcs, ``float64[features, rows]``."""
        batch, geometry = self.batch, self.geometry
        nests = geometry.nests
        static = np.concatenate([p.inlined for p in batch.plans])[items.flat]
        inside = nests.serial.prod(axis=1) * nests.kinds["reductions"] * nests.times
        active = nests.active.prod(axis=1)
        count = batch.nests.count[items.candidate]
        item = np.repeat(np.arange(len(local)), count)
        k = np.arange(len(item)) - np.repeat(np.cumsum(count) - count, count)
        nest = batch.nests.start[items.candidate][item] + k
        flat = np.concatenate([p.calls.reshape(-1) for p in batch.plans])
        before = np.cumsum([0, *(p.calls.size for p in batch.plans)])
        which = batch.sketch[items.candidate][item]
        times = flat[before[which] + k * items.count[items.candidate][item] + local[item]]
        n = len(local)
        per_thread = np.bincount(item, times * inside[nest], n)
        calls = np.bincount(item, times * inside[nest] * active[nest], n)
        threads = np.zeros(n, np.int64)
        np.maximum.at(threads, item, active[nest] * (times > 0))
        blocks = geometry.blocks[items.candidate]
        put = _Columns(n)
        put("inlined_calls", calls * blocks)
        put("points_computed_minimum", static[:, 0])
        put("points_computed_per_thread", per_thread)
        put("inner_parallelism", 1)
        put("num_blocks", blocks)
        put("num_threads_per_block", threads)
        put("bytes_at_root", static[:, 1])
        put("expr_branching", static[:, 2])
        for kind in ("global", "shared"):
            put(f"{kind}_mem_load_efficiency", 1)
            put(f"{kind}_mem_store_efficiency", 1)
        return put.values
