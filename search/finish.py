"""From complete states to schedules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autosched.featurize.build import build_kernel
from autosched.schedule.types import Kernel, Schedule
from autosched.schedule.validate import reasons
from autosched.search.evaluate import Evaluator
from autosched.search.state import State


def schedule_of(evaluator: Evaluator, state: State) -> Schedule:
    """Return the schedule of a complete state, kernels in an order in which producers come first."""
    bound = evaluator.bound
    order = {name: k for k, name in enumerate(bound.funcs)}
    kernels: list[Kernel] = [
        build_kernel(evaluator.kernel_model(p.structure), np.array(p.params, np.int64)) for p in state.pieces
    ]
    kernels.sort(key=lambda k: (order[k.roots[0].tiling.stage.func], k.roots[0].tiling.stage.number))
    return Schedule.of(bound, kernels)


def legal_schedules(evaluator: Evaluator, states: list[State]) -> Iterator[tuple[Schedule, State]]:
    """Yield distinct legal schedules with their states, in the order of the states.

    The scalar checks have the last word: those of the search are the same rules on arrays, but look at a few blocks
    only. Illegal states are rare, and counted among the pruned ones.
    """
    seen: set[Schedule] = set()
    for state in states:
        schedule = schedule_of(evaluator, state)
        if schedule in seen:
            continue
        seen.add(schedule)
        found = reasons(evaluator.bound, schedule, evaluator.target)
        if found:
            evaluator.counts.pruned[f"illegal in the end: {found[0]}"] += 1
            continue
        yield schedule, state
