"""Operations and loads of one evaluation of a stage, inlined Funcs included (section 4.2, costs of a stage)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.operation_count import operations
from autosched.featurize.accesses.accesses import AccessGroup, AccessTable
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import StageId

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

COALESCED_BYTES = 64
"""Limit of the benefit from consecutive loads (section 4.2: "capped by the maximum transfers that can be issued per
global transaction"); the number is that of `analyze_group` in HalideAutoGPU."""


@dataclass(frozen=True, slots=True)
class GroupRead:
    """Loads of one source by one evaluation of a stage.

    Attributes:
        source: The Func or input.
        count: Number of loads; those of an inlined Func count once per evaluation of it.
        itemsize: Bytes of an element.
        stride: Elements between the addresses of neighbouring threads: 0 for a uniform load, infinite for different
            rows and for data-dependent indices.
    """

    source: str
    count: float
    itemsize: int
    stride: float

    def consecutive(self, lanes: Ints) -> Floats:
        """Return the number of these loads per transaction, ``float64[N]``, at least 1 (Listing 1, line 4).

        Args:
            lanes: ``int64[N]``, neighbouring threads.
        """
        most = max(COALESCED_BYTES / self.itemsize, 1.0)
        if self.stride == 0:
            return np.full(len(lanes), most)
        return np.maximum(np.minimum(lanes, most / max(self.stride, 1.0)), 1.0)


@dataclass(frozen=True, slots=True)
class GroupStageWork:
    """One evaluation of a stage: arithmetic operations, and loads from all sources except the stage's own Func."""

    arithmetic: float
    reads: tuple[GroupRead, ...]


@dataclass
class WorkOfStages:
    """Work of a pipeline's stages for any choice of inlined Funcs; results are cached.

    Args:
        bound: The pipeline.
    """

    bound: BoundPipeline
    accesses: AccessTable = field(init=False)
    _cache: dict[tuple[StageId, str | None, frozenset[str]], GroupStageWork] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.accesses = AccessTable(self.bound)

    def of(self, stage: StageId, lane: str | None, inlined: frozenset[str]) -> GroupStageWork:
        """Return the work of one evaluation of a stage.

        Args:
            stage: The stage.
            lane: The loop of neighbouring threads, if any.
            inlined: Inlined Funcs.
        """
        key = stage, lane, inlined
        if key not in self._cache:
            self._cache[key] = self._work(stage, lane, inlined)
        return self._cache[key]

    def _work(self, id_: StageId, lane: str | None, inlined: frozenset[str]) -> GroupStageWork:
        """As `of`, without its cache."""
        stage = self.bound.stage(id_.func, id_.number)
        calls = inlined_calls(self.bound, [id_], set(inlined))
        evaluated = [(stage, 1), *((self.bound.funcs[f].stages[0], n) for f, n in calls.items())]
        loads: dict[str, float] = {}
        for s, times in evaluated:
            for source, n in s.load_counts.items():
                if source not in inlined and source != id_.func:
                    loads[source] = loads.get(source, 0) + n * times
        groups = self.accesses.of(id_.func, id_.number, inlined).loads
        reads = []
        for source, count in loads.items():
            of_source = [g for g in groups if g.source == source]
            distinct = sum(len(g.offsets) for g in of_source)
            for g in of_source:
                share = len(g.offsets) / distinct
                reads.append(GroupRead(source, count * share, self._itemsize(source, g.component), _stride(g, lane)))
            if not of_source:  # the enumeration of accesses was cut short
                reads.append(GroupRead(source, count, self._itemsize(source, 0), math.inf))
        return GroupStageWork(float(sum(operations(s) * times for s, times in evaluated)), tuple(reads))

    def _itemsize(self, source: str, component: int) -> int:
        """Return the bytes of an element of a source."""
        if source in self.bound.inputs:
            return self.bound.inputs[source].dtype.bytes_
        return self.bound.funcs[source].dtypes[component].bytes_


def _stride(group: AccessGroup, lane: str | None) -> float:
    """Return the distance in elements between the addresses of neighbouring threads."""
    if not group.is_affine:
        return math.inf
    steps = [0.0 if r is None else abs(dict(r.coefficients).get(lane or "", 0)) / r.quotient for r in group.rows]
    if any(steps[:-1]):
        return math.inf
    return steps[-1] if steps else 0.0
