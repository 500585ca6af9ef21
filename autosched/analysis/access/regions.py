"""Required regions of producers for any region of a consumer (bounds inference).

Bounds of indices accept three kinds of numbers: concrete integers for the whole pipeline, symbolic indices of block and
thread loops for one tile in lowering, and NumPy arrays for many candidate extents in the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from autosched.analysis.bound_pipeline import AccessFootprint, BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix

Range = tuple[Any, Any]
Region = tuple[Range, ...]


class AlignedGroups(NamedTuple):
    """Groups of ``multiple`` points along one dimension, each of which begins at ``remainder`` modulo ``multiple``."""

    position: int
    multiple: int
    remainder: int


NO_GROUPS: Mapping[str, AlignedGroups] = MappingProxyType({})


def loop_ranges(stage: BoundStage, func: BoundFunc, region: Sequence[Range]) -> dict[str, Range]:
    """Return the inclusive range of each loop of a stage over ``region`` of its Func."""
    pure = dict(zip(func.dims, region, strict=True))
    return {d.name: (d.lo, d.hi) if d.reduction else pure[d.name] for d in stage.loops}


def footprint_region(footprint: AccessFootprint, env: Mapping[str, Range]) -> Region:
    """Return the region of a source that a stage reads when its loops range over ``env``."""
    return tuple(hull(ix.bounds(i, env) for i in dim) for dim in footprint.dims)


def hull(ranges: Iterable[Range]) -> Range:
    """Return the smallest range that contains all given ones."""
    lo: Any = None
    hi: Any = None
    for a, b in ranges:
        lo = a if lo is None else ix.minimum(lo, a)
        hi = b if hi is None else ix.maximum(hi, b)
    return lo, hi


def join(a: Region | None, b: Region) -> Region:
    """Return the box hull of two regions."""
    return b if a is None else tuple(hull(pair) for pair in zip(a, b, strict=True))


def is_empty(region: Region) -> bool:
    """Whether a region of integers has no points."""
    return any(hi < lo for lo, hi in region)


def with_fixed_dims(func: BoundFunc, region: Region) -> Region:
    """Widen a required region by the ranges that the Func's updates always access."""
    return tuple(r if f is None else hull((r, f)) for r, f in zip(region, func.fixed, strict=True))


def with_whole_groups(func: BoundFunc, region: Region, groups: AlignedGroups) -> Region:
    """Widen a required region to whole groups of points, within the region of the whole pipeline."""
    lo, hi = region[groups.position]
    least, most = func.region[groups.position]
    before = ix.mod(ix.sub(lo, groups.remainder), groups.multiple)
    beyond = ix.mod(ix.sub(groups.remainder - 1, hi), groups.multiple)
    wide = ix.maximum(ix.sub(lo, before), least), ix.minimum(ix.add(hi, beyond), most)
    return (*region[: groups.position], wide, *region[groups.position + 1 :])


def required_regions(
    bound: BoundPipeline, roots: Mapping[str, Region], wanted: Iterable[str], order: Sequence[str] | None = None
) -> dict[str, Region]:
    """Return the required region of each wanted Func inside a tile, and of all Funcs in between.

    Args:
        bound: The pipeline.
        roots: Computed regions of the root Funcs.
        wanted: Funcs that pass their region on to their producers: fused producers and inlined Funcs of a kernel.
        order: Names in topological order; the pipeline's own by default.

    Returns:
        Regions by name: the roots, the wanted Funcs, and all their sources, inputs included.
    """
    inside = set(wanted)
    regions: dict[str, Region] = dict(roots)
    for name in reversed(order or list(bound.funcs)):
        if name not in regions or (name not in inside and name not in roots):
            continue
        func = bound.funcs[name]
        if name not in roots:
            regions[name] = with_fixed_dims(func, regions[name])
        for stage in func.stages:
            if stage.is_empty:
                continue
            env = loop_ranges(stage, func, regions[name])
            for footprint in stage.footprints:
                if footprint.source != name:
                    needed = footprint_region(footprint, env)
                    regions[footprint.source] = join(regions.get(footprint.source), needed)
    return regions


def demanded_regions(
    bound: BoundPipeline, consumers: Iterable[tuple[BoundStage, Mapping[str, Range]]], inside: Iterable[str],
    grouped: Mapping[str, AlignedGroups] = NO_GROUPS, wanted: Collection[str] | None = None,
) -> dict[str, Region]:  # fmt: skip
    """Return the required regions of the sources of stages with the given ranges of loops.

    Args:
        bound: The pipeline.
        consumers: Stages with the ranges of their loops.
        inside: Funcs that pass their region on to their producers: fused producers and inlined Funcs of a kernel.
        grouped: Groups of points of those Funcs that are computed in whole groups.
        wanted: Sources to return; all by default.

    Returns:
        Regions of the sources except inputs.
    """
    position = bound.position
    sources = position if wanted is None else wanted
    regions: dict[str, Region] = {}

    def add(stage: BoundStage, env: Mapping[str, Range]) -> None:
        for f in stage.footprints:
            if f.source in sources and f.source != stage.func:
                regions[f.source] = join(regions.get(f.source), footprint_region(f, env))

    for stage, env in consumers:
        if not stage.is_empty:
            add(stage, env)
    for name in sorted(inside, key=lambda n: -position[n]):
        if name in regions:
            func = bound.funcs[name]
            regions[name] = with_fixed_dims(func, regions[name])
            if name in grouped:
                regions[name] = with_whole_groups(func, regions[name], grouped[name])
            for stage in func.stages:
                if not stage.is_empty:
                    add(stage, loop_ranges(stage, func, regions[name]))
    return regions


def demanded_region(
    bound: BoundPipeline, consumers: Iterable[tuple[BoundStage, Mapping[str, Range]]], func: str, inside: Set[str],
    grouped: Mapping[str, AlignedGroups] = NO_GROUPS,
) -> Region | None:  # fmt: skip
    """Return the required region of one Func, None if it is not read; arguments as in `demanded_regions`."""
    wanted = {func} | (bound.consumers[func] & inside)
    return demanded_regions(bound, consumers, wanted & inside, grouped, wanted).get(func)


def required_extents(
    bound: BoundPipeline, root: str, tiles: np.ndarray[Any, np.dtype[np.int64]], wanted: Iterable[str]
) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the required extents of each source for a tile of ``root``, for many tile sizes at once.

    Args:
        bound: The pipeline.
        root: The Func of the tile, which starts at the minimum of its region.
        tiles: Tile extents, shape ``[N, ndim]``.
        wanted: Funcs computed inside the tile.

    Returns:
        ``int64[N, ndim of the source]`` by name.
    """
    func = bound.funcs[root]
    region = tuple((np.full(len(tiles), lo), lo + tiles[:, k] - 1) for k, (lo, _) in enumerate(func.region))
    regions = required_regions(bound, {root: region}, wanted)
    n = len(tiles)
    return {
        name: np.stack([np.broadcast_to(hi - lo + 1, n) for lo, hi in box], axis=1)
        if box
        else np.ones((n, 0), np.int64)
        for name, box in regions.items()
    }
