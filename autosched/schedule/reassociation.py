"""Floating-point reductions that a schedule reassociates: it combines terms in another order than the pipeline."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.lang.expr import Binary, Call, walk
from autosched.lang.pipeline import Pipeline
from autosched.schedule.kernel.warp_reduction import accumulation_of, warp_lane_count
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule

SELECTIONS = frozenset({"min", "max"})
"""Operators without rounding: their order changes only the sign of a zero and the payload of a NaN."""
_SHOWS_SIGN = frozenset({"truediv", "floordiv", "mod"})
_KEEPS_ZERO = frozenset({"sqrt", "floor", "ceil", "trunc", "round", "abs"})


def reassociated_operators(bound: BoundPipeline, schedule: Schedule) -> frozenset[str]:
    """Return the operators of the floating-point reductions that are warp reductions.

    Rfactors do not count: the loops of the pipeline that `apply_rfactors` returns have their order.

    Args:
        bound: The pipeline.
        schedule: A legal schedule.
    """
    operators: set[str] = set()
    rewritten = apply_rewrites(bound, schedule)
    for kernel in schedule.kernels:
        with_caches = insert_cache_reads(rewritten, kernel.cache_reads)
        for tiling in kernel.tilings():
            lanes = warp_lane_count(with_caches, tiling)
            accumulation = accumulation_of(with_caches, tiling.stage) if lanes > 1 else None
            if accumulation is not None:
                dtypes = with_caches.funcs[tiling.stage.func].dtypes
                operators |= {op for op, d in zip(accumulation.operators, dtypes, strict=True) if d.is_float}
    return frozenset(operators)


def shows_zero_signs(pipeline: Pipeline) -> bool:
    """Whether the sign of a floating-point zero can influence more than the sign of another zero."""
    for f in pipeline.funcs:
        for definition in f.definitions:
            for e in walk(*definition.values, *definition.indices):
                if isinstance(e, Binary) and e.op in _SHOWS_SIGN and e.dtype.is_float:
                    return True
                if isinstance(e, Call) and any(a.dtype.is_float for a in e.args) and e.name not in _KEEPS_ZERO:
                    return True
    return False
