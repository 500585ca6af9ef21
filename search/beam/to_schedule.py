"""Conversion of complete states to schedules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.beam.state import PartialKernel, State
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import NOT_AS_GUIDED, deviations


def schedule_of(evaluator: KernelEvaluator, state: State) -> Schedule:
    """Return the schedule of a complete state, with kernels in topological order."""
    pieces = ordered(evaluator, state)
    kernels = [build_kernel(evaluator.kernel_model(p.sketch), np.array(p.params, np.int64)) for p in pieces]
    return Schedule.for_pipeline(evaluator.bound, kernels)


def ordered(evaluator: KernelEvaluator, state: State) -> list[PartialKernel]:
    """Return the kernels of a complete state in the order of its schedule."""
    order = {name: k for k, name in enumerate(evaluator.bound.funcs)}
    return sorted(state.pieces, key=lambda p: (order[p.sketch.func], p.sketch.stages[0].number))


def legal_schedules(evaluator: KernelEvaluator, states: list[State]) -> Iterator[tuple[Schedule, State]]:
    """Yield distinct legal schedules that meet the guide up to streaming, with their states, in the order of these.

    The exact checks decide: a search applies the same rules to arrays of candidates, but to a few blocks only. Illegal
    states are rare; they are counted as pruned.
    """
    seen: set[Schedule] = set()
    for state in states:
        schedule = schedule_of(evaluator, state)
        if schedule in seen:
            continue
        seen.add(schedule)
        reasons = violations(evaluator.bound, schedule, evaluator.target)
        if reasons:
            evaluator.counts.pruned[f"illegal in the end: {reasons[0]}"] += 1
            continue
        guide = evaluator.settings.guide
        unmet = next(deviations(evaluator.bound, schedule, guide, evaluator.target, streams=False), None)
        if unmet is not None:
            evaluator.counts.pruned[f"{NOT_AS_GUIDED}{unmet}"] += 1
            continue
        yield schedule, state
