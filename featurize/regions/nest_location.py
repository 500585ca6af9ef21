"""Location of a nest, with its loop order and storage order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS
from autosched.featurize.sketch.sketch import NestOrder, inner_order, inner_reductions, storage_order, thread_order
from autosched.schedule.types import StageId


class NestLocation(NamedTuple):
    """Location of nests in a kernel.

    Attributes:
        stage: Their stage.
        level: ROOT, BLOCK or THREAD of `autosched.featurize.tables.descriptor_tables`.
        stages: The stages of its Func that share its loops.
        order: Loops in an order that is not the default.
        storage: Dimensions from slowest to fastest in memory; empty for `storage_order`.
        private: Whether they compute a private producer, each thread its elements in registers.
        indexes_registers: Whether they access private producers, so that their loops are unrolled.
    """

    stage: StageId
    level: int
    stages: tuple[StageId, ...]
    order: NestOrder
    storage: tuple[str, ...] = ()
    private: bool = False
    indexes_registers: bool = False

    def slow_first(self, bound: BoundPipeline) -> tuple[str, ...]:
        """Return the Func's dimensions from slowest to fastest in memory."""
        return self.storage or storage_order(bound.funcs[self.stage.func])

    def threads(self, bound: BoundPipeline, dims: Sequence[str]) -> list[int]:
        """Return the positions of a nest's dimensions in the order of threadIdx.x, y, z."""
        return [dims.index(d) for d in thread_order(bound, self.stage.func, dims, self.order.threads)]

    def loop_order(self, bound: BoundPipeline, dims: Sequence[str], width: int) -> list[int]:
        """Return the positions of a nest's loops inside a thread, outermost first.

        Positions are those of `reduction_extents`, followed by ``width`` for the nest's dimensions.
        """
        stage = bound.stage(self.stage.func, self.stage.number)
        terms = inner_reductions(stage, dims)
        column = {name: max(MOST_REDUCTIONS - len(terms) + k, 0) for k, name in enumerate(terms)}
        column |= {name: MOST_REDUCTIONS + k for k, name in enumerate(dims)}
        inner = [column[name] for name in inner_order(stage, dims, self.order.inner)]
        absent = [k for k in range(MOST_REDUCTIONS + width) if k not in inner]
        return list(dict.fromkeys([*(k for k in absent if k < MOST_REDUCTIONS), *inner, *absent]))

    def inside_reductions(self, bound: BoundPipeline, dims: Sequence[str]) -> list[int]:
        """Return 1 for each dimension whose loop is inside all reductions, else 0."""
        inner = inner_order(bound.stage(self.stage.func, self.stage.number), dims, self.order.inner)
        terms = [k for k, name in enumerate(inner) if name not in dims]
        outside = inner[: terms[-1]] if terms else ()
        return [int(d not in outside) for d in dims]

    def innermost(self, bound: BoundPipeline, dims: Sequence[str]) -> int:
        """Return the position of the innermost dimension of code without threads."""
        listed = [d for d in self.order.inner[-1:] if d in dims]
        return dims.index(listed[0]) if listed else [*self.threads(bound, dims), 0][0]
