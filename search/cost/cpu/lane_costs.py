"""Costs of one evaluation of a stage on a CPU, by the access pattern of the lanes of an inner loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.accesses.accesses import AccessGroup, StageAccesses
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.schedule.cpu_policy import MAX_VECTOR_STEP
from autosched.schedule.types import Level, StageId
from autosched.search.cost.boundary_conditions import Boundary, boundaries
from autosched.search.cost.cpu.access_class import LANE_BYTES, NEAR_BYTES, AccessClassifier, AccessCounts
from autosched.search.cost.cpu.lane_access_patterns import UNEVEN, Moves, index_step, iteration_distance
from autosched.search.cost.cpu.point_conditions import point_ranges
from autosched.search.cost.cpu.stage_costs import StageCostCache, Work, field_values, uses_position
from autosched.search.cost.cpu.value_costs import ValueCosts

__all__ = ["LANE_BYTES", "NEAR_BYTES", "LaneCosts", "LaneWorks"]

Floats = NDArray[np.float64]

FEW_LANES = 16
"""Most lanes at an end of a row that a condition makes scalar: more of them form vectors of their own."""
HALF_STORE = 36.0
"""Operations that round a number to the bits of a float16."""


@dataclass(slots=True)
class RowEnds:
    """Lanes at the ends of a row of the whole result that have a scalar loop of their own.

    Attributes:
        low: Lanes at the beginning whose indices are clamped, or that a condition on the point separates.
        high: The same at the end.
        whole: Lanes of the row.
    """

    low: float = 0.0
    high: float = 0.0
    whole: float = 1.0


@dataclass(slots=True)
class MemoryBytes:
    """Bytes of one evaluation of a stage.

    Attributes:
        inputs: Share of the bytes read from arrays in memory that are the pipeline's inputs.
        input_row: Bytes of the shortest row of these inputs.
        stored: Bytes of the result.
    """

    inputs: float = 0.0
    input_row: float = 0.0
    stored: float = 0.0


@dataclass(slots=True)
class ReductionChains:
    """Dependences between the terms of a reduction.

    Attributes:
        terms: Evaluations of each point; more than one in a reduction.
        chained: ``terms`` for a floating-point sum into one element, where each addition waits for the one before; 0
            otherwise.
        scans: Reciprocal of the number of terms between a store and the load of its value at another point, as in
            running sums; 0 without such a dependence.
    """

    terms: float = 1.0
    chained: float = 0.0
    scans: float = 0.0


@dataclass(slots=True)
class LaneCosts:
    """Costs of one evaluation of a stage.

    Attributes:
        values: Operations. ``serial`` also counts accesses and stores that keep gcc from forming vectors.
        accesses: Accesses by class.
        ends: Lanes with a scalar loop of their own.
        memory: Bytes.
        chains: Dependences of reduction terms.
        scattered_stores: Stores at data-dependent places that run lane by lane, after a loop that computes vectors
            (`autosched.lower.passes.cpu.split_scatter_loop`).
    """

    values: Work
    accesses: AccessCounts
    ends: RowEnds
    memory: MemoryBytes
    chains: ReductionChains
    scattered_stores: float = 0.0

    def to_row(self) -> tuple[float, ...]:
        """Return the values of `COLUMNS`."""
        parts = (self.values, self.accesses, self.ends, self.memory, self.chains)
        return (*(value for part in parts for value in field_values(part)), self.scattered_stores)


COLUMNS = (
    *(f.name for part in (Work, AccessCounts, RowEnds, MemoryBytes, ReductionChains) for f in fields(part)),
    "scattered_stores",
)
"""Names of all fields of a `LaneCosts`, those of its parts included."""


NestContext = tuple[int, tuple[tuple[str, int], ...], tuple[tuple[str, bool, tuple[str, ...]], ...]]
"""Everything that the costs of a stage depend on: ``id`` of its accesses, moves of its dimensions, and for each fused
producer that it accesses whether it lies inside each thread, and its storage order."""


class LaneWorks:
    """Lane costs of a kernel's stages, computed on demand.

    Args:
        model: The kernel's sketch.
        cache: See `ValueCosts`.
    """

    def __init__(self, model: SketchFeaturizer, cache: StageCostCache) -> None:
        self._model = model
        self._values = ValueCosts(model, cache)
        self._accesses = AccessClassifier(model)

    def context(self, stage: StageId, lane: str | None) -> NestContext:
        """Return all that the results of `of` depend on; the arguments are those of `of`."""
        access, sketch = self._model.accesses_of(stage), self._model.sketch
        fused = [
            (source, location.level is Level.THREAD, location.storage or ())
            for source in dict.fromkeys([g.source for g in (*access.loads, *access.stores)])
            if (location := sketch.location(source)) is not None
        ]
        return id(access), tuple(self._values.moves(stage, lane).items()), tuple(fused)

    def row_of(self, stage: StageId, lane: str | None) -> Floats:
        """Return the result of `of` as ``float64[COLUMNS]``."""
        return np.array(self.of(stage, lane).to_row(), np.float64)

    def of(self, stage: StageId, lane: str | None) -> LaneCosts:
        """Return the costs of one evaluation of a stage.

        Args:
            stage: The stage.
            lane: The dimension of neighbouring lanes, of the stage or of its host.
        """
        access, moves = self._model.accesses_of(stage), self._values.moves(stage, lane)
        dependent, works = self._values.dependence(stage, moves)
        wild = {index for work in works.values() for index in work.moving}
        active = self._boundaries(dependent)
        periodic = any(b.remainder for b in active)
        counts = self._accesses.counts(stage, access, moves, wild, periodic)
        scattered, prevents_vectors = self._accesses.scattered_stores(stage, access, moves, wild)
        uneven = any(m >= UNEVEN for m in moves.values())
        values = self._values.total(works)
        values = replace(
            values,
            arithmetic=values.arithmetic + HALF_STORE * counts.half_stores,
            scalar=values.scalar + HALF_STORE * counts.half_stores,
            serial=values.serial + uneven + counts.narrow_gathers + prevents_vectors,
        )
        ends = self._ends(stage, access, moves, {name: dependent.get(name, ()) for name in works})
        if not periodic:
            for b in (b for b in active if b.folds):
                below, above = (ceil(n * (ends.whole - 1) / max(b.last, 1)) for n in (b.below, b.above))
                ends.low = max(ends.low, float(below) if below <= FEW_LANES else 0.0)
                ends.high = max(ends.high, float(above) if above <= FEW_LANES else 0.0)
            self._clamp_ends(ends, stage, access, moves)
        return LaneCosts(values, counts, ends, self._memory(access), self._chains(stage, access), float(scattered))

    def boundaries_along(self, stage: StageId, lane: str) -> list[Boundary]:
        """Return the boundary conditions that act in a stage along a dimension; the arguments are those of `of`."""
        return self._boundaries(self._values.dependence(stage, self._values.moves(stage, lane))[0])

    def evenly_far(self, stage: StageId, lane: str, dims: Sequence[str]) -> list[tuple[int, list[bool]]]:
        """Return the loads whose lanes lie at a constant distance that is too far for vectors.

        Args:
            stage: The stage.
            lane: The dimension of neighbouring lanes, see `of`.
            dims: Dimensions of the stage.

        Returns:
            For each array the number of loads, and whether they are uniform along each of the dimensions.
        """
        moves, wild = self._values.moves(stage, lane), self._varying(stage, lane)
        result = []
        for group in self._model.accesses_of(stage).loads:
            if self._accesses.is_private(group.source) and None not in group.rows:
                continue
            if (self._accesses.step(stage, group, moves, wild) or 0) > MAX_VECTOR_STEP:
                same = [self._accesses.is_uniform(group, d, self._values.varying_indices(stage, {d})) for d in dims]
                result.append((len(group.offsets), same))
        return result

    def step(self, stage: StageId, group: AccessGroup, lane: str) -> int | None:
        """Return the distance of neighbouring lanes in elements; None where it is no constant.

        Args:
            stage: The stage.
            group: Accesses of it.
            lane: The dimension of neighbouring lanes, see `of`.
        """
        return self._accesses.step(stage, group, self._values.moves(stage, lane), self._varying(stage, lane))

    def collapses(self, stage: StageId, lane: str, inner: str, count: int) -> bool:
        """Return whether a loop over ``count`` points and its lane loop are one (`lower.passes.cpu.collapse_lanes`).

        That is where all accesses are as far apart along the lanes as ``count`` along the points, as of images whose
        channels come last, and values depend on both dimensions through loads alone.

        Args:
            stage: The stage.
            lane: The dimension of neighbouring lanes.
            inner: The dimension of the points.
            count: Points of a lane.
        """
        access = self._model.accesses_of(stage)
        stages = [stage, *(StageId(name, 0) for name in access.calls if not self._model.bound.funcs[name].boundary)]
        if any(uses_position(self._model.bound.stage(*s), (lane, inner) if s == stage else None) for s in stages):
            return False
        for group in (*access.loads, *access.stores):
            coefficients = [c for row in group.rows if row for loop, c in row.coefficients if loop in (lane, inner)]
            of_lane, of_point = (self.step(stage, group, dim) for dim in (lane, inner))
            if min(coefficients, default=0) < 0 or of_point is None or of_lane != count * of_point:
                return False
        return True

    def evaluated(self, stage: StageId, lane: str) -> Mapping[str, Work]:
        """Return the operations of one evaluation of a stage and, for each Func inlined into it, the mean of a call."""
        return self._values.per_call(stage, lane)

    def varying(self, stage: StageId, dim: str) -> Work:
        """Return the operations of one evaluation, with vectors along a dimension: the others are uniform along it."""
        return self._values.total(self._values.dependence(stage, {dim})[1])

    def fastest(self, source: str) -> int:
        """Return the dimension of an array whose neighbours are adjacent in memory."""
        return self._accesses.fastest(source)

    def _varying(self, stage: StageId, lane: str | None) -> set[tuple[str, int]]:
        """Return the indices that differ from lane to lane, by source and position."""
        return self._values.varying_indices(stage, self._values.moves(stage, lane))

    def _boundaries(self, dependent: Mapping[str, Collection[str]]) -> list[Boundary]:
        """Return the boundary conditions that act along dimensions of Funcs, by name."""
        funcs = self._model.bound.funcs
        return [b for name, dims in dependent.items() for b in boundaries(funcs[name]) if b.dim in dims]

    def _ends(
        self, stage: StageId, access: StageAccesses, moves: Moves, dependent: Mapping[str, Collection[str]]
    ) -> RowEnds:  # fmt: skip
        """Return the lanes that conditions on the point separate from a row of the whole result."""
        funcs = self._model.bound.funcs
        func, ends = funcs[stage.func], RowEnds()
        ends.whole = float(max((func.extents[k] for k, d in enumerate(func.dims) if d in moves), default=1))
        for name, dims in dependent.items():
            if funcs[name].boundary is None:
                self._add_conditions(ends, self._values.bound_stage(stage, name), dims)
        return ends

    def _add_conditions(self, ends: RowEnds, stage: BoundStage, dims: Collection[str]) -> None:
        func = self._model.bound.funcs[stage.func]
        ranges = dict(zip(func.dims, func.region, strict=True))
        for dim, least, most in point_ranges(stage):
            if dim in dims and dim in ranges:
                first, last = ranges[dim]
                low, high = least - first, last - most
                ends.low = max(ends.low, low if low <= FEW_LANES else 0)
                ends.high = max(ends.high, high if high <= FEW_LANES else 0)

    def _clamp_ends(self, ends: RowEnds, stage: StageId, access: StageAccesses, moves: Moves) -> None:
        """Add the lanes at either end of a row of the whole result that load from beyond an array."""
        bound = self._model.bound
        func = bound.funcs[stage.func]
        ranges = dict(zip(func.dims, func.region, strict=True))
        for group in (g for g in access.loads if not g.everywhere):
            source = bound.funcs.get(group.source)
            for k, row in enumerate(group.rows):
                step = 0 if row is None else index_step(row, moves)
                if not group.clamped[k] or row is None or row.quotient > 1 or step <= 0:
                    continue
                terms = [(c, *ranges[loop]) for loop, c in row.coefficients if loop in moves and loop in ranges]
                least, most = (sum(c * at[end] for c, *at in terms) for end in (0, 1))
                low, high = source.region[k] if source else (0, bound.inputs[group.source].shape[k] - 1)
                for offset in group.offsets:
                    ends.low = max(ends.low, -((least + offset[k] - low) // step))
                    ends.high = max(ends.high, -((high - most - offset[k]) // step))

    def _memory(self, access: StageAccesses) -> MemoryBytes:
        inputs, result = self._model.bound.inputs, MemoryBytes()
        from_inputs = from_funcs = 0.0
        for group in access.loads:
            size, times = self._model.facts.itemsize(group), len(group.offsets)
            if group.source in inputs:
                row = size * (inputs[group.source].shape or (1,))[-1]
                result.input_row = min(result.input_row or row, row)
                from_inputs += size * times
            elif self._model.sketch.location(group.source) is None:
                from_funcs += size * times
        result.inputs = from_inputs / max(from_inputs + from_funcs, 1)
        result.stored = float(sum(self._model.facts.itemsize(g) * len(g.offsets) for g in access.stores))
        return result

    def _chains(self, stage: StageId, access: StageAccesses) -> ReductionChains:
        bound = self._model.bound
        reductions = bound.stage(stage.func, stage.number).reductions
        terms = float(prod(d.extent for d in reductions))
        loops = [d for d in reductions if d.extent > 1]
        names = {d.name for d in loops}
        rows = [row for g in access.loads if g.source == stage.func for row in g.rows]
        moves = any(row is None or any(loop in names for loop, _ in row.coefficients) for row in rows)
        waits = bool(loops) and not moves and bound.funcs[stage.func].dtypes[0].is_float
        distances = [
            iteration_distance(store, load, loops[-1].name)
            for store in access.stores for load in access.loads if loops and load.source == stage.func
        ]  # fmt: skip
        scans = max((1 / n for n in distances if 0 < n < loops[-1].extent), default=0.0)
        return ReductionChains(terms, terms * waits, scans)
