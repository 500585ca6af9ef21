"""Analysis of a kernel sketch: its nests in order, their accesses, and lifetimes of buffers."""

from __future__ import annotations

from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.accesses.accesses import AccessGroup, AccessRow, AccessTable, StageAccesses
from autosched.featurize.sketch.sketch import KernelSketch, location_storage, member_dims, tiled_dims
from autosched.schedule.kernel.bank_conflicts import column_accessed_from
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.types import Level, StageId


class SketchAnalysis:
    """Facts about a sketch that do not depend on tile sizes.

    Args:
        bound: The pipeline.
        sketch: The sketch.
        table: Accesses of the pipeline's stages.

    Attributes:
        rows: Stages with loops: those of the root, of block-level, then of thread-level producers.
        inlined: Inlined Funcs.
        accesses: Accesses of one evaluation of each stage.
        dims: Dimensions of each row outside reductions, outermost first.
        lifetimes: First and last step that access each block-level producer's buffer.
        carriers: Stages with thread loops: all but those of thread-level producers.
        overflow: Whether a stage evaluates inlined Funcs at more points than are enumerated.
        earlier: For each stage the earlier ones of the same threads without a barrier between them, in order.
    """

    def __init__(self, bound: BoundPipeline, sketch: KernelSketch, table: AccessTable) -> None:
        self.bound = bound
        self.sketch = sketch
        self.rows: tuple[StageId, ...] = self._stage_rows()
        self.inlined = tuple(f for f in bound.funcs if f in sketch.inlined)
        self.accesses: dict[StageId, StageAccesses] = {s: table.of(s.func, s.number, sketch.inlined) for s in self.rows}
        self.dims: list[tuple[str, ...]] = [self._divided_loops(s) for s in self.rows]
        self.lifetimes = self._lifetimes()
        threads = {p.func for p in sketch.locations if p.level is Level.THREAD}
        self.carriers = tuple(s for s in self.rows if s.func not in threads)
        self.overflow = any(a.overflow for a in self.accesses.values())
        self._by_columns: dict[tuple[str | None, ...], frozenset[str]] = {}
        self.earlier = self._earlier()

    def _divided_loops(self, stage: StageId) -> tuple[str, ...]:
        at = self.sketch.location(stage.func)
        return tiled_dims(self.bound, self.sketch.stages) if at is None else member_dims(self.bound, stage, at.level)

    def _stage_rows(self) -> tuple[StageId, ...]:
        locations = self.sketch.locations
        blocks = [s for location in locations if location.level is Level.BLOCK for s in self.stages_of(location.func)]
        threads = [
            s
            for location in reversed(locations)
            if location.level is Level.THREAD
            for s in self.stages_of(location.func)
        ]
        return (*self.sketch.stages, *blocks, *threads)

    def stages_of(self, func: str) -> list[StageId]:
        """Return the stages of a Func with a nonempty domain."""
        return [StageId(func, s.number) for s in self.bound.funcs[func].nonempty_stages]

    def itemsize(self, group: AccessGroup) -> int:
        """Return the bytes of an element of the array that a group accesses."""
        if group.source in self.bound.inputs:
            return self.bound.inputs[group.source].dtype.bytes_
        return self.bound.funcs[group.source].dtypes[group.component].bytes_

    def has_shared_rows(self, func: str) -> bool:
        """Whether a private sliding window has rows in shared memory."""
        window = self.bound.funcs[func].window
        return window is not None and window[1] > 0

    def own_and_moved(self, group: AccessGroup) -> tuple[AccessGroup, ...]:
        """Return a group of loads of a private sliding window: those of the thread's own point, and all others."""
        own = tuple(o for o in group.offsets if self._is_own(group, o))
        moved = tuple(o for o in group.offsets if o not in own)
        return tuple(replace(group, offsets=part) for part in (own, moved) if part)

    def are_own(self, group: AccessGroup) -> bool:
        """Whether all loads of a group are of the thread's own point, in any row of a sliding window."""
        return all(self._is_own(group, o) for o in group.offsets)

    def _is_own(self, group: AccessGroup, offsets: tuple[int, ...]) -> bool:
        source = self.bound.funcs[group.source]
        others = (k for k, d in enumerate(source.dims) if d != source.slides)
        return all(_is_dim(group.rows[k]) and offsets[k] == 0 for k in others)

    def _lifetimes(self) -> dict[str, tuple[int, int]]:
        """Return the first and last step that access each block-level producer's buffer."""
        locations = [s.func for s in self.sketch.locations if s.level is Level.BLOCK]
        steps = [*locations, self.sketch.func]
        private = {s.func for s in self.sketch.locations if s.private and not self.has_shared_rows(s.func)}
        lifetimes: dict[str, tuple[int, int]] = {
            name: (k, k) for k, name in enumerate(locations) if name not in private
        }
        for k, name in enumerate(steps):
            for source in self._reads(name):
                if source in lifetimes:
                    lifetimes[source] = lifetimes[source][0], max(lifetimes[source][1], k)
        return lifetimes

    def _earlier(self) -> dict[StageId, tuple[StageId, ...]]:
        """Return ``earlier``."""
        earlier: dict[StageId, tuple[StageId, ...]] = {}
        blocks = [s.func for s in self.sketch.locations if s.level is Level.BLOCK]
        for stages in (*(self.stages_of(f) for f in blocks), self.sketch.stages):
            func = self.bound.funcs[stages[0].func]
            private = all(is_private_tile(func, self.bound.stage(s.func, s.number)) for s in stages)
            step: list[StageId] = []
            for s in stages:
                step = step if private else []
                self._add_step(s, step, earlier)
        return earlier

    def _add_step(self, stage: StageId, step: list[StageId], earlier: dict[StageId, tuple[StageId, ...]]) -> None:
        """Append a nest, after the thread-level producers inside it, to a step without barriers."""
        hosted = [s for s in self.sketch.locations if s.level is Level.THREAD and s.host == stage]
        for location in sorted(hosted, key=lambda s: (s.enclosing, s.each_term)):
            for inner in self.stages_of(location.func):
                self._add_step(inner, step, earlier)
        earlier[stage] = tuple(step)
        step.append(stage)

    def _reads(self, func: str) -> set[str]:
        """Return the sources of a step's stages, those of thread-level producers inside them included."""
        threads = {s.func for s in self.sketch.locations if s.level is Level.THREAD}
        sources: set[str] = set()
        queue = [s for s in self.rows if s.func == func]
        while queue:
            for g in self.accesses[queue.pop()].loads:
                if g.source not in sources:
                    sources.add(g.source)
                    queue += [s for s in self.rows if s.func == g.source and g.source in threads]
        return sources

    def across(self, lanes: tuple[str | None, ...]) -> frozenset[str]:
        """Return block-level producers accessed by columns (`autosched.schedule.kernel.bank_conflicts`).

        Args:
            lanes: The dimension of threadIdx.x, if any, for each of `carriers`.
        """
        if lanes not in self._by_columns:
            locations = self.sketch.locations
            shared = {
                s.func: location_storage(self.bound.funcs[s.func], s)
                for s in locations
                if s.level is Level.BLOCK and (not s.private or self.has_shared_rows(s.func))
            }
            shared = {name: order for name, order in shared.items() if order}
            transparent = self.sketch.inlined | {s.func for s in locations if s.level is Level.THREAD}
            chosen = dict(zip(self.carriers, lanes, strict=True))
            self._by_columns[lanes] = column_accessed_from(self.bound, shared, transparent, chosen)
        return self._by_columns[lanes]


def _is_dim(row: AccessRow | None) -> bool:
    """Whether an index is a dimension of the reader, but for a constant."""
    return row is not None and row.quotient == 1 and [c for _, c in row.coefficients] == [1]
