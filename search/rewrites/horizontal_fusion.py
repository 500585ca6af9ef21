"""Which outputs are worth computing together: those over one region that read the same.

A stencil code returns several fields that all come from the same ones. In kernels of their own, each reads these again;
in one kernel, a thread reads them once (five outputs of hypterm: twice as fast on the simulated H200). How much a
thread can hold at hand decides, so that both ways are searched.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline, HorizontalFusion
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.search.rewrites.rfactor import rfactor_rewrites
from autosched.search.rewrites.warp_reductions import warp_reduction_rewrites
from autosched.search.settings import SearchSettings
from autosched.target import Target


def fusion_rewrites(bound: BoundPipeline, target: Target, settings: SearchSettings) -> list[BoundPipeline]:
    """Return the pipelines that a search looks at, all of which compute the same; the first is as it was given.

    Args:
        bound: The pipeline; one that is rewritten already is left as it is.
        target: The device.
        settings: Whether reductions are tried in pieces and shared by lanes, and outputs together.
    """
    if bound.rewrites or bound.lane_loops:
        return [bound]
    views = rfactor_rewrites(bound, target, atomics=settings.atomics) if settings.rfactor else [bound]
    if settings.warp_reductions:
        views += warp_reduction_rewrites(views, target)
    joins = _joins(bound) if settings.horizontal_fusion and target.kind == "cuda" else ()
    return [*views, fuse_outputs(bound, joins)] if joins else views


def _joins(bound: BoundPipeline) -> tuple[HorizontalFusion, ...]:
    """Return the groups of outputs over one region that share something they read, or read each other."""
    groups: list[tuple[HorizontalFusion, frozenset[str]]] = []  # with what is at hand in it
    for name in dict.fromkeys(func for _, func, _ in bound.output_components):
        read = _read(bound, name)
        for k, (join, known) in enumerate(groups):
            larger = HorizontalFusion((*join.funcs, name))
            if known & read and not fusion_error(bound, larger):
                groups[k] = larger, known | read | {name}
                break
        else:
            groups.append((HorizontalFusion((name,)), read | {name}))
    return tuple(join for join, _ in groups if len(join.funcs) > 1)


def _read(bound: BoundPipeline, name: str) -> frozenset[str]:
    """Return what a Func reads, itself or through Funcs that only fetch at another point."""
    found: set[str] = set()
    for source in bound.funcs[name].stages[0].sources:
        func = bound.funcs.get(source)
        found |= {source} if func is None or func.boundary is None else set(func.stages[0].sources)
    return frozenset(found)
