"""The cost of a group of stages that share a kernel, for all its tilings at once (Listing 1).

Line numbers in comments are those of Listing 1. Costs are in arithmetic operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.instructions.arithmetic_work import WorkTable
from autosched.featurize.regions.grid import BlockGrid
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.sketch.sketch import KernelSketch, columns, inner_reductions, thread_order
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.schedule.types import StageId
from autosched.search.strategies.sioutas.group_work import WorkOfStages
from autosched.search.strategies.sioutas.occupancy import estimate_occupancy
from autosched.search.strategies.sioutas.tile_sizes import Role, dim_roles, enumerate_tilings
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

GLOBAL_LOAD_COST = 40.0
"""Cost in operations of a load from global memory: the `balance` of Halide's scheduler, which the paper extends."""
SHARED_LOAD_COST = 1.0
"""Cost of a load from shared memory: that of Halide's scheduler for small footprints."""
OCCUPANCY_THRESHOLD = 0.1
"""Least occupancy of a stage, if some tiling has it (section 4.2)."""
LEAST_THREADS = 16
"""Least threads of a stage, if some tiling has them (`estimate_tile_benefit` in HalideAutoGPU)."""
SIGNIFICANT_DIGITS = 5
"""Significant digits of costs."""
AXES = 3
"""Dimensions of a block of threads."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits below which a tiling is inefficient (lines 28 and 36), lowered so that a group's output has a tiling.

    Attributes:
        stage_threads: Least number of threads of each stage.
        multiprocessors: Least number of active multiprocessors.
        occupancy: Least occupancy of each stage.
        whole_warps: Whether the number of threads must be a multiple of the warp size (final tiling pass only).
    """

    stage_threads: int
    multiprocessors: int
    occupancy: float
    whole_warps: bool


@dataclass(frozen=True)
class PricedGroup:
    """The valid tilings of a group, the cheapest first, and of equally cheap ones the last of the enumeration.

    Attributes:
        params: ``int64[N, columns]``, see `autosched.featurize.sketch.sketch.columns`.
        costs: ``float64[N]``, ascending.
        threads: ``int64[N]``, most threads of any stage.
        occupancy: ``float64[N]``, least occupancy of any stage.
        active_threads: ``int64[N]``, least number of active threads of any stage.
        shared_bytes: ``int64[N]``, total size of the fused producers' buffers.
        rules: Rules that all tilings satisfy.
        considered: Number of tilings considered.
        pruned: Number of pruned tilings by reason.
    """

    params: Ints
    costs: Floats
    threads: Ints
    occupancy: Floats
    active_threads: Ints
    shared_bytes: Ints
    rules: Rules
    considered: int
    pruned: tuple[tuple[str, int], ...]

    @property
    def cost(self) -> float:
        """Cost of the best tiling; infinite if there is none."""
        return float(self.costs[0]) if len(self.costs) else math.inf


@dataclass(frozen=True)
class _Nest:
    """The loop nest of one stage of a group.

    Attributes:
        id: The stage.
        lane: The loop of neighbouring threads.
        lanes: ``int64[N]``, threads of this loop.
        threads: ``int64[N, dims]``, in the order of threadIdx.x, y, z.
        evaluations: ``int64[N]``, evaluations per block.
    """

    id: StageId
    lane: str | None
    lanes: Ints
    threads: Ints
    evaluations: Ints


@dataclass
class GroupPricer:
    """Prices groups of one pipeline for one target; a group is a sketch with all fused producers at BLOCK.

    Args:
        bound: The pipeline.
        target: Device limits.
    """

    bound: BoundPipeline
    target: Target
    work: WorkOfStages = field(init=False)
    _demands: RequiredRegions = field(init=False)
    _prices: dict[tuple[KernelSketch, bool, Rules | None], PricedGroup] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.work = WorkOfStages(self.bound)
        self._demands = RequiredRegions(DescriptorTables(self.bound, WorkTable(self.bound)))

    def price(self, sketch: KernelSketch, *, final: bool = False, rules: Rules | None = None) -> PricedGroup:
        """Return the valid tilings of a group with their costs.

        Args:
            sketch: The group.
            final: Whether this is the final tiling pass. It tries every second tile size, and divides the memory cost
                by occupancy and active threads as well. Grouping tries powers of two only.
            rules: Rules to satisfy; by default the strictest ones that some tiling satisfies.
        """
        key = sketch, final, rules
        if key not in self._prices:
            self._prices[key] = self._price(sketch, final, rules)
        return self._prices[key]

    def _price(self, sketch: KernelSketch, final: bool, rules: Rules | None) -> PricedGroup:
        """As `price`, without its cache."""
        layout = columns(self.bound, sketch)
        grid = BlockGrid(self.bound, sketch, layout)
        itemsize = sum(d.bytes_ for d in self.bound.funcs[sketch.func].dtypes)
        table = enumerate_tilings(grid.sizes.tolist(), self.target, powers=not final, itemsize=itemsize)
        params = np.ones((len(table), layout.count), np.int64)
        params[:, : table.shape[1]] = table
        tile, count = grid.blocks(params)
        extents = self._demands.member_extents(sketch, tile)  # line 14
        roles = dim_roles(grid.sizes.tolist())
        threaded = {d for d, r in zip(grid.dims, roles, strict=True) if r is Role.THREADS}
        for location in sketch.locations:
            params[:, layout.threads_of(location.func)] = self._producer_threads(
                location.func, extents[location.func], threaded
            )
        nests = [self._nest(s, grid.dims, params[:, layout.root_threads], tile, sketch) for s in sketch.stages]
        footprint = np.zeros(len(params), np.int64)
        for location in sketch.locations:
            func = self.bound.funcs[location.func]
            footprint += extents[location.func].prod(axis=1) * sum(d.bytes_ for d in func.dtypes)  # line 7
            nests += [
                self._nest(
                    StageId(func.name, s.number), func.dims, params[:, layout.threads_of(func.name)],
                    extents[func.name], sketch,
                )
                for s in func.nonempty_stages
            ]  # fmt: skip
        return self._evaluate(sketch, params, nests, footprint, count.prod(axis=1), final, rules)

    def _producer_threads(self, func: str, extents: Ints, threaded: set[str]) -> Ints:
        """Return the threads of a fused producer, ``int64[N, dims]`` (lines 21 to 23).

        There is one thread per point in the thread dimensions of the output. A Func without any of these dimensions has
        the threads of an output.
        """
        f = self.bound.funcs[func]
        has_threads = [d in threaded for d in f.dims]
        if not any(has_threads):
            has_threads = [r is Role.THREADS for r in dim_roles(f.extents)]
        return np.where(np.array(has_threads, bool), extents, 1) if f.dims else extents

    def _nest(self, id_: StageId, dims: Sequence[str], threads: Ints, points: Ints, sketch: KernelSketch) -> _Nest:
        """Return the loop nest of a stage for all tilings, whose blocks have the given threads and points."""
        stage = self.bound.stage(id_.func, id_.number)
        dims_of_stage = [d for d in thread_order(self.bound, id_.func, dims) if any(p.name == d for p in stage.loops)]
        axes = np.ones((len(threads), 0), np.int64)
        if dims_of_stage:
            axes = np.stack([threads[:, dims.index(d)] for d in dims_of_stage], axis=1)
        k = next((k for k in range(len(dims_of_stage)) if (axes[:, k] > 1).any()), None)
        lanes = np.ones(len(threads), np.int64) if k is None else axes[:, k]
        inside = [dims.index(d) for d in dims_of_stage]
        evaluations = points[:, inside].prod(axis=1)
        for d in inner_reductions(stage, dims):
            evaluations = evaluations * stage.loop(d).extent
        return _Nest(id_, None if k is None else dims_of_stage[k], lanes, axes, evaluations)

    def _evaluate(
        self, sketch: KernelSketch, params: Ints, nests: Sequence[_Nest], footprint: Ints, blocks: Ints, final: bool,
        rules: Rules | None,
    ) -> PricedGroup:  # fmt: skip
        """Return the valid tilings ``int64[N, columns]`` with their costs, from the loop nests of all stages."""
        t, n = self.target, len(params)
        fused = {s.func for s in sketch.locations}
        memory, arithmetic = np.zeros(n), np.zeros(n)
        occupancy = np.ones(n)
        active_threads = np.full(n, t.max_threads_per_block, np.int64)
        active_sms = np.full(n, t.multiprocessors, np.int64)
        thread_count = np.ones(n, np.int64)
        least_threads = np.full(n, t.max_threads_per_block, np.int64)
        block = np.ones((n, AXES), np.int64)
        too_deep = np.zeros(n, bool)
        for nest in nests:
            work = self.work.of(nest.id, nest.lane, sketch.inlined)
            for read in work.reads:  # lines 3 to 6
                per_load = SHARED_LOAD_COST if read.source in fused else GLOBAL_LOAD_COST / read.consecutive(nest.lanes)
                memory += nest.evaluations * read.count * per_load
            threads = nest.threads.prod(axis=1)
            too_deep |= _fill_axes(block, nest.threads)  # line 25
            estimate = estimate_occupancy(t, threads, footprint, blocks)  # line 26
            rate = np.maximum(estimate.occupancy * estimate.active_threads, 1e-9)
            arithmetic += nest.evaluations * work.arithmetic / rate  # line 30
            occupancy = np.minimum(occupancy, estimate.occupancy)  # lines 31 to 34
            active_threads = np.minimum(active_threads, estimate.active_threads)
            active_sms = np.minimum(active_sms, estimate.active_multiprocessors)
            thread_count = np.maximum(thread_count, threads)
            least_threads = np.minimum(least_threads, threads)
        valid = np.ones(n, bool)
        pruned: list[tuple[str, int]] = []

        def keep(reason: str, mask: Bools) -> None:
            if (valid & ~mask).any():
                pruned.append((reason, int((valid & ~mask).sum())))
            valid[:] = valid & mask

        keep("more threads than a block can have", _threads_fit(t, block) & ~too_deep)  # lines 36 and 37
        keep("more shared memory than a block can have", footprint <= t.shared_per_block_optin)
        keep("more blocks than a grid can have", blocks <= t.max_grid[0])
        whole = thread_count % t.warp_size == 0
        if rules is None:
            rules = self._rules(valid, least_threads, active_sms, occupancy, whole, final)
        keep("fewer threads of a stage than half a warp", least_threads >= rules.stage_threads)
        keep("fewer active multiprocessors than there are", active_sms >= rules.multiprocessors)
        keep("too low an occupancy", occupancy >= rules.occupancy)
        if rules.whole_warps:
            keep("threads that are no multiple of a warp", whole)
        if final:
            memory = memory / np.maximum(occupancy * active_threads, 1e-9)
        costs = _rounded(blocks * (arithmetic + memory))  # line 39
        order = np.flatnonzero(valid)
        order = order[np.lexsort((-order, costs[order]))]  # `find_best_tile_config` takes the last of equal costs
        return PricedGroup(
            params[order], costs[order], thread_count[order], occupancy[order], active_threads[order],
            footprint[order], rules, n, tuple(pruned),
        )  # fmt: skip

    def _rules(
        self, valid: Bools, threads: Ints, active_sms: Ints, occupancy: Floats, whole: Bools, final: bool
    ) -> Rules:
        """Return the rules of section 4.2, each lowered until some tiling satisfies all of them."""
        if not valid.any():
            return Rules(LEAST_THREADS, self.target.multiprocessors, OCCUPANCY_THRESHOLD, final)
        lanes = int(min(threads[valid].max(), LEAST_THREADS))
        valid = valid & (threads >= lanes)
        sms = int(min(active_sms[valid].max(), self.target.multiprocessors))
        valid = valid & (active_sms >= sms)
        least = float(min(occupancy[valid].max(), OCCUPANCY_THRESHOLD))
        return Rules(lanes, sms, least, final and bool((valid & (occupancy >= least) & whole).any()))


def _fill_axes(block: Ints, threads: Ints) -> Bools:
    """Enlarge blocks ``int64[N, 3]`` to the threads ``int64[N, dims]`` of a nest, without loops of one thread.

    Returns:
        ``bool[N]``, whether there are more such loops than axes.
    """
    axis = np.zeros(len(block), np.int64)
    for k in range(threads.shape[1]):
        for a in range(AXES):
            here = np.where(axis == a, threads[:, k], 1)
            block[:, a] = np.maximum(block[:, a], here)
        axis += threads[:, k] > 1
    return np.asarray(axis > AXES, bool)


def _threads_fit(target: Target, block: Ints) -> Bools:
    """Return whether blocks ``int64[N, 3]`` are within the limits of the device."""
    fits = (block.prod(axis=1) <= target.max_threads_per_block) & (block <= np.array(target.max_block_dim)).all(axis=1)
    return np.asarray(fits, bool)


def _rounded(costs: Floats) -> Floats:
    """Return costs rounded to significant digits, so that their order does not depend on the order of summation."""
    magnitude = np.floor(np.log10(np.maximum(costs, 1e-300)))
    scale = 10.0 ** (SIGNIFICANT_DIGITS - 1 - magnitude)
    rounded: Floats = np.round(costs * scale) / scale
    return np.where(costs > 0, rounded, 0.0)
