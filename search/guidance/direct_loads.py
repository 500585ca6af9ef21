"""Loads of arrays in global memory by the stages of a kernel: the arrays that a copy can be made of."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import Kernel, StageId

LEAST_LOADS = 2
"""Loads of an array by the points of a kernel's stages from which on a copy may save some."""


def direct_loads(bound: BoundPipeline, stages: Iterable[StageId], inlined: Iterable[str]) -> dict[str, int]:
    """Return the loads of each array that a kernel does not compute, summed over one point of each stage.

    Args:
        bound: The pipeline, without copies.
        stages: The stages with a loop nest.
        inlined: The Funcs that are substituted into them.
    """
    nests, inside = list(stages), set(inlined)
    computed = inside | {s.func for s in nests}
    loads: dict[str, int] = {}
    evaluated = [(bound.stage(*s), 1) for s in nests]
    evaluated += [(bound.funcs[f].stages[0], calls) for f, calls in inlined_calls(bound, nests, inside).items()]
    for stage, times in evaluated:
        for source, count in stage.load_counts.items():
            if source not in computed:
                loads[source] = loads.get(source, 0) + count * times
    return loads


def loads_of_kernel(bound: BoundPipeline, kernel: Kernel) -> dict[str, int]:
    """Return the loads of each array that a kernel does not compute, as without its copies.

    Args:
        bound: The pipeline of the schedule, without copies.
        kernel: The kernel.
    """
    stages = [t.stage for t in kernel.tilings() if cached_source(t.stage.func) is None]
    return direct_loads(bound, stages, (i.func for i in kernel.inlined))
