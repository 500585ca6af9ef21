"""Deinterleaving of reads with a stride, for reductions that read each element many times.

Vectors of a convolution with a stride of 2 take every second element, by one gather or several shuffles a load. The
copy takes one such load for each element. Downsampling, which reads an element once or twice, gains nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.pipeline_rewrites import Deinterleaving
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads, deinterleaving_error, region_of, strides

LEAST_READS = 8
"""Least reads of each element of the source by one Func."""
LARGEST_COPY_STRIDE = 4
"""Largest stride that is tried."""
MOST_COPIES = 4
"""Most deinterleavings of one rewrite."""


def deinterleaving_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with all deinterleavings that are worth it; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
    """
    chosen = tuple(_deinterleavings(bound))[:MOST_COPIES]
    return [deinterleave_reads(bound, chosen)] if chosen else []


def _deinterleavings(bound: BoundPipeline) -> Iterator[Deinterleaving]:
    for func in bound.funcs.values():
        if not any(stage.reductions for stage in func.stages):
            continue
        for source in dict.fromkeys(name for stage in func.stages for name in stage.sources):
            if source == func.name or reads_of_each_element(bound, func, source) < LEAST_READS:
                continue
            found = strides(func, source)
            if len(found) == 1:
                chosen = Deinterleaving(func.name, source, *found)
                if chosen.stride <= LARGEST_COPY_STRIDE and not deinterleaving_error(bound, chosen):
                    yield chosen


def reads_of_each_element(bound: BoundPipeline, func: BoundFunc, source: str) -> float:
    """Return the reads of a Func divided by the elements of a source."""
    elements = prod(hi - lo + 1 for lo, hi in region_of(bound, source))
    points = dict(zip(func.dims, func.extents, strict=True))
    reads = sum(
        stage.load_counts.get(source, 0) * prod(d.extent if d.reduction else points[d.name] for d in stage.loops)
        for stage in func.stages
    )
    return reads / max(elements, 1)
