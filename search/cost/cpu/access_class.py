"""Classification of a stage's accesses by the distance between neighbouring lanes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autosched.featurize.accesses.accesses import AccessGroup, StageAccesses
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.lang.dtypes import float16
from autosched.schedule.cpu_policy import MAX_VECTOR_STEP, SCATTERED_BYTES
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.types import Level, StageId
from autosched.search.cost.cpu.lane_access_patterns import LaneAccesses, Moves, period

LANE_BYTES = 4
NEAR_BYTES = 1 << 19
"""Bytes within which a reread hits a core's own caches."""
MOST_PERMUTED = 16
"""Lanes of 4 bytes in one vector: gcc permutes one long load where lanes lie at most this far apart."""
SCATTERING_LANES = 16
"""Vector length of processors with a scatter instruction (AVX-512)."""


@dataclass(slots=True)
class AccessCounts:
    """Accesses of one evaluation of a stage, by class.

    Attributes:
        narrowest: Bytes of the smallest element that differs from lane to lane.
        wide: Contiguous accesses, in vectors of 4-byte lanes.
        private_wide: Accesses of arrays inside a thread, in the same vectors; these are always contiguous.
        result_wide: Part of `wide` that accesses the stage's own result, once per reduction term.
        private_result_wide: The same part of `private_wide`.
        unit: Contiguous accesses.
        fixed: Accesses that are uniform over the lanes.
        private: Accesses of arrays inside a thread.
        near: Accesses whose lanes lie a few elements apart.
        stride: Largest distance of neighbouring lanes in these, in elements.
        gaps: Loads of these that leave out the last elements between two lanes.
        far: Accesses whose lanes lie further apart, or at no constant distance.
        even: Those of `far` at a constant distance.
        powers: Loads of `even` at a power of two, for which gcc forms no vectors.
        interleaved: Loads of `even` with other loads between two lanes, for which gcc forms no vectors.
        halves: Loads of `even` of float16; gcc forms vectors only if points of a thread share them.
        aligned: Largest power of two that divides the bytes between lanes of a `far` access; 0 if data-dependent.
        array_bytes: Bytes of the largest array in memory with `far` accesses that do not run along a row.
        chosen: Loads from data-dependent rows of large arrays, where the row is the same for all lanes.
        periodic: Accesses under boundary conditions that compute remainders.
        bordered: Whether one of these has elements too narrow for a gather.
        narrow_gathers: Groups of data-dependent accesses of elements too narrow for a gather.
        half_stores: Stores that round to float16.
    """

    narrowest: float = LANE_BYTES
    wide: float = 0.0
    private_wide: float = 0.0
    result_wide: float = 0.0
    private_result_wide: float = 0.0
    unit: float = 0.0
    fixed: float = 0.0
    private: float = 0.0
    near: float = 0.0
    stride: float = 0.0
    gaps: float = 0.0
    far: float = 0.0
    even: float = 0.0
    powers: float = 0.0
    interleaved: float = 0.0
    halves: float = 0.0
    aligned: float = 0.0
    array_bytes: float = 0.0
    chosen: float = 0.0
    periodic: float = 0.0
    bordered: float = 0.0
    narrow_gathers: float = 0.0
    half_stores: float = 0.0


class AccessClassifier:
    """Classifies the accesses of a kernel's stages.

    In all methods, ``moves`` are the steps of a stage's dimensions from a lane to the next. ``wild`` are the indices
    that vary between lanes, by source and position.

    Args:
        model: The kernel's sketch.
    """

    def __init__(self, model: SketchFeaturizer) -> None:
        self._model = model
        self._accesses = LaneAccesses(model)

    def counts(
        self, stage: StageId, access: StageAccesses, moves: Moves, wild: set[tuple[str, int]], periodic: bool
    ) -> AccessCounts:  # fmt: skip
        """Return the accesses of one evaluation of a stage.

        Args:
            stage: The stage.
            access: Its accesses.
            moves: See the class.
            wild: See the class.
            periodic: Whether a boundary condition computes remainders.
        """
        counts, phases = AccessCounts(), self._phases(stage, access, moves, wild)
        for is_store, groups in ((False, access.loads), (True, access.stores)):
            for group in groups:
                size, times = self._model.facts.itemsize(group), float(len(group.offsets))
                if is_store and self._is_half(group):
                    counts.half_stores += times
                if self.is_private(group.source) and None not in group.rows:
                    _add_private(counts, size, times, is_result=group.source == stage.func)
                else:
                    self._add(counts, stage, group, moves, wild, is_store, phases)
                if periodic and not group.everywhere:
                    counts.periodic += times
                    counts.bordered = max(counts.bordered, float(size < LANE_BYTES))
        return counts

    def step(self, stage: StageId, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> int | None:
        """Return the distance of lanes, see `LaneAccesses.step`; sums inside threads are contiguous."""
        is_sum = group.source == stage.func and stage.number > 0 and self._has_private_tile(stage)
        return 1 if is_sum and moves else self._accesses.step(group, moves, wild)

    def is_uniform(self, group: AccessGroup, dim: str, wild: set[tuple[str, int]]) -> bool:
        """Whether accesses do not depend on a dimension."""
        return self._accesses.step(group, {dim: 1}, wild) == 0

    def fastest(self, source: str) -> int:
        """Return the dimension of an array whose neighbours are adjacent in memory."""
        return self._accesses.fastest(source)

    def is_private(self, func: str) -> bool:
        """Whether a Func lies in an array inside each thread."""
        location = self._model.sketch.location(func)
        return location is not None and location.level is Level.THREAD

    def scattered_stores(
        self, stage: StageId, access: StageAccesses, moves: Moves, wild: set[tuple[str, int]]
    ) -> tuple[int, bool]:  # fmt: skip
        """Return the stores at data-dependent places that run lane by lane, and whether they prevent all vectors.

        Processors with a scatter instruction have none of the former. gcc forms no vectors at all of loops that also
        touch narrow elements far from each other, as these get no pragma (`is_unit_stride`, `is_scatter`).
        """
        scattered = sum(None in g.rows and self.step(stage, g, moves, wild) is None for g in access.stores)
        steps = [(self._model.facts.itemsize(g), self.step(stage, g, moves, wild)) for g in access.loads]
        narrow = any(size < SCATTERED_BYTES for size, _ in steps)
        far = any(step is not None and step > MAX_VECTOR_STEP for _, step in steps)
        one_by_one = scattered * (self._model.tables.target.warp_size < SCATTERING_LANES)
        return one_by_one, scattered > 0 and narrow and far

    def _add(
        self, counts: AccessCounts, stage: StageId, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]],
        is_store: bool, phases: int,
    ) -> None:  # fmt: skip
        """Add the accesses of a group outside private arrays, in a lane loop that is unrolled by ``phases`` lanes."""
        size, times = self._model.facts.itemsize(group), float(len(group.offsets))
        result_wide = times * size / LANE_BYTES if group.source == stage.func else 0.0
        step = self.step(stage, group, moves, wild)
        if phases > 1 and (at := self._accesses.quotient(group, moves, wild)):
            times, step = self._accesses.distinct(group, at, phases) / phases, at[0] * phases // at[1]
        elif step:
            step *= phases
        is_load = not is_store
        if is_load and None in group.rows and step is not None and self._bytes_in_memory(group.source) > NEAR_BYTES:
            counts.chosen += times
        if step == 0:
            counts.fixed += times
            return
        counts.narrowest = min(counts.narrowest, size)
        if step is None or step > MAX_VECTOR_STEP:
            self._add_far(counts, group, moves, wild, is_load, step, times)
        elif step > 1:
            counts.near += times
            counts.stride = max(counts.stride, step)
            counts.gaps += times * (is_load and self._accesses.has_gaps(group, step))
        else:
            counts.wide += times * size / LANE_BYTES
            counts.unit += times
            counts.result_wide += result_wide

    def _add_far(
        self, counts: AccessCounts, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]],
        is_load: bool, step: int | None, times: float,
    ) -> None:  # fmt: skip
        """Add accesses whose lanes lie ``step`` elements apart, too far for vectors, or at no constant distance."""
        size = self._model.facts.itemsize(group)
        counts.far += times
        if step is None:
            counts.narrow_gathers += size < LANE_BYTES
        else:
            counts.even += times
        if step is not None and is_load:
            is_power = step & -step == step > MOST_PERMUTED * LANE_BYTES // size
            counts.powers += times * is_power
            counts.halves += times * self._is_half(group)
            counts.interleaved += times * (not is_power and self._accesses.has_others_between(group, step))
        if not self._accesses.in_row(group, moves, wild):
            counts.array_bytes = max(counts.array_bytes, self._bytes_in_memory(group.source))
        counts.aligned = max(counts.aligned, self._accesses.alignment(group, moves))

    def _phases(self, stage: StageId, access: StageAccesses, moves: Moves, wild: set[tuple[str, int]]) -> int:
        """Return the period by which a stage's lane loop is unrolled; 1 where it is not."""
        groups = [g for g in (*access.loads, *access.stores) if None in g.rows or not self.is_private(g.source)]
        at = [self._accesses.quotient(g, moves, wild) for g in groups]
        quotients = [q for q in at if q]
        if not quotients:  # as in most stages
            return 1
        others = [g for g, q in zip(groups, at, strict=True) if not q]
        return period([self.step(stage, g, moves, wild) for g in others], quotients)

    def _is_half(self, group: AccessGroup) -> bool:
        bound = self._model.bound
        func = bound.funcs.get(group.source)
        return (bound.inputs[group.source].dtype if func is None else func.dtypes[group.component]) == float16

    def _has_private_tile(self, stage: StageId) -> bool:
        """Whether an update accumulates in an array inside each thread that is written to memory at the end."""
        bound = self._model.bound
        return is_private_tile(bound.funcs[stage.func], bound.stage(stage.func, stage.number))

    def _bytes_in_memory(self, source: str) -> float:
        """Return the size of an array in memory; 0 for one in a buffer."""
        bound = self._model.bound
        if source in bound.inputs:
            return float(prod(bound.inputs[source].shape) * bound.inputs[source].dtype.bytes_)
        func = bound.funcs[source]
        in_memory = self._model.sketch.location(source) is None
        return float(prod(func.extents) * max(d.bytes_ for d in func.dtypes)) if in_memory else 0.0


def _add_private(counts: AccessCounts, size: int, times: float, *, is_result: bool) -> None:
    """Add accesses of an array inside a thread."""
    vectors = times * size / LANE_BYTES
    counts.private_wide += vectors
    counts.private_result_wide += vectors if is_result else 0.0
    counts.private += times
    counts.narrowest = min(counts.narrowest, size)
