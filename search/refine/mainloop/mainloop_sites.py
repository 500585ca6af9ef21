"""Reductions of a schedule that a mainloop can compute, and the step lengths to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.legality.mainloops import register_blocking_error
from autosched.schedule.types import Kernel, Level, Schedule, StageId
from autosched.search.refine.mainloop.step_producers import step_producers

LEAST_TERMS = 16
"""Least terms of a reduction for a mainloop: shorter ones are unrolled, and their operands stay in caches."""
TERMS_OF_STEP = (8, 16, 32)
"""Step lengths to try, in terms; where none divides the reduction, the nearest divisor is tried."""
TERMS_OF_COMPUTING_STEP = (1, 8)
"""Step lengths to try where a step computes producers."""
LEAST_STEPS = 4
"""Least terms of a reduction whose steps compute producers: fewer tiles fit the memory of a block at once."""
MOST_TERMS = 64
"""Most terms of a step."""


@dataclass(frozen=True)
class MainloopSite:
    """A reduction that a mainloop can compute.

    Attributes:
        stages: All stages of its Func, the reduction last.
        reader: The epilogue: the only Func that reads the sums, at its own points, if one kernel can compute both.
        kernels: Positions of the kernels in the schedule that the mainloop kernel replaces.
        inlined: Funcs inlined into these kernels.
        sources: Arrays in global memory that the reduction reads through cache reads.
        computed: Funcs that a block computes in each step, producers first; with these there are no cache reads.
    """

    stages: tuple[StageId, ...]
    reader: str | None
    kernels: tuple[int, ...]
    inlined: frozenset[str]
    sources: tuple[str, ...]
    computed: tuple[str, ...] = ()

    @property
    def host(self) -> StageId:
        """The reduction stage."""
        return self.stages[-1]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Terms of a step to try."""
        return TERMS_OF_COMPUTING_STEP if self.computed else TERMS_OF_STEP


def mainloop_sites(bound: BoundPipeline, schedule: Schedule) -> Iterator[MainloopSite]:
    """Yield the reductions of a schedule that a mainloop can compute."""
    for func in bound.funcs.values():
        stages = func.nonempty_stages
        if not func.dims or not stages or not stages[-1].is_update or not all(is_private_tile(func, s) for s in stages):
            continue
        terms = [d for d in stages[-1].reductions if not d.parallel]
        serial = all(not s.reductions for s in stages[:-1]) and len(terms) == len(stages[-1].reductions)
        count = prod(d.extent for d in terms)
        if not serial or count < min(LEAST_TERMS, LEAST_STEPS):
            continue
        ids = tuple(StageId(func.name, s.number) for s in stages)
        if count >= LEAST_STEPS:
            yield from _computing_sites(bound, schedule, ids)
        if count < LEAST_TERMS:
            continue
        reader = _reader(bound, func)
        site = (reader and _site(bound, schedule, ids, reader)) or _site(bound, schedule, ids, None)
        if site:
            yield site


def site_of_mainloop(bound: BoundPipeline, kernel: Kernel, position: int) -> MainloopSite | None:
    """Return the site that a mainloop kernel replaces; None if it has both cache reads and computed producers.

    Args:
        bound: The pipeline.
        kernel: A kernel with a mainloop over a reduction.
        position: Its position in the schedule.
    """
    at = kernel.mainloop_at
    assert at is not None
    readers = [f for f in kernel.root_funcs if f != at.host.func]
    computed = tuple(m.func for m in kernel.fused if cached_source(m.func) is None)
    if len(readers) > 1 or (computed and (readers or len(computed) < len(kernel.fused))):
        return None
    inlined = frozenset(i.func for i in kernel.inlined)
    stages = tuple(r.tiling.stage for r in kernel.roots if r.tiling.stage.func == at.host.func)
    if computed:
        all_in_steps = all(m.at.level is Level.MAINLOOP for m in kernel.fused)
        return MainloopSite(stages, None, (position,), inlined, (), computed) if all_in_steps else None
    sources = tuple(_sources(bound, at.host, set(inlined)))
    return MainloopSite(stages, readers[0] if readers else None, (position,), inlined, sources) if sources else None


def terms_of_step(kernel: Kernel) -> dict[str, int]:
    """Return the terms of a step of a mainloop kernel by reduction loop."""
    at = kernel.mainloop_at
    assert at is not None
    terms = {p.dim: 1 for p in kernel.mainloops}
    for p in kernel.tiling(at.host).loops[at.depth :]:
        if p.dim in terms:
            terms[p.dim] *= p.extent
    return terms


def step_lengths(stage: BoundStage, terms_of_step: Sequence[int] = TERMS_OF_STEP) -> list[Mapping[str, int]]:
    """Return the step lengths to try, each as terms by reduction loop.

    A step takes all terms of the inner loops, a divisor of one loop, and one term of each outer loop. There is at most
    one choice for each number of terms, the nearest.

    Args:
        stage: The reduction.
        terms_of_step: Numbers of terms.
    """
    choices: dict[int, Mapping[str, int]] = {}
    loops = [(d.name, d.extent) for d in stage.reductions]
    for k, (name, extent) in enumerate(loops):
        inner = prod(n for _, n in loops[k + 1 :])
        for part in (n for n in range(1, min(extent, MOST_TERMS // max(inner, 1)) + 1) if extent % n == 0):
            if part < extent or k == 0:
                outer = dict.fromkeys((d for d, _ in loops[:k]), 1)
                choices.setdefault(part * inner, {**outer, name: part})
    picked = {min(choices, key=lambda n: (abs(n - terms), n)) for terms in terms_of_step} if choices else set()
    lengths = [choices[n] for n in sorted(picked)]
    return [t for t in lengths if any(t.get(d, n) < n for d, n in loops)]


def _reader(bound: BoundPipeline, func: BoundFunc) -> str | None:
    """Return the only consumer of a Func, if it can read the Func's points from registers."""
    others = [c for c in func.consumers if c != func.name]
    return others[0] if len(others) == 1 and not register_blocking_error(func, bound.funcs[others[0]]) else None


def _site(
    bound: BoundPipeline, schedule: Schedule, stages: tuple[StageId, ...], reader: str | None
) -> MainloopSite | None:  # fmt: skip
    """Return the site, if the kernels that compute its Funcs compute nothing else."""
    funcs = {stages[0].func, *([reader] if reader else [])}
    chosen: list[int] = []
    inlined: set[str] = set()
    for k, kernel in enumerate(schedule.kernels):
        if not funcs & _computed(kernel):
            continue
        others = {m.func for m in kernel.fused if cached_source(m.func) is None} - funcs  # cache reads are replaced
        if not set(kernel.root_funcs) <= funcs or others or kernel.mainloop_at is not None:
            return None
        chosen.append(k)
        inlined |= {i.func for i in kernel.inlined}
    if funcs & inlined or funcs - {f for k in chosen for f in _computed(schedule.kernels[k])}:
        return None
    read = _sources(bound, stages[-1], inlined)
    if reader is not None and any(stages[0].func in bound.funcs[f].stages[0].sources for f in inlined):
        return None
    return MainloopSite(stages, reader, tuple(chosen), frozenset(inlined), tuple(read)) if read else None


def _computing_sites(bound: BoundPipeline, schedule: Schedule, stages: tuple[StageId, ...]) -> Iterator[MainloopSite]:
    """Yield the choices of producers to compute in each step, where the kernels with these compute nothing else."""
    for producers in step_producers(bound, stages[-1]):
        funcs = {stages[-1].func, *producers.computed, *producers.inlined}
        chosen = [k for k, kernel in enumerate(schedule.kernels) if funcs & _computed(kernel)]
        kernels = [schedule.kernels[k] for k in chosen]
        others = {f for k in kernels for f in (*_computed(k), *(i.func for i in k.inlined)) if cached_source(f) is None}
        if others <= funcs and all(k.mainloop_at is None for k in kernels):
            yield MainloopSite(stages, None, tuple(chosen), producers.inlined, (), producers.computed)


def _computed(kernel: Kernel) -> set[str]:
    """Return the Funcs that a kernel computes, inlined ones excluded."""
    return {*kernel.root_funcs, *(m.func for m in kernel.fused)}


def _sources(bound: BoundPipeline, host: StageId, inlined: set[str]) -> list[str]:
    """Return the arrays that a stage reads, directly or through inlined Funcs, in order."""
    sources: dict[str, None] = {}
    queue = [s for s in bound.stage(*host).sources if s != host.func]
    while queue:
        name = queue.pop(0)
        if name in inlined:
            queue += bound.funcs[name].stages[0].sources
        elif (i := bound.inputs.get(name)) is not None:
            if i.shape:
                sources.setdefault(name)
        elif bound.funcs[name].dims:
            sources.setdefault(name)
    return list(sources)
