"""Stencils: Funcs that read every source at constant offsets from their own point (section 1).

blur[y, x] = image[y, x - 1] + image[y, x] + image[y, x + 1]   # a stencil: E = (0, 2)
half[y, x] = image[2 * y, 2 * x]                               # none: an interpolation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundFunc, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.tilings import fusable_roots


class AxisOffsets(NamedTuple):
    """The offsets at which a stencil reads one dimension of a source.

    Attributes:
        dim: The dimension of the stencil that the source's dimension follows; None if the stencil reads the same
            elements at all points, such as the channels of an image.
        low: Least offset, ``MaxNegative`` of Algorithm 1; without ``dim``, the least element.
        high: Largest offset, ``MaxPositive`` of Algorithm 1; without ``dim``, the largest element.
    """

    dim: str | None
    low: int
    high: int


Offsets = tuple[AxisOffsets, ...]
"""Offsets in each dimension of a source."""


def is_boundary(func: BoundFunc) -> bool:
    """Whether a Func is a boundary condition, which Forma declares with the read of a stencil (section 2.1.2)."""
    return func.boundary is not None and func.is_pure and not func.is_output and not func.undefined


def stencil_offsets(func: BoundFunc) -> Mapping[str, Offsets] | None:
    """Return the offsets at which a stencil reads each source; None if the Func is no stencil.

    An index is one dimension of the Func plus a constant, or a constant. Reduction loops may add to it, so that a
    convolution written as a sum is a stencil. Sources keep the order of dimensions, so that transposes are none. Every
    stage computes all points in any order and reads the Func at its own point alone.
    """
    if func.undefined or not func.nonempty_stages or len(fusable_roots(func)) != 1:
        return None
    offsets: dict[str, Offsets] = {}
    for stage in func.nonempty_stages:
        if not is_private_tile(func, stage) or stage.steps:
            return None
        for footprint in stage.footprints:
            if footprint.source == func.name:
                continue
            axes = [_axis(func, stage, indices) for indices in footprint.dims]
            read = tuple(a for a in axes if a is not None)
            followed = [func.dims.index(a.dim) for a in read if a.dim is not None]
            if len(read) < len(axes) or followed != sorted(set(followed)):
                return None
            merged = join_offsets(offsets.get(footprint.source), read)
            if merged is None:
                return None
            offsets[footprint.source] = merged
    return offsets


def _axis(func: BoundFunc, stage: BoundStage, indices: Sequence[ix.Index]) -> AxisOffsets | None:
    """Return the offsets of indices of one dimension; None if they are not those of a stencil."""
    terms = {d.name: (d.lo, d.hi) for d in stage.reductions}
    joined: AxisOffsets | None = None
    for index in indices:
        dims = [(t, c) for t, c in ix.terms_of(index) if not (isinstance(t, ix.LoopVar) and t.name in terms)]
        if any(not isinstance(t, ix.LoopVar) or c != 1 for t, c in dims) or len(dims) > 1:
            return None
        names = [t.name for t, _ in dims if isinstance(t, ix.LoopVar)]
        dim = names[0] if names else None
        if dim is None and ix.terms_of(index):
            return None  # all elements of a reduction, as in a matrix product
        low, high = ix.bounds(index, {**terms, **({dim: (0, 0)} if dim is not None else {})})
        one = AxisOffsets(dim, int(low), int(high))
        merged = join_offsets(None if joined is None else (joined,), (one,))
        if merged is None:
            return None
        (joined,) = merged
    return joined


def join_offsets(a: Offsets | None, b: Offsets) -> Offsets | None:
    """Return the hull of offsets; None if a dimension of the source follows different dimensions."""
    if a is None:
        return b
    if any(p.dim != q.dim for p, q in zip(a, b, strict=True)):
        return None
    return tuple(
        AxisOffsets(p.dim, min(p.low, q.low), max(p.high, q.high)) for p, q in zip(a, b, strict=True)
    )  # fmt: skip
