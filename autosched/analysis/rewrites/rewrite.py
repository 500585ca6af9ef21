"""The rewrites of a bound pipeline, as data, and their application.

    apply(bound, RFactor("total", 1, (("r.x", 32),)))   # a pipeline with the Func total_part
    apply(bound, CacheRead(frozenset({"image"})))       # a pipeline with the Func image.staged

Each kind of rewrite has a module in this package, which registers its function with `build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    Deinterleaving,
    FuncClone,
    HorizontalFusion,
    IntegerNarrowing,
    InvariantHoisting,
    LaneLoop,
    ReductionUnrolling,
    RFactor,
    ScanBlocking,
    StatementRewrite,
    WindowDoubling,
)

_MEMO = "_rewrites"


class CacheRead(NamedTuple):
    """Cache reads of operands (`autosched.analysis.rewrites.cache_read`).

    Attributes:
        sources: Names of the inputs and Funcs with a cache read.
    """

    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class MainloopStep:
    """One iteration of a mainloop over the terms of a reduction (`autosched.analysis.rewrites.mainloop_step`).

    Attributes:
        func: The Func, whose points are all in registers.
        stage: Number of its update.
        terms: Iterations of each reduction loop in one step, by its name.
        buffers: Buffers of each cached tile.
        last: Whether one of the last iterations represents all, rather than the first.
    """

    func: str
    stage: int
    terms: tuple[tuple[str, int], ...]
    buffers: int = 1
    last: bool = False


@dataclass(frozen=True, slots=True)
class SlidingWindowStep:
    """One iteration of a mainloop over the rows of a Func (`autosched.analysis.rewrites.mainloop_step`).

    Attributes:
        func: The Func.
        dim: The dimension along which windows slide.
        steps: Iterations of the mainloop of a block.
        moving: Funcs with a rolling buffer, and those between them and ``func``, each with the dimensions that move.
        kept_steps: Steps whose rows a rolling buffer keeps, by Func.
        first: The iteration whose rows remain.
        windows: Private windows, with their rows in registers and in shared memory.
    """

    func: str
    dim: str
    steps: int
    moving: tuple[tuple[str, tuple[str, ...]], ...]
    kept_steps: tuple[tuple[str, int], ...] = ()
    first: int = 0
    windows: tuple[tuple[str, tuple[int, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class ScanStep:
    """The first step of every scan over rows (`autosched.analysis.rewrites.mainloop_step`)."""


Rewrite = (
    WindowDoubling
    | ScanBlocking
    | Deinterleaving
    | InvariantHoisting
    | ReductionUnrolling
    | IntegerNarrowing
    | RFactor
    | StatementRewrite
    | ComponentFission
    | HorizontalFusion
    | FuncClone
    | CacheRead
    | LaneLoop
    | MainloopStep
    | SlidingWindowStep
    | ScanStep
)


def apply(bound: BoundPipeline, rewrite: Rewrite) -> BoundPipeline:
    """Return the rewritten pipeline; the same rewrite of the same pipeline gives the same object.

    Raises:
        ScheduleError: If the pipeline does not admit the rewrite.
    """
    memo = pipeline_memo(bound, _MEMO)
    result: BoundPipeline | None = memo.get(rewrite)
    if result is None:
        result = memo[rewrite] = build(rewrite, bound)
    return result


@singledispatch
def build(rewrite: Rewrite, bound: BoundPipeline) -> BoundPipeline:
    """Return the rewritten pipeline, built anew; callers use `apply`."""
    raise TypeError(f"{rewrite!r} is not a rewrite of a pipeline")
