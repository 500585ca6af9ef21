"""Tile alignment of fused producers: start columns for which threads load whole vectors from global memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, storage_order
from autosched.schedule.kernel.vector_access import max_vector_length
from autosched.schedule.policy import array_strides
from autosched.schedule.types import TileAlignment


def alignments(model: SketchFeaturizer, func: str) -> list[TileAlignment]:
    """Return the alignments to try for a fused producer at BLOCK: the one that suits most of its global loads.

    Args:
        model: The kernel.
        func: The fused producer.
    """
    bound, sketch = model.bound, model.sketch
    fastest = storage_order(bound.funcs[func])[-1:]
    inside = {sketch.func, *(s.func for s in sketch.locations)}
    votes: Counter[TileAlignment] = Counter()
    for stage in (s for s in model.rows if s.func == func and fastest):
        for group in model.accesses_of(stage).loads:
            if group.source not in inside:
                votes.update(_alignments_of(bound, group, fastest[0]))
    return [aligned for aligned, _ in votes.most_common(1)]


def with_alignment(sketch: KernelSketch, func: str, aligned: TileAlignment | None) -> KernelSketch:
    """Return a kernel with another alignment of one fused producer."""

    def changed(s: ComputeLocation) -> ComputeLocation:
        return s._replace(aligned=aligned) if s.func == func else s

    locations = tuple(map(changed, sketch.locations))
    return replace(sketch, locations=locations)


def _alignments_of(bound: BoundPipeline, group: AccessGroup, dim: str) -> list[TileAlignment]:
    """Return the alignment of each access of a group, if it reads aligned rows of an array by contiguous columns."""
    last = group.rows[-1] if group.rows else None
    if last is None or last.coefficients != ((dim, 1),) or last.quotient != 1:
        return []
    if any(r is None or any(name == dim for name, _ in r.coefficients) for r in group.rows[:-1]):
        return []
    itemsize, strides, origin = array_in_memory(bound, group)
    multiple = gcd(max_vector_length(itemsize), *strides[:-1])
    return [TileAlignment(multiple, (origin - at[-1]) % multiple) for at in group.offsets] if multiple > 1 else []


def array_in_memory(bound: BoundPipeline, group: AccessGroup) -> tuple[int, Sequence[int], int]:
    """Return the layout of an array in global memory: element size in bytes, strides in elements, first column."""
    if group.source in bound.inputs:
        array = bound.inputs[group.source]
        return array.dtype.bytes_, array_strides(array.shape, array.dtype.bytes_, pitched=False)[0], 0
    func = bound.funcs[group.source]
    itemsize = func.dtypes[group.component].bytes_
    first = func.region[-1][0] if func.region else 0
    return itemsize, array_strides(func.extents, itemsize, pitched=not func.is_output)[0], first
