"""Random pipelines under schedules in which lanes share terms."""

from __future__ import annotations

from autosched.analysis.bound import BoundPipeline
from autosched.analysis.staging import with_staged
from autosched.schedule.across import lanes_of
from autosched.schedule.types import Schedule
from autosched.schedule.views import as_scheduled


def rounds_otherwise(bound: BoundPipeline, schedule: Schedule) -> bool:
    """Whether lanes share sums of floating-point numbers, which round in another order than the interpreter's."""
    whole = as_scheduled(bound, schedule)
    for kernel in schedule.kernels:
        view = with_staged(whole, kernel.staged)
        for t in kernel.tilings():
            if lanes_of(view, t) > 1 and any(d.is_float for d in view.funcs[t.stage.func].dtypes):
                return True
    return False
