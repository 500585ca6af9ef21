"""Floating-point reductions whose terms a schedule combines in another order than the loops of the pipeline."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.lang.expr import Binary, Call, walk
from autosched.lang.pipeline import Pipeline
from autosched.schedule.kernel.warp_reduction import accumulation_of, warp_lane_count
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule

SELECTIONS = frozenset({"min", "max"})
"""Operators that round nothing: in any order they give the same but for the sign of zero and the payload of a NaN."""
_SHOWS_SIGN = frozenset({"truediv", "floordiv", "mod"})
_KEEPS_ZERO = frozenset({"sqrt", "floor", "ceil", "trunc", "round", "abs"})


def reassociated_operators(bound: BoundPipeline, schedule: Schedule) -> frozenset[str]:
    """Return the operators of floating-point reductions whose terms lanes share.

    Reductions in pieces are not among them: `apply_rfactors` has the pipeline whose loops are in their order.

    Args:
        bound: The pipeline.
        schedule: A legal schedule.
    """
    found: set[str] = set()
    whole = apply_rewrites(bound, schedule)
    for kernel in schedule.kernels:
        view = insert_cache_reads(whole, kernel.cache_reads)
        for tiling in kernel.tilings():
            what = accumulation_of(view, tiling.stage) if warp_lane_count(view, tiling) > 1 else None
            if what is not None:
                types = view.funcs[tiling.stage.func].dtypes
                found |= {op for op, dtype in zip(what.operators, types, strict=True) if dtype.is_float}
    return frozenset(found)


def shows_zero_signs(pipeline: Pipeline) -> bool:
    """Whether the sign of a floating-point zero may decide about more than the sign of another one."""
    for f in pipeline.funcs:
        for definition in f.definitions:
            for e in walk(*definition.values, *definition.indices):
                if isinstance(e, Binary) and e.op in _SHOWS_SIGN and e.dtype.is_float:
                    return True
                if isinstance(e, Call) and any(a.dtype.is_float for a in e.args) and e.name not in _KEEPS_ZERO:
                    return True
    return False
