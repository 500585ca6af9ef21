"""Least time of a sliding-window kernel, before any tile of it is planned."""

from __future__ import annotations

from math import hypot, prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.search.cost.gpu_analytical import (
    DRAM_SHARE,
    GLOBAL_LATENCY_CYCLES,
    LANES_OF_MULTIPROCESSOR,
    LAUNCH_SECONDS,
    STEP_LATENCY_CYCLES,
)
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite
from autosched.target import Target


def least_seconds(bound: BoundPipeline, site: SlidingWindowSite, steps: int, target: Target) -> float:
    """Return seconds that any kernel of a site takes by the analytical model, whatever its tile.

    A block's steps follow each other, and DRAM transfers the result and each source once.

    Args:
        bound: The pipeline.
        site: The site.
        steps: Steps of a block.
        target: A GPU.
    """
    clock = target.peak_fp32_flops / (2 * LANES_OF_MULTIPROCESSOR * target.multiprocessors)
    latency = (GLOBAL_LATENCY_CYCLES + STEP_LATENCY_CYCLES * steps) / clock
    return LAUNCH_SECONDS + hypot(latency, _moved_bytes(bound, site) / (DRAM_SHARE * target.dram_bytes_per_s))


def _moved_bytes(bound: BoundPipeline, site: SlidingWindowSite) -> int:
    """Return the bytes of the result and of its sources; of a larger source, one element for each point."""
    cached = insert_cache_reads(bound, site.cache_reads)
    computed = {site.root.func, *site.fused, *site.inlined}
    points = prod(cached.funcs[site.root.func].extents)
    moved = points * sum(d.bytes_ for d in cached.funcs[site.root.func].dtypes)
    sources = {s for f in computed for stage in cached.funcs[f].stages for s in stage.sources}
    for name in sources - computed:
        if name in cached.inputs:
            array = cached.inputs[name]
            moved += min(prod(array.shape), points) * array.dtype.bytes_
        else:
            func = cached.funcs[name]
            moved += min(prod(func.extents), points) * sum(d.bytes_ for d in func.dtypes)
    return moved
