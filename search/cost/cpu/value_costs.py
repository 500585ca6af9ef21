"""Costs of the values that a kernel's stages compute, and the indices that vary from lane to lane."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.accesses.accesses import Points
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.schedule.types import Level, StageId
from autosched.search.cost.cpu.lane_access_patterns import UNEVEN, Moves, index_step
from autosched.search.cost.cpu.stage_costs import (
    ONE_POINT,
    CpuStageCosts,
    StageCostCache,
    Work,
    field_values,
    stage_work,
)

LaneDependence = tuple[Mapping[str, Collection[str]], Mapping[str, CpuStageCosts]]
"""Dimensions that vary from lane to lane, and costs, both by Func: the stage's own and those inlined into it."""


class ValueCosts:
    """Costs of the values of a kernel's stages, computed on demand.

    Args:
        model: The kernel's sketch.
        cache: Costs of expressions; entries are added.
    """

    def __init__(self, model: SketchFeaturizer, cache: StageCostCache) -> None:
        self._model = model
        self._cache = cache
        self._moves: dict[tuple[StageId, str | None], Moves] = {}
        self._dependence: dict[tuple[StageId, frozenset[str]], LaneDependence] = {}

    def moves(self, stage: StageId, lane: str | None) -> Moves:
        """Return the step of each dimension of a stage from a lane to the next.

        Args:
            stage: The stage.
            lane: The dimension of neighbouring lanes, of the stage or of its host.
        """
        key = stage, lane
        if key not in self._moves:
            self._moves[key] = self._find_moves(stage, lane)
        return self._moves[key]

    def dependence(self, stage: StageId, dims: Collection[str]) -> LaneDependence:
        """Return the dependence of values on dimensions of a stage, consumers first.

        Returns:
            The dependent dimensions of each Func, and the costs of each over all its calls.
        """
        key = stage, frozenset(dims)
        if key not in self._dependence:
            self._dependence[key] = self._find_dependence(stage, key[1])
        return self._dependence[key]

    def varying_indices(self, stage: StageId, dims: Collection[str]) -> set[tuple[str, int]]:
        """Return the indices that vary with dimensions of a stage, by source and position."""
        return {index for costs in self.dependence(stage, dims)[1].values() for index in costs.moving}

    def total(self, works: Mapping[str, CpuStageCosts]) -> Work:
        """Return the operations of Funcs without boundary condition."""
        counted = [
            field_values(costs.work) for name, costs in works.items() if not self._model.bound.funcs[name].boundary
        ]
        return Work(*(sum(parts) for parts in zip(*counted, strict=True)))

    def per_call(self, stage: StageId, lane: str) -> Mapping[str, Work]:
        """Return the operations of one evaluation of a stage and, for each Func inlined into it, the mean of a call."""
        works, calls = self.dependence(stage, self.moves(stage, lane))[1], self._model.accesses_of(stage).calls
        result = {}
        for name, inlined in works.items():
            parts = () if self._model.bound.funcs[name].boundary else field_values(inlined.work)
            result[name] = Work(*[part / calls.get(name, 1) for part in parts])
        return result

    def bound_stage(self, stage: StageId, name: str) -> BoundStage:
        """Return the stage itself or, for another name, the only stage of a Func inlined into it."""
        return self._model.bound.stage(name, stage.number if name == stage.func else 0)

    def _find_dependence(self, stage: StageId, dims: Collection[str]) -> LaneDependence:
        bound, access = self._model.bound, self._model.accesses_of(stage)
        points = self._model.tables.accesses.distinct_calls(stage.func, stage.number, self._model.sketch.inlined)
        moving: dict[str, set[str]] = {stage.func: set(dims)}
        works: dict[str, CpuStageCosts] = {}
        inlined = {n: k for k, n in enumerate(bound.funcs) if n in access.calls}
        for name in (stage.func, *sorted(inlined, key=inlined.__getitem__, reverse=True)):
            varying = frozenset(moving.get(name, ()))
            works[name] = self._stage_work(self.bound_stage(stage, name), varying, points.get(name, ONE_POINT))
            for source, k in works[name].moving:
                if source in inlined:
                    moving.setdefault(source, set()).add(bound.funcs[source].dims[k])
        return moving, works

    def _stage_work(self, stage: BoundStage, moving: frozenset[str], points: Points) -> CpuStageCosts:
        sketch = self._model.sketch
        loaded = ((name, sketch.location(name)) for _, name in stage.loads)
        private = frozenset(name for name, location in loaded if location and location.level is Level.THREAD)
        key = id(stage), moving, points, private
        if key not in self._cache:
            self._cache[key] = stage, stage_work(stage, moving, points, private)
        return self._cache[key][1]

    def _find_moves(self, stage: StageId, lane: str | None) -> Moves:
        location = self._model.sketch.location(stage.func)
        if location is None or location.level is Level.BLOCK:
            return {} if lane is None else {lane: 1}
        dims = self._model.bound.funcs[stage.func].dims
        result: Moves = {}
        for reader in self._readers(stage.func):  # its host, or other fused producers of that host
            moves = self.moves(reader, lane)
            varying = self.varying_indices(reader, moves)
            for group in self._model.accesses_of(reader).loads:
                if group.source != stage.func:
                    continue
                for k, (dim, row) in enumerate(zip(dims, group.rows, strict=True)):
                    step = UNEVEN * ((stage.func, k) in varying) if row is None else abs(index_step(row, moves))
                    if step:
                        result[dim] = max(result.get(dim, 0), UNEVEN if row is None or row.quotient > 1 else step)
        return result

    def _readers(self, func: str) -> list[StageId]:
        """Return the stages of the kernel that read a Func, except its own."""
        others = (s for s in self._model.rows if s.func != func)
        return [s for s in others if any(g.source == func for g in self._model.accesses_of(s).loads)]
