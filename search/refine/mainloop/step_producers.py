"""Producers that a block can compute in each step of a mainloop, in place of whole arrays or tiles for all terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.schedule.types import StageId

LEAST_REUSE = 1.5
"""Evaluations per point of a step from which on a Func is computed rather than inlined."""
MOST_COMPUTED = 4
"""Most Funcs to compute in a step; their tiles share the memory of a block."""


@dataclass(frozen=True)
class StepProducers:
    """Compute locations of the pure Funcs that a reduction alone reads, directly or through one another.

    Attributes:
        computed: Funcs with a shared-memory tile of one step, producers first.
        inlined: All others.
    """

    computed: tuple[str, ...]
    inlined: frozenset[str]


def step_producers(bound: BoundPipeline, host: StageId) -> Iterator[StepProducers]:
    """Yield the choices of producers to compute in each step, at most two.

    A Func is computed where inlining would evaluate it several times in a step: its consumer reads it at several
    points, or has a dimension that its index does not depend on. In the second choice, a Func that reads another one at
    its own point only is inlined, and the other one is computed.

    Args:
        bound: The pipeline.
        host: The reduction.
    """
    closure = _read_by_reduction_alone(bound, host)
    reused = _reused(bound, closure, bound.stage(*host))
    other = frozenset(_read_at_own_point(closure[name], closure) or name for name in reused)
    for chosen in dict.fromkeys((frozenset(reused), other)):
        if 0 < len(chosen) <= MOST_COMPUTED:
            computed = tuple(name for name in bound.funcs if name in chosen)
            yield StepProducers(computed, frozenset(closure.keys() - chosen))


def _read_by_reduction_alone(bound: BoundPipeline, host: StageId) -> dict[str, BoundFunc]:
    """Return the pure Funcs that a reduction alone reads, directly or through one another, the last ones first."""
    closure: dict[str, BoundFunc] = {}
    others = {s for stage in bound.funcs[host.func].stages if stage.number != host.number for s in stage.sources}
    for name, f in reversed(list(bound.funcs.items())):
        alone = bool(f.consumers) and all(c in closure or c == host.func for c in f.consumers)
        if alone and name not in others and f.is_pure and f.dims and not (f.is_output or f.undefined):
            closure[name] = f
    return closure


def _reused(bound: BoundPipeline, closure: Mapping[str, BoundFunc], reduction: BoundStage) -> list[str]:
    """Return the Funcs that a step would evaluate `LEAST_REUSE` times per point; reads through boundaries stay inlined.

    Args:
        bound: The pipeline.
        closure: Funcs that the reduction alone reads, consumers first.
        reduction: The reduction.
    """
    constant = {reduction.func: {d.name for d in reduction.reductions}}  # dimensions with one value in a step
    host = bound.funcs[reduction.func]
    looped = {d.name for d in reduction.loops}
    evaluations = {host.name: prod(n for d, n in zip(host.dims, host.extents, strict=True) if d in looped)}
    reused = []
    for name, f in closure.items():
        stages = [reduction if c == reduction.func else bound.funcs[c].stages[0] for c in f.consumers]
        reads = [(s, r) for s in stages for r in s.footprints if r.source == name]
        constant[name] = {
            d for k, d in enumerate(f.dims) if all(_is_constant(r.loop_vars[k], constant[s.func]) for s, r in reads)
        }
        points = prod(n for d, n in zip(f.dims, f.extents, strict=True) if d not in constant[name])
        evaluated = sum(evaluations[s.func] * s.load_counts[name] for s in stages)
        evaluations[name] = evaluated
        if f.boundary is None and evaluated >= LEAST_REUSE * points:
            reused.append(name)
            evaluations[name] = points
    if any(constant[name] for name in closure):
        return reused
    return []  # each step computes the same points


def _is_constant(loops: frozenset[str], constant: set[str]) -> bool:
    return bool(loops) and loops <= constant


def _read_at_own_point(func: BoundFunc, closure: Mapping[str, BoundFunc]) -> str | None:
    """Return the only Func that a pure Func reads, if it reads it at its own point alone."""
    inside = [f for f in func.stages[0].footprints if f.source in closure]
    own = tuple(frozenset({d}) for d in func.dims)
    if len(inside) == 1 and func.stages[0].load_counts.get(inside[0].source) == 1 and inside[0].loop_vars == own:
        return inside[0].source
    return None
