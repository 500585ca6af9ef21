"""Simplification of boundary conditions from the regions of the whole pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.analysis.access.regions import Range, Region, is_empty
from autosched.analysis.binder import Binder
from autosched.analysis.bound_pipeline import Box
from autosched.analysis.boundaries.mirror_folding import MIRRORED, fold_mirrors
from autosched.analysis.boundaries.periodic_extension import (
    WrappedRange,
    extend_periodically,
    extension,
    without_wraps,
)
from autosched.analysis.indices import index as ix
from autosched.lang.expr import Source
from autosched.lang.func import Func, Input

Regions = dict[Func | Input, Region]


def simplify_boundaries(binder: Binder, boxes: Mapping[Func, Box]) -> None:
    """Extend wrapped Funcs periodically and fold mirrors.

    Args:
        binder: The pipeline; its definitions are replaced.
        boxes: Boxes of the outputs.

    Raises:
        BoundsError: If a region is unbounded.
    """
    kinds = {f.boundary for f in binder.pipeline.funcs}
    if not kinds.intersection({"wrapped", *MIRRORED}):
        return
    regions = binder.regions(boxes)
    if "wrapped" in kinds:
        regions = _extend(binder, boxes, regions)
    _fold(binder, regions)


def _fold(binder: Binder, regions: Regions) -> None:
    for f in binder.pipeline.funcs:
        if f.boundary in MIRRORED and not is_empty(regions.get(f, ((0, -1),))):
            folded = fold_mirrors(f, binder.stages[f][0].definition, regions[f], binder.within[f])
            if folded is not None:
                binder.redefine(f, [folded])


def _extend(binder: Binder, boxes: Mapping[Func, Box], regions: Regions) -> Regions:
    for f in reversed(binder.pipeline.funcs):
        fixed = f in boxes or f.boundary is not None or f.atomic or not f.definitions[0].values
        if fixed or is_empty(regions.get(f, ((0, -1),))):
            continue
        periods = [extension(_reads(binder, regions, f, axis)) for axis in range(f.ndim)]
        extended = [_extend_dimension(binder, f, axis, p) for axis, p in enumerate(periods) if p is not None]
        if any(extended):
            regions = binder.regions(boxes)
    return regions


def _reads(binder: Binder, regions: Regions, f: Func, axis: int) -> list[tuple[ix.Index, Mapping[str, Range]]]:
    """Return the reads of a Func by others: the index along a dimension, and the ranges of the loops."""
    reads: list[tuple[ix.Index, Mapping[str, Range]]] = []
    for reader in binder.pipeline.funcs:
        if reader is f or is_empty(regions.get(reader, ((0, -1),))):
            continue
        for s in binder.stages[reader]:
            if s.stage.is_empty:
                continue
            ranges = binder.ranges(s, reader, regions[reader])
            reads += [(s.stage.index_of(load.indices[axis]), ranges) for load in s.loads if load.source is f]
    return reads


def _extend_dimension(binder: Binder, f: Func, axis: int, period: WrappedRange) -> bool:
    """Extend a Func along a dimension and remove the remainders of its readers; return False if it has no extension."""

    def is_periodic(source: Source, k: int, wanted: WrappedRange) -> bool:
        within = binder.within[source][k] if isinstance(source, Func) and source.boundary == "wrapped" else None
        return within == (wanted.low, wanted.low + wanted.length - 1)

    extended = [
        extend_periodically(s.definition, f, axis, period, is_periodic, s.stage.index_of) for s in binder.stages[f]
    ]
    if any(d is None for d in extended):
        return False
    binder.redefine(f, [d for d in extended if d is not None])
    for reader in binder.pipeline.funcs:
        stages = binder.stages[reader]
        if reader is not f and any(load.source is f for s in stages for load in s.loads):
            binder.redefine(reader, [without_wraps(s.definition, f, axis, s.stage.index_of) for s in stages])
    return True
