"""Extents of an output's dimensions, from the inputs that it reads along them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from autosched.analysis.binder import Binder, loads_of
from autosched.analysis.bound_pipeline import Box
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.lang.func import Func, Input

MOST_READS = 10_000
"""Reads that are followed at most."""
Axes = tuple[str | None, ...]
"""Dimension of the output along which each dimension of a source is read; None for the others."""


def aligned_boxes(binder: Binder, func: Func) -> list[Box]:
    """Return inclusive boxes for an output, the most plausible first.

    An input is aligned with a dimension if it is read at that coordinate plus an offset, also through other Funcs:
    ``img[y + r.y - 1, x + 2]``, but not ``grid[y // 8, x // 8]``. Inputs aligned with every dimension come first, the
    largest of them before others. A box of several inputs has the largest extent along each dimension.

    Args:
        binder: The pipeline with its shapes.
        func: The output.
    """
    whole: list[Box] = []
    longest: dict[str, tuple[int, int]] = {}
    for dim, span in zip(func.dims, binder.fixed[func], strict=True):
        if span is not None:  # written by an update at computed points
            longest[dim] = span
    written = dict(longest)
    for source, axes in _reads(binder, func):
        if not isinstance(source, Input):
            continue
        spans = {
            d: (0, n - 1) for d, n in zip(axes, binder.shapes[source.name], strict=True) if d is not None
        } | written
        longest |= {d: s for d, s in spans.items() if d not in longest or s[1] > longest[d][1]}
        if len(spans) == func.ndim:
            whole.append(tuple(spans[d] for d in func.dims))
    whole.sort(key=_points, reverse=True)
    if len(longest) == func.ndim:
        whole.append(tuple(longest[d] for d in func.dims))
    return list(dict.fromkeys(whole))


def _points(box: Box) -> int:
    return prod(hi - lo + 1 for lo, hi in box)


def _reads(binder: Binder, func: Func) -> dict[tuple[Func | Input, Axes], None]:
    """Return the sources that an output needs, with the dimensions along which they are read."""
    reads: dict[tuple[Func | Input, Axes], None] = {(func, func.dims): None}
    queue: list[tuple[Func, Axes]] = [(func, func.dims)]
    while queue and len(reads) < MOST_READS:
        reader, axes = queue.pop(0)
        along = dict(zip(reader.dims, axes, strict=True))
        for definition in binder.unguarded(reader):
            for load in loads_of((*definition.values, *definition.indices)):
                source = load.source
                assert isinstance(source, Func | Input)
                if reader.boundary:
                    found = source, axes
                else:
                    found = source, tuple(_dimension(to_index(i), along) for i in load.indices)
                if source is not reader and found not in reads:
                    reads[found] = None
                    if isinstance(source, Func):
                        queue.append((source, found[1]))
    return reads


def _dimension(index: ix.Index, along: Mapping[str, str | None]) -> str | None:
    """Return the output's dimension of which an index is the coordinate plus an offset, clamped or not."""
    moving = [
        (t, c) for t, c in ix.terms_of(index) if not along.keys().isdisjoint(ix.loop_vars(ix.Affine(((t, 1),), 0)))
    ]
    if len(moving) != 1 or moving[0][1] != 1:
        return None
    term = moving[0][0]
    if isinstance(term, ix.LoopVar):
        return along[term.name]
    dims = {_dimension(a, along) for a in term.args if not along.keys().isdisjoint(ix.loop_vars(a))}
    return dims.pop() if term.kind in ("min", "max") and len(dims) == 1 else None
