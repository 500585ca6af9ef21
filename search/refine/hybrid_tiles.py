"""Hybrid tiles for kernels with tiles in shared memory, where they are predicted to be faster (PolyMage-GPU).

A sketch has no share of registers, so that kernels with hybrid tiles are costed one by one. Tiles of warps are sketches
with whole tiles in shared memory, ranked in one batch as if that memory were unlimited. The best ones are divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, NestOrder
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import TILE_LEVELS, Kernel, Level, StageId
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import Kernel as SearchedKernel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import RetiledKernel
from autosched.search.refine.kernel_search import KernelSearch
from autosched.search.refine.tile_division import TileDivision
from autosched.search.space.warp_tilings import WARPS, warp_tilings

LEAST_GAIN = 0.015
"""Least predicted gain of a kernel."""
DIVIDED = 3
"""Tiles of warps of a kernel, the best ones with whole tiles in shared memory, that are divided."""
START_WITHIN = 1.25
"""Ratio of the predicted time of whole tiles, as if shared memory were unlimited, to that of the present kernel, up to
which they are divided."""
UNLIMITED = 1 << 30
"""Bytes of shared memory that limit no residency."""


@dataclass
class HybridTileSearch(KernelSearch):
    """Gives each warp of a kernel's blocks a tile of its own, a share of which is in registers."""

    _division: TileDivision = field(init=False)
    _roomy: KernelEvaluator = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._division = TileDivision(self.bound, self.target, self.model, self.late)
        roomy = replace(self.target, shared_per_sm=UNLIMITED, shared_per_block_optin=UNLIMITED)
        self._roomy = KernelEvaluator(self.bound, roomy, self.model, self.settings)

    @property
    def least_gain(self) -> float:
        """Least predicted gain of a kernel."""
        return LEAST_GAIN

    def applies_to(self, kernel: Kernel) -> bool:
        """Return whether a kernel has tiles in shared memory, and none of the directives that hybrid tiles exclude."""
        shared = any(m.at.level in TILE_LEVELS for m in kernel.fused)
        kept = kernel.mainloop_at is not None or any(m.private or m.materialised for m in kernel.fused)
        scans = any(self.bound.stage(*r.tiling.stage).steps for r in kernel.roots)
        return shared and not kept and not scans and len(kernel.roots) == 1

    def search(self, kernels: Mapping[Kernel, float]) -> dict[Kernel, RetiledKernel | None]:
        """Return the fastest kernels with hybrid tiles; see `KernelSearch.search`."""
        return {kernel: None if self.late() else self._searched(kernel, kernels[kernel]) for kernel in kernels}

    def _searched(self, kernel: Kernel, seconds: float) -> RetiledKernel | None:
        sketch, _ = describe_kernel(self.bound, kernel)
        if sketch.lanes:
            return None
        found: list[tuple[SearchedKernel, RetiledKernel]] = []
        for variant in _tiled_variants(sketch):
            for start in self._near(variant, START_WITHIN * seconds):
                divided = self._division.divided(self._built_whole(start))
                found += [] if divided is None else [(start, divided)]
        if not found:
            return None
        start, best = min(found, key=lambda f: rounded_cost(f[1].seconds))
        return min([best, *self._with_other_warps(start, best)], key=lambda k: rounded_cost(k.seconds))

    def _near(self, sketch: KernelSketch, most: float) -> list[SearchedKernel]:
        """Return the best tiles of a warp for a kernel, those within a predicted time, the fastest first."""
        tiles = list(self._tiles(sketch))
        self._roomy.evaluate(tiles)
        costs = [rounded_cost(self._roomy.verdict(*k).cost) for k in tiles]
        order = sorted(range(len(tiles)), key=lambda n: (costs[n], tiles[n][1]))
        return [tiles[n] for n in order[:DIVIDED] if costs[n] < inf and costs[n] <= most]

    def _tiles(self, sketch: KernelSketch) -> Iterator[SearchedKernel]:
        """Yield tiles of a warp, with the lanes of the root for producers as far as their regions have points."""
        evaluator = self._roomy
        model = evaluator.kernel_model(sketch)
        layout, dims, bound = model.layout, model.grid.dims, model.bound
        sizes = dict(zip(dims, model.grid.sizes.tolist(), strict=True))
        for tile in warp_tilings(bound, sketch.func, dims, sizes, self.settings.max_serial_points, counts=WARPS[:1]):
            lanes = dict(zip(dims, tile.root, strict=False))
            variant = tile.of(sketch)
            orders = (
                NestOrder(StageId(func), interleaved=tuple(d for d in bound.funcs[func].dims if lanes.get(d, 1) > 1))
                for func, _ in layout.members
            )
            variant = replace(variant, orders=(*variant.orders, *(o for o in orders if o.interleaved)))
            values = np.ones((1, layout.count), np.int64)
            values[0, : layout.root_serial.stop] = tile.root
            extents = evaluator.kernel_model(variant).member_extents(values) if layout.members else {}
            for func, where in layout.members:
                most = [lanes.get(d, 1) for d in bound.funcs[func].dims]
                values[0, where] = np.minimum(most, extents[func][0])
            yield variant, tuple(values[0].tolist())

    def _built_whole(self, searched: SearchedKernel) -> Kernel:
        """Return a kernel with whole tiles in shared memory."""
        return build_kernel(self._roomy.kernel_model(searched[0]), np.array(searched[1], np.int64))

    def _with_other_warps(self, start: SearchedKernel, best: RetiledKernel) -> Iterator[RetiledKernel]:
        """Yield a kernel with other numbers of warps in a block.

        Args:
            start: The kernel with whole tiles.
            best: The same kernel with hybrid tiles.
        """
        sketch, row = start
        ((dim, _),) = sketch.warps
        for count in WARPS[1:]:
            whole = self._built_whole((replace(sketch, warps=((dim, count),)), row))
            producers = zip(best.kernel.fused, whole.fused, strict=True)
            kernel = replace(whole, fused=tuple(replace(m, at=w.at) for m, w in producers))
            yield RetiledKernel(kernel, self._division.seconds(kernel))


def _tiled_variants(sketch: KernelSketch) -> list[KernelSketch]:
    """Return a kernel without alignment, and with all of its producers in tiles.

    Producers at THREAD can neither read hybrid tiles nor be inside stages that do.
    """
    root = sketch.stages[0]
    plain = tuple(p._replace(aligned=None) for p in sketch.locations)
    tiled = tuple(ComputeLocation(p.func, Level.BLOCK, root) if p.level is Level.THREAD else p for p in plain)
    return [replace(sketch, locations=locations) for locations in dict.fromkeys((plain, tiled))]
