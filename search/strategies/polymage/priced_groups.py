"""Prices of groups by PolyMage-GPU's cost: the least over all tile sizes, block sizes and transaction sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch, thread_order
from autosched.schedule.legality.validate import kernel_violations
from autosched.search.beam.state import PartialKernel
from autosched.search.evaluate.counts import Counts
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.polymage.dependence_vectors import has_constant_dependence_vectors
from autosched.search.strategies.polymage.group_terms import group_terms
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.polymage.stage_resources import StageResources
from autosched.search.strategies.polymage.tile_table import tile_table

Ints = NDArray[np.int64]
Kernels = tuple[PartialKernel, ...]

MOST_TRIED = 32
"""Tiles of a group, the cheapest ones, that are checked for legality."""


@dataclass
class PolymageGroups:
    """Kernels of groups, in the interface of `autosched.search.fusion.partition_search.GroupPrices`.

    A member is in shared memory, with one thread for each thread of the root; the Funcs that the graph inlines
    everywhere are inlined.

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
    _priced: dict[FusedGroup, list[tuple[float, Kernels]]] = field(init=False, default_factory=dict)

    @property
    def _counts(self) -> Counts:
        return self.enumerator.evaluator.counts

    def search(self, graph: GroupGraph, groups: Sequence[FusedGroup]) -> None:
        """Price several groups."""
        for group in groups:
            if group not in self._priced and (not group.members or not self.late()):
                self._priced[group] = self._prices(graph, group)

    def best(self, graph: GroupGraph, group: FusedGroup) -> tuple[float, Kernels] | None:
        """Return the cost of a group and its kernels; None if it is infinite."""
        return next(iter(self._priced.get(group, ())), None)

    def exclude_illegal(self, graph: GroupGraph, group: FusedGroup) -> bool:
        """Exclude the cheapest kernels of a group if they break a rule of legality; return whether they do."""
        best = self.best(graph, group)
        if best is None or all(map(self._is_legal, best[1])):
            return False
        del self._priced[group][0]
        return True

    def _is_legal(self, piece: PartialKernel) -> bool:
        evaluator = self.enumerator.evaluator
        kernel = build_kernel(evaluator.kernel_model(piece.sketch), np.array(piece.params, np.int64))
        return not kernel_violations(evaluator.bound, kernel, evaluator.target)

    def _prices(self, graph: GroupGraph, group: FusedGroup) -> list[tuple[float, Kernels]]:
        """Return the costs of a group's cheapest kernels, the cheapest first."""
        locations = self.enumerator.compute_locations
        roots = locations.root_sketches(self.enumerator.bound.funcs[group.root])
        if group.members and len(roots) != 1:
            return []
        priced: list[tuple[float, Kernels]] = [(0.0, ())]
        for root in roots:
            sketch = self._with_inlined(graph, root)
            for name in group.members:
                sketch = self._with_inlined(graph, locations.at_block(sketch, name))
            of_root = self._tiled(sketch)
            priced = [(cost + c, (*k, piece)) for cost, k in priced for c, piece in of_root][:MOST_TRIED]
        return priced

    def _with_inlined(self, graph: GroupGraph, sketch: KernelSketch) -> KernelSketch:
        locations = self.enumerator.compute_locations
        while names := (locations.reads(sketch) & graph.inlined) - sketch.inlined:
            sketch = locations.inlined(sketch, min(names))
        return sketch

    def _tiled(self, sketch: KernelSketch) -> list[tuple[float, PartialKernel]]:
        """Return the costs of a kernel with its cheapest tiles, the cheapest first."""
        model = self.enumerator.evaluator.kernel_model(sketch)
        if model.overflow or (sketch.locations and not has_constant_dependence_vectors(model)):
            self._counts.pruned["dependence vectors are not constant"] += 1
            return []
        tables = [self._rows(model)]
        if not sketch.locations:  # scans, warp reductions and the like have tiles of their own
            others = self.enumerator.tilings(sketch)
            tables.append(np.array(others, np.int64).reshape(len(others), -1))
        entries: list[tuple[float, PartialKernel]] = []
        for params in tables:
            self._counts.considered["tile"] += len(params)
            costs = self._costs(model, params)
            for k in np.argsort(costs, kind="stable")[:MOST_TRIED].tolist():
                if np.isfinite(costs[k]):
                    entries.append((float(costs[k]), PartialKernel(sketch, tuple(params[k].tolist()), tiled=True)))
        return entries

    def _costs(self, model: SketchFeaturizer, params: Ints) -> NDArray[np.float64]:
        """Return the least cost of each tile over the other choices, ``float64[N]``."""
        costs = np.full(len(params), np.inf)
        if not len(params):
            return costs
        for transaction in self.settings.transaction_bytes:
            for share in self.settings.register_shares:
                target = self.enumerator.evaluator.target
                terms = group_terms(model, params, self.resources, target, transaction, share)
                costs = np.minimum(costs, terms.cost(self.settings))
        return costs

    def _rows(self, model: SketchFeaturizer) -> Ints:
        """Return the tile sizes to try, ``int64[N, columns]``: members have the threads of the root."""
        bound, sketch, grid = self.enumerator.bound, model.sketch, model.grid
        order = thread_order(bound, sketch.func, grid.dims)
        vector = grid.dims.index(order[0]) if order else 0
        tilings = tile_table(grid.sizes.tolist(), vector, self.settings, self.enumerator.evaluator.target)
        if not len(tilings) or not grid.dims:
            return np.zeros((1 if not grid.dims else 0, 0), np.int64)
        columns = [tilings]
        for name, _ in model.layout.members:
            own = [grid.dims.index(d) if d in grid.dims else None for d in bound.funcs[name].dims]
            threads = [np.ones(len(tilings), np.int64) if k is None else tilings[:, k] for k in own]
            columns.append(np.stack(threads, axis=1) if threads else np.zeros((len(tilings), 0), np.int64))
        table = np.concatenate(columns, axis=1)
        if model.layout.members:
            extents = model.member_extents(table)
            for name, where in model.layout.members:
                table[:, where] = np.minimum(table[:, where], extents[name])
        return table
