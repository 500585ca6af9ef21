"""Prices of groups by PolyMage-GPU's cost: the least over tile sizes, blocks, shares and transaction sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch, NestOrder, thread_order, tiled_dims
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Kernel, StageId
from autosched.search.beam.state import PartialKernel
from autosched.search.evaluate.counts import Counts
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.space.warp_tilings import arranged_warps
from autosched.search.strategies.polymage.dependence_vectors import has_constant_dependence_vectors
from autosched.search.strategies.polymage.group_terms import memory_terms, residency_terms
from autosched.search.strategies.polymage.group_tiles import group_tiles
from autosched.search.strategies.polymage.hybrid_kernel import hybrid_kernel
from autosched.search.strategies.polymage.settings import WARP, PolymageSettings
from autosched.search.strategies.polymage.stage_resources import StageResources
from autosched.search.strategies.polymage.tile_table import tile_table, warp_tile_table

Ints = NDArray[np.int64]

MOST_TRIED = 32
"""Tiles of a group, the cheapest ones, that are checked for legality."""


class TiledKernel(NamedTuple):
    """A kernel of a group.

    Attributes:
        piece: Its tile sizes, with the warps of a block where each has a tile.
        split: The dimension that a hybrid tile divides; empty without one.
        share: Share of the tile in registers.
    """

    piece: PartialKernel
    split: str = ""
    share: float = 0.0


Priced = tuple[float, tuple[TiledKernel, ...]]


@dataclass
class PolymageGroups:
    """Kernels of groups, in the interface of `autosched.search.fusion.partition_search.GroupPrices`.

    A member is in the shared memory of a warp or block, and in registers of the warp, with one thread for each thread
    of the root. Neighbouring threads have neighbouring points. Funcs that the graph inlines everywhere are inlined.

    Args:
        enumerator: Makes sketches.
        resources: Registers and seconds of each Func.
        settings: Weights and sizes.
        late: Returns whether the time budget has ended.
    """

    enumerator: OptionEnumerator
    resources: StageResources
    settings: PolymageSettings
    late: Callable[[], bool]
    extends_any: bool = field(init=False, default=False)
    _priced: dict[FusedGroup, list[Priced]] = field(init=False, default_factory=dict)
    _kernels: dict[TiledKernel, Kernel] = field(init=False, default_factory=dict)

    @property
    def _counts(self) -> Counts:
        return self.enumerator.evaluator.counts

    def search(self, graph: GroupGraph, groups: Sequence[FusedGroup]) -> None:
        """Price several groups."""
        for group in groups:
            if group not in self._priced and (not group.members or not self.late()):
                self._priced[group] = self._prices(graph, group)

    def best(self, graph: GroupGraph, group: FusedGroup) -> tuple[float, tuple[PartialKernel, ...]] | None:
        """Return the cost of a group and its kernels; None if it is infinite."""
        priced = self.priced(group)
        return (priced[0][0], tuple(k.piece for k in priced[0][1])) if priced else None

    def priced(self, group: FusedGroup) -> Sequence[Priced]:
        """Return the costs of a group's cheapest kernels, and the kernels, the cheapest first."""
        return self._priced.get(group, ())

    def groups(self) -> list[FusedGroup]:
        """Return the groups that have been priced and have kernels."""
        return [group for group, priced in self._priced.items() if priced]

    def exclude_illegal(self, graph: GroupGraph, group: FusedGroup) -> bool:
        """Exclude the cheapest kernels of a group if they break a rule of legality; return whether they do."""
        priced = self.priced(group)
        if not priced or all(map(self.is_legal, priced[0][1])):
            return False
        del self._priced[group][0]
        return True

    def is_legal(self, tiled: TiledKernel) -> bool:
        """Whether a kernel breaks no rule of legality."""
        evaluator = self.enumerator.evaluator
        return not kernel_violations(evaluator.bound, self.kernel(tiled), evaluator.target)

    def kernel(self, tiled: TiledKernel) -> Kernel:
        """Return a kernel with its hybrid tiles, as far as these are legal."""
        kernel = self._kernels.get(tiled)
        if kernel is None:
            evaluator, piece = self.enumerator.evaluator, tiled.piece
            kernel = build_kernel(evaluator.kernel_model(piece.sketch), np.array(piece.params, np.int64))
            kernel = hybrid_kernel(evaluator.bound, kernel, tiled.split, tiled.share, evaluator.target)
            self._kernels[tiled] = kernel
        return kernel

    def sketches(self, graph: GroupGraph, group: FusedGroup) -> list[KernelSketch]:
        """Return the sketches of a group's kernels, one for each loop nest of its root; none if it has no kernel."""
        locations = self.enumerator.compute_locations
        roots = locations.root_sketches(self.enumerator.bound.funcs[group.root])
        if group.members and len(roots) != 1:
            return []
        sketches = []
        for root in roots:
            sketch = self._with_inlined(graph, root)
            for name in group.members:
                sketch = self._with_inlined(graph, locations.at_block(sketch, name))
            sketches.append(sketch)
        return sketches

    def _prices(self, graph: GroupGraph, group: FusedGroup) -> list[Priced]:
        """Return the costs of a group's cheapest kernels, the cheapest first."""
        sketches = self.sketches(graph, group)
        if not sketches:
            return []
        priced: list[Priced] = [(0.0, ())]
        for sketch in sketches:
            of_root = self._tiled(sketch)
            pairs = [(cost + c, (*kernels, k)) for cost, kernels in priced for c, k in of_root]
            priced = sorted(pairs, key=lambda p: p[0])[:MOST_TRIED]
        return priced

    def _with_inlined(self, graph: GroupGraph, sketch: KernelSketch) -> KernelSketch:
        locations = self.enumerator.compute_locations
        while names := (locations.reads(sketch) & graph.inlined) - sketch.inlined:
            sketch = locations.inlined(sketch, min(names))
        return sketch

    def _tiled(self, sketch: KernelSketch) -> list[tuple[float, TiledKernel]]:
        """Return the costs of a kernel with its cheapest tiles, the cheapest first."""
        model = self.enumerator.evaluator.kernel_model(sketch)
        if model.overflow or (sketch.locations and not has_constant_dependence_vectors(model)):
            self._counts.pruned["dependence vectors are not constant"] += 1
            return []
        entries = self._costed(*self.candidates(sketch))
        if not sketch.locations and not (entries and self.is_legal(entries[0][1])):
            # Scans, warp reductions and the like have tiles of their own, whose blocks need not be whole warps.
            others = self.enumerator.tilings(sketch)
            entries += self._costed(sketch, np.array(others, np.int64).reshape(len(others), -1))
        return sorted(entries, key=lambda e: e[0])[:MOST_TRIED]

    def _costed(self, sketch: KernelSketch, params: Ints) -> list[tuple[float, TiledKernel]]:
        """Return the costs of a kernel with its cheapest tiles, each with its cheapest warps, share and transaction."""
        self._counts.considered["tile"] += len(params)
        if not len(params):
            return []
        target, settings = self.enumerator.evaluator.target, self.settings
        tiles = group_tiles(self.enumerator.evaluator.kernel_model(sketch), params)
        warps, shares = self.choices(sketch)
        memory = [
            memory_terms(tiles, self.resources, target, n).cost(settings.weights) for n in settings.transaction_bytes
        ]
        residency = residency_terms(tiles, self.resources, target, warps[None, :, None], shares[None, None, :])
        by_choice = residency.cost(settings.weights).reshape(len(params), -1)
        least = by_choice.argmin(axis=1)
        of_choice = by_choice[np.arange(len(params)), least]
        costs = np.minimum.reduce(memory) + settings.weights.overlap * tiles.overlap + of_choice
        entries: list[tuple[float, TiledKernel]] = []
        for k in np.argsort(costs, kind="stable")[:MOST_TRIED].tolist():
            if np.isfinite(costs[k]):
                w, s = divmod(int(least[k]), len(shares))
                split = int(tiles.split[k])
                entries.append((float(costs[k]), self.tiled(sketch, params[k], int(warps[w]), split, float(shares[s]))))
        return entries

    def choices(self, sketch: KernelSketch) -> tuple[Ints, NDArray[np.float64]]:
        """Return the warps of a block, and the shares in registers, to try."""
        if not self._has_warp_tiles(sketch):
            return np.ones(1, np.int64), np.zeros(1)
        return np.array(self.settings.warps_of_block, np.int64), np.array(self.settings.register_shares, np.float64)

    def tiled(self, sketch: KernelSketch, row: Ints, warps: int, split: int, share: float) -> TiledKernel:
        """Return a kernel of a table of `candidates`.

        Args:
            sketch: Its sketch.
            row: Its tile sizes.
            warps: Warps of a block.
            split: Position of the dimension that a hybrid tile divides.
            share: Share in registers.
        """
        locations, grid = self.enumerator.compute_locations, self.enumerator.evaluator.kernel_model(sketch).grid
        if self._has_warp_tiles(sketch) and warps > 1:
            order = thread_order(self.enumerator.bound, sketch.func, grid.dims)
            _, blocks = grid.blocks(row[None, :])
            tiles = dict(zip(grid.dims, blocks[0].tolist(), strict=True))
            arranged = arranged_warps(order, tiles, warps)
            if arranged[0][1] > 1:
                sketch = locations.one(replace(sketch, warps=arranged))
        piece = PartialKernel(sketch, tuple(row.tolist()), tiled=True)
        return TiledKernel(piece, grid.dims[split] if share else "", share)

    def _has_warp_tiles(self, sketch: KernelSketch) -> bool:
        has_dims = bool(tiled_dims(self.enumerator.bound, sketch.stages))
        return self.settings.tile_of == WARP and bool(sketch.locations) and has_dims

    def candidates(self, sketch: KernelSketch) -> tuple[KernelSketch, Ints]:
        """Return a kernel whose neighbouring threads have neighbouring points, and tile sizes, ``int64[N, columns]``.

        Members have the threads of the root, as far as their regions have points.
        """
        bound, target = self.enumerator.bound, self.enumerator.evaluator.target
        sketch = self._with_cyclic_points(sketch)
        model = self.enumerator.evaluator.kernel_model(sketch)
        grid = model.grid
        sizes = grid.sizes.tolist()
        order = [grid.dims.index(d) for d in thread_order(bound, sketch.func, grid.dims)]
        if not order:
            return sketch, np.ones((1, model.layout.count), np.int64)
        if self._has_warp_tiles(sketch):
            tilings = warp_tile_table(sizes, order, self.settings)
        else:
            tilings = tile_table(sizes, order[0], self.settings, target)
        columns = [tilings]
        for name, _ in model.layout.members:
            own = [grid.dims.index(d) if d in grid.dims else None for d in bound.funcs[name].dims]
            threads = [np.ones(len(tilings), np.int64) if k is None else tilings[:, k] for k in own]
            columns.append(np.stack(threads, axis=1) if threads else np.zeros((len(tilings), 0), np.int64))
        table = np.concatenate(columns, axis=1)
        if model.layout.members and len(table):
            extents = model.member_extents(table)
            for name, where in model.layout.members:
                table[:, where] = np.minimum(table[:, where], extents[name])
        return sketch, table

    def _with_cyclic_points(self, sketch: KernelSketch) -> KernelSketch:
        """Return a kernel whose neighbouring threads have neighbouring points, as section 4 assigns them."""
        bound = self.enumerator.bound
        listed = {o.stage: o for o in sketch.orders}
        stages = [*sketch.stages]
        for location in sketch.locations:
            stages += [StageId(location.func, s.number) for s in bound.funcs[location.func].nonempty_stages]
        for stage in stages:
            dims = bound.funcs[stage.func].dims
            listed[stage] = listed.get(stage, NestOrder(stage))._replace(interleaved=dims)
        linear = sketch.linear_threads or self._has_warp_tiles(sketch)
        return self.enumerator.compute_locations.one(
            replace(sketch, orders=tuple(listed.values()), linear_threads=linear)
        )
