"""Which reductions may be computed in steps, with which Func that reads the sums, and how long a step is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.legality.mainloops import register_blocking_error
from autosched.schedule.types import Kernel, Schedule, StageId

LEAST_TERMS = 16
"""Terms of a reduction that are worth steps: fewer are unrolled, and what they read stays in caches."""
TERMS_OF_STEP = (8, 16, 32)
"""Terms of a step that are tried; more are next to them where none divides the reduction."""
MOST_TERMS = 64


@dataclass(frozen=True)
class MainloopSite:
    """A reduction that may be computed in steps.

    Attributes:
        stages: All stages of its Func, the reduction last.
        reader: The Func that reads the sums at its own points alone, if one kernel may compute both.
        kernels: Positions of the kernels of a schedule that one kernel would replace.
        inlined: Funcs that are inlined into them.
        sources: What the reduction reads from global memory.
    """

    stages: tuple[StageId, ...]
    reader: str | None
    kernels: tuple[int, ...]
    inlined: frozenset[str]
    sources: tuple[str, ...]

    @property
    def host(self) -> StageId:
        """The stage whose terms are added up."""
        return self.stages[-1]


def mainloop_sites(bound: BoundPipeline, schedule: Schedule) -> Iterator[MainloopSite]:
    """Yield the reductions of a schedule that may be computed in steps, in kernels of their own."""
    for func in bound.funcs.values():
        stages = func.nonempty_stages
        if not func.dims or not stages or not stages[-1].is_update or not all(is_private_tile(func, s) for s in stages):
            continue
        terms = [d for d in stages[-1].reductions if not d.parallel]
        serial = all(not s.reductions for s in stages[:-1]) and len(terms) == len(stages[-1].reductions)
        if not serial or prod(d.extent for d in terms) < LEAST_TERMS:
            continue
        ids = tuple(StageId(func.name, s.number) for s in stages)
        reader = _reader(bound, func)
        found = (reader and _place(bound, schedule, ids, reader)) or _place(bound, schedule, ids, None)
        if found:
            yield found


def steps_of(stage: BoundStage) -> list[Mapping[str, int]]:
    """Return how many terms of each reduction loop a step may have: all of the inner ones, part of one, one before.

    At most one choice for each of `TERMS_OF_STEP`, the nearest.
    """
    choices: dict[int, Mapping[str, int]] = {}
    loops = [(d.name, d.extent) for d in stage.reductions]
    for k, (name, extent) in enumerate(loops):
        inner = prod(n for _, n in loops[k + 1 :])
        for part in (n for n in range(1, min(extent, MOST_TERMS // max(inner, 1)) + 1) if extent % n == 0):
            if part < extent or k == 0:
                outer = dict.fromkeys((d for d, _ in loops[:k]), 1)
                choices.setdefault(part * inner, {**outer, name: part})
    picked = {min(choices, key=lambda n: (abs(n - wanted), n)) for wanted in TERMS_OF_STEP} if choices else set()
    walked = [choices[n] for n in sorted(picked)]
    return [t for t in walked if any(t.get(d, n) < n for d, n in loops)]


def _reader(bound: BoundPipeline, func: BoundFunc) -> str | None:
    """Return the one Func for which threads may hold the points of another."""
    others = [c for c in func.consumers if c != func.name]
    return others[0] if len(others) == 1 and not register_blocking_error(func, bound.funcs[others[0]]) else None


def _place(
    bound: BoundPipeline, schedule: Schedule, stages: tuple[StageId, ...], reader: str | None
) -> MainloopSite | None:  # fmt: skip
    """Return the place if nothing else is computed in the kernels that compute these Funcs."""
    own = {stages[0].func, *([reader] if reader else [])}
    chosen: list[int] = []
    inlined: set[str] = set()
    for k, kernel in enumerate(schedule.kernels):
        if not own & _computed(kernel):
            continue
        others = {m.func for m in kernel.fused if cached_source(m.func) is None} - own  # copies are made anew
        if not set(kernel.root_funcs) <= own or others or kernel.mainloop_at is not None:
            return None
        chosen.append(k)
        inlined |= {i.func for i in kernel.inlined}
    if own & inlined or own - {f for k in chosen for f in _computed(schedule.kernels[k])}:
        return None
    read = _sources(bound, stages[-1], inlined)
    if reader is not None and any(stages[0].func in bound.funcs[f].stages[0].sources for f in inlined):
        return None
    return MainloopSite(stages, reader, tuple(chosen), frozenset(inlined), tuple(read)) if read else None


def _computed(kernel: Kernel) -> set[str]:
    return {*kernel.root_funcs, *(m.func for m in kernel.fused)}


def _sources(bound: BoundPipeline, host: StageId, inlined: set[str]) -> list[str]:
    """Return the arrays that a stage reads, also through inlined Funcs, in order."""
    found: dict[str, None] = {}
    queue = [s for s in bound.stage(*host).sources if s != host.func]
    while queue:
        name = queue.pop(0)
        if name in inlined:
            queue += bound.funcs[name].stages[0].sources
        elif (i := bound.inputs.get(name)) is not None:
            if i.shape:
                found.setdefault(name)
        elif bound.funcs[name].dims:
            found.setdefault(name)
    return list(found)
