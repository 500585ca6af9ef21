"""Tiles of warps for kernels with tiles in shared memory, where they are predicted to be faster (PolyMage-GPU)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel, Level
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import Kernel as SearchedKernel
from autosched.search.evaluate.batched import run_batched
from autosched.search.refine.improver import RetiledKernel
from autosched.search.refine.kernel_search import KernelSearch
from autosched.search.space.warp_tilings import HALOS, WARPS, lanes_of_region, warp_tilings

LEAST_GAIN = 0.015
"""Least predicted gain of a kernel."""
REFINED = 4
"""Tiles whose producers' threads are refined."""


class WarpTileSearch(KernelSearch):
    """Gives each warp of a kernel's blocks a tile of its own, with the kernel's producers in its slice."""

    @property
    def least_gain(self) -> float:
        """Least predicted gain of a kernel."""
        return LEAST_GAIN

    def applies_to(self, kernel: Kernel) -> bool:
        """Return whether a kernel has tiles in shared memory, and none of the directives that need whole blocks."""
        shared = any(m.at.level is Level.BLOCK for m in kernel.fused)
        return shared and kernel.mainloop_at is None and not any(m.private or m.materialised for m in kernel.fused)

    def search(self, kernels: Mapping[Kernel, float]) -> dict[Kernel, RetiledKernel | None]:
        """Return the fastest kernels with tiles of warps; see `KernelSearch.search`."""
        return {kernel: None if self.late() else self._searched(kernel) for kernel in kernels}

    def _searched(self, kernel: Kernel) -> RetiledKernel | None:
        evaluator = self._retiler.evaluator
        sketch, params = describe_kernel(self.bound, kernel)
        if sketch.lanes:
            return None
        starts = list(self._starts(sketch, params))
        evaluator.evaluate(starts)
        starts.sort(key=lambda k: (rounded_cost(evaluator.verdict(*k).cost), k[1]))
        possible = [k for k in starts[:REFINED] if np.isfinite(evaluator.verdict(*k).cost)]
        refined = run_batched(evaluator, [self._retiler.descend(*k, root=False) for k in possible])
        others = [(replace(s, warps=_with_count(s.warps, n)), row) for s, row in refined for n in WARPS]
        evaluator.evaluate(others)
        others.sort(key=lambda k: (rounded_cost(evaluator.verdict(*k).cost), k[1], k[0].warps))
        legal = next((k for k in others if self._retiler.is_legal(*k)), None)
        return None if legal is None else self._built(legal)

    def _starts(self, sketch: KernelSketch, params: Params) -> Iterator[SearchedKernel]:
        """Yield tiles of a warp (`autosched.search.space.warp_tilings`), with lanes of their producers."""
        model = self._retiler.evaluator.kernel_model(sketch)
        layout, dims = model.layout, model.grid.dims
        sizes = dict(zip(dims, model.grid.sizes.tolist(), strict=True))
        most = self.settings.max_serial_points
        tiles = warp_tilings(model.bound, sketch.func, dims, sizes, most, halos=HALOS, counts=WARPS[:1])
        for tile in tiles:
            variant = tile.of(sketch)
            values = np.array([params], np.int64)
            values[0, : layout.root_serial.stop] = tile.root
            extents = self._retiler.evaluator.kernel_model(variant).member_extents(values) if layout.members else {}
            for func, where in layout.members:
                values[0, where] = lanes_of_region(model.bound, func, extents[func][0].tolist())
            yield variant, tuple(values[0].tolist())


def _with_count(warps: tuple[tuple[str, int], ...], count: int) -> tuple[tuple[str, int], ...]:
    """Return warps of a block along the same dimension in another number."""
    ((dim, _),) = warps
    return ((dim, count),)
