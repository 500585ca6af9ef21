"""Time tiles: runs of equal stages, such as sweeps of a smoother, each run fused in one kernel.

The pre-pass decides all Funcs at root, and equal sweeps are equally expensive, so that freezing pins most of a chain at
root. And a beam compares the first stages of a deep tile with kernels of one sweep, whose tiles are smaller. Here the
levels of a run are fixed before its tiles are searched. Kernels of a run cost the same wherever it lies in the chain,
and a dynamic program over the chain chooses the runs (Rawat et al. 2019, section VI-A).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.types import Level, TileAlignment
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.evaluate.batched import Kernel, run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import with_alignment
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.space.time_tiles import form_of, is_boundary, readers_of, repeated_funcs

MOST_FUNCS = 8
"""Most Funcs of a run."""
FAR = 1.25
"""Ratio of the predicted time of a run to that of the best runs of the same Funcs, above which no longer run with that
end is tried: halos grow with every Func."""
STARTS = 3
"""Tilings of a run, the best ones, whose fused producers get other threads."""


class _Tiles(NamedTuple):
    """Tile sizes of a kernel, the tile alignment of each fused producer in order, and the predicted seconds."""

    params: Params
    aligned: tuple[TileAlignment | None, ...]
    cost: float


@dataclass
class TimeTileSearch:
    """Fuses runs of a chain of equal stages.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates tile sizes.
        retiler: Refines tile sizes.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    retiler: Retiler
    _by_class: dict[Hashable, _Tiles | None] = field(init=False, default_factory=dict)

    def with_time_tiles(self, states: list[State]) -> list[State]:
        """Return complete states, cheapest first, and before them the best runs of the chain if they are cheaper.

        Args:
            states: Complete states, cheapest first.
        """
        chain = repeated_funcs(self.evaluator.bound, self.enumerator.compute_locations.inlined_before)
        if not states or len(chain) < 2:
            return states
        rest = self._rest(states[0], frozenset(chain))
        if rest is None:
            return states
        runs = self._best_runs(chain)
        if runs is None:
            return states
        tiled = self._state(states[0], rest, runs)
        return [tiled, *states] if tiled.cost < states[0].cost else states

    def _rest(self, state: State, chain: frozenset[str]) -> list[int] | None:
        """Return the kernels of a state without Funcs of the chain; None if one has other Funcs, too."""
        rest = []
        bound = self.evaluator.bound
        for k, piece in enumerate(state.pieces):
            inside = self.enumerator.compute_locations.inside(piece.sketch)
            own = {name for name in inside if name in chain}
            if not own:
                rest.append(k)
            elif any(f.name in inside and f.name not in chain and not is_boundary(f) for f in bound.funcs.values()):
                return None  # cache reads are no Funcs of the pipeline
        return rest

    def _best_runs(self, chain: Sequence[str]) -> list[Kernel] | None:
        """Return the kernels of the cheapest partition of a chain into runs; None if a Func is in no legal run."""
        best: list[float] = [0.0] + [math.inf] * len(chain)
        begins = [0] * (len(chain) + 1)
        for end in range(1, len(chain) + 1):
            for begin in range(end - 1, max(end - MOST_FUNCS, 0) - 1, -1):
                if best[begin] == math.inf or self.retiler.late():
                    continue
                run = self._cost_of_run(chain[begin:end])
                if FAR * (best[end] - best[begin]) < run < math.inf:
                    break
                if best[begin] + run < best[end]:
                    best[end], begins[end] = best[begin] + run, begin
        kernels: list[Kernel] = []
        end = len(chain)
        while end:
            kernel = self._kernel_of_run(chain[begins[end] : end]) if best[end] < math.inf else None
            if kernel is None:
                return None
            kernels.append(kernel)
            end = begins[end]
        return kernels

    def _cost_of_run(self, run: Sequence[str]) -> float:
        """Return the predicted seconds of a run's cheapest kernel; infinite if its Funcs cannot share one."""
        tiles = self._tiles_of_run(run)
        return math.inf if tiles is None else tiles.cost

    def _tiles_of_run(self, run: Sequence[str]) -> _Tiles | None:
        """Return the tiles of a run's cheapest kernel, from the first run that computes the same."""
        bound, members = self.evaluator.bound, set(run)
        for name in run[:-1]:
            if bound.funcs[name].is_output or not readers_of(bound, name)[0] <= members:
                return None
        key = self._class_of(run)
        if key not in self._by_class:
            sketch = self._sketch(run)
            self._by_class[key] = None if sketch is None else self._tiled(sketch)
        return self._by_class[key]

    def _kernel_of_run(self, run: Sequence[str]) -> Kernel | None:
        """Return the cheapest kernel of a run; None if its Funcs cannot share one."""
        tiles = self._tiles_of_run(run)
        sketch = None if tiles is None else self._sketch(run)
        if tiles is None or sketch is None:
            return None
        for location, aligned in zip(sketch.locations, tiles.aligned, strict=True):
            sketch = with_alignment(sketch, location.func, aligned)
        sketch = self.enumerator.compute_locations.one(sketch)
        self.evaluator.evaluate([(sketch, tiles.params)])
        return None if self.evaluator.verdict(sketch, tiles.params).reason else (sketch, tiles.params)

    def _sketch(self, run: Sequence[str]) -> KernelSketch | None:
        """Return the sketch of a run: its last Func at root, those before it at BLOCK, boundary conditions inlined."""
        locations = self.enumerator.compute_locations
        roots = locations.root_sketches(self.evaluator.bound.funcs[run[-1]])
        if len(roots) != 1:
            return None
        sketch = self._with_boundaries(roots[0])
        for name in reversed(run[:-1]):
            sketch = self._with_boundaries(locations.at_block(sketch, name))
        return None if self.evaluator.kernel_model(sketch).overflow else sketch

    def _with_boundaries(self, sketch: KernelSketch) -> KernelSketch:
        """Return a sketch with the boundary conditions that it reads inlined."""
        locations = self.enumerator.compute_locations
        while True:
            read = sorted(locations.reads(sketch) - sketch.inlined)
            name = next((n for n in read if is_boundary(self.evaluator.bound.funcs[n])), None)
            if name is None:
                return locations.bare(sketch)
            sketch = locations.inlined(sketch, name)

    def _class_of(self, run: Sequence[str]) -> Hashable:
        """Return what the cost of a run's kernel depends on, besides tile sizes."""
        bound = self.evaluator.bound
        position = {name: k for k, name in enumerate(run)}

        def source(name: str) -> Hashable:
            """Return the place of a source: in the run, among the inputs, or in memory."""
            if name in bound.inputs:
                return "input", bound.inputs[name].dtype, bound.inputs[name].shape
            func = bound.funcs[name]
            if is_boundary(func):
                return form_of(func), sources(name)
            return position.get(name, ("memory", func.dtypes, func.region))

        def sources(name: str) -> Hashable:
            return tuple(source(s) for stage in bound.funcs[name].stages for s in stage.sources)

        return tuple((form_of(bound.funcs[name]), sources(name)) for name in run), bound.funcs[run[-1]].is_output

    def _tiled(self, sketch: KernelSketch) -> _Tiles | None:
        """Return the best tile sizes of a kernel; None if all are pruned."""
        starts = self._starts(sketch)
        self.evaluator.evaluate(starts, prune=True)
        costed = [(self.evaluator.verdicts(sketch)[params], params) for _, params in starts]
        legal = sorted((v.cost, params) for v, params in costed if not v.reason and math.isfinite(v.cost))
        kernels = run_batched(self.evaluator, [self.retiler.descend(sketch, params) for _, params in legal[:STARTS]])
        best = min(kernels, key=lambda k: (self.evaluator.verdict(*k).cost, k[1]), default=None)
        if best is None:
            return None
        return _Tiles(best[1], tuple(p.aligned for p in best[0].locations), self.evaluator.verdict(*best).cost)

    def _starts(self, sketch: KernelSketch) -> list[Kernel]:
        """Return the kernel with all tilings of its root, in which fused producers have the threads of the root."""
        layout = self.enumerator.compute_locations.layout(sketch)
        model = self.evaluator.kernel_model(sketch)
        tilings = np.array(self.enumerator.tilings(sketch), np.int64)
        if not len(tilings):
            return []
        width = layout.root_serial.stop
        dims = list(model.grid.dims)
        rows = [tilings[:, :width]]
        for func, _ in layout.members:
            own = [dims.index(d) if d in dims else None for d in self.evaluator.bound.funcs[func].dims]
            columns = [np.ones(len(tilings), np.int64) if k is None else tilings[:, k] for k in own]
            rows.append(np.stack(columns, axis=1))
        table = np.concatenate(rows, axis=1)
        if layout.members:
            extents = model.member_extents(table)
            for func, where in layout.members:
                table[:, where] = np.minimum(table[:, where], extents[func])
        return [(sketch, tuple(row)) for row in table.tolist()]

    def _state(self, base: State, rest: Sequence[int], runs: Sequence[Kernel]) -> State:
        """Return the state with the kernels of the runs, and those of another state that are not of the chain."""
        levels = dict(base.levels)
        pieces = [base.pieces[k] for k in rest]
        for sketch, params in runs:
            pieces.append(PartialKernel(sketch, params, tiled=True))
            levels |= dict.fromkeys(sketch.inlined, Level.INLINE)
            levels |= {location.func: location.level for location in sketch.locations}
            levels[sketch.func] = Level.ROOT
        costs = tuple(self.evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, levels, sum(costs), base.steps)
