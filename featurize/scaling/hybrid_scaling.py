"""Kernels with hybrid tiles: features of the kernel with whole tiles in shared memory, with other accesses.

Both kernels evaluate the same points. They differ in the accesses to shared memory, the shuffles, the bytes of shared
memory and of registers, and the barriers. The accesses are counted for the middle block of both plans. Amortised
features are multiplied by the ratio of both counts, as compiled code shares loads among unrolled points; others are
the counts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.featurize.accesses.tile_accesses import TileAccesses, count_tile_accesses
from autosched.featurize.regions.occupancy import resident_blocks, shared_limit
from autosched.featurize.scaling.mainloop_scaling import FeatureScaling, Floats
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel, StageId
from autosched.target import Target

_COLUMNS = [
    INDEX[name]
    for name in (
        "num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block", "shared_requests_per_block",
        "shuffles_per_block",
    )
]  # fmt: skip
"""Features that follow from the accesses to tiles."""


def _columns(a: TileAccesses) -> Floats:
    """Return these features of accesses; shuffles also count as loads and requests of shared memory."""
    requests = a.load_requests + a.store_requests + a.shuffles
    return np.array([a.load_wavefronts + a.shuffles, a.store_wavefronts, requests, a.shuffles], np.float64)


@dataclass(frozen=True)
class HybridScaling(FeatureScaling):
    """The difference between a kernel with hybrid tiles and the kernel with these tiles in shared memory.

    Attributes:
        bound: The pipeline.
        tiles: Split dimension and steps in registers, by producer.
        accesses: Accesses of each stage in a block to shared memory, in the kernel with whole tiles and in this one.
        shared_bytes: Shared memory of a tile, in the kernel with whole tiles and in this one.
        register_bytes: Bytes of hybrid tiles in the registers of a thread.
        barriers: Barriers that the kernel with whole tiles has in addition.
        threads: Threads of a block, or of a warp with a tile of its own.
        warps: Warps of a block with tiles of their own, 1 for other kernels.
    """

    bound: BoundPipeline
    tiles: tuple[tuple[str, str, int], ...]
    accesses: Mapping[StageId, tuple[TileAccesses, TileAccesses]]
    shared_bytes: tuple[int, int]
    register_bytes: int
    barriers: int
    threads: int
    warps: int

    @property
    def text(self) -> str:
        """Key that differs between kernels with the same whole tiles."""
        return "hybrid tiles " + ", ".join(f"{func} {dim} {steps}" for func, dim, steps in self.tiles)

    def repeated(self, step: BatchEvaluation) -> BatchEvaluation:
        """Return candidates with the features of hybrid tiles, occupancy included."""
        changed = super().repeated(step)
        for k, model in enumerate(step.models):
            candidates = step.batch.sketch == k
            if not model.tables.amortised:
                features = changed.features[candidates]
                for row, stage in enumerate(model.rows):
                    if stage in self.accesses:
                        features[:, row, _COLUMNS] = _columns(self.accesses[stage][1])
                changed.features[candidates] = features
            self._set_occupancy(changed.features, candidates, model.tables.target)
        return changed

    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return amortised features with the accesses of hybrid tiles; see `FeatureScaling.scaled`."""
        scaled = features.copy()
        for k, stage in enumerate(rows):
            if stage not in self.accesses:
                continue
            whole, hybrid = self.accesses[stage]
            before, after = _columns(replace(whole, shuffles=0)), _columns(replace(hybrid, shuffles=0))
            ratio = np.where(before > 0, after / np.maximum(before, 1), 1.0)
            scaled[..., k, _COLUMNS] = scaled[..., k, _COLUMNS] * ratio + (_columns(hybrid) - after)
        for name in ("working_set_at_task", "working_set_at_production", "working_set_at_realization", "working_set"):
            column = INDEX[name]
            less = self.shared_bytes[0] - self.shared_bytes[1] - self.register_bytes * self.threads
            scaled[..., column] = np.where(scaled[..., column] > 0, np.maximum(scaled[..., column] - less, 0), 0)
        scaled[..., : len(rows), INDEX["working_set_at_thread"]] += self.register_bytes
        scaled[..., 0, INDEX["steps_per_block"]] -= self.barriers
        return scaled

    def _set_occupancy(self, features: Floats, candidates: np.ndarray, target: Target) -> None:
        """Set the features that follow from the shared memory of a block."""
        of_block = np.array([n * self.warps for n in self.shared_bytes])
        warps = -(-self.threads // target.warp_size) * self.warps
        before, after = resident_blocks(target, np.array([warps, warps]), of_block).tolist()
        limits = shared_limit(target, of_block) / target.max_blocks_per_sm
        rows = features[candidates]
        used = rows[..., INDEX["num_blocks"]] > 0
        running = -(-rows[..., INDEX["num_blocks"]] // (target.multiprocessors * self.warps))
        for name, value in (
            ("shared_mem_occupancy", of_block[1] / target.shared_per_block_optin),
            ("shared_mem_block_limit_factor", limits[1]),
            ("resident_blocks", after * self.warps),
            ("max_warp_occupancy", np.minimum(running, after) * warps / target.max_warps_per_sm),
            ("max_block_occupancy", np.minimum(running, after) / target.max_blocks_per_sm),
        ):
            column = INDEX[name]
            rows[..., column] = np.where(used & (rows[..., column] > 0), value, rows[..., column])
        if before != after or self.shared_bytes[0] != self.shared_bytes[1]:
            features[candidates] = rows


def without_hybrid_tiles(kernel: Kernel) -> Kernel:
    """Return a kernel with whole tiles in shared memory."""
    return replace(kernel, fused=tuple(replace(m, registers=None) for m in kernel.fused))


def hybrid_scaling(bound: BoundPipeline, kernel: Kernel) -> tuple[HybridScaling, Kernel]:
    """Return the difference that a legal kernel's hybrid tiles make, and the kernel with whole tiles."""
    whole = without_hybrid_tiles(kernel)
    cached = insert_cache_reads(bound, kernel.cache_reads)
    plans = plan_kernel(bound, whole), plan_kernel(bound, kernel)
    tiles = plans[1].hybrid_tiles
    names = frozenset(n for n, a in plans[0].allocations.items() if a.is_shared)
    middle = {p.name: (p.extent // 2, p.extent // 2) for p in plans[1].grid}
    before, after = (
        count_tile_accesses(_in_storage(plan, plan_kernel(bound, one, middle)), names)
        for plan, one in zip(plans, (whole, kernel), strict=True)
    )
    layouts = [shared_layout(plan) for plan in plans]
    bytes_of = {f: sum(d.bytes_ for d in cached.funcs[f].dtypes) for f in tiles}
    scaling = HybridScaling(
        bound,
        tuple((m.func, *m.registers) for m in kernel.fused if m.registers is not None),
        {stage: (before[stage], after[stage]) for stage in before},
        (layouts[0].total_bytes, layouts[1].total_bytes),
        sum(t.elements * bytes_of[f] for f, t in tiles.items()),
        sum(layouts[0].barriers) - sum(layouts[1].barriers),
        prod(plans[1].block),
        plans[1].warp_tiles,
    )
    return scaling, whole


def _in_storage(plan: KernelPlan, middle: KernelPlan) -> KernelPlan:
    """Return the plan of the middle block with the strides of the plan of all blocks."""
    allocations = {
        n: replace(middle.allocations[n], extents=a.extents, strides=a.strides, count=a.count, threads=a.threads)
        for n, a in plan.allocations.items()
    }
    return replace(middle, allocations=allocations)
