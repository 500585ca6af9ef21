"""Unrolling of reductions that read tables, such as the half-heights of a disc.

A table read in a loop makes every index that depends on it data: kernels load the entry, compute positions, shifts and
clamps for it, and read whatever slice of an array it selects, so that all slices are stored. With the entries known,
positions are constants, and each slice is an ordinary Func that its consumers may inline or compute for their tiles.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.expressions.table_values import table_value
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_rewrites import ReductionUnrolling
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions, unrolling_error
from autosched.lang.expr import Load, walk

LEAST_TERMS = 4
"""Least iterations of an unrolled loop."""
MOST_UNROLLINGS = 4
"""Most unrolled reductions of one rewrite."""


def unrolling_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with all reductions over tables of constants unrolled; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
    """
    unrolled = bound
    for func in bound.funcs.values():
        for stage in func.stages[1:2]:
            if len(unrolled.unrollings) == MOST_UNROLLINGS or len(stage.reductions) != 1:
                continue
            (loop,) = stage.reductions
            if loop.extent < LEAST_TERMS or not _selects_by_table(bound, stage, loop.name):
                continue
            chosen = ReductionUnrolling(func.name, 1, loop.name)
            if func.name in unrolled.funcs and not unrolling_error(unrolled, chosen):
                unrolled = unroll_reductions(bound, (*unrolled.unrollings, chosen))
    return [unrolled] if unrolled.unrollings else []


def _selects_by_table(bound: BoundPipeline, stage: BoundStage, loop: str) -> bool:
    """Whether an index of a load depends on a table of constants that is read at the loop."""
    first = stage.loop(loop).lo
    entries = [e for load, _ in stage.loads for i in load.indices for e in walk(i) if isinstance(e, Load)]
    for entry in entries:
        source = stage.names[id(entry.source)]
        indices = [stage.index_of(i) for i in entry.indices]
        if source == stage.func or source in bound.inputs or {n for i in indices for n in ix.loop_vars(i)} != {loop}:
            continue
        point = [ix.substitute(i, {loop: first}) for i in indices]
        if all(isinstance(i, int) for i in point):
            return table_value(bound, source, entry.component, tuple(map(int, point))) is not None
    return False
