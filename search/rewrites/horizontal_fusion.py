"""Horizontal fusion of outputs over one region that share sources.

Stencil codes return several fields computed from the same inputs. In separate kernels each output loads these inputs
again; in one kernel a thread loads them once. Register pressure decides which is faster, so both are searched.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import HorizontalFusion
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.search.rewrites.computation_folding import promising_foldings
from autosched.search.rewrites.deinterleaving import deinterleaving_rewrites
from autosched.search.rewrites.integer_narrowing import narrowed
from autosched.search.rewrites.invariant_hoisting import hoisting_rewrites
from autosched.search.rewrites.output_fission import fission_rewrites
from autosched.search.rewrites.reduction_unrolling import unrolling_rewrites
from autosched.search.rewrites.retiming import retiming_rewrites
from autosched.search.rewrites.rfactor import rfactor_rewrites
from autosched.search.rewrites.scan_blocking import scan_rewrites
from autosched.search.rewrites.warp_reductions import warp_reduction_rewrites
from autosched.search.rewrites.window_doubling import window_rewrites
from autosched.search.settings import SearchSettings
from autosched.target import Target


def fusion_rewrites(bound: BoundPipeline, target: Target, settings: SearchSettings) -> list[BoundPipeline]:
    """Return the rewrites of a pipeline to search: the pipeline itself first, then all that the settings allow.

    With `narrowing`, the integers of each are narrowed on a CPU, where narrow elements make more lanes of a vector.

    Args:
        bound: The pipeline; one that is rewritten already has no further rewrites.
        target: The device.
        settings: Which rewrites are tried.
    """
    if bound.rewrites or bound.lane_loops:
        return [bound]
    narrow = narrowed if settings.narrowing and target.kind == "cpu" else _unchanged
    base = narrow(bound)
    rewrites = rfactor_rewrites(base, target, atomics=settings.atomics) if settings.rfactor else [base]
    if settings.warp_reductions:
        rewrites += warp_reduction_rewrites(rewrites, target)
    if settings.windows:
        rewrites += map(narrow, window_rewrites(bound))
    for blocked in map(narrow, scan_rewrites(bound, target)) if settings.scans else ():
        factored = rfactor_rewrites(blocked, target, atomics="none") if settings.rfactor else [blocked]
        rewrites += factored
        if settings.warp_reductions:
            rewrites += warp_reduction_rewrites(factored, target)
    if settings.deinterleaving:
        rewrites += map(narrow, deinterleaving_rewrites(bound))
    if settings.hoisting:
        rewrites += map(narrow, hoisting_rewrites(bound))
    if settings.unrolling:
        rewrites += map(narrow, unrolling_rewrites(bound))
    if settings.folding:
        rewrites += promising_foldings(base, target)
    if target.kind != "cuda":
        return rewrites
    if settings.retiming:
        rewrites += retiming_rewrites(bound)
    if settings.fission:
        rewrites += fission_rewrites(bound)
    fusions = _fusions(base) if settings.horizontal_fusion else ()
    return [*rewrites, fuse_outputs(base, fusions)] if fusions else rewrites


def _unchanged(bound: BoundPipeline) -> BoundPipeline:
    return bound


def _fusions(bound: BoundPipeline) -> tuple[HorizontalFusion, ...]:
    """Return the groups of outputs over one region that share sources or read each other."""
    groups: list[tuple[HorizontalFusion, frozenset[str]]] = []  # with the sources and outputs of the group
    for name in dict.fromkeys(func for _, func, _ in bound.output_components):
        read = _read(bound, name)
        for k, (fusion, sources) in enumerate(groups):
            larger = HorizontalFusion((*fusion.funcs, name))
            if sources & read and not fusion_error(bound, larger):
                groups[k] = larger, sources | read | {name}
                break
        else:
            groups.append((HorizontalFusion((name,)), read | {name}))
    return tuple(fusion for fusion, _ in groups if len(fusion.funcs) > 1)


def _read(bound: BoundPipeline, name: str) -> frozenset[str]:
    """Return the sources of a Func, where boundary conditions count as the array that they wrap."""
    sources: set[str] = set()
    for source in bound.funcs[name].stages[0].sources:
        func = bound.funcs.get(source)
        sources |= {source} if func is None or func.boundary is None else set(func.stages[0].sources)
    return frozenset(sources)
