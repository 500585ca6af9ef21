"""Folding of values that a Func repeats at shifted points, such as the fluxes of a stencil.

Inlined, each value is computed at every point that reads it, and a compiler shares it only between the points of one
thread. Its operands occupy a tile each.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComputationFolding
from autosched.analysis.rewrites.computation_folding import RepeatedValue, distinct_operations, repeated_values_of
from autosched.analysis.rewrites.rebuild import is_defined
from autosched.analysis.rewrites.statement import rewrite_statements, statement_error
from autosched.search.rewrites.roofline import operation_seconds, roofline_seconds, transfer_seconds
from autosched.target import Target

LEAST_SAVED = 8
"""Least operations of a point that one folding saves."""
LEAST_SHARE = 0.2
"""Least share of a Func's operations that its foldings save together."""
MOST_FOLDINGS = 12
"""Most foldings of one rewrite, each of which adds a Func to place."""
LEAST_GAIN = 0.05
"""Least share of a pipeline's time on a GPU that foldings can save by the roofline model. Of five stencil programs that
have foldings, three are bound by DRAM, and of the others 2 and 4 % can be saved: none was predicted to be faster."""


def promising_foldings(bound: BoundPipeline, target: Target) -> list[BoundPipeline]:
    """Return the pipeline with foldings if these can make it faster on a target; empty if they cannot.

    Where a GPU takes longer to transfer the inputs and outputs than for all operations, fewer operations gain nothing.

    Args:
        bound: The pipeline, without rewrites.
        target: The device; on a CPU all foldings are promising.
    """
    if target.kind != "cuda":
        return folding_rewrites(bound)
    limit = (1 - LEAST_GAIN) * operation_seconds(bound, target)
    if transfer_seconds(bound, target) > limit:
        return []
    return [r for r in folding_rewrites(bound) if roofline_seconds(r, target) <= limit]


def folding_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with all foldings that are worth it; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
    """
    rewritten = bound
    for name, func in bound.funcs.items():
        if not is_defined(bound, name) or func.boundary is not None or not func.is_pure or func.undefined:
            continue
        folded = _with_foldings(rewritten, name)
        if len(folded.statements) <= MOST_FOLDINGS:
            rewritten = folded
    return [] if rewritten is bound else [rewritten]


def _with_foldings(bound: BoundPipeline, name: str) -> BoundPipeline:
    """Return the pipeline with foldings of a Func, the same one if they save too little."""
    rewritten, saved = bound, 0
    while (best := _best(rewritten, name)) is not None:
        folding = ComputationFolding(name)
        if statement_error(rewritten, folding):
            break
        rewritten = rewrite_statements(rewritten, (*rewritten.statements, folding))
        saved += best.saved
    if rewritten is bound:
        return bound
    total = distinct_operations(bound.pipeline.func(name).definitions[0].values)
    return rewritten if saved >= LEAST_SHARE * total else bound


def _best(bound: BoundPipeline, name: str) -> RepeatedValue | None:
    """Return the value whose folding saves most operations, None if it saves few."""
    repeated = repeated_values_of(bound, name)
    return repeated[0] if repeated and repeated[0].saved >= LEAST_SAVED else None
